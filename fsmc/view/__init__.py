"""A machine as one HTML page: drawn, walked live, with the token mask of every place. ``fsmc view`` writes it.

`explore` finds what a page can hold of a machine, `vocabulary` packs tokens and their merges, `page` puts it together with the
scripts in assets/. The drawing is laid out in the browser by dagre (MIT, assets/dagre.LICENSE.txt).
"""

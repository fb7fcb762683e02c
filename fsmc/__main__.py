"""``python -m fsmc`` is the ``fsmc`` command."""

from fsmc.cli import main

main()

"""A state diagram as SVG, laid out here: for machines small enough to look at, without Graphviz.

States stand in columns by their distance from the start; within a column they are ordered by where their predecessors
stand, which avoids most crossings. Edges to the next column are straight, edges further on bend upwards, edges back
bend downwards, loops sit on top; an edge that would touch another state or its loop bends otherwise.
A label stands on the side to which its edge bends, where its edge is level, else across it; where others are in the
way it slides along.
"""

from __future__ import annotations

from itertools import pairwise
from math import dist, hypot
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

from fsmc.compiler.automata.dfa import DEAD, DFA
from fsmc.compiler.automata.views import edges_of
from fsmc.compiler.errors import LimitExceeded

MAX_DRAWN_STATES = 100

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # its middle, half its width and height

_RADIUS, _COLUMN, _ROW, _LABEL = 17, 125, 75, 20  # pixels; _LABEL in characters
_MANY = 500  # edges: of more nobody reads the labels, and finding room for them takes quadratic time
_CHARACTER, _LINE, _BESIDE = (
    3.7,
    7.5,
    10.0,
)  # pixels: half the width and height of a character, and from an edge to its label's middle

_STYLE = """
  svg { --ink: #1f2328; --paper: #ffffff; --mark: #0969da; }
  @media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --paper: #0d1117; --mark: #58a6ff; } }
  .paper { fill: var(--paper); }
  circle, path { fill: none; stroke: var(--ink); stroke-width: 1.3; }
  .behind { fill: var(--paper); fill-opacity: 0.85; }
  .head { fill: var(--ink); stroke: none; }
  .start { stroke: var(--mark); }
  text { font: 12px ui-monospace, monospace; fill: var(--ink); text-anchor: middle; dominant-baseline: central;
         paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
"""


def to_svg(dfa: DFA, max_states: int = MAX_DRAWN_STATES) -> str:
    """The diagram as a complete SVG document, readable on light and dark backgrounds; DEAD is not drawn.

    The start is coloured, accepting states are double circles, long labels are cut (the whole one is the tooltip).
    Raises LimitExceeded beyond ``max_states`` states: such a picture cannot be read, `views.dump` can.

    >>> import numpy as np
    >>> picture = to_svg(DFA.from_arrays(np.zeros(256, int), [[1], [-1]], [False, True], start=0))
    >>> picture.count("<circle"), "00-FF" in picture
    (3, True)
    """
    if dfa.n_states - 1 > max_states:
        raise LimitExceeded("max_states", max_states, dfa.n_states - 1, "too many to draw; dump() lists them")
    edges = [(edge.source, edge.target, edge.label) for edge in edges_of(dfa) if edge.target is not None]
    places = _place(dfa, edges)
    pairs = {(source, target) for source, target, _ in edges}
    drawn: list[str] = []
    extent = [point for x, y in places.values() for point in ((x - 40, y - 30), (x + 30, y + 30))] or [(0.0, 0.0)]
    labels: list[str] = []
    taken: list[Box] = [(x, y, _RADIUS + 2.0, _RADIUS + 2.0) for x, y in places.values()]
    curves = []
    for p, q, _ in edges:
        near = [places[state] for state in places if state not in (p, q)] if len(edges) <= _MANY else []
        near += [
            (places[r][0], places[r][1] - _RADIUS - 10) for r, same in pairs if r == same and r not in (p, q) and near
        ]
        curves.append(_clear(places[p], places[q], (q, p) in pairs, np.array(near).reshape(-1, 1, 2)))
    ways = [[_between(curve, i / 24) for i in range(25)] for curve in curves]
    for i, ((_, _, label), curve) in enumerate(zip(edges, curves, strict=True)):
        short = label if len(label) <= _LABEL else label[: _LABEL - 1] + "…"
        width = _CHARACTER * len(short)
        x, y = (
            _room(curve, width, ways[:i] + ways[i + 1 :], taken)
            if len(edges) <= _MANY
            else _label_places(curve, width)[0]
        )
        taken.append((x, y, width, _LINE))
        extent += [(x - width, y - 10), (x + width, y + 10)]
        drawn.append(f'<path d="{_path(curve)}" marker-end="url(#arrow)"/>')
        size = f'width="{2 * width:.1f}" height="{2 * _LINE:.1f}"'
        labels.append(f'<rect class="behind" x="{x - width:.1f}" y="{y - _LINE:.1f}" {size}/>')
        labels.append(f'<text x="{x:.1f}" y="{y:.1f}"><title>{escape(label)}</title>{escape(short)}</text>')
    drawn += labels
    for state, (x, y) in places.items():
        style = ' class="start"' if state == dfa.start else ""
        for radius in (_RADIUS, _RADIUS - 4)[: 1 + int(dfa.accepting[state])]:
            drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}"{style}/>')
        drawn.append(f'<text x="{x:.1f}" y="{y:.1f}">{state}</text>')
    left, top = min(x for x, _ in extent), min(y for _, y in extent)
    width, height = max(x for x, _ in extent) - left, max(y for _, y in extent) - top
    box = f"{left:.0f} {top:.0f} {width:.0f} {height:.0f}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{width:.0f}" height="{height:.0f}">'
        f"<style>{_STYLE}</style>"
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="head" d="M0 0.5 8 4 0 7.5z"/></marker></defs>'
        f'<rect class="paper" x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}"/>'
    )
    return "\n".join([head, *drawn, "</svg>"])


def _place(dfa: DFA, edges: list[tuple[int, int, str]]) -> dict[int, Point]:
    """Where each state stands: columns by breadth-first distance, rows by the mean height of the predecessors."""
    successors: dict[int, list[int]] = {state: [] for state in range(dfa.n_states)}
    predecessors: dict[int, list[int]] = {state: [] for state in range(dfa.n_states)}
    for source, target, _ in edges:
        successors[source].append(target)
        predecessors[target].append(source)
    places: dict[int, Point] = {}
    column = [dfa.start] if dfa.start != DEAD else []
    depth = 0
    while column:

        def height(state: int) -> float:
            known = [places[p][1] for p in predecessors[state] if p in places]
            return sum(known) / len(known) if known else 0.0

        column.sort(key=height)
        top = -(len(column) - 1) / 2
        positions = {state: (depth * float(_COLUMN), (top + row) * _ROW) for row, state in enumerate(column)}
        places.update(positions)
        column = [t for t in dict.fromkeys(t for state in column for t in successors[state]) if t not in places]
        depth += 1
    return places


def _clear(p: Point, q: Point, both_ways: bool, near: npt.NDArray[np.float64]) -> list[Point]:
    """The curve that bends most like the plain one of those that touch no other state and no loop, whose middles are given; else the plain one."""
    plain = _curve(p, q, both_ways)
    for more in (0, 12, 24, 36, 48, -24, -48, 64, 80, -72, -96):
        curve = _curve(p, q, both_ways, more)
        way = np.array([_between(curve, i / 24) for i in range(25)])
        if not (np.hypot(*(near - way).T) < _RADIUS + 3).any():
            return curve
    return plain


def _curve(p: Point, q: Point, both_ways: bool, more: int = 0) -> list[Point]:
    """The edge from circle to circle, bent by so many pixels more: the points of a Bézier curve, four of a loop, else three."""
    if p == q:
        x, y = p[0], p[1] - _RADIUS
        return [(x - 7, y + 2), (x - 28, y - 34), (x + 28, y - 34), (x + 7, y + 2)]
    dx, dy = q[0] - p[0], q[1] - p[1]
    length = hypot(dx, dy)
    if dx == _COLUMN:
        bend = 16.0 if both_ways else 0.0
    else:
        bend = 28 + 0.16 * length
    bend += more
    # The control point lies to the left of the direction of travel: above an edge that goes right, below one that goes back.
    control = ((p[0] + q[0]) / 2 + 2 * bend * dy / length, (p[1] + q[1]) / 2 - 2 * bend * dx / length)
    return [_towards(p, control), control, _towards(q, control)]


def _path(curve: list[Point]) -> str:
    first, *rest = (f"{x:.1f} {y:.1f}" for x, y in curve)
    return f"M{first} {'Q' if len(rest) == 2 else 'C'}{' '.join(rest)}"


def _between(curve: list[Point], t: float) -> Point:
    """The point of the curve at t of 0 to 1 (de Casteljau)."""
    while len(curve) > 1:
        curve = [((1 - t) * a[0] + t * b[0], (1 - t) * a[1] + t * b[1]) for a, b in pairwise(curve)]
    return curve[0]


def _label_places(curve: list[Point], width: float) -> list[Point]:
    """Where the middle of the label, so many pixels to each side, may be: the best places first."""
    if len(curve) == 4:
        x, y = _between(curve, 0.5)
        return [(x, y - _BESIDE)]
    side = _BESIDE if curve[2][0] < curve[0][0] else -_BESIDE
    near, far = [], []
    for t in (0.5, 0.4, 0.6, 0.3, 0.7):
        (x, y), (x1, y1), (x2, y2) = (_between(curve, t + step) for step in (0, -0.01, 0.01))
        is_level = abs(y2 - y1) * min(width, 20.0) < 7 * abs(x2 - x1)
        near.append((x, y + side * is_level))
        far.append((x, y - side * is_level))
    return near + far


def _room(curve: list[Point], width: float, others: list[list[Point]], taken: list[Box]) -> Point:
    """The best place for a label that is on no other one and on no other edge; else on no other one; else the best."""
    places = _label_places(curve, width)
    free = [place for place in places if not any(_overlap((*place, width, _LINE), box) for box in taken)]
    apart = (p for p in free if all(dist(p, point) > _BESIDE + 1 for way in others for point in way))
    return next(apart, (free or places)[0])


def _overlap(a: Box, b: Box) -> bool:
    return abs(a[0] - b[0]) < a[2] + b[2] and abs(a[1] - b[1]) < a[3] + b[3]


def _towards(center: Point, other: Point) -> Point:
    """The point on the circle around ``center`` that faces ``other``."""
    dx, dy = other[0] - center[0], other[1] - center[1]
    length = hypot(dx, dy) or 1.0
    return center[0] + _RADIUS * dx / length, center[1] + _RADIUS * dy / length

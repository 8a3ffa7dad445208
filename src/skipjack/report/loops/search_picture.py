"""Graphs of searches as an SVG: states in rows by the number of actions that lead to them.

Nothing but Python is needed. A state stands near those that it is reached from, so that most edges
are short; Graphviz, where it is installed, draws the same graph with fewer crossings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean

BEST = "#b3261e"
_LETTER, _LINE, _PAD, _GAP, _BETWEEN = 5.5, 11.0, 5.0, 14.0, 46.0
"""In pixels: the width and height of a letter, around texts, between nodes, between rows."""
_TITLE, _MARGIN = 28.0, 12.0


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A state."""

    lines: tuple[str, ...]
    color: str
    depth: int
    """The fewest actions that lead to it."""
    best: bool
    """Whether it is on the path to the best."""


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An action from one state to another, by their numbers."""

    source: int
    target: int
    action: str
    best: bool


@dataclass(frozen=True, slots=True)
class SearchGraph:
    """What a search looked at."""

    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def picture_of(graphs: Sequence[SearchGraph]) -> str:
    """The graphs below each other."""
    parts: list[str] = []
    top, wide = _MARGIN, 0.0
    for graph in graphs:
        boxes = _placed(graph, top + _TITLE)
        parts.append(_text(graph.title, _MARGIN, top + 14, 12))
        parts += _edges(graph, boxes)
        for node, box in zip(graph.nodes, boxes, strict=True):
            parts += _node(node, box)
        top = max((box.y + box.height for box in boxes), default=top + _TITLE) + 2 * _MARGIN
        wide = max([wide, 7 * len(graph.title), *(box.x + box.width for box in boxes)])
    size = f'width="{wide + _MARGIN:.0f}" height="{top:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace">'
    return "\n".join(
        [head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""]
    )


def _placed(graph: SearchGraph, top: float) -> list[_Box]:
    """Row by row; in a row, nodes are in the order of those that lead to them."""
    sizes = [
        (2 * _PAD + _LETTER * max(map(len, node.lines)), 2 * _PAD + _LINE * len(node.lines))
        for node in graph.nodes
    ]
    rows: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        rows.setdefault(node.depth, []).append(number)
    widths = [sum(sizes[n][0] + _GAP for n in row) - _GAP for row in rows.values()]
    widest = max(widths, default=0.0)
    into: dict[int, list[int]] = {}
    for edge in graph.edges:
        into.setdefault(edge.target, []).append(edge.source)
    boxes: dict[int, _Box] = {}
    y = top
    for depth, width in zip(sorted(rows), widths, strict=True):
        x = _MARGIN + (widest - width) / 2
        for number in sorted(rows[depth], key=lambda n: _pull(into.get(n, ()), boxes)):
            boxes[number] = _Box(x, y, *sizes[number])
            x += sizes[number][0] + _GAP
        y += max(sizes[n][1] for n in rows[depth]) + _BETWEEN
    return [boxes[number] for number in range(len(graph.nodes))]


def _pull(sources: Sequence[int], boxes: dict[int, _Box]) -> float:
    """Where the nodes before stand, on average."""
    return fmean([boxes[n].middle for n in sources if n in boxes] or [0.0])


def _edges(graph: SearchGraph, boxes: Sequence[_Box]) -> Iterator[str]:
    for edge in sorted(graph.edges, key=lambda each: each.best):
        above, below = boxes[edge.source], boxes[edge.target]
        x1, y1, x2, y2 = above.middle, above.y + above.height, below.middle, below.y
        is_down = below.y > above.y
        if not is_down:
            y1, y2 = above.y, below.y + below.height
        color, width = (BEST, 2.5) if edge.best else ("#999999", 0.8)
        dashes = "" if is_down else ' stroke-dasharray="3 3"'
        bend = (y2 - y1) / 2
        path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} "
        yield (
            f'<path d="{path}{x2:.1f} {y2:.1f}" fill="none" stroke="{color}" '
            f'stroke-width="{width}"{dashes}><title>{escape(edge.action)}</title></path>'
        )
        yield _text(edge.action, x1 + 0.7 * (x2 - x1), y1 + 0.7 * (y2 - y1), 7, color=color)


def _node(node: GraphNode, box: _Box) -> Iterator[str]:
    color, width = (BEST, 2.5) if node.best else ("#555555", 0.8)
    yield (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'fill="{node.color}" stroke="{color}" stroke-width="{width}"/>'
    )
    for at, line in enumerate(node.lines, 1):
        yield _text(line, box.x + _PAD, box.y + _PAD + at * _LINE - 3, 9)


def _text(text: str, x: float, y: float, size: int, *, color: str = "black") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}"'
    return f"<text {place}>{escape(text)}</text>"

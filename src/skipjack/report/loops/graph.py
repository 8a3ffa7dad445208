"""The graph of a search: states and the actions between them, as SVG and for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import fmean

from skipjack.learn.loops import GameState, LoopGame
from skipjack.learn.tree import SearchRun
from skipjack.report.numbers import gain_text, time_text
from skipjack.storage import atomic_write

# Graphs of searches as an SVG: states in rows by the number of actions that lead to them.
#
# This needs only Python. A state is placed near those that it is reached from, so that most edges
# are short; Graphviz draws the same graph with fewer crossings.

BEST = "#b3261e"
_LETTER, _LINE, _PAD, _GAP, _BETWEEN = 5.5, 11.0, 5.0, 14.0, 46.0
"""In pixels: character width, line height, padding, gap between nodes, gap between rows."""
_TITLE, _MARGIN = 28.0, 12.0


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A state in the graph."""

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
    """The states and actions of a search."""

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
    """An SVG with the graphs below each other."""
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
    """Place nodes row by row, in the order of the nodes that lead to them."""
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
    """The mean position of the nodes that lead here."""
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


# The graph of a search: states, the actions between them, and the path to the best.
#
# It is written as a picture (`picture_of`) and as a text for Graphviz.

_CREAM, _RED = (255, 248, 225), (226, 88, 62)


def search_graphs(runs: Sequence[SearchRun], games: Mapping[str, LoopGame]) -> list[SearchGraph]:
    """The graph of each run; `games` has the games by the problems' keys."""
    return [_graph(run, games[run.problem]) for run in runs]


def write_graphs(path: Path, graphs: Sequence[SearchGraph]) -> list[Path]:
    """Write ``graph.dot`` for Graphviz, and the picture if the path ends in ``.svg``."""
    source = path.with_suffix(".dot")
    atomic_write(source, graph_text(graphs).encode())
    if path.suffix != ".svg":
        return [source]
    atomic_write(path, picture_of(graphs).encode())
    return [source, path]


def graph_text(graphs: Sequence[SearchGraph]) -> str:
    """The graphs in Graphviz's language."""
    lines = [
        "digraph search {",
        '  node [shape=box, style=filled, fontname="monospace", fontsize=9];',
        '  edge [fontname="monospace", fontsize=8];',
    ]
    for number, graph in enumerate(graphs):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(graph.title)};"]
        lines += [f"    {line}" for line in _dot_lines(graph, f"n{number}_")]
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def _dot_lines(graph: SearchGraph, prefix: str) -> Iterator[str]:
    thick = f', color="{BEST}", penwidth=3'
    for number, node in enumerate(graph.nodes):
        label = _quoted("\n".join(node.lines))
        style = thick if node.best else ""
        yield f'{prefix}{number} [label={label}, fillcolor="{node.color}"{style}];'
    for edge in graph.edges:
        style = thick if edge.best else ""
        label = _quoted(edge.action)
        yield f"{prefix}{edge.source} -> {prefix}{edge.target} [label={label}{style}];"


def _graph(run: SearchRun, game: LoopGame) -> SearchGraph:
    states = _states(run, game)
    numbers: dict[GameState, int] = {}
    depths: list[int] = []
    for actions, state in sorted(states.items(), key=lambda item: len(item[0])):
        if state not in numbers:
            numbers[state] = len(numbers)
            depths.append(len(actions))
    best = run.best
    on_path = [best.actions[:length] for length in range(len(best.actions) + 1)] if best else []
    seconds = {step.schedule: step.seconds for step in run.steps}
    chosen = {states[actions] for actions in on_path}
    nodes = []
    for state, number in numbers.items():
        measured_s = seconds.get(game.built(state).text())
        lines = (_head(run, measured_s), state.schedule.text(), f"cursor {state.cursor}")
        nodes.append(GraphNode(lines, _color(run, measured_s), depths[number], state in chosen))
    edges = {
        (numbers[states[actions[:-1]]], numbers[state], actions[-1]): actions in on_path
        for actions, state in sorted(states.items(), key=lambda item: item[0] in on_path)
        if actions
    }
    return SearchGraph(
        f"{run.problem}   {run.search}   seed {run.seed}",
        tuple(nodes),
        tuple(GraphEdge(*ends, is_best) for ends, is_best in edges.items()),
    )


def _states(run: SearchRun, game: LoopGame) -> dict[tuple[str, ...], GameState]:
    """The state after each sequence of actions of the search, and after its prefixes."""
    states: dict[tuple[str, ...], GameState] = {(): game.start()}
    for step in run.steps:
        for length in range(1, len(step.actions) + 1):
            actions = step.actions[:length]
            if actions not in states:
                before = states[actions[:-1]]
                states[actions] = game.apply(before, game.number(actions[-1]))
    return states


def _head(run: SearchRun, seconds: float | None) -> str:
    if seconds is None:
        return "not measured"
    gain = run.start_s / seconds if run.start_s else None
    return f"{time_text(seconds * 1e9)}, x {gain_text(gain, None, None)}"


def _color(run: SearchRun, seconds: float | None) -> str:
    """From cream for the slowest to red for the fastest."""
    best = run.best
    if seconds is None or best is None or not best.seconds:
        return "#ffffff"
    share = best.seconds / seconds
    mixed = (round(a + (b - a) * share) for a, b in zip(_CREAM, _RED, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'

"""The graph of a search: states, the actions between them, and the path to the best.

It is written as a picture (`search_picture`) and as a text for Graphviz.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from skipjack.learn.loops import GameState, LoopGame
from skipjack.learn.tree import SearchRun
from skipjack.report.loops.search_picture import BEST, GraphEdge, GraphNode, SearchGraph, picture_of
from skipjack.report.numbers import gain_text, time_text
from skipjack.storage import atomic_write

_CREAM, _RED = (255, 248, 225), (226, 88, 62)


def search_graphs(runs: Sequence[SearchRun], games: Mapping[str, LoopGame]) -> list[SearchGraph]:
    """The graph of each run; `games` has the game of each problem's key."""
    return [_graph(run, games[run.problem]) for run in runs]


def write_graphs(path: Path, graphs: Sequence[SearchGraph]) -> list[Path]:
    """The text for Graphviz as ``graph.dot``, and the picture if the path ends in ``.svg``."""
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
    """The state after each sequence of actions that the search took, and after its beginnings."""
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

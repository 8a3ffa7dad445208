"""The graph of a search: states, the actions between them, and the path to the best.

Graphviz draws it. The text is written always, the picture where its program `dot` is there.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from skipjack.errors import SkipjackError
from skipjack.learn.loops import GameState, LoopGame
from skipjack.learn.tree import SearchRun
from skipjack.report.numbers import gain_text, time_text
from skipjack.storage import atomic_write

_CREAM, _RED = (255, 248, 225), (226, 88, 62)
_BEST = "#b3261e"
_TIMEOUT_S = 120.0


class GraphvizMissingError(SkipjackError):
    """The program `dot` is not there, or does not draw."""


def graph_text(runs: Sequence[SearchRun], games: Mapping[str, LoopGame]) -> str:
    """The graphs of runs in Graphviz's language; `games` has the game of each problem's key."""
    lines = [
        "digraph search {",
        '  node [shape=box, style=filled, fontname="monospace", fontsize=9];',
        '  edge [fontname="monospace", fontsize=8];',
    ]
    for number, run in enumerate(runs):
        title = f"{run.problem}   {run.search}   seed {run.seed}"
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(title)};"]
        lines += [f"    {line}" for line in _graph(run, games[run.problem], f"n{number}_")]
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def write_graph(path: Path, text: str) -> list[Path]:
    """The text beside the picture, as ``graph.dot``; the picture if the path ends in ``.svg``.

    `GraphvizMissingError` after the text is written, if nothing can draw it.
    """
    source = path.with_suffix(".dot")
    atomic_write(source, text.encode())
    if path.suffix != ".svg":
        return [source]
    atomic_write(path, _drawn(text, source))
    return [source, path]


def _drawn(text: str, source: Path) -> bytes:
    program = shutil.which("dot")
    if program is None:
        raise GraphvizMissingError(
            f"the graph is in {source}, without a picture: Graphviz's program dot is not "
            "installed; install graphviz, or draw the file elsewhere"
        )
    try:
        done = subprocess.run(
            [program, "-Tsvg"], input=text.encode(), capture_output=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise GraphvizMissingError(f"the graph is in {source}; {program} failed: {error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[0] if said else f"exit code {done.returncode}"
        raise GraphvizMissingError(f"the graph is in {source}; {program} failed: {reason}")
    return done.stdout


def _graph(run: SearchRun, game: LoopGame, prefix: str) -> list[str]:
    states = _states(run, game)
    numbers: dict[GameState, int] = {}
    for state in states.values():
        numbers.setdefault(state, len(numbers))
    best = run.best
    on_path = [best.actions[:length] for length in range(len(best.actions) + 1)] if best else []
    seconds = {step.schedule: step.seconds for step in run.steps}
    chosen = {states[actions] for actions in on_path}
    lines = []
    for state, number in numbers.items():
        measured_s = seconds.get(game.built(state).text())
        label = "\n".join([_head(run, measured_s), state.schedule.text(), f"cursor {state.cursor}"])
        color = _color(run, measured_s)
        thick = f', color="{_BEST}", penwidth=3' if state in chosen else ""
        lines.append(f'{prefix}{number} [label={_quoted(label)}, fillcolor="{color}"{thick}];')
    edges = {
        (numbers[states[actions[:-1]]], numbers[state], actions[-1]): actions in on_path
        for actions, state in sorted(states.items(), key=lambda item: item[0] in on_path)
        if actions
    }
    for (source, target, action), thick_edge in edges.items():
        style = f', color="{_BEST}", penwidth=3' if thick_edge else ""
        lines.append(f"{prefix}{source} -> {prefix}{target} [label={_quoted(action)}{style}];")
    return lines


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
        return "white"
    share = best.seconds / seconds
    mixed = (round(a + (b - a) * share) for a, b in zip(_CREAM, _RED, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'

"""Training runs: their curves, and loop trees step by step."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from skipjack.app.views.fleet_pages import seconds_of
from skipjack.app.views.links import training_path
from skipjack.app.views.tables import RecordTable, TableRequest, ViewColumn, table_of
from skipjack.app.views.workspace import UnknownNameError, Workspace
from skipjack.errors import SkipjackError
from skipjack.learn.loops import loop_game, loop_tree, parse_actions, play
from skipjack.learn.runs import RunFolder, TrainingSession
from skipjack.operations import parse

_CURVES, _STEPS = "curves.csv", "steps.csv"


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A training run in tables."""

    name: str
    """The name of its folder."""
    path: Path
    trainer: str
    preset: str
    dataset: str
    steps: int
    total_steps: int
    seconds: float
    """The time of training in all sessions."""
    state: str
    """``done``, ``interrupted``, ``failed`` or ``running``."""
    began: float | None
    speed_up: float | None
    """The last value of its curve."""
    error: str = ""
    """Why it cannot be read."""

    @property
    def done(self) -> float:
        """The share of its steps that were played."""
        return self.steps / self.total_steps if self.total_steps else 0.0


TRAINING_COLUMNS: tuple[ViewColumn[TrainingRow], ...] = (
    ViewColumn(
        "name",
        "run",
        lambda one: one.name,
        filterable=True,
        link=lambda one: None if one.error else training_path(one.name),
    ),
    ViewColumn("trainer", "trainer", lambda one: one.trainer, filterable=True),
    ViewColumn("preset", "preset", lambda one: one.preset, filterable=True),
    ViewColumn("dataset", "dataset", lambda one: one.dataset, filterable=True),
    ViewColumn("state", "state", lambda one: one.state, filterable=True),
    ViewColumn("done", "done", lambda one: one.done, "share"),
    ViewColumn("steps", "steps", lambda one: one.steps, "count"),
    ViewColumn("seconds", "time", lambda one: one.seconds, "s"),
    ViewColumn("speed_up", "speed-up", lambda one: one.speed_up, "ratio"),
    ViewColumn("began", "began", lambda one: one.began, "time"),
    ViewColumn("error", "error", lambda one: one.error, sortable=False),
)


def training_table(workspace: Workspace, request: TableRequest) -> RecordTable[TrainingRow]:
    """All training runs, the newest first."""
    rows = [_row(workspace, path) for path in workspace.training_runs()]
    rows.sort(key=lambda one: -(one.began or 0.0))
    return table_of("runs", TRAINING_COLUMNS, rows, request)


def _row(workspace: Workspace, path: Path) -> TrainingRow:
    try:
        folder = RunFolder.open(path)
        return _row_of(folder, _curves(workspace, folder))
    except SkipjackError as error:
        return TrainingRow(path.name, path, "", "", "", 0, 0, 0.0, "", None, None, str(error))


def _row_of(folder: RunFolder, curves: Mapping[str, Sequence[float | None]]) -> TrainingRow:
    options, sessions = folder.options, folder.sessions
    speed_ups = [one for one in curves.get("speed_up", ()) if one is not None]
    steps = [one for one in curves.get("steps", ()) if one is not None]
    return TrainingRow(
        folder.path.name,
        folder.path,
        str(options.trainer),
        str(options.preset),
        options.dataset,
        int(steps[-1]) if steps else 0,
        options.total_steps,
        sum(one.seconds for one in sessions),
        sessions[-1].ended if sessions else "running",
        seconds_of(sessions[0].began) if sessions else None,
        speed_ups[-1] if speed_ups else None,
    )


def _curves(workspace: Workspace, folder: RunFolder) -> dict[str, list[float | None]]:
    return workspace.remembered("curves", folder.path / _CURVES, partial(_read_curves, folder))


def _read_curves(folder: RunFolder) -> dict[str, list[float | None]]:
    rows = folder.curves()
    names = list(rows[0]) if rows else []
    return {name: [float(row[name]) if row[name] else None for row in rows] for name in names}


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """A played episode of a run."""

    iteration: int
    episode: int
    """Its number in the iteration."""
    problem: str
    actions: int
    reward: float
    speed_up: float | None


EPISODE_COLUMNS: tuple[ViewColumn[EpisodeRow], ...] = (
    ViewColumn("iteration", "iteration", lambda one: one.iteration, "count"),
    ViewColumn("episode", "episode", lambda one: one.episode, "count"),
    ViewColumn("problem", "problem", lambda one: one.problem, filterable=True),
    ViewColumn("actions", "actions", lambda one: one.actions, "count"),
    ViewColumn("reward", "reward", lambda one: one.reward),
    ViewColumn("speed_up", "speed-up", lambda one: one.speed_up, "ratio"),
)


@dataclass(frozen=True, slots=True)
class TrainingPage:
    """A training run: its sessions and curves, and its last episodes."""

    row: TrainingRow
    sessions: Sequence[TrainingSession]
    curves: Mapping[str, Sequence[float | None]]
    """By name, with a value for each iteration; ``steps`` and ``seconds`` are among them."""
    episodes: RecordTable[EpisodeRow]
    """The last ones first."""


def training_page(
    workspace: Workspace, name: str, request: TableRequest | None = None
) -> TrainingPage:
    """A run by the name of its folder; `UnknownNameError` if there is none."""
    folder = RunFolder.open(_path(workspace, name))
    curves = _curves(workspace, folder)
    episodes = [_episode(lines) for lines in _last_episodes(folder.path)]
    table = table_of("episodes", EPISODE_COLUMNS, episodes, request or TableRequest())
    return TrainingPage(_row_of(folder, curves), folder.sessions, curves, table)


def _path(workspace: Workspace, name: str) -> Path:
    for path in workspace.training_runs():
        if path.name == name:
            return path
    raise UnknownNameError(
        f"there is no training run {name!r} in the folders of runs; skipjack loops train makes one"
    )


_Line = Mapping[str, str]
_TAIL_BYTES = 1 << 20
"""Of long runs, only this much of the end of ``steps.csv`` is listed."""


def _last_episodes(path: Path) -> list[list[_Line]]:
    """The lines of the last episodes, the last episode first."""
    episodes: dict[tuple[str, str], list[_Line]] = {}
    for line in _lines(path / _STEPS, _TAIL_BYTES):
        episodes.setdefault((line["iteration"], line["episode"]), []).append(line)
    return [lines for lines in reversed(episodes.values()) if lines[0]["step"] == "1"]


def _lines(path: Path, most_bytes: int | None = None) -> Iterator[_Line]:
    """The lines of a file of steps, or of its end; incomplete ones are left out."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = next(csv.reader([file.readline().decode(errors="replace")]), [])
        size = path.stat().st_size
        if most_bytes is not None and size > most_bytes:
            file.seek(size - most_bytes)
            file.readline()
        text = (line.decode(errors="replace") for line in file)
        for cells in csv.reader(text):
            if len(cells) == len(head) and cells[0].isdecimal():
                yield dict(zip(head, cells, strict=True))


def _episode(lines: Sequence[_Line]) -> EpisodeRow:
    first, last = lines[0], lines[-1]
    return EpisodeRow(
        int(first["iteration"]),
        int(first["episode"]),
        first["problem"],
        len(lines),
        sum(_number(line["reward"]) or 0.0 for line in lines),
        _number(last["speed_up"]),
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# An episode, step by step.


@dataclass(frozen=True, slots=True)
class LoopStep:
    """The loops after an action."""

    number: int
    """0 for the start."""
    action: str
    reward: float | None
    time_s: float | None
    """The time of a run with these loops, if it was measured or estimated."""
    loops: Sequence[str]
    """A line for each loop, from the outside, without indents; the last is the computation."""
    cursor: int
    """The loop that actions change, from 0."""


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """An episode of a training run, step by step."""

    run: str
    row: EpisodeRow
    steps: Sequence[LoopStep]
    schedule: str


def episode_page(workspace: Workspace, name: str, iteration: int, episode: int) -> EpisodePage:
    """An episode of a run; `UnknownNameError` if there is none."""
    folder = RunFolder.open(_path(workspace, name))
    wanted = str(iteration), str(episode)
    lines = [
        line
        for line in _lines(folder.path / _STEPS)
        if (line["iteration"], line["episode"]) == wanted
    ]
    if not lines:
        raise UnknownNameError(f"run {name} has no episode {episode} in iteration {iteration}")
    game = loop_game(parse(lines[0]["problem"]), folder.device, folder.options.preset)
    actions = parse_actions(",".join(line["action"] for line in lines), game)
    states = [game.start(), *play(game, actions)]
    told: list[_Line | None] = [None, *lines]
    steps = [
        LoopStep(
            number,
            line["action"] if line else "",
            _number(line["reward"]) if line else None,
            _number(line["seconds"]) if line else None,
            [text.strip() for text in loop_tree(game.nest, state.schedule).splitlines()],
            state.cursor,
        )
        for number, (state, line) in enumerate(zip(states, told, strict=True))
    ]
    return EpisodePage(name, _episode(lines), steps, lines[-1]["schedule"])

"""Searchers compared on recorded spaces: tables, JSON lines, and a CSV file of all evaluations."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from skipjack.app import RecordingExport, RecordingReplay, ReplayObserver, ReplayResult
from skipjack.learn.replay import Estimate, SearcherScore
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import metric_text
from skipjack.report.screen import TableColumn, print_json, print_rows, say
from skipjack.search import cost
from skipjack.storage import atomic_write

CSV_COLUMNS = (
    *("recording", "searcher", "seed", "evaluation", "config", "status", "value", "best"),
    "ratio",
)
"""These are described in `docs/learning.md`."""
_COLUMNS = (
    "searcher",
    TableColumn("area", right=True),
    TableColumn("score", right=True),
    TableColumn("to 5 %", right=True),
    TableColumn("reached", right=True),
    TableColumn("ratio", right=True),
    TableColumn("random needs", right=True),
)


@contextmanager
def replay_progress(enabled: bool, console: Console | None = None) -> Iterator[ReplayObserver]:
    """An observer that shows on standard error how many runs are done."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    console = console or screen.err()
    if not (enabled and console.is_terminal):
        yield lambda done, of: None
        return
    columns = (TextColumn("replays"), BarColumn(), MofNCompleteColumn())
    with screen.live_bars(console, *columns) as bars:
        bar = bars.add_task("replays", total=None)
        yield lambda done, of: bars.update(bar, completed=done, total=of)


def render_replay(result: ReplayResult, json: bool) -> None:
    """Print a table for each recording, and one of their means; or a JSON line for each score."""
    if json:
        for recording in result.recordings:
            for score in recording.scores:
                print_json("replay", _fields(result, score, recording))
        for score in result.means:
            print_json("replay", _fields(result, score, None))
        return
    for recording in result.recordings:
        say(_headline(result, recording))
        print_rows(_COLUMNS, map(_row, recording.scores), if_empty="no run is done", framed=True)
    if result.means:
        say(f"geometric means of {len(result.recordings)} recordings")
        print_rows(_COLUMNS, map(_row, result.means), framed=True)


def _headline(result: ReplayResult, recording: RecordingReplay) -> str:
    space = recording.space
    failed = sum(not trial.ok for trial in space.trials)
    return (
        f"{space.name}: {numbered(space.count(), 'config')}, {failed} failed, "
        f"optimum {metric_text(space.optimum)} {space.unit}".rstrip()
        + f"; {numbered(recording.budget, 'evaluation')}, {numbered(result.request.seeds, 'seed')}"
    )


def _row(score: SearcherScore) -> list[str]:
    return [
        score.searcher,
        _interval(score.area),
        _interval(score.score, 2),
        "" if math.isinf(score.evaluations) else f"{score.evaluations:.0f}",
        f"{score.reached}/{score.runs}",
        _interval(score.ratio),
        f"{score.random_evaluations.mean:.1f} x",
    ]


def _interval(found: Estimate, digits: int = 3) -> str:
    mean, low, high = (f"{one:.{digits}f}" for one in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]"


def _fields(
    result: ReplayResult, score: SearcherScore, recording: RecordingReplay | None
) -> dict[str, Any]:
    """The fields of a line; of means over recordings, those of a single one are null."""
    space = recording.space if recording else None
    return {
        **asdict(score),
        "recording": space.name if space else None,
        "recordings": 1 if space else len(result.recordings),
        "configs": space.count() if space else None,
        "optimum": space.optimum if space else None,
        "unit": space.unit if space else None,
        "budget": recording.budget if recording else result.request.budget,
        "seeds": result.request.seeds,
        "evaluations": score.evaluations if math.isfinite(score.evaluations) else None,
        "interrupted": result.interrupted,
    }


def write_replay_csv(result: ReplayResult, path: Path) -> None:
    """A row for each evaluation of each run; replaces the file as a whole."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(CSV_COLUMNS)
    for recording in result.recordings:
        writer.writerows(_evaluations(recording))
    atomic_write(path, stream.getvalue().encode())


def _evaluations(recording: RecordingReplay) -> Iterator[Sequence[object]]:
    space = recording.space
    for run in recording.runs:
        for number, (at, best) in enumerate(zip(run.asked, run.curve, strict=False), 1):
            trial = space.trials[at]
            yield (
                *(space.name, run.searcher, run.seed, number, str(trial.config)),
                trial.status.value,
                _number(cost(trial)),
                _number(best),
                _number(best / space.optimum),
            )


def _number(value: float) -> str:
    """Empty for what is not known yet, or failed."""
    return repr(float(value)) if math.isfinite(value) else ""


def render_t4_export(done: RecordingExport, json: bool) -> None:
    """Print what was written."""
    if json:
        fields = {"file": str(done.file), "recording": done.recording}
        print_json("export t4", {**fields, "configs": done.configs, "failed": done.failed})
        return
    say(
        f"{done.file}: {numbered(done.configs, 'config')} of {done.recording}, {done.failed} failed"
    )

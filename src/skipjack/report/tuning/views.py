"""What ``tune``, ``find`` and ``bank verify`` show: bars while they work, then results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from rich.progress import BarColumn, TaskID, TextColumn

from skipjack.app import BatchBegun, Notice, ProblemBegun, WorkEvent
from skipjack.interop import NotApplicable
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import time_text
from skipjack.report.screen import print_json, warn
from skipjack.tuning import BuildResult, FindResult
from skipjack.tuning.study import TuneProgress, TuneResult

# A progress bar that shows the best result so far.


@contextlib.contextmanager
def progress_bars(problems: int, *, enabled: bool) -> Iterator[Callable[[TuneProgress], None]]:
    """An observer for `TuneOptions`; it draws nothing if standard error is not a terminal."""
    console = screen.err()
    if not enabled or not console.is_terminal:
        yield lambda progress: None
        return
    bars = screen.live_bars(
        console,
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[best]}"),
    )
    tasks: dict[str, TaskID] = {}

    def observe(progress: TuneProgress) -> None:
        if progress.problem not in tasks:
            for task in tasks.values():
                bars.stop_task(task)
            number = f"[{len(tasks) + 1}/{problems}] " if problems > 1 else ""
            # Square brackets would be read as markup.
            label = f"{number}{progress.problem}".replace("[", r"\[")
            tasks[progress.problem] = bars.add_task(label, total=1.0, best="")
        bars.update(
            tasks[progress.problem], completed=share_done(progress), best=best_text(progress)
        )

    with bars:
        yield observe


def share_done(progress: TuneProgress) -> float:
    """The share of the budget that is spent, by the limit that is nearer."""
    budget = progress.budget
    shares = [progress.trials / budget.trials if budget.trials else 0.0]
    shares.append(progress.elapsed_s / budget.seconds if budget.seconds else 0.0)
    return min(1.0, max(shares))


def best_text(progress: TuneProgress) -> str:
    """``best 120 µs, 3.2x the default, 47 trials (2 failed)``."""
    if progress.phase == "build":
        failed = f" ({progress.failed} failed)" if progress.failed else ""
        return f"{progress.trials} of {progress.budget.trials} built{failed}"
    if progress.best_ns is None:
        return numbered(progress.trials, "trial")
    gain = (
        f", {progress.default_ns / progress.best_ns:.2f}x the default"
        if progress.default_ns
        else ""
    )
    failed = f" ({progress.failed} failed)" if progress.failed else ""
    return f"best {time_text(progress.best_ns)}{gain}, {numbered(progress.trials, 'trial')}{failed}"


# Observers of ``tune``, ``find`` and ``bank verify``.

Observer = Callable[[TuneProgress], None]


def _not_applicable_fields(entry: NotApplicable) -> dict[str, object]:
    """The record of a problem of a list that is not applicable, in place of a result."""
    return {"problem": entry.text, "status": "not_applicable", "reason": entry.reason}


def _unseen(_: TuneProgress) -> None:
    """Ignore progress while no bars are open."""


class _WorkView:
    """Shows progress bars on a terminal; with `json`, only prints a line for each result."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._bars = ExitStack()
        self._show: Observer = _unseen
        self._left = 0

    def __call__(self, event: WorkEvent) -> None:
        """Show an event."""
        if isinstance(event, Notice):
            warn(event.sentence)
        elif isinstance(event, TuneProgress):
            self._show(event)
        elif isinstance(event, NotApplicable):
            self._not_applicable(event)
        elif isinstance(event, BatchBegun):
            self._batch(event)

    def _batch(self, event: BatchBegun) -> None:
        self._open_bars(event.problems)

    def _not_applicable(self, entry: NotApplicable) -> None:
        if self._json:
            print_json("tune", _not_applicable_fields(entry))
        else:
            warn(f"not applicable: {entry.text}: {entry.reason}")

    def _open_bars(self, problems: int) -> None:
        self._close_bars()
        self._left = problems
        self._show = self._bars.enter_context(progress_bars(problems, enabled=not self._json))

    def _close_bars(self) -> None:
        self._show = _unseen
        self._bars.close()

    def _one_done(self, result: TuneResult | BuildResult) -> None:
        """Count a result; close the bars before anything else is printed."""
        self._left -= 1
        if not self._left or result.interrupted:
            self._close_bars()
        if self._json and isinstance(result, TuneResult):
            print_json("tune", result.to_json())
        elif self._json:
            print_json("tune --build-only", result.to_json())


class TuneView(_WorkView):
    """Prints results in one table at the end, even if a later problem raised."""

    def __init__(self, json: bool, plots: Path | None = None) -> None:
        super().__init__(json)
        self._plots = plots
        self._results: list[TuneResult] = []

    def __call__(self, event: WorkEvent) -> None:
        if isinstance(event, TuneResult):
            self._results.append(event)
            self._one_done(event)
        else:
            super().__call__(event)

    def __enter__(self) -> TuneView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close_bars()
        if self._results and not self._json:
            from skipjack.report.tuning.results import print_results

            print_results(self._results)
        if self._plots:
            from skipjack.report.tuning.plots import write_tune_plots

            for result in self._results:
                write_tune_plots(result, self._plots)


class BuildView(_WorkView):
    """Prints a table of the builds for each device."""

    def __init__(self, json: bool) -> None:
        super().__init__(json)
        self._results: list[BuildResult] = []

    def __call__(self, event: WorkEvent) -> None:
        if isinstance(event, BuildResult):
            self._results.append(event)
            self._one_done(event)
        else:
            super().__call__(event)

    def _batch(self, event: BatchBegun) -> None:
        self._print()
        super()._batch(event)

    def __enter__(self) -> BuildView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._print()

    def _print(self) -> None:
        self._close_bars()
        results, self._results = self._results, []
        if results and not self._json:
            from skipjack.report.tuning.results import print_builds

            print_builds(results)


class FindView(_WorkView):
    """Prints each ranking as soon as it is complete."""

    def __init__(self, json: bool, verbose: bool = False, plots: Path | None = None) -> None:
        super().__init__(json)
        self._verbose, self._plots = verbose, plots
        self._device = ""

    def __call__(self, event: WorkEvent) -> None:
        if isinstance(event, ProblemBegun):
            self._begin(event)
        elif isinstance(event, FindResult):
            self._close_bars()
            self._print(event)
        else:
            super().__call__(event)

    def __enter__(self) -> FindView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close_bars()

    def _batch(self, event: BatchBegun) -> None:
        self._device = event.device.name

    def _begin(self, event: ProblemBegun) -> None:
        self._open_bars(1)
        show, key = self._show, event.problem.key
        label = f"[{event.number}/{event.of}] {key}" if event.of > 1 else key
        self._show = lambda progress: show(replace(progress, problem=label))

    def _not_applicable(self, entry: NotApplicable) -> None:
        if self._json:
            told = _not_applicable_fields(entry)
            print_json("find", {**told, "device": self._device, "solvers": []})
            return
        from skipjack.report.tuning.results import print_not_applicable

        print_not_applicable(entry.text, entry.reason)

    def _print(self, result: FindResult) -> None:
        if self._json:
            print_json("find", result.to_json())
        else:
            from skipjack.report.tuning.results import print_find

            print_find(result, verbose=self._verbose)
        if self._plots:
            from skipjack.report.tuning.plots import write_find_plots

            write_find_plots(result, self._plots)

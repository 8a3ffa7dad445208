"""What ``tune``, ``find`` and ``bank verify`` show: bars while they work, then results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from skipjack.app import BatchBegun, NotApplicable, Notice, ProblemBegun, WorkEvent
from skipjack.report.progress import progress_bars
from skipjack.report.render import print_json, warn
from skipjack.tuning import BuildResult, FindResult, Progress, TuneResult

Observer = Callable[[Progress], None]


def _not_applicable_fields(entry: NotApplicable) -> dict[str, object]:
    """What stands in the place of a result where a problem of a list cannot be computed."""
    return {"problem": entry.text, "status": "not_applicable", "reason": entry.reason}


def _unseen(_: Progress) -> None:
    """Show nothing: no bars are open."""


class _WorkView:
    """Bars on a terminal. With `json` nothing is shown but a line for each result, at once."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._bars = ExitStack()
        self._show: Observer = _unseen
        self._left = 0

    def __call__(self, event: WorkEvent) -> None:
        """Show an event."""
        if isinstance(event, Notice):
            warn(event.sentence)
        elif isinstance(event, Progress):
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
        """Count a result; bars go before anything else is printed."""
        self._left -= 1
        if not self._left or result.interrupted:
            self._close_bars()
        if self._json and isinstance(result, TuneResult):
            print_json("tune", result.to_json())
        elif self._json:
            print_json("tune --build-only", result.to_json())


class TuneView(_WorkView):
    """Results in one table at the end, also if a later problem was refused."""

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
            from skipjack.report.table import print_results

            print_results(self._results)
        if self._plots:
            from skipjack.report.plots import write_tune_plots

            for result in self._results:
                write_tune_plots(result, self._plots)


class BuildView(_WorkView):
    """A table of the builds for each device."""

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
            from skipjack.report.builds import print_builds

            print_builds(results)


class FindView(_WorkView):
    """Each ranking as soon as it is there."""

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
        self._show = lambda standing: show(replace(standing, problem=label))

    def _not_applicable(self, entry: NotApplicable) -> None:
        if self._json:
            told = _not_applicable_fields(entry)
            print_json("find", {**told, "device": self._device, "solvers": []})
            return
        from skipjack.report.find import print_not_applicable

        print_not_applicable(entry.text, entry.reason)

    def _print(self, result: FindResult) -> None:
        if self._json:
            print_json("find", result.to_json())
        else:
            from skipjack.report.find import print_find

            print_find(result, verbose=self._verbose)
        if self._plots:
            from skipjack.report.plots import write_find_plots

            write_find_plots(result, self._plots)

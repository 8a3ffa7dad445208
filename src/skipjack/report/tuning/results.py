"""The tables of ``tune``, ``tune --build-only`` and ``find``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from skipjack.core import settings_text
from skipjack.execute import Ratio
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.bank import ranking_table
from skipjack.report.numbers import (
    gain_text,
    library_cell,
    library_column,
    library_name,
    percent_text,
    rate_text,
    time_text,
)
from skipjack.report.screen import TableColumn, table
from skipjack.tuning import NOT_APPLICABLE, BuildResult, BuiltConfig, FindResult, FindStatus
from skipjack.tuning.study import DEFAULT, Limits, TuneOutcome, TuneResult

# The table at the end of ``skipjack tune``.

_STYLES = {
    TuneOutcome.BANKED: "green",
    TuneOutcome.KEPT: "green",
    TuneOutcome.RESERVED: "yellow",
    TuneOutcome.VENDOR: "yellow",
    TuneOutcome.NOISY: "yellow",
    TuneOutcome.FAILED: "red",
}


def print_results(results: Sequence[TuneResult], console: Console | None = None) -> None:
    """Print a row for each problem, then configs and reasons."""
    console = console or screen.out()
    screen.print_table(results_table(results), console)
    for result, name in zip(results, _names(results), strict=True):
        style = "red" if result.status is TuneOutcome.FAILED else ""
        for line in _remarks(result, name):
            console.print(Text(line, style=style), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns that these results have."""

    library: str
    untuned: bool
    called: bool
    failed: bool

    @classmethod
    def of(cls, results: Sequence[TuneResult]) -> _Columns:
        return cls(
            library_column(r.baseline for r in results if r.status is not TuneOutcome.FAILED),
            any(result.untuned_ns is not None for result in results),
            any(result.speedup.as_called for result in results),
            any(result.failures for result in results),
        )

    def cells(self, result: TuneResult) -> dict[str, str]:
        """The cells of a row, by heading."""
        ran = result.status is not TuneOutcome.FAILED
        cells = self._times(result) | self._gains(result)
        cells = cells if ran else dict.fromkeys(cells, "-")
        if self.failed:
            count = sum(trial.status.failed for trial in result.trials)
            cells["failed"] = f"{count} of {len(result.trials)}" if count else "-"
        counts = {"builds": str(result.builds), "runs": str(result.runs)}
        return cells | counts | {"s": f"{result.seconds:.1f}"}

    def _times(self, result: TuneResult) -> dict[str, str]:
        untuned = {"untuned": time_text(result.untuned_ns)} if self.untuned else {}
        library = {} if self.library == DEFAULT else {self.library: self._library(result)}
        return {
            **untuned,
            "default": time_text(result.default_ns),
            **library,
            "tuned": time_text(result.time_ns),
            "spread": f"{100 * result.spread:.1f} %",
            "rate": rate_text(*result.rate),
            "of peak": percent_text(result.peak_share),
        }

    def _gains(self, result: TuneResult) -> dict[str, str]:
        gains = result.speedup
        return {
            f"x {self.library}": library_cell(_gain(gains.baseline), result.baseline, self.library),
            **({"as called": _called(result)} if self.called else {}),
            "x default": _gain(gains.default),
            **({"x untuned": _gain(gains.untuned)} if self.untuned else {}),
        }

    def _library(self, result: TuneResult) -> str:
        if result.baseline == DEFAULT:
            return "-"
        return library_cell(time_text(result.baseline_ns), result.baseline, self.library)


def results_table(results: Sequence[TuneResult]) -> Table:
    """The table of results."""
    columns = _Columns.of(results)
    cells = [columns.cells(result) for result in results]
    numbers = [TableColumn(name, right=True) for name in (cells[0] if cells else ())]
    rows: list[tuple[Text | str, ...]] = [
        (name, *row.values(), Text(result.status.word, style=_STYLES[result.status]))
        for result, name, row in zip(results, _names(results), cells, strict=True)
    ]
    return table(["problem", *numbers, "bank"], rows)


def _gain(ratio: Ratio | None) -> str:
    if ratio is not None and ratio.noisy:
        return "noisy"
    return gain_text(ratio.ratio, ratio.low, ratio.high) if ratio else "-"


def _called(result: TuneResult) -> str:
    """The gain as called; for long calls, Python's overhead does not matter."""
    if result.speedup.as_called:
        return _gain(result.speedup.as_called)
    return "same" if result.vendor and result.time_ns > Limits().long_call_ns else "-"


def _names(results: Sequence[TuneResult]) -> list[str]:
    """The names of the rows: problems, with devices or deployments if there are several."""
    on = len({result.device for result in results}) > 1
    ways = len({result.deployed for result in results}) > 1
    return [
        f"{result.problem.key}{f' on {result.device}' if on else ''}"
        f"{f' ({result.deployed})' if ways else ''}"
        for result in results
    ]


def _remarks(result: TuneResult, key: str) -> list[str]:
    """The winner's config, further libraries, why it is not in the bank, and failures."""
    lines = [f"{key}: {result.reason}"]
    if result.status is not TuneOutcome.FAILED:
        count = len(result.ties)
        ties = f", tied with {numbered(count, 'other')}" if count else ""
        lines = [f"{key}: {result.solver} {settings_text(result.best)}{ties}"]
        for name, gain in result.speedup.vendors.items():
            if name != result.baseline:
                lines.append(f"  {_gain(gain)} over {library_name(name)}")
        if result.reason:
            lines.append(f"  {result.reason}")
    return [*lines, *_searched(result), *(f"  {line}" for line in failure_lines(result))]


def failure_lines(result: TuneResult) -> list[str]:
    """``3 of 8 configs failed (2 crash, 1 wrong), 2 of them because of crash: ... SIGILL``."""
    if not result.failures:
        return []
    reason, count = result.failures[0]
    by_status = result.failed_by_status
    failed = sum(by_status.values())
    most = "all" if count == failed else f"{count} of them"
    counts = ", ".join(f"{number} {status}" for status, number in by_status.items())
    tried = numbered(len(result.trials), "config")
    return [f"{failed} of {tried} failed ({counts}), {most} because of {reason}"]


def _searched(result: TuneResult) -> list[str]:
    """Which searcher tried which solvers, if there were several searchers."""
    found: dict[str, list[str]] = {}
    for score in result.solvers:
        found.setdefault(score.searcher, []).append(f"{score.solver} {score.trials}")
    if len(found) < 2:
        return []
    parts = [f"{', '.join(solvers)} by {searcher}" for searcher, solvers in found.items()]
    return [f"  configs tried: {'; '.join(parts)}"]


# The tables of ``skipjack tune --build-only``.

_CPU_COLUMNS = ("build ms", "bytes", "code", "spills")
_GPU_COLUMNS = ("build ms", "bytes", "registers", "shared", "spills")


def print_builds(results: Sequence[BuildResult], console: Console | None = None) -> None:
    """For each problem: a headline, a table of its configs, and the reasons of failures."""
    console = console or screen.out()
    for result in results:
        console.print(Text(headline(result), style="" if result.built else "red"), soft_wrap=True)
        screen.print_table(builds_table(result), console)
        for build in result.builds:
            if not build.ok:
                console.print(Text(f"  {build.number}: {build.reason}", "red"), soft_wrap=True)


def headline(result: BuildResult) -> str:
    """``add:4096:f32 for haswell/1 by nest: 16 of 16 built in 0.3 s``."""
    return (
        f"{result.problem.key} for {result.device.name} by {result.solver}: "
        f"{result.built} of {len(result.builds)} built in {result.seconds:.1f} s "
        f"({_means(result)})"
    )


def _means(result: BuildResult) -> str:
    if result.gpu:
        return result.compiler
    return f"{result.target['triple']}, {result.device.vector_bytes}-byte vectors"


def builds_table(result: BuildResult) -> Table:
    """A row for each config."""
    columns = _GPU_COLUMNS if result.gpu else _CPU_COLUMNS
    first: dict[str, int] = {}
    rows: list[tuple[Text | str, ...]] = []
    for build in result.builds:
        status = Text(str(build.status), style="green" if build.ok else "red")
        owner = first.setdefault(build.digest or str(build.number), build.number)
        cells = _cells(build, owner, len(columns))
        rows.append((str(build.number), settings_text(build.config), status, *cells))
    return table(
        [
            *(TableColumn("number", right=True), TableColumn("config", folded=True), "status"),
            *(TableColumn(name, right=True) for name in columns),
            "digest",
        ],
        rows,
    )


def _cells(build: BuiltConfig, owner: int, columns: int) -> list[str]:
    """`owner` is the number of the first config with the same code."""
    known = "known" if owner == build.number else f"as {owner}"
    spent = known if build.cached else f"{1000.0 * build.seconds:.1f}"
    if needs := build.needs:
        size = str(len(build.data)) if build.ok else "-"
        return [spent, size, *map(str, needs.values()), build.digest[:12] or "-"]
    if not build.ok:
        return [spent, *["-"] * columns]
    spills = "-" if build.vector_spills is None else str(build.vector_spills)
    return [spent, str(len(build.data)), str(build.text_bytes), spills, build.digest[:12]]


# The report of ``skipjack find``, problem by problem.


def print_find(
    result: FindResult, console: Console | None = None, *, verbose: bool = False
) -> None:
    """A headline, the solvers, those not applicable (`verbose`: and why), and the outcome."""
    console = console or screen.out()
    style = "" if result.status is FindStatus.OK else "red"
    console.print(Text(_headline(result), style=style), soft_wrap=True)
    rows = [solver.to_json() for solver in result.solvers if solver.status != NOT_APPLICABLE]
    if rows:
        screen.print_table(ranking_table(rows), console)
    for line in _refusals(result) if verbose else _refusing(result):
        console.print(Text(f"  {line}", "dim"), soft_wrap=True)
    if result.reason and result.status is FindStatus.OK:
        console.print(Text(f"  {result.reason}", "yellow"), soft_wrap=True)
    if result.perf:
        remark = f" ({result.remark})" if result.remark else ""
        console.print(Text(f"  {_outcome_text(result.perf)}{remark}"), soft_wrap=True)
        for line in failure_lines(result.perf):
            console.print(Text(f"  {line}", "yellow"), soft_wrap=True)
    console.print()


def print_not_applicable(problem: str, reason: str, console: Console | None = None) -> None:
    """Print that a problem is not applicable."""
    console = console or screen.out()
    console.print(Text(f"{problem}: not applicable: {reason}", style="yellow"), soft_wrap=True)


def _headline(result: FindResult) -> str:
    """``matmul:64x64x64:f32 on znver4/1: 6 solvers in 3.2 s``."""
    where = f"{result.problem.key} on {result.device}"
    if result.status is not FindStatus.OK:
        return f"{where}: {result.reason}"
    count = len(result.ranked)
    end = ", interrupted" if result.interrupted else ""
    return f"{where}: {numbered(count, 'solver')} in {result.seconds:.1f} s{end}"


def _refusing(result: FindResult) -> list[str]:
    """``2 solvers are not applicable: cblas, mkl (--verbose says why)``."""
    names = [one.solver for one in result.solvers if one.status == NOT_APPLICABLE]
    if not names:
        return []
    who = numbered(len(names), "solver")
    verb = "is" if len(names) == 1 else "are"
    return [f"{who} {verb} not applicable: {', '.join(names)} (--verbose says why)"]


def _refusals(result: FindResult) -> list[str]:
    """``not cblas, mkl: it is for the plain matmul on CPUs``."""
    refusing: dict[str, list[str]] = {}
    for solver in result.solvers:
        if solver.status == NOT_APPLICABLE:
            refusing.setdefault(solver.reason, []).append(solver.solver)
    return [f"not {', '.join(names)}: {reason}" for reason, names in refusing.items()]


def _outcome_text(perf: TuneResult) -> str:
    """``banked: nest is 1.48 [1.40, 1.52] times as fast as NumPy``."""
    if perf.status is TuneOutcome.FAILED:
        return f"none of the builds run: {perf.reason}"
    if perf.reason:
        return f"{perf.status.word}: {perf.reason}"
    gain, competitor = perf.speedup.baseline, library_name(perf.baseline)
    competitor = "the default" if perf.baseline == DEFAULT else competitor
    times = gain_text(gain.ratio, gain.low, gain.high)
    return f"{perf.status.word}: {perf.solver} is {times} times as fast as {competitor}"

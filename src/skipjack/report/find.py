"""What ``skipjack find`` prints for people, problem by problem."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.library import library_name
from skipjack.report.numbers import gain_text
from skipjack.report.ranking import ranking_table
from skipjack.report.table import failure_lines
from skipjack.tuning.finding import NOT_APPLICABLE, FindResult, FindStatus
from skipjack.tuning.result import DEFAULT, Outcome, TuneResult


def print_find(
    result: FindResult, console: Console | None = None, *, verbose: bool = False
) -> None:
    """A headline, the solvers, those that cannot do it (`verbose`: and why), and the verdict."""
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
        console.print(Text(f"  {_verdict(result.perf)}{remark}"), soft_wrap=True)
        for line in failure_lines(result.perf):
            console.print(Text(f"  {line}", "yellow"), soft_wrap=True)
    console.print()


def print_not_applicable(problem: str, reason: str, console: Console | None = None) -> None:
    """Of a problem that no solver was asked about."""
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
    """``2 solvers cannot do it: cblas, mkl (--verbose says why)``."""
    names = [one.solver for one in result.solvers if one.status == NOT_APPLICABLE]
    if not names:
        return []
    who = numbered(len(names), "solver")
    return [f"{who} cannot do it: {', '.join(names)} (--verbose says why)"]


def _refusals(result: FindResult) -> list[str]:
    """``not cblas, mkl: it is for the plain matmul on CPUs``."""
    refusing: dict[str, list[str]] = {}
    for solver in result.solvers:
        if solver.status == NOT_APPLICABLE:
            refusing.setdefault(solver.reason, []).append(solver.solver)
    return [f"not {', '.join(names)}: {reason}" for reason, names in refusing.items()]


def _verdict(perf: TuneResult) -> str:
    """``banked: nest is 1.48 [1.40, 1.52] times as fast as NumPy``."""
    if perf.status is Outcome.FAILED:
        return f"nothing that was built runs: {perf.reason}"
    if perf.reason:
        return f"{perf.status.word}: {perf.reason}"
    gain, rival = perf.speedup.baseline, library_name(perf.baseline)
    rival = "the default" if perf.baseline == DEFAULT else rival
    times = gain_text(gain.ratio, gain.low, gain.high)
    return f"{perf.status.word}: {perf.solver} is {times} times as fast as {rival}"

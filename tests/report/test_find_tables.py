"""The report of a find: ranks, times, workspaces, failures, refusals and the outcome."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from skipjack.bank import FIND, BankEntry
from skipjack.core import WHOLE_EXTENT, Config, settings_text
from skipjack.execute import Ratio
from skipjack.operations import parse
from skipjack.report import print_entries, print_entry
from skipjack.report.tuning.results import print_find, print_not_applicable
from skipjack.tuning import FindResult, FindStatus, RankedSolver

SOLVERS = (
    RankedSolver(
        "packed", "ok", 1.5e6, 2 << 20, Config(tile="6x4"), 0.012, 48, Ratio(1.0, 1.0, 1.0)
    ),
    RankedSolver("nest", "ok", 1.6e6, 0, Config(), 0.02, 48, Ratio(1.01, 0.99, 1.03), True, 7),
    RankedSolver("numpy", "ok", 9e6, 0, Config(), 0.0, 1, Ratio(6.0, float("nan"), float("nan"))),
    RankedSolver("rogue", "crash", trials=1, reason="the kernel's process [ended] by SIGSEGV"),
    RankedSolver("mkl", "not_applicable", reason="it is not installed"),
    RankedSolver("cblas", "not_applicable", reason="it is not installed"),
)
RESULT = FindResult(
    parse("matmul:8x8x8"), "znver4/1", FindStatus.OK, SOLVERS, seconds=1.25, interrupted=True
)


def printed(result: FindResult = RESULT, *, verbose: bool = False) -> list[str]:
    stream = io.StringIO()
    print_find(result, Console(file=stream, width=150), verbose=verbose)
    return stream.getvalue().splitlines()


def words(line: str) -> str:
    """A line with one space between words."""
    return " ".join(line.split())


def test_every_solver_has_a_row_in_order() -> None:
    head, columns, _, *rows = printed()
    assert head == "matmul:8x8x8:f32 on znver4/1: 3 solvers in 1.2 s, interrupted"
    assert words(columns) == "rank solver time spread x first workspace trials config"
    assert [words(row) for row in rows[:3]] == [
        "1 packed 1.5 ms 1.2 % 1 2 MiB - tile=6x4",
        "1 nest 1.6 ms 2.0 % 1.01 [0.99, 1.03] tie 0 B 7 -",
        "3 numpy 9 ms - 6.00 0 B - -",
    ]
    assert rows[3].split()[0] == "rogue"
    assert rows[3].rstrip().endswith("crash: the kernel's process [ended] by SIGSEGV")
    assert rows[4] == "  2 solvers are not applicable: mkl, cblas (--verbose says why)"
    assert "  not mkl, cblas: it is not installed" in printed(verbose=True)


def test_a_setting_that_stands_for_all_reads_so() -> None:
    everything = RankedSolver("direct", "ok", 1.0, 0, Config(panels=WHOLE_EXTENT, lines=2), 0.1, 9)
    rows = printed(replace(RESULT, solvers=(everything,)))
    assert rows[3].rstrip().endswith("panels=all lines=2")
    assert everything.to_json()["config"]["panels"] == WHOLE_EXTENT
    assert (
        settings_text({"bytes": float(WHOLE_EXTENT), "on": True})
        == f"bytes={float(WHOLE_EXTENT)} on=True"
    )


def test_a_find_that_failed_says_why() -> None:
    failed = FindResult(RESULT.problem, "znver4/1", FindStatus.FAILED, (), reason="no solver ran")
    assert printed(failed)[0] == "matmul:8x8x8:f32 on znver4/1: no solver ran"
    assert repr(failed) == "<FindResult matmul:8x8x8:f32 on znver4/1: failed, no solver ran>"
    assert repr(RESULT).endswith(" 3 ranked, packed first with 1,500,000 ns>") and "\n" not in repr(
        RESULT
    )


def test_a_problem_that_is_none_has_one_line() -> None:
    stream = io.StringIO()
    print_not_applicable("conv2d:n1:int8", "no [integers]", Console(file=stream, width=99))
    assert stream.getvalue() == "conv2d:n1:int8: not applicable: no [integers]\n"


def entry(**changes: object) -> BankEntry:
    fields: dict[str, object] = {
        "problem": "matmul:8x8x8:f32",
        "device": "cpu:znver4/1:abc",
        "device_name": "znver4/1",
        "solver": "packed",
        "solver_version": 1,
        "config": {"tile": "6x4"},
        "time_ns": 1.5e6,
        "default_ns": 3e6,
        "vendor_ns": 9e6,
        "vendor": "numpy",
        "speedup": {"default": {"ratio": 2.0, "low": None, "high": None}},
        "evidence": {"ranking": [solver.to_json() for solver in SOLVERS[:4]]},
        "created": "2025-01-01T00:00:00.000000Z",
        "kind": FIND,
    }
    return BankEntry(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_bank_shows_a_ranking(capsys: pytest.CaptureFixture[str]) -> None:
    print_entry(entry())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("solvers of matmul:8x8x8:f32 on znver4/1")
    assert [line.split()[1] for line in lines[3:6]] == ["packed", "nest", "numpy"]
    assert "SIGSEGV" in lines[6]


def test_the_bank_lists_a_problem_once_and_names_the_library(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_entries([entry(), entry(kind="perf")])
    _, columns, _, row, _ = capsys.readouterr().out.splitlines()
    assert (
        words(columns) == "problem device kind solver time default NumPy x NumPy x default config"
    )
    assert "perf, find" in row and "3 ms" in row
    print_entries([entry()])
    _, _, _, row, _ = capsys.readouterr().out.splitlines()
    assert words(row).split()[2] == "find" and "3 ms" not in row, "a ranking has no default"
    print_entries([entry(), entry(problem="add:8:f32", vendor="onednn")])
    _, columns, _, *rows, _ = capsys.readouterr().out.splitlines()
    assert "library" in columns
    assert "9 ms NumPy" in rows[0]
    assert "9 ms onednn" in rows[1]


def test_a_gain_without_an_interval_is_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    print_entry(entry(kind="perf"))
    assert "gain over default  2.00\n" in capsys.readouterr().out


def test_the_bank_lists_gains_as_a_tuning_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    gain = {"ratio": 1.5, "low": 1.4, "high": 1.6}
    evidence = {"baseline": {"name": "mkl", **gain}, "as_called": gain}
    found = replace(entry(kind="perf"), evidence=evidence)
    print_entries([found])
    _, columns, _, row, _ = capsys.readouterr().out.splitlines()
    assert words(columns).endswith("NumPy x mkl x default config")
    assert words(row).endswith("9 ms 1.50 [1.40, 1.60] 2.00 tile=6x4")
    print_entry(found)
    shown = capsys.readouterr().out
    assert "gain over mkl  1.50 [1.40, 1.60]" in shown
    assert "gain as called  1.50 [1.40, 1.60] over NumPy, from Python" in shown


def test_the_bank_lists_no_gain_where_a_library_won_or_none_was_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gain = {"ratio": 0.5, "low": 0.4, "high": 0.6}
    won = entry(kind="perf", solver="numpy", config={}, speedup={"vendor": gain, "default": gain})
    print_entries([won])
    assert words(capsys.readouterr().out.splitlines()[3]).endswith("3 ms 9 ms - - -")
    alone = entry(kind="perf", vendor="", vendor_ns=None)
    print_entries([alone])
    assert words(capsys.readouterr().out.splitlines()[3]).endswith("3 ms - - 2.00 tile=6x4")
    older = entry(kind="perf", speedup={"vendor": {"ratio": 3.0, "low": None, "high": None}})
    print_entries([older])
    assert words(capsys.readouterr().out.splitlines()[3]).endswith("9 ms 3.00 - tile=6x4")

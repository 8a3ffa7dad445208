"""``skipjack report`` shows a result file, sorted by the time of the operations' calls."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from rich.console import Console

from skipjack.integrations.torch.outcomes import (
    TorchDecision,
    TorchStatus,
    call_key,
    read_result,
)
from skipjack.integrations.torch.outcomes.result_file import ProgramFacts, ProgramTime, ResultFile
from skipjack.report import render_program_result, screen

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def file(tmp_path: Path) -> ResultFile:
    facts = ProgramFacts(("python", "train.py"), "/where", 17, "incremental", "GA")
    made = ResultFile(tmp_path, facts, lambda: datetime(2026, 11, 16, 10, 15, 0))
    common = {"device": "haswell/1", "reason": "so", "problem": None}
    ours = TorchDecision(
        op="aten::mm",
        description="small",
        is_ours=True,
        status=TorchStatus.APPEND,
        solver="gemm",
        searcher="genetic",
        before_ns=3000.0,
        after_ns=2000.0,
        **common,
    )
    theirs = TorchDecision(
        op="aten::convolution",
        description="large",
        is_ours=False,
        status=TorchStatus.VENDOR,
        solver="torch",
        before_ns=9_000_000.0,
        **common,
    )
    made.add(ours)
    made.add(theirs)
    made.count_calls(lambda: {call_key(ours): 1000, call_key(theirs): 10})
    return made


def test_it_is_a_table_by_what_calls_take(file: ResultFile, skipjack: Run) -> None:
    file.end(ProgramTime(2.0, True, False, 3.0))
    file.write()
    shown = skipjack("report", str(file.path)).stdout
    assert shown.index("convolution") < shown.index("small")
    assert "1,000" in shown and "1.50" in shown and "gemm" in shown and "genetic" in shown
    counts = "1 bank_append + 0 bank_update + 0 bank_reserved + 1 vendor + 0 failed"
    assert f"2 operations: 0 bank_hit + {counts}" in shown
    assert "gain = before_tune / after_tune" in shown
    said = "it took 3.00 s: 1.50 times as fast, by one run of each with its start-up"
    assert f"the program took 2.00 s; without Skipjack's kernels {said}" in shown
    both = skipjack("report", str(file.path), str(file.path)).stdout
    assert both.count("2 operations:") == 2


def test_a_program_that_ran_without_kernels_says_so(tmp_path: Path, skipjack: Run) -> None:
    made = ResultFile(tmp_path, ProgramFacts(("python", "train.py"), "/", 7, "off"))
    made.end(ProgramTime(2.0, False, False, None))
    made.write()
    shown = skipjack("report", str(made.path)).stdout
    assert "the program took 2.00 s, without Skipjack's kernels" in shown
    assert "the program ran no operation that can be tuned" in shown and "gain =" not in shown


def test_a_program_that_has_not_ended_can_be_read(file: ResultFile, skipjack: Run) -> None:
    file.write()
    assert "it has not ended, or was killed" in skipjack("report", str(file.path)).stdout


@pytest.mark.parametrize("width", [80, 160])
def test_it_fits_the_screen(
    width: int,
    file: ResultFile,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file.end(ProgramTime(2.0, True, False, 3.0))
    file.write()
    monkeypatch.setattr(screen, "out", lambda: Console(width=width, highlight=False))
    render_program_result(read_result(file.path), None)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert any("convolution" in line and "large" in line for line in lines)
    (shown,) = [line for line in lines if "bank_append   " in line]
    assert [word for word in shown.split() if word not in ("mm", "small")] == [
        *("1,000", "3.0", "2.0", "1.50", "1.00", "bank_append", "genetic", "gemm")
    ]
    assert "1 left to PyTorch: so" in lines


@pytest.mark.parametrize("content", [None, "", "[]", '{"format": 7}', '{"format": 1}'])
def test_what_is_no_result_file_is_one_sentence(
    content: str | None, skipjack: Run, tmp_path: Path
) -> None:
    path = tmp_path / "tune_result.json"
    if content is not None:
        path.write_text(content)
    done = skipjack("report", str(path))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "internal" not in done.stderr

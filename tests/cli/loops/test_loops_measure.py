"""``skipjack loops measure`` as run by users."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skipjack.cli.main import app
from skipjack.errors import UsageError
from skipjack.learn.rates import TableHeader, open_rates, read_table
from skipjack.native import cpu, describe
from skipjack.operations import parse
from skipjack.solvers.cpu.nest import Schedule


@pytest.fixture(autouse=True)
def own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)


def measure(*words: str) -> str:
    done = CliRunner().invoke(app, ["loops", "measure", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_table_is_measured_continued_and_replayed() -> None:
    problem = parse("add:5000")
    said = measure(problem.key, "--schedules", "6", "-o", "t.jsonl")
    assert "1/1 add:5000:f32" in said
    first = read_table(Path("t.jsonl"))
    assert 3 <= first.entries <= 6
    record = json.loads(measure("sum:900/axis=0", "--schedules", "4", "-o", "t.jsonl", "--json"))
    assert record["problem"] == "sum:900/axis=0:f32"
    both = read_table(Path("t.jsonl"))
    assert both.of(problem) == first.of(problem)
    assert len(both.times_ns) == 2
    rates = open_rates("exactly:t.jsonl", cpu.detect())
    schedules = [Schedule.parse(text) for text in first.of(problem)]
    replayed = rates.seconds(problem, schedules)
    times_ns = list(first.of(problem).values())
    assert replayed == [None if ns is None else ns * 1e-9 for ns in times_ns]
    assert rates.sources == {"replayed": len(schedules)}


def test_no_time_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="--minutes is 0, so nothing would be measured; give more"):
        measure("add:5000", "--minutes", "0", "-o", "t.jsonl")
    assert not Path("t.jsonl").exists()


def test_what_is_no_game_is_refused() -> None:
    with pytest.raises(UsageError, match="softmax is not a single loop nest"):
        measure("softmax:4x4", "-o", "t.jsonl")
    assert not Path("t.jsonl").exists()


def test_a_table_of_another_machine_is_not_continued() -> None:
    other = describe("haswell/2")
    Path("t.jsonl").write_text(TableHeader(other, "llvm 3", "").line())
    with pytest.raises(UsageError, match="measured on haswell/2 with llvm 3"):
        measure("add:50", "-o", "t.jsonl")

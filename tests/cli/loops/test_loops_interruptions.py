"""Ctrl-C in long commands of ``skipjack loops``: results are kept, the exit code is 130."""

from __future__ import annotations

import csv
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from skipjack.cli.loops import compare
from skipjack.cli.main import app
from skipjack.core import Problem
from skipjack.errors import StorageError
from skipjack.learn.loops import GLOBAL_COLUMNS, ROW_COLUMNS, Preset
from skipjack.learn.policy import write_policy
from skipjack.learn.rates import LiveRates, read_table
from skipjack.report import loops as reports
from skipjack.report.loops import LibraryComparison
from skipjack.solvers.cpu.nest import Schedule
from skipjack.testing.samples import random_weights

INTERRUPTED = 130
PROBLEMS = ("matmul:24x16x32", "matmul:16x24x32")


@pytest.fixture(autouse=True)
def own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def policy() -> str:
    sizes = len(ROW_COLUMNS), len(GLOBAL_COLUMNS), len(Preset.LOOPTUNE.actions)
    write_policy(Path("policy.npz"), random_weights(*sizes), Preset.LOOPTUNE)
    return "policy.npz"


def loops(*words: str) -> Result:
    return CliRunner().invoke(app, ["loops", *words])


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def pressed_after_the_first_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def line(run: object) -> str:
        press()
        return "one search is over"

    monkeypatch.setattr(reports, "run_line", line)


@pytest.mark.usefixtures("pressed_after_the_first_search")
def test_a_search_that_ends_between_two_problems_says_so() -> None:
    words = ("--method", "recipe", "--rates", "model", "--csv", "steps.csv")
    done = loops("search", *PROBLEMS, *words)
    assert done.exit_code == INTERRUPTED, done.output
    with Path("steps.csv").open() as file:
        assert {row["problem"] for row in csv.DictReader(file)} == {f"{PROBLEMS[0]}:f32"}


@pytest.mark.usefixtures("pressed_after_the_first_search")
def test_an_evaluation_that_ends_between_two_searches_says_so(policy: str) -> None:
    done = loops("evaluate", *PROBLEMS, "--policy", policy, "--rates", "model", "--budget", "3")
    assert done.exit_code == INTERRUPTED, done.output
    assert Path("evaluation/steps.csv").is_file()


def test_a_table_has_what_was_measured_before_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(rates: LiveRates, problem: Problem, some: Sequence[Schedule]) -> list[float]:
        press()
        return [1e-6] * len(some)

    monkeypatch.setattr(LiveRates, "seconds", seconds)
    done = loops("measure", *PROBLEMS, "--schedules", "100", "-o", "t.jsonl")
    assert done.exit_code == INTERRUPTED, done.output
    table = read_table(Path("t.jsonl"))
    assert list(table.times_ns) == [f"{PROBLEMS[0]}:f32"]
    assert 0 < table.entries < 100


def test_a_comparison_shows_what_was_timed_before_ctrl_c(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compared(problem: Problem, *_: Any) -> LibraryComparison:
        press()
        return LibraryComparison(problem.key, {"policy": 2.0, "numpy": 3.0}, {}, "m n k", ())

    monkeypatch.setattr(compare, "_compared", compared)
    done = loops("compare", *PROBLEMS, "--policy", policy, "--csv", "out.csv")
    assert done.exit_code == INTERRUPTED, done.output
    assert "policy over numpy: 1.500" in done.stdout
    assert len(Path("out.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "words",
    [
        ("search", "--rates", "model", "--csv", "no/where.csv"),
        ("search", "--rates", "model", "--debug", "no/where.svg"),
        ("search", "--rates", "model", "--report", "taken"),
        ("evaluate", "--policy", "policy.npz", "--rates", "model", "-o", "taken"),
        ("compare", "--policy", "policy.npz", "--csv", "no/where.csv"),
        ("compare", "--policy", "policy.npz", "--csv", "."),
        ("measure", "-o", "no/where.jsonl"),
    ],
)
@pytest.mark.usefixtures("policy")
def test_where_results_cannot_be_written_nothing_is_begun(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("taken").touch()

    def never(*_: Any) -> Any:
        raise AssertionError("it has begun")

    monkeypatch.setattr(LiveRates, "seconds", never)
    monkeypatch.setattr(compare, "_compared", never)
    monkeypatch.setattr("skipjack.learn.tree.run_search", never)
    command, *rest = words
    done = loops(command, PROBLEMS[0], *rest)
    assert isinstance(done.exception, StorageError), done.output

"""A build that failed on one machine is not tried on another whose ledger was merged."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from skipjack import plugins
from skipjack.core import Budget, Status, Trial
from skipjack.ledger import BuildRecord, Ledger
from skipjack.settings import load_settings
from skipjack.solvers import find_solver
from skipjack.tuning import Builder, BuildOptions, BuiltConfig, TuneOptions, Tuner

PICKY = Path(__file__).parents[1] / "picky_solver.py"
COUNT, VERSION = "PICKY_SOLVER_COUNT", "PICKY_SOLVER_VERSION"
COMPILER, FAULT = "PICKY_SOLVER_COMPILER", "PICKY_SOLVER_FAULT"
SIZE = 777
PROBLEM = f"add:{SIZE}"
CONFIGS = 8
ODD = {"1", "3"}
Switch = Callable[[str], Path]


@pytest.fixture(autouse=True)
def plugin(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.load((str(PICKY),))
    monkeypatch.setenv(plugins.VARIABLE, str(PICKY))


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Switch:
    """Work on a machine from now on: its user directory, and what it compiles."""

    def switch(name: str) -> Path:
        monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / name))
        monkeypatch.setenv("SKIPJACK_MACHINE", name)
        monkeypatch.setenv(COUNT, str(tmp_path / f"compiled_{name}"))
        return tmp_path / name

    return switch


@pytest.fixture
def failed(on: Switch) -> Path:
    """The ledger of a machine on which all odd configs failed."""
    on("first")
    assert {one.config["at"] for one in build() if not one.ok} == {1, 3}
    assert compiled() > ODD
    return on("first") / "ledger.sqlite"


def compiled() -> set[str]:
    """The configs that were compiled on the present machine."""
    return set(_compilations())


def _compilations() -> Counter[str]:
    directory = Path(load_settings().user_dir)
    path = directory.with_name(f"compiled_{directory.name}")
    return Counter(path.read_text().split() if path.exists() else ())


def build(problem: str = PROBLEM) -> tuple[BuiltConfig, ...]:
    """Build all configs here."""
    with Builder() as builder:
        return builder.build(problem, BuildOptions(configs=CONFIGS, solver="picky")).builds


def tune(*, retune: bool = False) -> list[Trial]:
    """Tune all configs here."""
    budget = Budget(trials=CONFIGS)
    wanted = TuneOptions(budget=budget, solver="picky", searcher="random", retune=retune)
    with Tuner(load_settings()) as tuner:
        tuner.tune(PROBLEM, wanted)
    with Ledger.open(load_settings().user_dir) as ledger:
        (study,) = ledger.studies(f"{PROBLEM}:f32")
        return ledger.trials(study.id)


def merged(directory: Path, *others: Path) -> None:
    with Ledger.open(directory) as ledger:
        for other in others:
            assert ledger.merge(other).left_out == ()


def test_known_failures_are_not_compiled_on_another_machine(failed: Path, on: Switch) -> None:
    second = on("second")
    merged(second, failed)
    odd = [trial for trial in tune() if trial.config["at"] in (1, 3)]
    assert compiled() and not ODD & compiled(), "machine code is not in a ledger"
    assert {trial.status for trial in odd} == {Status.BUILD_ERROR} and len(odd) == 4
    for trial in odd:
        assert f"refuses {trial.config['at']}" in trial.reason
        assert "it failed on first, 20" in trial.reason and "not built again" in trial.reason
    with closing(sqlite3.connect(second / "ledger.sqlite")) as rows:
        machines = "SELECT DISTINCT machine FROM builds WHERE status = 'build_error'"
        assert rows.execute(machines).fetchall() == [("first",)], "old builds are no new records"


@pytest.mark.long
def test_starting_over_does_not_build_them_unless_it_is_requested(
    failed: Path, on: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _compilations()
    tune(retune=True)
    assert not ODD & set(_compilations() - before)
    monkeypatch.setenv("SKIPJACK_RETRY_FAILED_BUILDS", "on")
    tune(retune=True)
    assert set(_compilations() - before) >= ODD


def test_a_source_that_failed_for_another_problem_is_not_compiled(failed: Path, on: Switch) -> None:
    merged(on("second"), failed)
    builds = build(f"add:{SIZE + 1}")
    assert compiled() and not ODD & compiled()
    assert sum("it failed on first" in one.reason and one.cached for one in builds) == 4


@pytest.mark.parametrize("newer", [VERSION, COMPILER])
def test_a_newer_solver_or_compiler_tries_again(
    failed: Path, on: Switch, newer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(newer, "2" if newer == VERSION else "compiler of tomorrow")
    if newer == VERSION:
        monkeypatch.setattr(type(find_solver("picky")), "version", 2)
    merged(on("second"), failed)
    build()
    assert compiled() > ODD


@pytest.mark.parametrize("fault", ["memory", "disk"])
def test_what_a_machine_lacked_is_tried_again_elsewhere(
    on: Switch, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAULT, fault)
    first = on("first")
    expected = Status.OUT_OF_MEMORY if fault == "memory" else Status.ERROR
    assert {one.status for one in build() if not one.ok} == {expected}
    monkeypatch.delenv(FAULT)
    merged(on("second"), first / "ledger.sqlite")
    assert {one.status for one in build() if not one.ok} == {Status.BUILD_ERROR}
    assert compiled() > ODD
    # It is known from now on, although the first machine failed for another reason.
    merged(on("third"), on("second") / "ledger.sqlite", first / "ledger.sqlite")
    on("third")
    build()
    assert compiled() and not ODD & compiled()


@pytest.mark.long
def test_a_ranking_does_not_compile_them_either(failed: Path, on: Switch) -> None:
    second = on("second")
    second.mkdir()
    shutil.copy(failed, second)  # as good as a merge
    with Tuner(load_settings()) as tuner:
        options = TuneOptions(budget=Budget(trials=CONFIGS), searcher="random")
        ranked = tuner.find(PROBLEM, options, only=["picky"])
    assert not ODD & compiled()
    assert ranked.ranked[0].solver == "picky"


def test_a_source_that_any_machine_built_is_not_known_to_fail() -> None:
    failed = BuildRecord("source", "cpu", Status.BUILD_ERROR, reason="no", machine="first")
    with Ledger.in_memory() as ledger:
        ledger.add_build(failed)
        found = ledger.find_failed_source("source", "cpu", "nest", 1)
        assert found is not None and (found.machine, found.lasting) == ("first", True)
        assert ledger.find_failed_source("source", "other", "nest", 1) is None
        ledger.add_build(BuildRecord("source", "cpu", Status.OK, "code", machine="second"))
        assert ledger.find_failed_source("source", "cpu", "nest", 1) is None


@pytest.mark.parametrize(
    ("status", "reason", "lasting"),
    [
        (Status.BUILD_ERROR, "ValueError: no", True),
        (Status.INFEASIBLE, "spills 900 bytes per thread", True),
        (Status.BUILD_ERROR, "out of memory", False),  # as earlier versions wrote it
        (Status.BUILD_ERROR, "ptxas: No space left on device", False),
        (Status.BUILD_TIMEOUT, "longer than 30 s", False),
        (Status.BUILD_CRASH, "the compiler ended by SIGSEGV", False),
    ],
)
def test_only_what_source_and_compiler_decide_is_shared(
    status: Status, reason: str, lasting: bool
) -> None:
    assert BuildRecord("source", "cpu", status, reason=reason).lasting is lasting
    with Ledger.in_memory() as ledger:
        ledger.add_build(BuildRecord("source", "cpu", status, reason=reason))
        found = ledger.find_failed_source("source", "cpu", "nest", 1)
        assert (found is not None) is lasting

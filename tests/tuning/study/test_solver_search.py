"""Several solvers compete for one problem: which is asked next, and what is kept of each."""

from pathlib import Path

import pytest

from skipjack.core import Budget, Config, Status, Study, Trial
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.solvers import solvers_for
from skipjack.solvers.cpu.nest_code.solver import NestSolver
from skipjack.tuning import Tuner
from skipjack.tuning.study import LIMITS, SolverSearch, TuneOptions
from skipjack.tuning.study.solver_search import in_turn

PROBLEM = parse("matmul:96x96x96")
TRANSPOSED = parse("matmul:96x96x96/tb=1")


def search(leads: bool = False, asked: int = 0, best: float = float("inf")) -> SolverSearch:
    solver = NestSolver()
    study = Study(PROBLEM, solver.name, "device", "random", 0)
    made = SolverSearch(PROBLEM, solver, solver.space(PROBLEM, cpu.detect()), study, leads)
    made.asked = asked
    if best < float("inf"):
        made.note([Trial(Config(), Status.OK, best)])
    return made


def test_the_leading_solver_begins() -> None:
    first, second = search(leads=True), search()
    assert [who for who, _ in in_turn([first, second], LIMITS)] == [first, second]


def test_a_solver_of_which_nothing_is_known_gets_a_few_trials() -> None:
    first, second = search(leads=True, asked=9, best=100.0), search(asked=3)
    (who, room), _ = in_turn([first, second], LIMITS)
    assert who is second
    assert room == 1


def test_solvers_that_are_equal_share_the_trials() -> None:
    first, second = search(leads=True, asked=20, best=100.0), search(asked=19, best=100.0)
    assert in_turn([first, second], LIMITS)[0][0] is second


def test_a_solver_that_is_far_behind_gets_hardly_any() -> None:
    first, second = search(leads=True, asked=500, best=100.0), search(asked=4, best=200.0)
    assert in_turn([first, second], LIMITS)[0][0] is first


def test_a_solver_that_only_fails_gets_hardly_any() -> None:
    broken = search(asked=4)
    broken.trials = [Trial(Config(), Status.CRASH, reason="it crashed")]
    first = search(leads=True, asked=50, best=100.0)
    assert in_turn([first, broken], LIMITS)[0][0] is first


@pytest.mark.parametrize(("best", "worse"), [(-3.0, -1.0), (0.0, 2.0), (-1.0, 4.0)])
def test_objectives_may_have_any_sign(best: float, worse: float) -> None:
    first, second = search(leads=True, asked=20, best=worse), search(asked=20, best=best)
    assert in_turn([first, second], LIMITS)[0][0] is second


@pytest.fixture(scope="module")
def raced(tuner: Tuner) -> dict[str, int]:
    result = tuner.tune(TRANSPOSED, TuneOptions(budget=Budget(trials=24)))
    assert len(result.trials) == 24
    assert result.solver in ("nest", "packed")
    return {score.solver: score.trials for score in result.solvers}


def test_all_solvers_of_a_problem_are_tried_within_one_budget(raced: dict[str, int]) -> None:
    assert set(raced) == {solver.name for solver in solvers_for(TRANSPOSED, cpu.detect())}
    assert min(raced.values()) > 0
    assert sum(raced.values()) == 24


def test_every_solver_has_a_study_of_its_own(raced: dict[str, int], home: Path) -> None:
    with Ledger.open(home) as ledger:
        studies = [s for s in ledger.studies() if s.problem == TRANSPOSED.key]
        kept = {study.solver: len(ledger.trials(study.id)) for study in studies}
    assert kept == raced


def test_a_named_solver_races_alone(tuner: Tuner) -> None:
    options = TuneOptions(budget=Budget(trials=3), solver="packed")
    result = tuner.tune(TRANSPOSED, options)
    assert [score.solver for score in result.solvers] == ["packed"]

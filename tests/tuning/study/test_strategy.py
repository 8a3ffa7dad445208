"""Which solver a find asks next: each once, then opening trials, then those close to the best."""

from types import SimpleNamespace
from typing import Any, cast

from skipjack.core import Budget, Config, Status, Study, Trial
from skipjack.interrupt import Interrupt
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.solvers.cpu.nest_code.solver import NestSolver
from skipjack.tuning.study import FindStrategy, Limits, SolverSearch, TimeLimit

PROBLEM = parse("matmul:96x96x96")
RULES = FindStrategy(())
QUICK, SLOW = 1e5, 5e8


def search(asked: int = 0, *values: float | None, done: bool = False) -> SolverSearch:
    """One that asked so often and was told these values; None is a failure."""
    solver = NestSolver()
    study = Study(PROBLEM, solver.name, "device", "random", 0)
    made = SolverSearch(PROBLEM, solver, solver.space(PROBLEM, cpu.detect()), study, False)
    made._searcher = cast(Any, SimpleNamespace(done=done))
    made.asked = asked
    for number, value in enumerate(values):
        status = Status.OK if value is not None else Status.CRASH
        made.trials.append(Trial(Config(n=number), status, value))
        made.note(made.trials[-1:])
    return made


def turns(searches: list[SolverSearch], pace_ns: float = QUICK) -> list[tuple[int, int]]:
    """Numbers of the searches in turn, with the most that each may ask."""
    return [
        (searches.index(who), room) for who, room in RULES.turns(searches, pace_ns, unseen=False)
    ]


def test_everybody_is_asked_once_first_in_order_of_promise() -> None:
    assert turns([search(), search(), search()]) == [(0, 1), (1, 1), (2, 1)]
    assert turns([search(1), search(), search()]) == [(1, 1), (2, 1)]


def test_then_everybody_gets_its_opening() -> None:
    (who, room), *_ = turns([search(4, 100.0), search(1, 900.0)])
    assert (who, room) == (1, 3)


def test_of_slow_problems_one_trial_says_that_a_solver_is_hopeless() -> None:
    asked = turns([search(4, 100.0), search(1, 900.0)], SLOW)
    assert [who for who, _ in asked] == [0]


def test_of_slow_problems_nobody_is_tried_twice_before_everybody_was_once() -> None:
    assert turns([search(1, 100.0), search(1)], SLOW) == []
    assert turns([search(1, 100.0), search()], SLOW) == [(1, 1)]
    assert turns([search(1, 100.0), search(1, None)], SLOW)[0][0] == 0


def test_after_its_opening_a_hopeless_solver_gets_no_more() -> None:
    assert 1 not in [who for who, _ in turns([search(9, 100.0), search(4, 301.0)])]
    assert 1 in [who for who, _ in turns([search(9, 100.0), search(4, 299.0)])]
    assert 1 not in [who for who, _ in turns([search(9, 100.0), search(4, None)])]


def test_where_everything_fails_the_search_goes_on() -> None:
    assert len(turns([search(4, None), search(4, None)])) == 2


def test_nobody_to_ask_is_no_turn() -> None:
    assert turns([]) == []


def test_a_budget_of_trials_has_one_for_everybody() -> None:
    searches = [search(), search(), search()]
    assert RULES.most_trials(Budget(trials=2), searches) == 3
    assert RULES.most_trials(Budget(trials=8), searches) == 8
    assert RULES.most_trials(Budget(seconds=8), searches) is None


def round_turns(searches: list[SolverSearch]) -> list[tuple[int, int]]:
    best = min(one.best for one in searches)
    return [(searches.index(s), room) for s, room in RULES.turns(searches, best, unseen=True)]


def told(asked: int, value: float | None) -> SolverSearch:
    """One that was told this in an earlier round."""
    made = search(asked, value)
    made.known, made.trials = tuple(made.trials), []
    return made


def test_a_first_round_asks_everybody_for_openings_and_keeps_the_rest_of_the_budget() -> None:
    assert round_turns([search(), search()]) == [(0, 1), (1, 1)]
    assert round_turns([search(1), search(3)]) == [(0, 3), (1, 1)]
    assert round_turns([search(4), search(4)]) == []
    assert RULES.most_trials(Budget(trials=2), [search(3), search(), search()]) == 5


def test_later_rounds_go_to_those_that_are_close_to_the_best() -> None:
    assert [who for who, _ in round_turns([told(4, 100.0), told(4, 301.0)])] == [0]
    assert [who for who, _ in round_turns([told(4, 100.0), told(2, 900.0)])] == [1, 0]
    assert [who for who, _ in round_turns([told(4, 1e9), told(2, 9e9)])] == [0], "slow calls"
    assert round_turns([told(4, None), told(4, None)]), "where everything fails it goes on"


def test_it_is_enough_when_everybody_was_tried_or_is_exhausted() -> None:
    limit = TimeLimit(Budget(), Interrupt())
    assert not RULES.enough([search(2, 1.0, 2.0), search(1)], limit)
    assert RULES.enough([search(2, 1.0, 2.0), search(1, None)], limit)
    assert RULES.enough([search(2, 1.0, 2.0), search(0, done=True)], limit)
    assert not RULES.enough([search(1, 1.0)], limit), "every sitting brings some news"


def test_nobody_is_waited_for_for_ever() -> None:
    limit = TimeLimit(Budget(seconds=1e-9), Interrupt())
    assert not RULES.enough([search(), search()], limit)
    hasty = TimeLimit(Budget(seconds=1e-9), Interrupt(), limits=Limits(overdue_s=1e-12))
    assert RULES.enough([search(), search()], hasty)


def test_of_earlier_sittings_the_best_of_every_solver_runs_again() -> None:
    first, second = search(), search()
    second.solver = cast(Any, SimpleNamespace(name="other"))
    trials = [Trial(Config(n=n), Status.OK, value) for n, value in enumerate([3.0, 1.0, 2.0])]
    known = [(first, trials[0]), (first, trials[1]), (second, trials[2])]
    again = RULES.again([*known, (second, Trial(Config(n=9), Status.WRONG))])
    assert {(c.solver, c.config["n"]) for c in again} == {("nest", 1), ("other", 2)}

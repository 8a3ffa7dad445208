"""The winner to ship, and the configs to try again."""

from typing import Any

from skipjack.fleet.model import JobKind, PriorResult, winner_of, worth_trying


def tuned(solver: str, time_ns: float, **more: Any) -> dict[str, Any]:
    result = {"solver": solver, "config": {"x": int(time_ns)}, "time_ns": time_ns, "code": {"a": 1}}
    return {**result, "solver_version": 1, **more}


RANKING = {
    "solver": "blas",
    "verdict": {"solver": "nest", "config": {"x": 3}, "time_ns": 3.0, "solver_version": 2},
    "solvers": [
        {"solver": "blas", "status": "ok", "config": {}},
        {"solver": "nest", "status": "ok", "config": {"x": 3}, "solver_version": 2},
        {"solver": "rows", "status": "crash", "config": {}},
    ],
}


def test_a_ranking_speaks_before_a_tuning_and_a_library_is_not_shipped() -> None:
    assert winner_of([(JobKind.TUNE, tuned("rows", 1.0)), (JobKind.FIND, RANKING)]) == PriorResult(
        "nest", {"x": 3}, 2
    )


def test_without_a_ranking_the_fastest_tuning_wins() -> None:
    results = [
        (JobKind.TUNE, tuned("a", 5.0)),
        (JobKind.TUNE, tuned("b", 4.0)),
        (JobKind.KERNELS, tuned("c", 1.0)),
    ]
    assert winner_of(results) == PriorResult("b", {"x": 4.0}, 1)


def test_times_of_two_sessions_compare_by_the_library_that_ran_beside_both() -> None:
    calm = tuned("a", 5.0, vendor="blas", vendor_ns=10.0)
    disturbed = tuned("b", 6.0, vendor="blas", vendor_ns=18.0)
    winner = winner_of([(JobKind.TUNE, calm), (JobKind.TUNE, disturbed)])
    assert winner is not None and winner.solver == "b"


def test_where_nothing_ran_there_is_no_winner() -> None:
    failed = {"solver": "nest", "config": {}, "time_ns": None, "code": None}
    assert (
        winner_of([(JobKind.TUNE, failed), (JobKind.FIND, {"status": "failed", "verdict": None})])
        is None
    )
    assert winner_of([]) is None


def test_each_solver_gets_two_looks_at_most_and_the_first_results_count() -> None:
    results = [
        (JobKind.FIND, RANKING),
        *((JobKind.TUNE, tuned("nest", float(n))) for n in (3, 4, 5)),
    ]
    assert [known.config for known in worth_trying(results)] == [{"x": 3}, {"x": 4.0}]

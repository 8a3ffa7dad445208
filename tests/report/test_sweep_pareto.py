"""The Pareto front has exactly the points that no other point dominates."""

from hypothesis import given, settings
from hypothesis import strategies as st
from sweeps import LATENCY, RATE, sweep, trial

from skipjack.core import Direction, Objective
from skipjack.sweep.results import non_dominated, pareto_front

VALUES = st.none() | st.integers(0, 4).map(float) | st.just(float("nan"))
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=12)
PAIRS = st.lists(st.tuples(VALUES, VALUES), max_size=12)
DIRECTIONS: list[Direction] = ["max", "min", "max"]


def beats(one: tuple[float | None, ...], other: tuple[float | None, ...]) -> bool:
    """As the definition has it."""
    directions = DIRECTIONS[: len(one)]
    pairs = [(a or 0.0, b or 0.0, d) for a, b, d in zip(one, other, directions, strict=True)]
    as_good = all(a >= b if d == "max" else a <= b for a, b, d in pairs)
    return as_good and any(a != b for a, b, _ in pairs)


@settings(max_examples=200, deadline=None)
@given(ROWS | PAIRS)
def test_the_front_is_what_the_definition_says(rows: list[tuple[float | None, ...]]) -> None:
    whole = [i for i, row in enumerate(rows) if all(v is not None and v == v for v in row)]
    expected = [i for i in whole if not any(beats(rows[j], rows[i]) for j in whole)]
    directions = DIRECTIONS[: len(rows[0]) if rows else 3]
    assert non_dominated(rows, directions) == expected


@settings(max_examples=50, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_the_points_does_not_matter(rows: list[tuple[float]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one = [repr(rows[i]) for i in non_dominated(rows, DIRECTIONS)]
    other = [repr(shuffled[i]) for i in non_dominated(shuffled, DIRECTIONS)]
    assert sorted(one) == sorted(other)


def test_equal_points_stay_together() -> None:
    assert non_dominated([(1.0, 1.0), (1.0, 1.0), (2.0, 2.0)], ["min", "min"]) == [0, 1]


def both(number: int, rate: float, latency: float, **more: object) -> object:
    metrics = {"samples_per_second": rate, "latency_ms": latency}
    return trial(number, {"n": more.pop("n", number)}, rate, metrics=metrics, **more)


def fronts(*trials: object, latency: Objective = LATENCY) -> list[tuple[object, ...]]:
    result = sweep(list(trials), objectives=(RATE, latency))  # type: ignore[arg-type]
    return [summary.values for summary in pareto_front(result)]


def test_the_front_of_a_sweep_is_of_means_over_the_runs_of_a_point() -> None:
    assert fronts(
        both(1, 10.0, 5.0), both(2, 20.0, 9.0, n=2), both(3, 22.0, 7.0, n=2), both(4, 9.0, 6.0)
    ) == [(21.0, 8.0), (10.0, 5.0)]


def test_short_runs_do_not_enter_a_front_of_full_ones() -> None:
    assert fronts(both(1, 10.0, 5.0), both(2, 99.0, 1.0, purpose="screen")) == [(10.0, 5.0)]


def test_a_point_that_breaks_a_constraint_is_not_on_the_front() -> None:
    bound = Objective("latency_ms", "min", ("latency_ms <= 8",))
    assert fronts(both(1, 10.0, 5.0), both(2, 20.0, 9.0), latency=bound) == [(10.0, 5.0)]


def test_there_is_no_front_of_a_single_objective() -> None:
    assert pareto_front(sweep([trial(1, {"a": 1}, 2.0)])) == []

"""Times of configs: in the order given, each code timed once, failures as infinite times."""

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from skipjack.core import Config, Parameter, ParameterSpace, Problem, Status
from skipjack.errors import StorageError, UsageError
from skipjack.execute import Failure
from skipjack.operations import parse
from skipjack.settings import Settings
from skipjack.solvers import only_solvers
from skipjack.testing.fake_tuning import FakeContext, FakeSolver, tiles
from skipjack.testing.sessions import FakeKernel
from skipjack.tuning import ConfigTimer
from skipjack.tuning.study import Limits

CONFIGS = [{"tile": tile} for tile in (3, 1, 2)]


def costs(solver: str, config: Config) -> float:
    return 1000.0 * int(config["tile"])


def test_times_come_in_the_order_of_the_configs() -> None:
    with only_solvers(FakeSolver("ours")), ConfigTimer(context=FakeContext(costs)) as timer:
        assert timer.evaluate("add:64", CONFIGS) == pytest.approx([3000, 1000, 2000], rel=0.01)
        assert timer.evaluate(parse("add:64"), []) == []


def test_what_is_known_is_neither_built_checked_nor_timed_again() -> None:
    context = FakeContext(costs)
    with only_solvers(FakeSolver("ours")), ConfigTimer(context=context) as timer:
        first = timer.evaluate("add:64", CONFIGS)
        done = len(context.pool.built), context.session.checks, context.session.rounds
        assert done[:2] == (3, 3)
        assert timer.evaluate("add:64", [*CONFIGS, *CONFIGS]) == [*first, *first]
        assert (len(context.pool.built), context.session.checks, context.session.rounds) == done


def test_with_builds_first_nothing_is_timed_before_all_are_built() -> None:
    context = FakeContext(costs)
    built_when_timed: list[int] = []
    check = context.session.verify

    def verify(kernel: int, *, unaligned: bool = False) -> tuple[Failure | None, float]:
        built_when_timed.append(len(context.pool.built))
        return check(kernel, unaligned=unaligned)

    context.session.verify = verify  # type: ignore[method-assign]
    tiles = [{"tile": tile} for tile in (1, 2, 3, 4)]
    with (
        only_solvers(FakeSolver("ours")),
        ConfigTimer(context=context, builds_first=True) as timer,
    ):
        times = timer.evaluate("add:64", tiles)
    assert times == pytest.approx([1000, 2000, 3000, 4000], rel=0.01)
    assert built_when_timed == [4] * 4


def test_configs_of_the_same_code_are_timed_once() -> None:
    space = ParameterSpace([Parameter("tile", (1, 2)), Parameter("chunk", (1, 2), stage="run")])
    context = FakeContext(costs)
    with only_solvers(FakeSolver("ours", space)), ConfigTimer(context=context) as timer:
        configs = [{"tile": 2, "chunk": chunk} for chunk in (1, 2)]
        first, second = timer.evaluate("add:64", configs)
    assert first == second
    assert (len(context.pool.built), context.session.checks) == (1, 1)


def test_a_config_that_fails_takes_for_ever_and_says_why() -> None:
    failing = {
        2: FakeKernel(1.0, build=Status.BUILD_ERROR),
        3: FakeKernel(1.0, check=Status.WRONG),
        4: FakeKernel(1.0, run=Status.CRASH),
    }

    def behaviour(solver: str, config: Config) -> FakeKernel | float:
        return failing.get(int(config["tile"]), 1000.0)

    configs = [{"tile": tile} for tile in (1, 2, 3, 4, 99)]
    with only_solvers(FakeSolver("ours")), ConfigTimer(context=FakeContext(behaviour)) as timer:
        assert timer.evaluate("add:64", configs)[1:] == [inf] * 4
        trials = timer.trials("add:64", configs)
    statuses = [trial.status for trial in trials]
    assert statuses == ["ok", "build_error", "wrong", "crash", "infeasible"]
    assert "not in the space of ours" in trials[-1].reason


def test_it_turns_from_problem_to_problem_and_writes_nothing_down() -> None:
    context = FakeContext(costs)
    with only_solvers(FakeSolver("ours", tiles(4))), ConfigTimer(context=context) as timer:
        once = timer.evaluate("add:64", CONFIGS)
        timer.evaluate("add:128", CONFIGS)
        assert timer.evaluate("add:64", [*CONFIGS, {"tile": 4}])[:3] == once
    assert context.ledger.summary().tells == 0 and context.bank.entries == {}
    assert context.ledger.measurements("add:64:f32") == []


def test_times_of_later_batches_compare_with_those_of_earlier_ones() -> None:
    context = FakeContext(costs)
    with only_solvers(FakeSolver("ours")), ConfigTimer(context=context) as timer:
        first = timer.evaluate("add:64", [{"tile": 2}])[0]
        context.session.costs_ns[1] *= 1.2  # the machine is slower now
        context.behave(lambda solver, config: 1.2 * costs(solver, config))
        later = timer.evaluate("add:64", [{"tile": 4}])[0]
    assert later / first == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("most", [1000, 1])
def test_they_do_so_too_after_another_problem_and_after_many_kernels(most: int) -> None:
    context = FakeContext(costs)
    with only_solvers(FakeSolver("ours")), ConfigTimer(context=context) as timer:
        timer._limits = replace(Limits(), most_kernels=most)
        timer.evaluate("add:64", [{"tile": 3}])
        first = timer.evaluate("add:64", [{"tile": 2}])[0]
        if most > 1:
            timer.evaluate("add:128", [{"tile": 1}])
        context.behave(lambda solver, config: 1.2 * costs(solver, config))
        later = timer.evaluate("add:64", [{"tile": 4}])[0]
    assert later / first == pytest.approx(2.0, rel=0.1)


def test_after_a_problem_that_cannot_be_prepared_the_one_before_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(problem: Problem) -> None:
        raise MemoryError

    context = FakeContext(costs)
    with only_solvers(FakeSolver("ours")), ConfigTimer(context=context) as timer:
        first = timer.evaluate("add:64", [{"tile": 1}])[0]
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(context.session, "prepare", fail)
            timer.evaluate("add:128", [{"tile": 1}])
        context.behave(lambda solver, config: 1.2 * costs(solver, config))
        later = timer.evaluate("add:64", [{"tile": 2}])[0]
    assert later / first == pytest.approx(2.0, rel=0.1)


def test_it_keeps_to_the_limits_of_the_settings() -> None:
    settings = Settings(Path("nowhere"), limits={"finalists": 9})
    timer = ConfigTimer(settings=settings)
    assert timer._limits.finalists == 9


def test_a_timer_that_was_closed_says_so_and_may_be_opened_again() -> None:
    context = FakeContext(costs)
    timer = ConfigTimer(context=context)
    with only_solvers(FakeSolver("ours")):
        with timer:
            first = timer.evaluate("add:64", [{"tile": 2}])
        with pytest.raises(UsageError, match="is not open"):
            timer.evaluate("add:64", [{"tile": 2}])
        context.behave(lambda solver, config: 1.2 * costs(solver, config))
        with timer:
            again, new = timer.evaluate("add:64", [{"tile": 2}, {"tile": 4}])
    assert [again] == first and new / again == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize(
    ("configs", "complaint"),
    [
        ({"tile": 1}, r"a single config; give a list of configs: \[\{'tile': 1\}\]"),
        ("tile=1", "configs is 'tile=1'; give a list of dicts"),
        (3, "configs is 3; give a list of dicts"),
        ([3], r"configs is \[3\]; give a list of dicts"),
    ],
)
def test_what_is_no_list_of_configs_is_refused_in_a_sentence(
    configs: object, complaint: str
) -> None:
    with (
        only_solvers(FakeSolver("ours")),
        ConfigTimer(context=FakeContext(costs)) as timer,
        pytest.raises(UsageError, match=complaint),
    ):
        timer.evaluate("add:64", configs)  # type: ignore[arg-type]


def test_a_config_outside_of_the_space_is_marked_and_not_built() -> None:
    context = FakeContext(costs)
    with only_solvers(FakeSolver("ours")), ConfigTimer(context=context) as timer:
        (outside,) = timer.trials("add:64", [{"tile": 99}])
        assert timer.evaluate("add:64", [{"tile": 99}]) == [inf]
    assert (outside.status, context.pool.built) == (Status.INFEASIBLE, [])


def test_a_timer_that_is_not_open_says_so() -> None:
    with pytest.raises(UsageError, match="inside `with ConfigTimer"):
        ConfigTimer().evaluate("add:64", CONFIGS)


def test_real_kernels_are_timed_on_a_warm_session(user_dir: Path) -> None:
    configs = [{"schedule": "i:128 i"}, {"schedule": "no schedule"}]
    with ConfigTimer(settings=Settings(user_dir)) as timer:
        fine, wrong = timer.evaluate("add:256", configs, solver="nest")
        own = timer._own
        assert own is not None and own.artifacts.new == {}  # type: ignore[attr-defined]
    with timer:
        (other,) = timer.evaluate("add:256", [{"schedule": "i:64 i"}], solver="nest")
    assert 1.0 < fine < 1e6 and 1.0 < other < 1e6
    assert wrong == inf
    with pytest.raises(StorageError, match="closed"):
        own.ledger.summary()


def test_libraries_are_timed_beside_the_configs() -> None:
    with ConfigTimer() as timer:
        timer.evaluate("matmul:16x16x16", [{"schedule": "m k n:16 n/v"}], solver="nest")
        found = timer.libraries("matmul:16x16x16", ["numpy", "onednn"])
    assert isinstance(found["numpy"], float)
    assert found["numpy"] > 0
    assert isinstance(found["onednn"], str), "it computes convolutions alone"

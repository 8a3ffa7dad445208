"""Every outcome of a tuning, a find and a fleet's rounds, on made-up solvers and a fake clock.

What is pinned here is who decides before whom: a library, what the bank holds, noise, the default.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest

from skipjack.bank import FIND
from skipjack.core import Budget, Config, Status
from skipjack.errors import WorkerError
from skipjack.interrupt import Interrupt
from skipjack.operations import parse
from skipjack.solvers import only_solvers
from skipjack.storage import MemoryArtifacts
from skipjack.testing.fake_tuning import FakeContext, FakeLibrary, FakeSolver, tiles
from skipjack.testing.sessions import Behaviour, FakeKernel
from skipjack.tuning import FindResult, FindStatus
from skipjack.tuning.find_run import run_find
from skipjack.tuning.study import (
    BuiltRound,
    MeasuredRound,
    MissingCodeError,
    RoundBuilder,
    RoundTimer,
    StudyRounds,
    TuneOptions,
    TuneOutcome,
    TuneProgress,
    TuneResult,
    TuneStrategy,
    conclude,
)
from skipjack.tuning.tuner import run_tune

PROBLEM = parse("add:64")
OPTIONS = TuneOptions(budget=Budget(trials=4), searcher="exhaustive")
AGAIN = TuneOptions(budget=Budget(trials=4), searcher="exhaustive", retune=True)
CRASHING, DISTURBED = FakeKernel(500.0, run=Status.CRASH), 1.0

Costs = Mapping[int | str, float | FakeKernel]
"""Of the tiles of the one solver, and of libraries by their names."""
Tuned = Callable[[FakeContext], TuneResult]


def costs(given: Costs) -> Behaviour:
    """Other tiles take 1000 ns, and other libraries ten times as long."""

    def behaviour(solver: str, config: Config) -> float | FakeKernel:
        if "tile" in config:
            return given.get(int(config["tile"]), 1000.0)
        return given.get(solver, 1e4)

    return behaviour


@pytest.fixture(autouse=True)
def solvers() -> Iterator[None]:
    """One solver of four configs, ``tile=1`` the default, and two libraries."""
    with only_solvers(FakeSolver("ours", tiles(4)), FakeLibrary("theirs"), FakeLibrary("others")):
        yield


def tuned(context: FakeContext) -> TuneResult:
    return run_tune(context, PROBLEM, OPTIONS)


def found(context: FakeContext) -> TuneResult:
    result = run_find(context, PROBLEM, OPTIONS)
    assert result.perf is not None
    return result.perf


def in_rounds(context: FakeContext) -> TuneResult:
    """Built two by two at one place, and timed at another."""
    for _ in range(4):
        build(context, 2)
        told = measure(context, Interrupt(), conclude)
        if told.result is not None:
            return told.result
    raise AssertionError("no verdict after 4 rounds")


def build(context: FakeContext, count: int) -> BuiltRound:
    run = StudyRounds(context, PROBLEM, OPTIONS, Interrupt(), TuneStrategy(), RoundBuilder)
    with closing(run):
        return run.build(count)


def measure(
    context: FakeContext, interrupt: Interrupt, finish: Callable[[StudyRounds], TuneResult]
) -> MeasuredRound[TuneResult]:
    """Nothing can be built there."""
    run = StudyRounds(context, PROBLEM, OPTIONS, interrupt, TuneStrategy(), RoundTimer)
    with closing(run):
        return run.measure(finish)


WAYS = pytest.mark.parametrize("way", [tuned, found, in_rounds])
FRESH: dict[str, tuple[Costs, TuneOutcome, int]] = {
    "faster than the default": ({3: 500.0}, TuneOutcome.BANKED, 3),
    "not by enough to matter": ({3: 994.0}, TuneOutcome.RESERVED, 1),
    "the default is the fastest": ({1: 500.0}, TuneOutcome.RESERVED, 1),
    "the default does not run": ({1: CRASHING, 3: 500.0}, TuneOutcome.BANKED, 3),
    "a library is faster": ({3: 500.0, "theirs": 300.0}, TuneOutcome.VENDOR, 3),
    "a library is faster than the default, which is the fastest config": (
        {1: 500.0, "theirs": 300.0},
        TuneOutcome.VENDOR,
        1,
    ),
    "a library is faster and the default does not run": (
        {1: CRASHING, 3: 500.0, "theirs": 300.0},
        TuneOutcome.VENDOR,
        3,
    ),
    "a library is faster, and only the default is disturbed": (
        {1: FakeKernel(1000.0, DISTURBED), 3: 500.0, "theirs": 300.0},
        TuneOutcome.VENDOR,
        3,
    ),
    "the default is disturbed": (
        {1: FakeKernel(1000.0, DISTURBED), 3: 500.0},
        TuneOutcome.NOISY,
        1,
    ),
    "a near library is disturbed, the default is the fastest config": (
        {1: 500.0, "theirs": FakeKernel(600.0, DISTURBED)},
        TuneOutcome.NOISY,
        1,
    ),
    "a near library is disturbed, the default does not run": (
        {1: CRASHING, 3: 500.0, "theirs": FakeKernel(600.0, DISTURBED)},
        TuneOutcome.NOISY,
        3,
    ),
    "a near library is disturbed, the default is beaten": (
        {3: 500.0, "theirs": FakeKernel(600.0, DISTURBED)},
        TuneOutcome.NOISY,
        1,
    ),
    "a library far behind is disturbed": (
        {3: 500.0, "theirs": FakeKernel(9000.0, DISTURBED)},
        TuneOutcome.BANKED,
        3,
    ),
}


@WAYS
@pytest.mark.parametrize("case", FRESH)
def test_with_an_empty_bank(way: Tuned, case: str) -> None:
    given, outcome, tile = FRESH[case]
    result = way(FakeContext(costs(given), noise=0.001))
    assert (result.status, result.best) == (outcome, Config(tile=tile)), result.reason


@WAYS
@pytest.mark.parametrize("stage", ["build", "check", "check_unaligned", "run"])
def test_where_nothing_runs_the_tuning_has_failed(way: Tuned, stage: str) -> None:
    failing = FakeKernel(500.0, **{stage: Status.CRASH})  # type: ignore[arg-type]
    result = way(FakeContext(costs(dict.fromkeys(range(1, 5), failing))))
    assert result.status is TuneOutcome.FAILED
    assert "no config ran" in result.reason


HELD: dict[str, tuple[Costs, Costs, TuneOutcome, int]] = {
    "nothing else is faster": ({3: 500.0}, {3: 500.0}, TuneOutcome.KEPT, 3),
    "another is faster, but not by enough": ({3: 500.0}, {3: 500.0, 4: 497.0}, TuneOutcome.KEPT, 3),
    "another is faster": ({3: 500.0}, {3: 500.0, 4: 300.0}, TuneOutcome.BANKED, 4),
    "it does not run any more": ({3: 500.0}, {3: CRASHING, 4: 500.0}, TuneOutcome.BANKED, 4),
    "it does not run any more, nor is anything faster than the default": (
        {3: 500.0},
        {3: CRASHING, 1: 500.0},
        TuneOutcome.RESERVED,
        1,
    ),
    "it wins though everything is disturbed": (
        {3: 500.0},
        {3: 500.0, 1: FakeKernel(1000.0, DISTURBED)},
        TuneOutcome.KEPT,
        3,
    ),
    "it is disturbed": (
        {3: 500.0},
        {3: FakeKernel(500.0, DISTURBED), 4: 300.0},
        TuneOutcome.NOISY,
        3,
    ),
    "a library is faster than it": ({3: 500.0}, {3: 500.0, "theirs": 300.0}, TuneOutcome.VENDOR, 3),
    "it is a library that is not beaten": (
        {3: 500.0, "theirs": 300.0},
        {3: 500.0, "theirs": 300.0},
        TuneOutcome.VENDOR,
        3,
    ),
    "it is a library that is as fast as what was built": (
        {3: 500.0, "theirs": 300.0},
        {3: 300.0, "theirs": 301.0},
        TuneOutcome.KEPT,
        3,
    ),
    "it is a library that another one outruns": (
        {3: 500.0, "theirs": 300.0},
        {3: 500.0, "theirs": 300.0, "others": 200.0},
        TuneOutcome.VENDOR,
        3,
    ),
    "it is a library hardly slower than another one that beats what was built": (
        {3: 500.0, "theirs": 290.0},
        {3: 300.0, "theirs": 297.5, "others": 295.5},
        TuneOutcome.KEPT,
        3,
    ),
    "it is a library that is beaten": (
        {3: 500.0, "theirs": 300.0},
        {3: 200.0, "theirs": 300.0},
        TuneOutcome.BANKED,
        3,
    ),
}


@pytest.mark.parametrize("case", HELD)
@pytest.mark.parametrize("run", [run_tune, lambda *a: run_find(*a).perf], ids=["tune", "find"])
def test_with_something_in_the_bank(run: Callable[..., TuneResult], case: str) -> None:
    before, now, outcome, tile = HELD[case]
    context = FakeContext(costs(before), noise=0.0005)
    run(context, PROBLEM, OPTIONS)
    held = context.bank.lookup(PROBLEM.key, context.device.class_key)
    context.behave(costs(now))
    result = run(context, PROBLEM, AGAIN)
    assert (result.status, result.best) == (outcome, Config(tile=tile)), result.reason
    stays = outcome in (TuneOutcome.KEPT, TuneOutcome.NOISY)
    entry = context.bank.lookup(PROBLEM.key, context.device.class_key)
    assert entry is not None and (entry == held) is (stays or "not beaten" in case)


def test_what_enters_the_bank_is_what_was_chosen() -> None:
    for given, outcome, tile in FRESH.values():
        context = FakeContext(costs(given), noise=0.001)
        tuned(context)
        entry = context.bank.lookup(PROBLEM.key, context.device.class_key)
        if outcome is TuneOutcome.NOISY:
            assert entry is None
            continue
        library = outcome is TuneOutcome.VENDOR
        assert entry is not None and entry.solver == ("theirs" if library else "ours")
        assert entry.config == ({} if library else {"tile": tile})
        (verdict,) = context.ledger.decisions(PROBLEM.key)
        assert verdict.solver == entry.solver


def test_what_beats_the_bank_but_not_the_default_lets_the_default_in() -> None:
    given = {"ours": 1000.0, "second": 1500.0}
    named = TuneOptions(budget=Budget(trials=4), searcher="exhaustive", solver="second")
    with only_solvers(FakeSolver("ours", tiles(1)), FakeSolver("second", tiles(2))):
        context = FakeContext(lambda solver, config: 900.0 - 400.0 * (config["tile"] == 2))
        run_tune(context, PROBLEM, named)
        held = context.bank.lookup(PROBLEM.key, context.device.class_key)
        assert held is not None and held.config == {"tile": 2}
        context.behave(
            lambda solver, config: 2000.0 if config["tile"] == 2 else given[solver],
        )
        result = run_tune(context, PROBLEM, named)
    assert result.status is TuneOutcome.RESERVED
    now = context.bank.lookup(PROBLEM.key, context.device.class_key)
    assert now is not None and (now.solver, now.config) == ("ours", {"tile": 1})


def test_an_entry_of_a_solver_that_is_not_loaded_stays() -> None:
    context = FakeContext(costs({3: 500.0}))
    with only_solvers(FakeSolver("absent", tiles(4))):
        run_tune(context, PROBLEM, OPTIONS)
    result = tuned(context)
    assert result.status is TuneOutcome.KEPT
    assert "absent, which is not loaded" in result.reason


def test_a_winner_that_fails_when_it_is_confirmed_is_no_result() -> None:
    context = FakeContext(costs({3: 500.0}))
    real = context.session.time

    def falling(kernels: list[int], blocks: int) -> object:
        confirming = blocks >= 5  # a final has fewer
        context.session.failing = frozenset(kernels[:1]) if confirming else frozenset()
        return real(kernels, blocks)

    context.session.time = falling  # type: ignore[method-assign, assignment]
    assert tuned(context).status is TuneOutcome.FAILED


# Interrupted


def stopping(interrupt: Interrupt) -> TuneOptions:
    """Ctrl-C after the first batch."""

    def observer(progress: TuneProgress) -> None:
        interrupt.requested = True

    return TuneOptions(budget=Budget(trials=4), searcher="exhaustive", observer=observer)


def test_an_interrupted_tuning_judges_what_is_known_and_says_so() -> None:
    interrupt = Interrupt()
    context = FakeContext(costs({2: 500.0}))
    result = run_tune(context, PROBLEM, stopping(interrupt), interrupt)
    assert result.interrupted and 0 < len(result.trials) < 4
    assert not tuned(context).interrupted


def test_an_interrupted_find_keeps_no_ranking() -> None:
    interrupt = Interrupt()
    context = FakeContext(costs({2: 500.0}))
    result = run_find(context, PROBLEM, stopping(interrupt), (), interrupt)
    assert result.interrupted and result.perf is not None and result.perf.interrupted
    assert ranking(context) == []
    assert not run_find(context, PROBLEM, OPTIONS).interrupted
    assert ranking(context) == ["ours", "others", "theirs"]


def test_interrupted_before_anything_ran_a_tuning_has_failed() -> None:
    interrupt = Interrupt()
    interrupt.requested = True
    result = run_tune(FakeContext(costs({})), PROBLEM, OPTIONS, interrupt)
    assert (result.status, result.interrupted) == (TuneOutcome.FAILED, True)


def test_an_interrupted_round_tells_what_it_timed_and_leaves_the_rest_asked_for() -> None:
    context, interrupt = FakeContext(costs({2: 500.0})), Interrupt()
    assert build(context, 4).asked == 4
    interrupt.requested = True
    told = measure(context, interrupt, lambda run: pytest.fail("not finished"))
    assert told.trials == () and told.result is None
    assert in_rounds(context).best == Config(tile=2)


# Rounds


def test_a_round_without_its_machine_code_is_to_be_built_again() -> None:
    context = FakeContext(costs({}))
    build(context, 2)
    context.artifacts = MemoryArtifacts()
    with pytest.raises(MissingCodeError, match="machine code of add:64"):
        measure(context, Interrupt(), lambda run: pytest.fail("not finished"))


def test_a_round_that_other_solvers_asked_for_is_refused() -> None:
    with pytest.raises(WorkerError, match="same version of Skipjack"):
        measure(FakeContext(costs({})), Interrupt(), lambda run: pytest.fail("not finished"))


def test_configs_that_fail_to_build_are_told_by_the_builder_and_not_measured() -> None:
    context = FakeContext(costs({2: FakeKernel(1.0, build=Status.BUILD_ERROR)}))
    built = build(context, 4)
    assert [candidate.config for candidate, _ in built.failed] == [Config(tile=2)]
    assert len(built.digests) == 3
    told = measure(context, Interrupt(), conclude)
    assert len(told.trials) == 3 and told.result is not None
    assert len(told.result.trials) == 4


# A find as a whole


def ranking(context: FakeContext) -> list[str]:
    entry = context.bank.lookup(PROBLEM.key, context.device.class_key, FIND)
    return [row["solver"] for row in entry.evidence["ranking"]] if entry else []


def names(result: FindResult) -> list[str]:
    return [solver.solver for solver in result.ranked]


def test_a_find_ranks_the_best_of_every_solver_and_the_libraries() -> None:
    with only_solvers(FakeSolver("first"), FakeSolver("second"), FakeLibrary("theirs")):
        base = {"first": 800.0, "second": 400.0, "theirs": 600.0}
        context = FakeContext(lambda solver, c: base[solver] / (1 + (c.get("tile") == 4)))
        result = run_find(context, PROBLEM, TuneOptions(budget=Budget(trials=16)))
    assert result.status is FindStatus.OK
    assert names(result) == ["second", "first", "theirs"]
    assert result["first"].config == Config(tile=4)
    assert ranking(context) == names(result)


def test_a_find_of_what_fails_everywhere_has_failed() -> None:
    failing = FakeKernel(500.0, check=Status.WRONG)
    given: Costs = {**dict.fromkeys(range(1, 5), failing), "theirs": failing, "others": failing}
    result = run_find(FakeContext(costs(given)), PROBLEM, OPTIONS)
    assert (result.status, result.reason) == (FindStatus.FAILED, "no solver ran")
    assert {solver.status for solver in result.solvers} == {"wrong"}


def test_a_find_that_no_solver_can_do_is_not_applicable() -> None:
    class Refusing(FakeLibrary):
        def refuses(self, *_: object) -> str:
            return "it cannot"

    with only_solvers(Refusing("theirs")):
        result = run_find(FakeContext(costs({})), PROBLEM, OPTIONS)
    assert result.status is FindStatus.NOT_APPLICABLE
    assert result["theirs"].reason == "it cannot"


def test_a_disturbed_find_keeps_no_ranking() -> None:
    context = FakeContext(costs({3: 500.0, "theirs": 600.0}), disturbance=1.0)
    result = run_find(context, PROBLEM, OPTIONS)
    assert result.status is FindStatus.OK and "noisy" in result.reason
    assert ranking(context) == []


# Budgets, by a clock that only calls and builds move


def test_seconds_end_a_search_and_leave_time_for_the_final() -> None:
    with only_solvers(FakeSolver("ours", tiles(400))):
        context = FakeContext(lambda solver, config: 1000.0, build_s=0.05)
        result = run_tune(context, PROBLEM, TuneOptions(budget=Budget(seconds=2.0)))
    assert 20 <= len(result.trials) <= 40
    assert 1.5 < result.seconds < 2.2


def test_the_winner_is_the_fastest_of_all_that_were_tried() -> None:
    with only_solvers(FakeSolver("ours", tiles(40))):
        context = FakeContext(lambda solver, config: 1000.0 + abs(int(config["tile"]) - 17) * 50)
        result = run_tune(context, PROBLEM, TuneOptions(budget=Budget(trials=40)))
    assert len(result.trials) == 40 and result.best == Config(tile=17)
    assert result.time_ns == pytest.approx(1000.0, rel=0.01)
    assert result.default_ns == pytest.approx(1800.0, rel=0.01)

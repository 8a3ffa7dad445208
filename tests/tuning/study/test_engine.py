"""The study engine with other evaluators: commands that run one by one, calls in this process."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from skipjack.core import Budget, Candidate, Config, Parameter, ParameterSpace, Status, Trial
from skipjack.errors import ForeignError
from skipjack.execute import Block, Failure
from skipjack.interrupt import Interrupt
from skipjack.operations import parse
from skipjack.testing.fake_tuning import FakeContext, FakeSolver
from skipjack.testing.sessions import FakeClock, NullSession
from skipjack.tuning.study import (
    CandidateTrial,
    Contenders,
    Decision,
    LedgerBuffer,
    LoadedCandidate,
    StudyEngine,
    TimeLimit,
    TuneOptions,
    TuneOutcome,
    TuneStrategy,
    tune_final,
)
from skipjack.tuning.study.solver_search import make_search

PROBLEM = parse("add:64")
SPACE = ParameterSpace([Parameter("batch", tuple(range(1, 13)), default=1)])
DEFAULT = Candidate(PROBLEM, "service", SPACE.default())


@dataclass
class Commands:
    """A benchmark that is run once for each candidate, one after the other."""

    seconds: Callable[[Config], float | None]
    """Of a run; None is an exit status other than 0."""
    clock: FakeClock
    ahead: int = 1
    confirm_pairs: int = 5
    runs: int = 0
    loaded: dict[str, LoadedCandidate] = field(default_factory=dict)
    _waiting: deque[Candidate] = field(default_factory=deque)

    @property
    def pending(self) -> int:
        return len(self._waiting)

    @property
    def pace_ns(self) -> float:
        return min(self.leader_times_ns(), default=float("inf"))

    def leader_times_ns(self) -> Sequence[float]:
        return [min(one.time_ns for one in self.loaded.values())] if self.loaded else []

    def submit(self, candidate: Candidate) -> None:
        self._waiting.append(candidate)

    def collect(self, wait_s: float) -> list[CandidateTrial]:
        candidate = self._waiting.popleft()
        took_s = self._run(candidate)
        if took_s is None:
            return [(candidate, Trial(candidate.config, Status.CRASH, reason="exit status 1"))]
        number = len(self.loaded) + 1
        self.loaded[candidate.key] = LoadedCandidate(candidate, number, time_ns=took_s * 1e9)
        return [(candidate, Trial(candidate.config, value=took_s))]

    def _run(self, candidate: Candidate) -> float | None:
        self.runs += 1
        took_s = self.seconds(candidate.config)
        self.clock.advance(took_s or 0.0)
        return took_s

    def withdraw(self) -> None:
        self._waiting.clear()

    def finalists(self, count: int, *, but: Candidate | None = None) -> list[LoadedCandidate]:
        ranked = sorted(self.loaded.values(), key=lambda one: one.time_ns)
        return [one for one in ranked if one.candidate != but][:1]  # runs are long

    def runs_unaligned(self, loaded: LoadedCandidate) -> bool:
        return True

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Runs in turns, which are the pairs of the same test that kernels go through."""
        numbered = {one.kernel: one.candidate for one in self.loaded.values()}
        return [
            Block(number, turn, 1, ((self._run(numbered[number]) or 0.0) * 1e9,), (), False)
            for turn in range(blocks)
            for number in kernels
        ], []


class InProcess:
    """Calls of a decorated function: a batch is timed side by side, in this process."""

    ahead = 4
    confirm_pairs = 10

    def __init__(self, cost_ns: Callable[[Config], float], clock: FakeClock) -> None:
        self._cost_ns = cost_ns
        self._session = NullSession({}, np.random.default_rng(0), noise=0.002, clock=clock)
        self._waiting: list[LoadedCandidate] = []
        self.loaded: dict[str, LoadedCandidate] = {}
        self.time = self._session.time

    @property
    def pending(self) -> int:
        return len(self._waiting)

    @property
    def pace_ns(self) -> float:
        return min(self.leader_times_ns(), default=float("inf"))

    def leader_times_ns(self) -> Sequence[float]:
        return [min(one.time_ns for one in self.loaded.values())] if self.loaded else []

    def submit(self, candidate: Candidate) -> None:
        number = len(self._session.costs_ns) + 1
        self._session.costs_ns[number] = self._cost_ns(candidate.config)
        self._waiting.append(LoadedCandidate(candidate, number))

    def collect(self, wait_s: float) -> list[CandidateTrial]:
        batch, self._waiting = self._waiting, []
        blocks, _ = self.time([one.kernel for one in batch], 1)
        for one, block in zip(batch, blocks, strict=True):
            one.time_ns = block.time_ns
            self.loaded[one.candidate.key] = one
        return [(one.candidate, Trial(one.candidate.config, value=one.time_ns)) for one in batch]

    def withdraw(self) -> None:
        self._waiting.clear()

    def finalists(self, count: int, *, but: Candidate | None = None) -> list[LoadedCandidate]:
        ranked = sorted(self.loaded.values(), key=lambda one: one.time_ns)
        return [one for one in ranked if one.candidate != but][:count]

    def runs_unaligned(self, loaded: LoadedCandidate) -> bool:
        return True


def engine(
    evaluator: Commands | InProcess,
    clock: FakeClock,
    budget: Budget,
    context: FakeContext | None = None,
    interrupt: Interrupt | None = None,
) -> StudyEngine:
    """As a sweep or a decorated kernel would make one; in one context it goes on with its study."""
    context = context or FakeContext(lambda solver, config: 0.0)
    options = TuneOptions(budget=budget, searcher="random")
    search = make_search(context, PROBLEM, FakeSolver("service", SPACE), options, leads=True)
    context.ledger.start_study(search.study, 1)
    search.start(context, options)
    limit = TimeLimit(budget, interrupt or Interrupt(), clock)
    buffer = LedgerBuffer(context.ledger, context.tracer)
    return StudyEngine([search], TuneStrategy(), evaluator, limit, buffer)


def decided(study: StudyEngine) -> tuple[Config, Decision]:
    """What to run from now on, by the final and the decision that kernels go through."""
    evaluator = study.evaluator
    assert isinstance(evaluator, Commands | InProcess)
    winner = tune_final(evaluator, study.limits).winner
    assert winner is not None
    decision = study.decide(Contenders(winner, evaluator.loaded[DEFAULT.key]))
    assert decision is not None
    return decision.chosen(decision.outcome()).candidate.config, decision


def service(config: Config) -> float:
    """Seconds of a run; batches of 7 are best."""
    return 1.0 + 0.1 * abs(int(config["batch"]) - 7)


def by_commands(budget: Budget, **more: object) -> tuple[StudyEngine, Commands]:
    clock = FakeClock()
    commands = Commands(service, clock)
    return engine(commands, clock, budget, **more), commands  # type: ignore[arg-type]


def test_commands_are_searched_and_the_best_is_confirmed_in_turns() -> None:
    study, commands = by_commands(Budget(trials=12))
    study.search()
    assert len(study.trials) == 12 == commands.runs
    best, decision = decided(study)
    assert best == Config(batch=7)
    assert decision.outcome() is TuneOutcome.BANKED
    assert decision.speedup(decision.winner).default.ratio == pytest.approx(1.6)
    assert commands.runs == 12 + 2 * 5


def test_calls_in_this_process_are_searched_batch_by_batch() -> None:
    clock = FakeClock()
    calls = InProcess(lambda config: 1e4 * service(config), clock)
    study = engine(calls, clock, Budget(trials=12))
    study.search()
    best, decision = decided(study)
    assert best == Config(batch=7)
    assert decision.speedup(decision.winner).default.low > 1.5


def test_what_is_not_confirmed_to_beat_the_default_is_not_chosen() -> None:
    clock = FakeClock()
    calls = InProcess(lambda config: 1000.0 - int(config["batch"]) / 4, clock)
    study = engine(calls, clock, Budget(trials=12))
    study.search()
    assert decided(study)[0] == DEFAULT.config


def test_a_run_that_fails_is_told_and_not_chosen() -> None:
    clock = FakeClock()
    commands = Commands(lambda c: None if c["batch"] == 7 else service(c), clock)
    study = engine(commands, clock, Budget(trials=12))
    study.search()
    assert [trial.status for trial in study.trials].count(Status.CRASH) == 1
    assert decided(study)[0] in (Config(batch=6), Config(batch=8))


def test_seconds_end_a_search_of_commands() -> None:
    study, commands = by_commands(Budget(seconds=8.0))
    study.search()
    assert 4 <= len(study.trials) < 12
    assert commands.clock.now_s < 9.0


def test_a_study_of_commands_is_resumed_without_running_anything_twice() -> None:
    context = FakeContext(lambda solver, config: 0.0)
    first, _ = by_commands(Budget(trials=5), context=context)
    first.search()
    second, _ = by_commands(Budget(trials=7), context=context)
    second.search()
    tried = [trial.config for trial in (*first.trials, *second.trials)]
    assert len(tried) == 12 == len(set(tried))


def test_times_of_an_earlier_run_do_not_decide() -> None:
    """The machine was ten times as fast then: what led is timed again before it may win."""
    context = FakeContext(lambda solver, config: 0.0)
    clock = FakeClock()
    engine(Commands(lambda c: 0.1 * service(c), clock), clock, Budget(trials=11), context).search()
    second, _ = by_commands(Budget(trials=4), context=context)
    second.search()
    again = [DEFAULT, *second.strategy.again([(s, t) for s in second.searches for t in s.known])]
    second.run(again)
    best, decision = decided(second)
    assert best == Config(batch=7)
    assert decision.timing(decision.winner).time_ns == pytest.approx(1e9)
    assert len(second.trials) == 1, "what no searcher asked for is told to none"


def test_an_interrupt_ends_the_search_after_the_run_under_way() -> None:
    interrupt = Interrupt()
    study, commands = by_commands(Budget(trials=12), interrupt=interrupt)
    study.report = lambda phase: setattr(interrupt, "requested", True)  # type: ignore[method-assign]
    study.search()
    assert len(study.trials) == 1 and commands.pending == 0


def test_what_a_searcher_raises_ends_a_tuning() -> None:
    class Broken:
        done = False

        def ask(self, count: int) -> list[Config]:
            raise RuntimeError("it fell over")

        def tell(self, trial: Trial) -> None:
            """Never called."""

    study, _ = by_commands(Budget(trials=12))
    study.searches[0]._searcher = Broken()
    with pytest.raises(ForeignError, match="fell over"):
        study.search()

"""The study engine over other evaluators: commands that run one by one, calls in this process."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import pytest

from skipjack.core.config import Config
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.study import Budget, Study
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.errors import ForeignError
from skipjack.execute.confirm import confirm
from skipjack.execute.statistics import Block, Ratio
from skipjack.interrupt import Interrupt
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.search import SearchContext, create
from skipjack.testing.fake_tuning import FakeSolver
from skipjack.testing.sessions import FakeClock, NullSession
from skipjack.trace import Tracer
from skipjack.tuning.engine import Evaluator, StudyEngine, Told
from skipjack.tuning.ledger_buffer import LedgerBuffer
from skipjack.tuning.limits import LIMITS
from skipjack.tuning.options import TimeLimit
from skipjack.tuning.solver_search import SolverSearch
from skipjack.tuning.strategy import TuneStrategy

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
    runs: int = 0
    _waiting: deque[Candidate] = field(default_factory=deque)
    _times: dict[str, list[float]] = field(default_factory=dict)

    @property
    def pending(self) -> int:
        return len(self._waiting)

    @property
    def pace_ns(self) -> float:
        return min(self.leader_times_ns(), default=float("inf"))

    def leader_times_ns(self) -> Sequence[float]:
        return [min(median(times) for times in self._times.values())] if self._times else []

    def submit(self, candidate: Candidate) -> None:
        self._waiting.append(candidate)

    def collect(self, wait_s: float) -> list[Told]:
        candidate = self._waiting.popleft()
        took_s = self._run(candidate)
        if took_s is None:
            return [(candidate, Trial(candidate.config, Status.CRASH, reason="exit status 1"))]
        return [(candidate, Trial(candidate.config, value=took_s))]

    def _run(self, candidate: Candidate) -> float | None:
        self.runs += 1
        took_s = self.seconds(candidate.config)
        self.clock.advance(took_s or 0.0)
        if took_s is not None:
            self._times.setdefault(candidate.key, []).append(took_s * 1e9)
        return took_s

    def withdraw(self) -> None:
        self._waiting.clear()

    def compare(
        self, challenger: Candidate, rival: Candidate, stop: Callable[[], bool]
    ) -> Ratio | None:
        """Runs in turns, which are the pairs of the same test that kernels go through."""
        both = {1: challenger, 2: rival}

        class Runs:
            def time(_, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[object]]:
                return [
                    Block(number, turn, 1, ((self._run(both[number]) or 0.0) * 1e9,), (), False)
                    for turn in range(blocks)
                    for number in kernels
                ], []

        return confirm(Runs(), 1, [2], 5, stop, self.clock).gains.get(2)  # type: ignore[arg-type]


class InProcess:
    """Calls of a decorated function: a batch is timed side by side, in this process."""

    ahead = 4

    def __init__(self, cost_ns: Callable[[Config], float], clock: FakeClock) -> None:
        self._cost_ns, self._candidates = cost_ns, dict[str, int]()
        self._session = NullSession({}, np.random.default_rng(0), noise=0.002, clock=clock)
        self._waiting: list[Candidate] = []
        self._best = float("inf")

    @property
    def pending(self) -> int:
        return len(self._waiting)

    @property
    def pace_ns(self) -> float:
        return self._best

    def leader_times_ns(self) -> Sequence[float]:
        return [self._best] if self._candidates else []

    def submit(self, candidate: Candidate) -> None:
        number = self._candidates.setdefault(candidate.key, len(self._candidates) + 1)
        self._session.costs_ns[number] = self._cost_ns(candidate.config)
        self._waiting.append(candidate)

    def collect(self, wait_s: float) -> list[Told]:
        batch, self._waiting = self._waiting, []
        blocks, _ = self._session.time([self._candidates[one.key] for one in batch], 1)
        times = [block.time_ns for block in blocks]
        self._best = min(self._best, *times)
        return [
            (one, Trial(one.config, value=time_ns))
            for one, time_ns in zip(batch, times, strict=True)
        ]

    def withdraw(self) -> None:
        self._waiting.clear()

    def compare(
        self, challenger: Candidate, rival: Candidate, stop: Callable[[], bool]
    ) -> Ratio | None:
        numbers = self._candidates[challenger.key], self._candidates[rival.key]
        made = confirm(self._session, numbers[0], [numbers[1]], 10, stop, self._session.clock)
        return made.gains.get(numbers[1])


def engine(
    evaluator: Evaluator,
    clock: FakeClock,
    budget: Budget,
    ledger: Ledger | None = None,
    searcher: str = "random",
    interrupt: Interrupt | None = None,
) -> StudyEngine:
    """As a sweep or a decorated kernel would make one; with a ledger it goes on with its study."""
    ledger, tracer = ledger or Ledger.in_memory(), Tracer(clock)
    study = Study(PROBLEM, "service", "device", searcher, 0)
    search = SolverSearch(PROBLEM, FakeSolver("service", SPACE), SPACE, study, leads=True)
    ledger.start_study(study, 1)
    search.known = tuple(ledger.trials(study.id))
    search.begin(create(searcher, SearchContext(SPACE, 0, budget.trials, known=search.known)))
    return StudyEngine(
        [search],
        TuneStrategy(),
        evaluator,
        TimeLimit(budget.seconds, interrupt or Interrupt(), clock),
        budget,
        LedgerBuffer(ledger, tracer),
        tracer,
        LIMITS,
    )


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
    best, gain = study.decide(DEFAULT)
    assert best.config == Config(batch=7)
    assert gain is not None and gain.ratio == pytest.approx(1.6)
    assert commands.runs == 12 + 2 * 5


def test_calls_in_this_process_are_searched_batch_by_batch() -> None:
    clock = FakeClock()
    calls = InProcess(lambda config: 1e4 * service(config), clock)
    study = engine(calls, clock, Budget(trials=12))
    study.search()
    best, gain = study.decide(DEFAULT)
    assert best.config == Config(batch=7)
    assert gain is not None and gain.low > 1.5


def test_what_is_not_confirmed_to_beat_the_default_is_not_chosen() -> None:
    clock = FakeClock()
    calls = InProcess(lambda config: 1000.0 - int(config["batch"]) / 4, clock)
    study = engine(calls, clock, Budget(trials=12))
    study.search()
    assert study.decide(DEFAULT)[0] == DEFAULT


def test_a_run_that_fails_is_told_and_not_chosen() -> None:
    clock = FakeClock()
    commands = Commands(lambda c: None if c["batch"] == 7 else service(c), clock)
    study = engine(commands, clock, Budget(trials=12))
    study.search()
    assert [trial.status for trial in study.trials].count(Status.CRASH) == 1
    assert study.decide(DEFAULT)[0].config in (Config(batch=6), Config(batch=8))


def test_seconds_end_a_search_of_commands() -> None:
    study, commands = by_commands(Budget(seconds=8.0))
    study.search()
    assert 4 <= len(study.trials) < 12
    assert commands.clock.now_s < 9.0


def test_a_study_of_commands_is_resumed_without_running_anything_twice() -> None:
    ledger = Ledger.in_memory()
    first, _ = by_commands(Budget(trials=5), ledger=ledger)
    first.search()
    second, _ = by_commands(Budget(trials=7), ledger=ledger)
    second.search()
    tried = [trial.config for trial in (*first.trials, *second.trials)]
    assert len(tried) == 12 == len(set(tried))
    assert second.decide(DEFAULT)[0].config == Config(batch=7)


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
    study.searches[0].begin(Broken())
    with pytest.raises(ForeignError, match="fell over"):
        study.search()

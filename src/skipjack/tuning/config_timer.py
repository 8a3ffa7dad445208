"""Timing configs without a study: for cost models, and to test whether kernels run on a machine.

Builds, checks and timing are those of the engine (`CandidateEvaluator`); nothing is recorded.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from skipjack import plugins
from skipjack.core import Candidate, Config, Device, Objective, Problem, Status, Trial, Value
from skipjack.errors import UsageError
from skipjack.execute import Failure, RunSession, slot_lock
from skipjack.execute.pool import Build, BuildPool
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime.local_kernels import requested_problem
from skipjack.settings import Settings, load_settings
from skipjack.solvers import ImportingSolver, Slot, find_solver, refusal, solver_for, solvers_for
from skipjack.storage import MemoryArtifacts
from skipjack.tuning.build_only import promising_configs
from skipjack.tuning.study import (
    LIMITS,
    CandidateEvaluator,
    DeviceContext,
    LedgerBuffer,
    Limits,
    LoadedCandidate,
    NoBank,
    TuningContext,
    session_place,
)

_Content = tuple[str, str, tuple[Slot, ...]]
"""A problem, the digest of a source, and the arguments of a launch."""


class ConfigTimer:
    """Keeps builders and a run session warm, and times configs of one problem after another.

        with ConfigTimer() as timer:
            times_ns = timer.evaluate("matmul:64x64x64", configs, solver="nest")

    Every build is checked once; configs with the same code and arguments are timed once. Each call
    holds the core that it times on, so that several timers can share a machine: give each a core of
    its own with ``settings=load_settings(core=3)``. A tuning and a call of a timer wait for each
    other. Times of one problem are comparable, even of different calls with other problems between
    them: new configs run next to the fastest so far. A timer that was closed may be opened again,
    and remembers what it has timed. Use it from one thread.
    """

    def __init__(
        self,
        device: Device | None = None,
        settings: Settings | None = None,
        *,
        alone: bool = True,
        builds_first: bool = False,
        context: TuningContext | None = None,
    ) -> None:
        """Without `alone` it does not hold the core, so that others may disturb the times.

        With `builds_first` nothing is timed before all builds of a call are done: for timers whose
        builders have no core of their own. `context` replaces the environment in tests.
        """
        self._hold: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        self._exits = contextlib.ExitStack()
        self._given, self._own = context, None if context else _TimerContext(device, settings)
        self._alone, self._builds_first = alone, builds_first
        self._limits = Limits.of(self._own.settings) if self._own else LIMITS
        self._context: TuningContext | None = None
        self._evaluator: CandidateEvaluator | None = None
        self._problem: Problem | None = None
        self._leaders: dict[Problem, LoadedCandidate] = {}
        """The fastest candidates of problems other than the present one."""
        self._known: dict[str, Trial] = {}
        self._timed: dict[_Content, Trial] = {}

    def __enter__(self) -> ConfigTimer:
        if self._own is not None:
            self._context = self._exits.enter_context(self._own)
            self._hold = self._own.hold if self._alone else contextlib.nullcontext
        else:
            self._context = self._given
        return self

    def evaluate(
        self,
        problem: str | Problem,
        configs: Sequence[Mapping[str, Value]],
        solver: str | None = None,
    ) -> list[float]:
        """The time of each config in ns, in the order given.

        The time of a config that fails, or is not in its solver's space, is infinite: `trials` has
        the reason. `solver` names the solver of the configs, by default the problem's first.
        """
        trials = self.trials(problem, configs, solver)
        return [float(t.metrics["time_ns"]) if t.ok else float("inf") for t in trials]

    def trials(
        self,
        problem: str | Problem,
        configs: Sequence[Mapping[str, Value]],
        solver: str | None = None,
    ) -> list[Trial]:
        """The trial of each config, in the order given, with a status and a reason if it failed.

        A config that is not in the solver's space is ``infeasible``, and is not built.
        """
        if self._context is None:
            raise UsageError("this ConfigTimer is not open; use it inside `with ConfigTimer()`")
        asked = requested_problem(problem) if isinstance(problem, str) else problem
        chosen = solver_for(asked, self._context.target, solver)
        space = chosen.space(asked, self._context.target)
        wanted = [Candidate(asked, chosen.name, config) for config in _read_configs(configs)]
        new = [one for one in dict.fromkeys(wanted) if one.key not in self._known]
        for one in new:
            if not space.contains(one.config):
                reason = f"{one.config} is not in the space of {chosen.name}"
                self._known[one.key] = Trial(one.config, Status.INFEASIBLE, reason=reason)
        if any(one.key not in self._known for one in new):
            with self._hold():
                evaluator = self._evaluator_of(asked)
                evaluator.add_solver(chosen, space)
                self._measure(evaluator, [one for one in new if one.key not in self._known])
        return [self._known[one.key] for one in wanted]

    def libraries(self, problem: str | Problem, names: Sequence[str]) -> dict[str, float | str]:
        """The times of libraries in ns, or why one failed, by the names of their solvers.

        The times are comparable with those of the problem's configs that were timed before.
        """
        if self._context is None:
            raise UsageError("this ConfigTimer is not open; use it inside `with ConfigTimer()`")
        asked = requested_problem(problem) if isinstance(problem, str) else problem
        found: dict[str, float | str] = {}
        with self._hold():
            evaluator = self._evaluator_of(asked)
            entered = []
            for solver in map(find_solver, names):
                if reason := refusal(solver, asked, self._context.target):
                    found[solver.name] = reason
                    continue
                if isinstance(solver, ImportingSolver):
                    self._context.session.import_package(solver.imports)
                loaded = evaluator.add_vendor(solver.name, solver.version)
                if isinstance(loaded, Failure):
                    found[solver.name] = loaded.reason
                else:
                    entered.append(loaded)
            timed = evaluator.time_vendors(entered, self._limits.find_rounds) if entered else {}
        for name, took in timed.items():
            found[name] = took.reason if isinstance(took, Failure) else took
        return {name: found[name] for name in names}

    @contextlib.contextmanager
    def held_cores(self) -> Iterator[Sequence[int]]:
        """Holds the cores that are timed on, for an external program that measures on them."""
        if self._context is None:
            raise UsageError("this ConfigTimer is not open; use it inside `with ConfigTimer()`")
        with self._hold():
            yield tuple(self._own.cores) if self._own else ()

    def _evaluator_of(self, problem: Problem) -> CandidateEvaluator:
        """An evaluator whose session has prepared the problem."""
        evaluator = self._evaluator
        if evaluator is not None and self._problem == problem and not evaluator.crowded:
            return evaluator
        self._leave_problem()
        assert self._context is not None
        buffer = LedgerBuffer(self._context.ledger, self._context.tracer)
        evaluator = CandidateEvaluator(self._context, buffer, problem, Objective(), self._limits)
        evaluator.prepare()
        if leader := self._leaders.pop(problem, None):
            evaluator.lead_with(leader)
        self._evaluator, self._problem = evaluator, problem
        return evaluator

    def _leave_problem(self) -> None:
        """Keep only the fastest candidate of the present problem."""
        if self._evaluator is not None and self._problem is not None and self._evaluator.best:
            self._leaders[self._problem] = self._evaluator.best
        self._evaluator = self._problem = None

    def _measure(self, evaluator: CandidateEvaluator, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            evaluator.submit(candidate)
        try:
            built: list[Build] = []
            while evaluator.pending or built:
                if evaluator.pending and self._builds_first:
                    built += evaluator.queue.collect(1.0, evaluator.pending)
                    continue
                most = evaluator.batch
                builds = built[:most] or evaluator.queue.collect(1.0, most)
                built = built[most:]
                self._take(evaluator, builds)
        finally:
            evaluator.queue.cancel()
            evaluator.forget()

    def _take(self, evaluator: CandidateEvaluator, builds: Sequence[Build]) -> None:
        contents = {_content(build): build for build in builds if not build.status.failed}
        new = [build for content, build in contents.items() if content not in self._timed]
        for build, trial in zip(new, evaluator.measure(new), strict=True):
            self._timed[_content(build)] = trial
        for build in builds:
            config = build.candidate.config
            if build.status.failed:
                trial = Trial(config, build.status, reason=build.reason)
            else:
                known = self._timed[_content(build)]
                trial = Trial(
                    *(config, known.status, known.value, known.spread, known.reason, known.metrics)
                )
            self._known[build.candidate.key] = trial

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave_problem()
        self._context, self._hold = None, contextlib.nullcontext
        self._exits.close()


def _read_configs(configs: Iterable[Mapping[str, Value]]) -> list[Config]:
    if isinstance(configs, Mapping):
        raise UsageError(f"configs is a single config; give a list of configs: [{configs!r}]")
    try:
        return [Config(dict(config)) for config in configs]
    except (TypeError, ValueError):
        raise UsageError(
            f"configs is {configs!r}; give a list of dicts, each with the settings of a config"
        ) from None


def _content(build: Build) -> _Content:
    return build.candidate.problem.key, build.source_digest, tuple(build.slots)


class _NoArtifacts(MemoryArtifacts):
    """A store that keeps nothing: a config that was timed is not built again."""

    def put(self, data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()


class _TimerContext(DeviceContext):
    """A context with workers and without files; the core is held call by call."""

    def __init__(self, device: Device | None, settings: Settings | None) -> None:
        chosen = settings or load_settings()
        plugins.load(chosen.plugins)
        super().__init__(chosen, device)
        self.cores, self._gpu = session_place(chosen, self.device)

    def __enter__(self) -> _TimerContext:
        self.bank, self.artifacts = NoBank(), _NoArtifacts()
        with contextlib.ExitStack() as exits:
            self.ledger = exits.enter_context(Ledger.in_memory())
            pool = BuildPool(self.settings.build_workers, self.device)
            self.pool = exits.enter_context(pool)
            self.session = exits.enter_context(RunSession(self.protocol, self.cores, self._gpu))
            self._exits = exits.pop_all()
        self.opened = True
        return self

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the cores or the GPU, so that no one else times on them."""
        units = [self.device.serial or self._gpu] if self._gpu else self.cores
        with slot_lock(self.device.kind, units, self.say):
            yield


PROBLEMS = ("add:4096", "matmul:48x48x48", "softmax:16x256")
"""Small problems whose kernels use every kind of vector instruction."""


@dataclass(frozen=True, slots=True)
class TriedKernel:
    """The result of trying a kernel."""

    candidate: Candidate
    status: Status
    reason: str = ""


def candidates_for(device: Device) -> list[Candidate]:
    """The most promising config of each solver that would be tuned."""
    return [
        Candidate(problem, solver.name, promising_configs(solver.space(problem, device), 1)[0])
        for problem in map(parse, PROBLEMS)
        for solver in solvers_for(problem, device)
    ]


def try_kernels(
    settings: Settings, candidates: Sequence[Candidate] | None = None
) -> list[TriedKernel]:
    """Build kernels for this machine's CPU and run them, in processes of their own.

    Their times do not matter, so it does not wait for other programs that time on the core.
    """
    device = cpu.detect()
    wanted = candidates_for(device) if candidates is None else list(candidates)
    tried = []
    with ConfigTimer(device, settings, alone=False) as timer:
        for candidate in wanted:
            (trial,) = timer.trials(candidate.problem, [candidate.config], candidate.solver)
            tried.append(TriedKernel(candidate, trial.status, trial.reason))
    return tried

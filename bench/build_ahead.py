"""Builders that work through a plan while its first problems are timed, each build once for all.

A thread owns the `BuildPool`: timing blocks its caller for longer than the builders have work, and
a builder whose answer is not read waits.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType

from learn_plan import PlannedProblem
from skipjack.core import Candidate, Device
from skipjack.execute import RunSession
from skipjack.execute.pool import Build, BuildPool
from skipjack.ledger import Ledger
from skipjack.settings import Settings
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.storage import MemoryArtifacts
from skipjack.tuning.study import DeviceContext, NoBank, session_place

_WINDOW = 6
"""Builds in the pool for each builder; it sends them on as they are done."""
_POLL_S = 0.05


class AheadBuilders:
    """Implements the builders of a `TuningContext`. Only planned candidates can be submitted."""

    def __init__(self, workers: int, device: Device, planned: Sequence[PlannedProblem]) -> None:
        self.size, self._device = workers, device
        self._key: dict[str, str] = {}
        self._queue: deque[Candidate] = deque()
        seen: set[str] = set()
        for one in planned:
            for each in one.configs:
                candidate = Candidate(one.problem, each.solver, each.config)
                self._key[candidate.key] = each.build
                if each.build not in seen:
                    seen.add(each.build)
                    self._queue.append(candidate)
        self._left = len(self._queue)
        self._done: dict[str, Build] = {}
        self._wanted: list[Candidate] = []
        self._changed = threading.Condition()
        self._ending, self._failure = False, ""
        self.waited_s = 0.0
        """How long `poll` waited, while the GPU had nothing to do."""
        self._thread = threading.Thread(target=self._work, name="builders", daemon=True)

    @property
    def built(self) -> int:
        """Builds that are done."""
        return len(self._done)

    @property
    def left(self) -> int:
        """Builds that are not done."""
        return self._left - len(self._done)

    @property
    def mean_s(self) -> float:
        """Seconds that a build took."""
        done = list(self._done.values())
        return sum(one.seconds for one in done) / max(1, len(done))

    # In the thread

    def _work(self) -> None:
        try:
            with BuildPool(self.size, self._device) as pool:
                while not self._ending:
                    while self._queue and pool.pending < _WINDOW * self.size:
                        pool.submit(self._queue.popleft())
                    self._take(pool.poll(_POLL_S))
                pool.cancel(0.0)
        except Exception as error:  # the thread that waits reports it
            self._failure = f"the builders ended: {type(error).__name__}: {error}"
            with self._changed:
                self._changed.notify_all()

    def _take(self, builds: Sequence[Build]) -> None:
        if not builds:
            return
        with self._changed:
            for build in builds:
                self._done[self._key[build.candidate.key]] = build
            self._changed.notify_all()

    # Builders of a tuning context

    @property
    def pending(self) -> int:
        """Candidates that were submitted and not yet returned."""
        return len(self._wanted)

    def warm_up(self) -> None:
        """They start at once."""

    def submit(self, candidate: Candidate) -> None:
        """Ask for a build of the plan."""
        self._wanted.append(candidate)

    def poll(self, timeout_s: float) -> list[Build]:
        """The builds that were asked for and are done, waiting up to this long for the first."""
        began = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._ready(), timeout_s)
            ready = self._ready()
        self.waited_s += time.monotonic() - began
        if self._failure:
            raise RuntimeError(self._failure)
        self._wanted = [one for one in self._wanted if one not in ready]
        return [self._of(one) for one in ready]

    def _ready(self) -> list[Candidate]:
        return [one for one in self._wanted if self._key[one.key] in self._done]

    def _of(self, candidate: Candidate) -> Build:
        """The candidate's build, which may be one of another problem."""
        build = self._done[self._key[candidate.key]]
        if build.candidate == candidate:
            return build
        if build.status.failed:
            return replace(build, candidate=candidate, seconds=0.0)
        solver = find_solver(candidate.solver)
        assert isinstance(solver, BuildingSolver)
        slots = tuple(solver.slots(candidate.problem, self._device, candidate.config))
        return replace(build, candidate=candidate, slots=slots, seconds=0.0)

    def withdraw(self) -> list[Candidate]:
        """Forget what was asked for; it is built all the same."""
        taken, self._wanted = self._wanted, []
        return taken

    def cancel(self) -> None:
        """Forget what was asked for; it is built all the same."""
        self._wanted = []

    def __enter__(self) -> AheadBuilders:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending = True
        self._thread.join(10.0)


class AheadContext(DeviceContext):
    """A tuning context without files whose builders are given."""

    def __init__(self, settings: Settings, device: Device, builders: AheadBuilders) -> None:
        super().__init__(settings, device)
        self._builders = builders

    def __enter__(self) -> AheadContext:
        cores, gpu = session_place(self.settings, self.device)
        self.bank, self.artifacts, self.pool = NoBank(), MemoryArtifacts(), self._builders
        with ExitStack() as stack:
            self.ledger = stack.enter_context(Ledger.in_memory())
            stack.enter_context(self.hold_device())
            self.session = stack.enter_context(RunSession(self.protocol, cores, gpu))
            self._exits = stack.pop_all()
        self.opened = True
        return self

"""A run session without a device: kernels with known cost, noise and drift from one seed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from skipjack.core import Config, Problem, Status, Trial
from skipjack.execute import Block, Failure, Loadable
from skipjack.reading import parse_json

_SENTINEL_NS = 1000.0
_SLOW_NS = 2e6
"""Calls that take longer are sampled once a block, as in a real session."""


@dataclass
class FakeClock:
    """A clock that only `advance` moves."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.now_s += seconds


@dataclass(frozen=True, slots=True)
class FakeKernel:
    """The behaviour of a fake candidate: what it costs, and where it fails."""

    time_ns: float
    disturbance: float = 0.0
    """The probability that one of its blocks is disturbed."""
    build: Status = Status.OK
    check: Status = Status.OK
    check_unaligned: Status = Status.OK
    run: Status = Status.OK
    """The result of timing it."""
    lasts_rounds: int | None = None
    """The number of rounds of timing after which it fails."""


Behaviour = Callable[[str, Config], FakeKernel | float]
"""The behaviour of a solver's config or a library (empty config); a number is a time in ns."""


def fake_code(solver: str, config: Config) -> bytes:
    """The machine code of a fake candidate, which a `NullSession` recognizes."""
    return json.dumps([solver, dict(config)], sort_keys=True).encode()


@dataclass
class NullSession:
    """Times kernels like `RunSession.time`, by drawing from known distributions.

    `noise` is the relative spread of a sample, `drift` that of the machine's speed, which all
    kernels of a round share. A round is disturbed with probability `disturbance`: everything in it
    takes 1.5 times as long, and its blocks are marked.

    `interrupted_every_ns` is the mean interval at which something else takes the core, for
    `interruption_ns`: the longer a sample, the more often it is interrupted. Interrupted samples
    are noticed with probability `noticed` and timed again, at most `tries` times for each sample of
    a block, like in a run worker.

    With `behaviour` it is a complete session: kernels of `fake_code` and libraries are added,
    checked and timed as that function defines. Calls advance the `clock`.
    """

    costs_ns: MutableMapping[int, float]
    rng: np.random.Generator
    noise: float = 0.01
    drift: float = 0.0
    disturbance: float = 0.0
    samples: int = 4
    failing: frozenset[int] = frozenset()
    interrupted_every_ns: float = float("inf")
    interruption_ns: float = 3e6
    noticed: float = 1.0
    tries: int = 3
    behaviour: Behaviour | None = None
    clock: FakeClock = field(default_factory=FakeClock)
    rounds: int = field(default=0, init=False)
    """Number of rounds timed so far."""
    checks: int = field(default=0, init=False)
    """Number of calls checked so far."""
    imported: set[str] = field(default_factory=set, init=False)
    _kernels: dict[int, FakeKernel] = field(default_factory=dict, init=False)
    _checked_ns: dict[int, float] = field(default_factory=dict, init=False)
    _timed: Counter[int] = field(default_factory=Counter, init=False)
    _added: int = field(default=0, init=False)

    def prepare(self, problem: Problem) -> None:
        """Forget the kernels of the previous problem."""
        self._kernels.clear()
        self._checked_ns.clear()

    def import_package(self, name: str) -> None:
        """Record the import."""
        self.imported.add(name)

    def add(self, loadable: Loadable) -> int:
        """Add a kernel and return its number."""
        assert self.behaviour, "kernels can only be added to a session with a behaviour"
        self._added += 1
        name, config = loadable.vendor, Config()
        if not name:
            name, values = parse_json(loadable.data)
            config = Config(values)
        kernel = self.behaviour(name, config)
        kernel = kernel if isinstance(kernel, FakeKernel) else FakeKernel(float(kernel))
        self._kernels[self._added] = kernel
        self.costs_ns[self._added] = kernel.time_ns
        return self._added

    def unload(self, kernel: int) -> None:
        """Nothing is loaded."""

    def verify(self, kernel: int, *, unaligned: bool = False) -> tuple[Failure | None, float]:
        """Succeed or fail as the kernel's behaviour defines."""
        known = self._kernels[kernel]
        self.checks += 1
        self._checked_ns[kernel] = known.time_ns
        self.clock.advance(known.time_ns * 1e-9)
        status = known.check_unaligned if unaligned else known.check
        if status.failed:
            return Failure(kernel, status, "made to fail when checked"), 2.0
        return None, 0.5

    def output_digest(self, kernel: int) -> str:
        """Nothing is computed."""
        return ""

    def checked_ns(self, kernel: int) -> float:
        """The time of the checked call."""
        return self._checked_ns.get(kernel, 0.0)

    def limit_call_time(self, most_s: float) -> None:
        """Calls are never cut short."""

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these kernels."""
        failures = [
            Failure(kernel, status, "this session has a hole here")
            for kernel in kernels
            if (status := self._status(kernel)).failed
        ]
        self._timed.update(dict.fromkeys(kernels, blocks))
        failed = {failure.kernel for failure in failures}
        there = [kernel for kernel in kernels if kernel not in failed]
        timed: list[Block] = []
        for round_ in range(blocks):
            timed += self._round(there, round_)
        return timed, failures

    def _status(self, kernel: int) -> Status:
        if kernel in self.failing:
            return Status.CRASH
        known = self._kernels.get(kernel)
        if known is None:
            return Status.OK
        tired = known.lasts_rounds is not None and self._timed[kernel] >= known.lasts_rounds
        return Status.CRASH if tired else known.run

    def _round(self, kernels: Sequence[int], round_: int) -> list[Block]:
        self.rounds += 1
        disturbed = bool(self.disturbance) and bool(self.rng.random() < self.disturbance)
        speed = 1.5 if disturbed else 1.0
        if self.drift:
            speed *= float(np.exp(self.rng.normal(0.0, self.drift)))
        sentinel = (_SENTINEL_NS, _SENTINEL_NS * (1.5 if disturbed else 1.0))
        return [self._block(kernel, round_, speed, sentinel, disturbed) for kernel in kernels]

    def _block(
        self, kernel: int, round_: int, speed: float, sentinel: tuple[float, ...], disturbed: bool
    ) -> Block:
        own = self._kernels[kernel].disturbance if kernel in self._kernels else 0.0
        disturbed = disturbed or bool(own and self.rng.random() < own)
        usual_ns = self.costs_ns[kernel] * speed
        wanted = 1 if self.costs_ns[kernel] > _SLOW_NS else self.samples
        self.clock.advance(usual_ns * wanted * 1e-9)
        if self.interrupted_every_ns == float("inf"):
            times = usual_ns * np.exp(self.rng.normal(0.0, self.noise, wanted))
            return Block(kernel, round_, 1, tuple(times.tolist()), sentinel, disturbed)
        size = wanted * self.tries
        times = usual_ns * np.exp(self.rng.normal(0.0, self.noise, size))
        hits = self.rng.poisson(times / self.interrupted_every_ns)
        seen = (hits > 0) & (self.rng.random(size) < self.noticed)
        times = times + hits * self.interruption_ns
        quiet = tuple(times[~seen][:wanted].tolist())
        kept = quiet or tuple(times[:wanted].tolist())
        dropped = int(seen.sum()) if quiet else 0
        return Block(kernel, round_, 1, kept, sentinel, disturbed or not quiet, dropped)


class FakeCalls:
    """A session of calls (`skipjack.tuning.calls.CallSession`) with a given behaviour."""

    def __init__(self, session: NullSession, solver: str = "calls") -> None:
        assert session.behaviour, "a session of calls needs a behaviour"
        self._session, self._solver, self._behaviour = session, solver, session.behaviour

    def build(self, configs: Sequence[Config]) -> Mapping[Config, Trial]:
        """The calls that fail when they are built."""
        known = {one: self._behaviour(self._solver, one) for one in configs}
        return {
            config: Trial(config, kernel.build, reason="made to fail when built")
            for config, kernel in known.items()
            if isinstance(kernel, FakeKernel) and kernel.build.failed
        }

    def add(self, config: Config) -> int | Trial:
        """Make the first call, which may fail as the behaviour defines."""
        code = fake_code(self._solver, config)
        kernel = self._session.add(Loadable(code, hashlib.sha256(code).hexdigest()))
        failure, _ = self._session.verify(kernel)
        return Trial(config, failure.status, reason=failure.reason) if failure else kernel

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these calls."""
        return self._session.time(kernels, blocks)

    def unload(self, kernel: int) -> None:
        """Nothing is loaded."""

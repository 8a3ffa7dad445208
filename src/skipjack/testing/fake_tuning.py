"""A tuning without a device, a compiler or files: fake solvers, builders and their context.

with only_solvers(FakeSolver("ours"), FakeLibrary("theirs")):
    context = FakeContext(lambda solver, config: 1000.0 / config.get("tile", 2))
    result = tune_in(context, parse("add:64"), TuneOptions(budget=Budget(trials=8)))
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from skipjack.bank import PERF, BankEntry, Changes, Key, key_of, stronger
from skipjack.core import (
    ABI,
    Arrays,
    Candidate,
    Config,
    Device,
    Parameter,
    ParameterSpace,
    Peaks,
    Problem,
    Space,
    TimingProtocol,
)
from skipjack.execute.pool import Build
from skipjack.ledger import Ledger
from skipjack.solvers import Blob, Slot, Solver, Source
from skipjack.storage import MemoryArtifacts
from skipjack.testing.sessions import Behaviour, FakeClock, FakeKernel, NullSession, fake_code
from skipjack.trace import Tracer
from skipjack.tuning.study import LoadedCandidate

FAKE_DEVICE = Device("cpu", "haswell", 1, "made up", memory_bytes=1 << 34)
COMPILER = "fake compiler 1"


def tiles(count: int = 8) -> ParameterSpace:
    """Configs ``tile=1`` to ``tile=count``; the first is the default."""
    return ParameterSpace([Parameter("tile", tuple(range(1, count + 1)), default=1)])


@dataclass
class FakeSolver(Solver):
    """A solver whose candidates are built by `FakeBuilders`."""

    name: str = "fake"
    configs: Space = field(default_factory=tiles)
    version: int = 1
    promised: float = 0.5
    """Its `promise` if another solver is the first."""

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accept every problem."""
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """The value that was given."""
        return self.configs

    def promise(self, problem: Problem, device: Device) -> float:
        """The value that was given."""
        return self.promised

    def compiler(self) -> str:
        """The compiler of `FakeBuilders`."""
        return COMPILER

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """Source that a `NullSession` can read."""
        return Source(fake_code(self.name, config).decode(), device.compat_key, COMPILER)

    def compile(self, source: Source) -> Blob:
        """The text of the source."""
        return Blob(source.text.encode())

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """No arguments."""
        return ()


@dataclass
class FakeLibrary(Solver):
    """A library to compare with, which a `NullSession` times."""

    name: str = "library"
    compared: bool = True
    version: int = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accept every problem."""
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """The empty space."""
        return ParameterSpace([])

    def bind(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """Not needed: a `NullSession` runs nothing."""
        raise NotImplementedError


@dataclass
class FakeBuilders:
    """Builds in the order of submission, one at a time; each advances the clock by `seconds`."""

    behaviour: Behaviour
    clock: FakeClock
    seconds: float = 0.0
    size: int = 1
    built: list[Candidate] = field(default_factory=list)
    """All candidates that were built."""
    _waiting: deque[Candidate] = field(default_factory=deque)

    @property
    def pending(self) -> int:
        """Number of builds that were submitted and not returned."""
        return len(self._waiting)

    def warm_up(self) -> None:
        """Nothing has to be started."""

    def submit(self, candidate: Candidate) -> None:
        """Queue a build."""
        self._waiting.append(candidate)

    def poll(self, timeout_s: float) -> list[Build]:
        """The next `size` builds."""
        ready = [self._waiting.popleft() for _ in range(min(self.size, len(self._waiting)))]
        return [self._build(candidate) for candidate in ready]

    def withdraw(self) -> list[Candidate]:
        """Withdraw all waiting candidates."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def cancel(self) -> None:
        """Forget everything that was submitted."""
        self._waiting.clear()

    def _build(self, candidate: Candidate) -> Build:
        self.clock.advance(self.seconds)
        self.built.append(candidate)
        kernel = self.behaviour(candidate.solver, candidate.config)
        code = fake_code(candidate.solver, candidate.config)
        digest = hashlib.sha256(code).hexdigest()
        if isinstance(kernel, FakeKernel) and kernel.build.failed:
            return Build(candidate, kernel.build, "made to fail when built", source_digest=digest)
        return Build(
            candidate,
            FakeKernel(0.0).build,
            source_digest=digest,
            artifact=code,
            artifact_digest=digest,
            abi=ABI,
            compiler=COMPILER,
        )


class MemoryBank:
    """A bank without a file."""

    def __init__(self) -> None:
        self.entries: dict[Key, BankEntry] = {}

    def lookup(
        self, problem_key: str, device_class: str, kind: str = PERF, protocol: str | None = None
    ) -> BankEntry | None:
        """The entry of a problem on a class of devices for its deployment."""
        return self.entries.get(key_of(problem_key, device_class, kind, protocol))

    def priors(
        self, problem_key: str, device_class: str, protocol: str | None = None
    ) -> list[BankEntry]:
        """The entries of other deployments."""
        own = key_of(problem_key, device_class, PERF, protocol)
        return [e for k, e in self.entries.items() if k[:3] == own[:3] and k != own]

    def entries_of(self, problem_key: str) -> list[BankEntry]:
        """The entries of a problem for all devices and deployments."""
        return [entry for entry in self.entries.values() if entry.problem == problem_key]

    def put(self, entry: BankEntry) -> Changes:
        """Keep the stronger entry."""
        held = self.entries.get(entry.key)
        if held is not None and stronger(held, entry) is held:
            return Changes(kept=1)
        self.entries[entry.key] = entry
        return Changes(replaced=1) if held else Changes(new=1)


class FakeContext:
    """What a study run needs, within this process. Equal seeds give equal results.

    `behaviour` defines the cost of every config and library, and which of them fail.
    """

    compiles = True
    target = FAKE_DEVICE

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        seed: int = 0,
        noise: float = 0.002,
        drift: float = 0.0,
        disturbance: float = 0.0,
        build_s: float = 0.0,
        device: Device = FAKE_DEVICE,
    ) -> None:
        self.device = self.target = device
        self.protocol = TimingProtocol()
        self.clock = FakeClock()
        self.tracer = Tracer(self.clock)
        self.model_directories: Sequence[Path] = ()
        self.id = f"fake-{seed}"
        self.said: list[str] = []
        self.say: Callable[[str], None] = self.said.append
        self.ledger = Ledger.in_memory()
        self.bank = MemoryBank()
        self.artifacts = MemoryArtifacts()
        self.pool = FakeBuilders(behaviour, self.clock, build_s)
        self.session = NullSession(
            {},
            np.random.default_rng(seed),
            noise,
            drift,
            disturbance,
            behaviour=behaviour,
            clock=self.clock,
        )
        self.remembered: list[str] = []
        """Digests of the kernels that programs could look up."""
        self.ledger.add_device(device)

    def behave(self, behaviour: Behaviour) -> None:
        """Change the behaviour of configs and libraries from now on."""
        self.session.behaviour = self.pool.behaviour = behaviour

    def peaks(self) -> Peaks:
        """Round numbers."""
        return Peaks((("f32", 1e11), ("f64", 5e10)), ((1 << 20, 1e11), (1 << 30, 1e10)))

    def known_elsewhere(self, problem: Problem) -> list[BankEntry]:
        """The entries of the bank for other devices."""
        entries = self.bank.entries_of(problem.key)
        return [entry for entry in entries if entry.device != self.device.class_key]

    def remember(self, loaded: LoadedCandidate) -> None:
        """Record the digest."""
        self.remembered.append(loaded.artifact_digest)

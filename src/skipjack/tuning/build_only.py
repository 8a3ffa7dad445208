"""Building without running: promising configs of a problem, for a device of any machine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from skipjack import plugins
from skipjack.core import (
    Budget,
    Candidate,
    Config,
    Device,
    Problem,
    Promising,
    Space,
    Status,
    type_checked,
)
from skipjack.devices import describe
from skipjack.errors import UsageError, foreign_code
from skipjack.execute.pool import Build, BuildPool
from skipjack.gpu import ABI as GPU_ABI
from skipjack.interrupt import Interrupt, Interrupted, deferred_interrupt
from skipjack.json_formats import FORMATS
from skipjack.ledger import Ledger
from skipjack.native import cpu, llvm, target_of, text_bytes, vector_spills
from skipjack.runtime.local_kernels import keep_within_limit, requested_problem
from skipjack.search import SearchContext, create
from skipjack.settings import Settings, load_settings
from skipjack.solvers import BuildingSolver, Slot, solver_for
from skipjack.storage import ArtifactStore, user_directory
from skipjack.tuning.study import BuildQueue, Observer, TuneProgress

GPU_NEEDS = ("registers", "shared_bytes", "spill_bytes")


@dataclass(frozen=True, slots=True)
class BuiltConfig:
    """A config and its object file, or the reason why it was not built."""

    number: int
    config: Config
    status: Status
    reason: str = ""
    seconds: float = 0.0
    """The time of this build; 0 if it was built before, or shares another config's build."""
    cached: bool = False
    text_bytes: int = 0
    """Size of the instructions in the object file."""
    vector_spills: int | None = None
    """Vector registers that are spilled to the stack; None if that is not known."""
    digest: str = ""
    path: Path | None = None
    """The path of the object file."""
    data: bytes = field(default=b"", repr=False)
    """The content of the object file."""
    symbol: str = ""
    abi: str = ""
    slots: tuple[Slot, ...] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    """For a GPU: ``registers`` and ``spill_bytes`` of a thread, ``shared_bytes`` of a block."""

    @property
    def needs(self) -> dict[str, int]:
        """The resources that limit how many blocks of a GPU's kernel run at once; empty for a CPU.

        It is known even of a config that was built and rejected for its spills.
        """
        if self.abi != GPU_ABI:
            return {}
        return {name: int(self.resources.get(name, 0)) for name in GPU_NEEDS}

    @property
    def ok(self) -> bool:
        """Whether it was built."""
        return self.status is Status.OK

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "number": self.number,
            "config": dict(self.config),
            "status": str(self.status),
            "build_ms": round(1000.0 * self.seconds, 3),
            "cached": self.cached,
        }
        if not self.ok:
            return record | {"error": self.reason, **self.needs}
        cpu = {"text_bytes": self.text_bytes, "vector_spills": self.vector_spills}
        return record | {
            "bytes": len(self.data),
            **(self.needs or cpu),
            "digest": self.digest,
            "path": str(self.path),
        }


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The builds of one problem, the most promising config first."""

    problem: Problem
    device: Device
    solver: str
    solver_version: int
    compiler: str
    builds: tuple[BuiltConfig, ...]
    seconds: float
    interrupted: bool = False

    @property
    def built(self) -> int:
        """The number of configs that have an object file."""
        return sum(build.ok for build in self.builds)

    def __repr__(self) -> str:
        where = f"{self.problem.key} for {self.device.name}"
        return f"<BuildResult {where}: {self.built} of {len(self.builds)} built by {self.solver}>"

    @property
    def gpu(self) -> bool:
        """Whether the kernels are for a GPU."""
        return self.device.kind != "cpu"

    @property
    def target(self) -> dict[str, Any]:
        """The target of the compiler."""
        if self.gpu:
            return {"target": self.device.arch}
        target = llvm.Target.parse(target_of(self.device))
        return {
            "triple": target.triple,
            "cpu": target.tune,
            "level": target.level,
            "features": list(target.needs),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMATS["tune --build-only"],
            "problem": self.problem.key,
            "device": self.device.name,
            "solver": self.solver,
            **self.target,
            **({} if self.gpu else {"vector_bytes": self.device.vector_bytes}),
            "compiler": self.compiler,
            "builds": [build.to_json() for build in self.builds],
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
        }


DEFAULT_CONFIGS = 16


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Which configs of a problem to build."""

    configs: int = DEFAULT_CONFIGS
    """The number of configs, the most promising first."""
    solver: str | None = None
    seed: int = 0
    """The seed of the random configs that follow if fewer are promising."""
    observer: Observer = lambda _: None

    def __post_init__(self) -> None:
        if self.configs < 1:
            raise UsageError(f"cannot build {self.configs} configs; give at least 1")


class Builder:
    """Keeps build workers warm for many problems: ``with Builder(device) as b: b.build(problem)``.

    It neither holds nor needs the device. As in a tuning, object files go to the artifact store of
    the user directory and builds into the ledger, and known builds are not repeated.
    """

    def __init__(self, device: Device | None = None, settings: Settings | None = None) -> None:
        self.settings = settings or load_settings()
        plugins.load(self.settings.plugins)
        self.device = self.target = device or cpu.detect()
        self._exits = contextlib.ExitStack()
        self._opened = False

    def __enter__(self) -> Builder:
        directory = user_directory(self.settings)
        with contextlib.ExitStack() as exits:
            exits.callback(keep_within_limit, self.settings, now=True)
            self.ledger = exits.enter_context(Ledger.open(directory))
            self.artifacts = ArtifactStore(*self.settings.kernel_dirs)
            self.pool = exits.enter_context(
                BuildPool(
                    self.settings.build_workers,
                    self.device,
                    directory,
                    kernels=self.settings.kernel_dirs,
                )
            )
            self._exits = exits.pop_all()
        self._opened = True
        return self

    def build(self, problem: str | Problem, options: BuildOptions | None = None) -> BuildResult:
        """Build a problem's configs; one that fails has a status and a reason.

        Ctrl-C ends it early: `Interrupted` has the builds that were done by then.
        """
        asked = requested_problem(problem) if isinstance(problem, str) else problem
        if not self._opened:
            raise UsageError(
                "this Builder is not open; use it inside `with Builder(device) as builder:`, which "
                "starts and ends its workers"
            )
        with deferred_interrupt() as interrupt:
            run = _Run(self, asked, options or BuildOptions(), interrupt)
            try:
                result = run.build()
            finally:
                run.queue.cancel()
        if interrupt.requested:
            raise Interrupted(replace(result, interrupted=True))
        return result

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened = False
        self._exits.close()


class _Run:
    """The builds of one problem."""

    def __init__(
        self, context: Builder, problem: Problem, options: BuildOptions, interrupt: Interrupt
    ) -> None:
        self._context, self._problem, self._options = context, problem, options
        self._interrupt = interrupt
        self._started = time.monotonic()
        with foreign_code(f"a solver asked about {problem.key}"):
            self._solver = solver_for(problem, context.device, options.solver)
        with foreign_code(f"solver {self._solver.name} asked for the space of {problem.key}"):
            space = self._solver.space(problem, context.device)
            self._configs = promising_configs(space, options.configs, options.seed)
        self.queue = BuildQueue(context)
        self.queue.add_solver(self._solver, space)
        self._numbers = {config: number for number, config in enumerate(self._configs)}
        self._done: dict[Config, BuiltConfig] = {}
        self._facts: dict[str, dict[str, float]] = {}

    def build(self) -> BuildResult:
        solver = self._solver
        for config in self._configs:
            self.queue.submit(Candidate(self._problem, solver.name, config))
        while self.queue.pending and not self._interrupt.requested:
            for build in self.queue.collect(0.1, len(self._configs)):
                self._take(build)
            self._report()
        return BuildResult(
            self._problem,
            self._context.device,
            solver.name,
            solver.version,
            solver.compiler(),
            tuple(self._done[config] for config in self._configs if config in self._done),
            time.monotonic() - self._started,
            self._interrupt.requested,
        )

    def _take(self, build: Build) -> None:
        """Store the object file and record the build."""
        context, config = self._context, build.candidate.config
        if build.artifact is not None:
            build = replace(build, resources={**build.resources, **self._read_off(build)})
        digest = self.queue.keep(build, context.ledger.add_build)
        spills = build.resources.get("vector_spills")
        self._done[config] = BuiltConfig(
            self._numbers[config],
            config,
            build.status,
            build.reason,
            0.0 if build.cached else build.seconds,
            build.cached,
            int(build.resources.get("text_bytes", 0)),
            None if spills is None else int(spills),
            digest,
            context.artifacts.path(digest) if digest else None,
            build.artifact or b"",
            build.symbol,
            build.abi,
            build.slots,
            build.resources,
        )

    def _read_off(self, build: Build) -> dict[str, float]:
        """Facts read from the code; a listing costs as much as a build, so each is made once."""
        digest = build.source_digest
        if digest not in self._facts:
            known = dict(build.resources)
            if build.abi == GPU_ABI:
                return known  # the build knows all of them
            if "text_bytes" not in known:
                known["text_bytes"] = float(text_bytes(build.artifact or b""))
            if "vector_spills" not in known:
                spills = _spills(self._solver, build.candidate, self._context.device)
                known |= {} if spills is None else {"vector_spills": float(spills)}
            self._facts[digest] = known
        return self._facts[digest]

    def _report(self) -> None:
        done = self._done.values()
        failed = sum(not build.ok for build in done)
        self._options.observer(
            TuneProgress(
                self._problem.key,
                "build",
                len(done),
                failed,
                len(done) - failed,
                None,
                None,
                time.monotonic() - self._started,
                Budget(trials=len(self._configs)),
            )
        )


def _spills(solver: BuildingSolver, candidate: Candidate, device: Device) -> int | None:
    if solver.compiler() != llvm.compiler_version():
        return None  # its source is not LLVM IR
    source = solver.lower(candidate.problem, device, candidate.config)
    return vector_spills(source.text, source.target)


def promising_configs(space: Space, count: int, seed: int = 0) -> list[Config]:
    """Up to `count` configs: the promising ones, the default, then random ones."""
    seeds = tuple(space.promising(count)) if isinstance(space, Promising) else ()
    context = SearchContext(space, seed, count, seeds, default_soon=False)
    return list(create("random", context).ask(count))


@type_checked
def build(
    problem: str,
    device: str,
    *,
    configs: int = DEFAULT_CONFIGS,
    dtype: str | None = None,
    solver: str | None = None,
    seed: int = 0,
    plugins: str | Sequence[str] = (),
) -> BuildResult:
    """Build the most promising configs of a problem for a named device, as ``haswell/1``."""
    named = (plugins,) if isinstance(plugins, str) else tuple(plugins)
    builder = Builder(describe(device), load_settings(plugins=named or None))
    asked = requested_problem(problem, dtype)  # a wrong key should fail before workers start
    with builder:
        return builder.build(asked, BuildOptions(configs, solver, seed))

"""What came of building for a device: one line for each config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.trial import Status
from skipjack.gpu.artifact import ABI as GPU_ABI
from skipjack.native import llvm
from skipjack.native.cpu import target_of
from skipjack.solvers.solver import Slot

FORMAT = 1
GPU_NEEDS = ("registers", "shared_bytes", "spill_bytes")


@dataclass(frozen=True, slots=True)
class BuiltConfig:
    """A config and its object file, or why there is none."""

    number: int
    config: Config
    status: Status
    reason: str = ""
    seconds: float = 0.0
    """Spent now; 0 if it was built before, or shares the build of another config."""
    cached: bool = False
    text_bytes: int = 0
    """Of the object file, instructions."""
    vector_spills: int | None = None
    """Vector registers stored to the stack for want of registers; None where it is not known."""
    digest: str = ""
    path: Path | None = None
    """The object file."""
    data: bytes = field(default=b"", repr=False)
    """Its content."""
    symbol: str = ""
    abi: str = ""
    slots: tuple[Slot, ...] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    """Of a GPU's kernels: ``registers`` and ``spill_bytes`` of a thread, ``shared_bytes``."""

    @property
    def needs(self) -> dict[str, int]:
        """What decides how many blocks of a GPU's kernel run at once; empty for a CPU's.

        Known also of a config that was built and found not worth running.
        """
        if self.abi != GPU_ABI:
            return {}
        return {name: int(self.resources.get(name, 0)) for name in GPU_NEEDS}

    @property
    def ok(self) -> bool:
        """Whether there is an object file."""
        return self.status is Status.OK

    def to_json(self) -> dict[str, Any]:
        """For machines."""
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
    """The builds of one problem, in the order in which the configs promise."""

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
        """How many configs have an object file."""
        return sum(build.ok for build in self.builds)

    @property
    def gpu(self) -> bool:
        """Whether the kernels are for a GPU."""
        return self.device.kind != "cpu"

    @property
    def target(self) -> dict[str, Any]:
        """What the compiler was told to build for."""
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
        """One record for machines."""
        return {
            "format": FORMAT,
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

"""What came of a candidate: a status, a value, a reason. A failing config is data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from skipjack.core.config import Config
from skipjack.core.objective import Metric
from skipjack.core.problem import Problem


class Status(StrEnum):
    """How a trial ended."""

    OK = "ok"
    BUILD_ERROR = "build_error"  # the compiler refused it
    BUILD_TIMEOUT = "build_timeout"
    BUILD_CRASH = "build_crash"  # the compiler died on it
    CRASH = "crash"  # the kernel ended its process
    TIMEOUT = "timeout"  # the kernel did not come back
    WRONG = "wrong"  # it came back with a wrong result
    OUT_OF_MEMORY = "out_of_memory"
    NO_RESULT = "no_result"  # it ended well and said nothing
    INVALID = "invalid"  # it says itself that its result does not count
    INFEASIBLE = "infeasible"  # a rule forbids it; nothing was built or run
    ERROR = "error"  # anything else, with its reason

    @property
    def failed(self) -> bool:
        """Whether there is no usable value."""
        return self is not Status.OK


@dataclass(frozen=True, slots=True)
class Candidate:
    """A problem, a solver and a config: something that can be built and run."""

    problem: Problem
    solver: str
    config: Config

    @property
    def key(self) -> str:
        """Canonical text of all three."""
        return f"{self.problem.key}|{self.solver}|{self.config.key}"


@dataclass(frozen=True, slots=True)
class Trial:
    """What a searcher is told. `value` is the objective of the metrics: less is better."""

    config: Config
    status: Status = Status.OK
    value: float | None = None
    spread: float = 0.0
    reason: str = ""
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the trial has a value to compare."""
        return self.status is Status.OK and self.value is not None

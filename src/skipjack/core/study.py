"""Studies: objectives, budgets, and trials with their outcomes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from skipjack.core.config import Config, digest_of
from skipjack.core.expressions import Expression
from skipjack.core.plugin_checks import matches_type
from skipjack.core.problem import Problem
from skipjack.core.timing import TimingProtocol
from skipjack.errors import ArgumentTypeError, UsageError

# The objective of a search: one metric to minimise or maximise, and bounds on others.

Direction = Literal["min", "max"]

Metric = float | str
"""One value of a measurement: a number, or a word such as ``VALID``."""


def metrics_by_identifier(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Metrics by names that are valid in expressions: other characters become ``_``."""
    return {re.sub(r"\W", "_", name): value for name, value in metrics.items()}


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric by name, a direction, and constraints such as ``workspace_bytes <= 2**30``."""

    metric: str = "time_ns"
    direction: Direction = "min"
    constraints: tuple[str, ...] = ()

    def value(self, metrics: Mapping[str, Metric]) -> float | None:
        """The value to minimise; None if the metric is missing or a constraint is violated."""
        raw = metrics.get(self.metric)
        if raw is None or isinstance(raw, str) or not math.isfinite(raw):
            return None
        if self.constraints:
            named = metrics_by_identifier(metrics)
            if any(not Expression(text).holds(named) for text in self.constraints):
                return None
        return raw if self.direction == "min" else -raw

    @property
    def text(self) -> str:
        """``time_ns:min``, followed by the constraints, separated by semicolons."""
        return ";".join((f"{self.metric}:{self.direction}", *self.constraints))


# A study: one search, with everything that makes it repeatable, given the same results.


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a study in one session; the session ends when the first is reached."""

    trials: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not matches_type(self.trials, int | None):
            raise ArgumentTypeError(f"a budget is an integer number of trials, not {self.trials!r}")
        if not matches_type(self.seconds, float | None):
            raise ArgumentTypeError(f"a budget of seconds is a number, not {self.seconds!r}")
        if self.trials is not None and self.trials <= 0:
            raise UsageError(f"a budget of {self.trials} trials is too small; give at least 1")
        if self.seconds is not None and not 0 < self.seconds < float("inf"):
            raise UsageError(
                f"a budget of {self.seconds:g} seconds is invalid; give a finite number above 0"
            )


class Subject(Protocol):
    """The subject of a study: a problem, or a benchmark with its commands."""

    @property
    def key(self) -> str:
        """Canonical text that identifies it."""
        ...


@dataclass(frozen=True, slots=True)
class Study:
    """The subject, solver, device, searcher and objective of a search."""

    problem: Subject
    solver: str
    device: str
    """The class key of the device."""
    searcher: str
    seed: int
    space: str = ""
    """Digests of the space and of the code of its builds; a change starts a new study."""
    objective: Objective = field(default_factory=Objective)
    protocol: TimingProtocol = field(default_factory=TimingProtocol)

    @property
    def id(self) -> str:
        """A digest of all fields: running an equal study again continues this one."""
        parts = [
            self.problem.key,
            self.solver,
            self.device,
            self.searcher,
            self.seed,
            self.space,
            self.objective.text,
            self.protocol.key,
        ]
        return digest_of(parts)[:16]


# Validation of times.


def is_valid_time(time: float | None) -> bool:
    """Whether this is a positive, finite time, in any unit.

    Zero, negative or missing times are errors of a timer and would win every ranking.
    """
    return time is not None and math.isfinite(time) and time > 0


# Candidates and trials: a status, a value and a reason. A failing config is data as well.


class Status(StrEnum):
    """How a trial ended."""

    OK = "ok"
    BUILD_ERROR = "build_error"  # the compiler reported an error
    BUILD_TIMEOUT = "build_timeout"
    BUILD_CRASH = "build_crash"  # the compiler crashed
    CRASH = "crash"  # the kernel ended its process
    TIMEOUT = "timeout"  # the kernel did not finish in time
    WRONG = "wrong"  # the result was wrong
    OUT_OF_MEMORY = "out_of_memory"
    NO_RESULT = "no_result"  # it ended normally without reporting a result
    INVALID = "invalid"  # it reported that its own result does not count
    INFEASIBLE = "infeasible"  # a constraint excludes it; nothing was built or run
    ERROR = "error"  # any other failure; see the reason

    @property
    def failed(self) -> bool:
        """Whether the trial has no usable value."""
        return self is not Status.OK


@dataclass(frozen=True, slots=True)
class Candidate:
    """A problem, a solver and a config, which together can be built and run."""

    problem: Problem
    solver: str
    config: Config

    @property
    def key(self) -> str:
        """Canonical text of all three."""
        return f"{self.problem.key}|{self.solver}|{self.config.key}"


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of a config for a searcher. `value` is the objective: lower is better."""

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

"""What a sweep may spend and what it looks for: metrics, or the largest load that holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from skipjack.core import Budget, Config, Direction, Metric, Objective, did_you_mean
from skipjack.errors import SkipjackError, UsageError
from skipjack.search.load import Boundary, JointLoad, LoadRange
from skipjack.sweep.bench import product_points
from skipjack.sweep.configs import BaseConfig, is_allowed, scenario_name
from skipjack.sweep.engine.result import SweepObserver
from skipjack.sweep.files import SweepFile

# Options of a sweep: its objectives, its budget, and how it is confirmed.


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Options of a sweep, checked."""

    objectives: tuple[Objective, ...] = ()
    """The search optimises the first. Empty: LoadGen's own metric, known after the first run."""
    requirements: tuple[str, ...] = ()
    """Requirements of runs, for an objective that is known only later."""
    budget: Budget = field(default_factory=Budget)
    repeats: int = 1
    """Runs of each point, whose value is their median."""
    confirm: int = 2
    """Confirming runs of the best and of the baseline each; 0 for none."""
    screen: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the search's short runs; confirming runs are made without them."""
    joint_screen: Mapping[str, Any] = field(default_factory=dict)
    """Settings of short runs that the search itself lays over some of its points."""
    load: str = ""
    """The parameter whose largest value that holds is sought; also a metric of each run."""
    baseline: bool = True
    """Whether the base config itself is run, to measure the gain."""
    observer: SweepObserver = lambda progress: None

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise UsageError(f"--repeats must be at least 1, not {self.repeats}")
        if self.confirm < 0:
            raise UsageError(f"--confirm must be 0 or more, not {self.confirm}")
        if (self.screen or self.joint_screen) and not self.confirm:
            raise UsageError(
                "--screen searches with short runs, so it needs full ones: use --confirm 1 or more"
            )
        if self.load and self.repeats > 1:
            raise UsageError("--load repeats runs where it needs to; leave out --repeats")


# Objectives as users write them: metrics with directions.

_LOADGEN: dict[str, tuple[str, Direction]] = {
    "Offline": ("result_samples_per_second", "max"),
    "Server": ("result_scheduled_samples_per_sec", "max"),
    "SingleStream": ("result_90.00_percentile_latency_ns", "min"),
    "MultiStream": ("result_99.00_percentile_per_query_latency_ns", "min"),
}
"""The metric by which LoadGen ranks each scenario."""


def parse_objectives(metrics: Sequence[str], requirements: Sequence[str]) -> tuple[Objective, ...]:
    """Objectives from texts like ``samples_per_second:max``, all with the same requirements."""
    found = []
    for text in metrics:
        name, _, direction = text.rpartition(":")
        if not name or direction not in ("min", "max"):
            raise UsageError(
                f"--metric {text!r} has no direction; write "
                f"{name or text}:max or {name or text}:min"
            )
        found.append(Objective(name, cast(Direction, direction), tuple(requirements)))
    return tuple(found)


def default_objective(kind: str, scenario: object, requirements: Sequence[str]) -> Objective | None:
    """The objective without --metric: LoadGen's own, or the time. None: not known yet."""
    if kind == "exit":
        return Objective("seconds", "min", tuple(requirements))
    if kind != "loadgen":
        raise UsageError(
            "--metric is missing: give --metric NAME:max or --metric NAME:min, "
            "where NAME is a metric of the result"
        )
    try:
        return loadgen_objective({"scenario": scenario_name(str(scenario))}, requirements)
    except UsageError:
        return None  # the log of the first run names the scenario


def loadgen_objective(
    metrics: Mapping[str, Metric], requirements: Sequence[str]
) -> Objective | None:
    """The objective of the scenario that was run, as its log names it."""
    known = _LOADGEN.get(str(metrics.get("scenario", "")))
    return None if known is None else Objective(known[0], known[1], tuple(requirements))


def missing_metric(name: str, metrics: Mapping[str, Metric], log: str) -> str:
    """The message for a metric that a successful run lacks."""
    numbers = sorted(key for key, value in metrics.items() if not isinstance(value, str))
    where = f" (its output is in {log})" if log else ""
    return (
        f"the result has no metric {name!r}; it has {', '.join(numbers) or 'no numbers'}"
        f"{did_you_mean(name, numbers)}{where}"
    )


# The search for the largest load that holds, from the user's parameter and bounds.

_STEP_DOWN, _STEPS = 0.03, 6
"""Share by which a load that fails its confirmation is lowered, and how often at most."""
_MOST_SETTINGS = 1000
"""The model of settings keeps a square matrix over all of them."""


def parse_load(
    value: object, file: SweepFile, base: BaseConfig, *, checked: bool
) -> LoadRange | None:
    """Parse ``PARAMETER:LOW:HIGH``, or a TOML table with parameter, from and to.

    Loads are whole numbers if both bounds are written as such; 1.0 is not.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        parts: list[Any] = [value.get("parameter"), value.get("from"), value.get("to")]
    else:
        parts = list(str(value).rsplit(":", 2))
    try:
        name, low, high = str(parts[0]), _number(parts[1]), _number(parts[2])
    except (ValueError, TypeError, IndexError):
        raise UsageError(
            f"--load {value!r}: write PARAMETER:LOW:HIGH, such as server_target_qps:500:9000"
        ) from None
    if not 0 < low < high < float("inf"):
        raise UsageError(f"--load {value!r}: both bounds must be above 0, with the lower one first")
    if checked and base.where and not base.has(name):
        raise UsageError(f"--load names {name}, which is not in the base config {base.where}")
    if name in file.parameters:
        raise UsageError(
            f"{file.where(name)} lists values of {name}, which --load searches; remove one of them"
        )
    if file.search is not None:
        raise UsageError(f"{file.path} defines its own search; leave out --load")
    return LoadRange(name, low, high, isinstance(low, int) and isinstance(high, int))


LoadSearch = Boundary | JointLoad


def load_search(
    goal: LoadRange,
    file: SweepFile,
    base: BaseConfig,
    runs: int | None,
    screen: Mapping[str, Any],
) -> LoadSearch:
    """The search for the largest load: of the load alone, or jointly with the parameters.

    `screen` has the settings of short runs; the last runs are made without them.
    """
    others = {name: values for name, values in file.parameters.items() if name != goal.param}
    if not others:
        return Boundary(goal.param, goal.lower, goal.upper, runs=runs or 16, integer=goal.integer)
    free = file.no_rebuild
    count = math.prod(len(values) for values in others.values())
    if count > _MOST_SETTINGS:
        raise UsageError(
            f"{file.path}: {count} combinations are too many to search together with a load; "
            f"at most {_MOST_SETTINGS} are possible"
        )
    settings = [dict(point) for point in product_points(others, free)]
    allowed = [
        point for point in settings if is_allowed(file, base, {**point, goal.param: goal.lower})
    ]
    if not allowed:
        raise UsageError(f"{file.path}: the rule forbids all {len(settings)} combinations")
    return JointLoad(
        goal,
        points=allowed,
        build_parameters=[name for name in others if free is None or name not in free],
        screen=screen,
        runs=runs,
    )


def load_candidates(search: LoadSearch) -> tuple[list[Config], str]:
    """The points to confirm, with loads from the one that should hold downwards; and a summary.

    If nothing holds, there are no points and the summary gives the reason.
    """
    try:
        best = dict(search.get_best())
    except SkipjackError as error:
        return [], str(error)
    if isinstance(search, JointLoad):
        load, name, summary = search.answer.load, search.load.param, str(search.answer)
    else:
        load, name, summary = search.answer, search.search_param, str(search.answer)
    limit, sure = float(load.value or load.low), float(load.safe or load.low)
    if load.verdict == "above":
        sure = limit  # the whole range holds
    # Start between the limit, where every second run fails, and the load that nearly always holds.
    first = math.sqrt(limit * sure)
    steps = [first]
    while steps[-1] > sure and len(steps) < _STEPS:
        steps.append(max(steps[-1] * (1 - _STEP_DOWN), sure))
    steps.append(steps[-1] * (1 - _STEP_DOWN))
    whole = isinstance(best[name], int)
    loads = dict.fromkeys(int(one) if whole else one for one in steps)
    return [Config.of({**best, name: one}) for one in loads], summary


def _number(part: Any) -> float:
    if part is None or isinstance(part, bool):
        raise ValueError("not a number")
    try:
        return part if isinstance(part, float) else int(part)
    except ValueError:
        return float(part)

"""What a sweep is after: metrics with directions, as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from skipjack.core.naming import did_you_mean
from skipjack.core.objective import Direction, Metric, Objective
from skipjack.errors import UsageError
from skipjack.sweep.configs.names import scenario_name

_LOADGEN: dict[str, tuple[str, Direction]] = {
    "Offline": ("result_samples_per_second", "max"),
    "Server": ("result_scheduled_samples_per_sec", "max"),
    "SingleStream": ("result_90.00_percentile_latency_ns", "min"),
    "MultiStream": ("result_99.00_percentile_per_query_latency_ns", "min"),
}
"""What LoadGen ranks by in each scenario."""


def parse_objectives(metrics: Sequence[str], requirements: Sequence[str]) -> tuple[Objective, ...]:
    """``samples_per_second:max`` and others, each under the same requirements."""
    found = []
    for text in metrics:
        name, _, direction = text.rpartition(":")
        if not name or direction not in ("min", "max"):
            raise UsageError(
                f"--metric {text!r} does not say what is better; write {(name or text)}:max or :min"
            )
        found.append(Objective(name, cast(Direction, direction), tuple(requirements)))
    return tuple(found)


def default_objective(kind: str, scenario: object, requirements: Sequence[str]) -> Objective | None:
    """What is wanted where nobody said: LoadGen's own metric, or the time. None: not known yet."""
    if kind == "exit":
        return Objective("seconds", "min", tuple(requirements))
    if kind != "loadgen":
        raise UsageError(
            "say what is wanted: --metric NAME:max or --metric NAME:min, "
            "with a name that the result has"
        )
    try:
        return loadgen_objective({"scenario": scenario_name(str(scenario))}, requirements)
    except UsageError:
        return None  # the log will say


def loadgen_objective(
    metrics: Mapping[str, Metric], requirements: Sequence[str]
) -> Objective | None:
    """The metric of the scenario that was run, as its log names it."""
    known = _LOADGEN.get(str(metrics.get("scenario", "")))
    return None if known is None else Objective(known[0], known[1], tuple(requirements))


def missing_metric(name: str, metrics: Mapping[str, Metric], log: str) -> str:
    """The sentence on a metric that a good run does not have."""
    numbers = sorted(key for key, value in metrics.items() if not isinstance(value, str))
    where = f" (its output is in {log})" if log else ""
    return (
        f"the result has no metric {name!r}; it has {', '.join(numbers) or 'no numbers'}"
        f"{did_you_mean(name, numbers)}{where}"
    )

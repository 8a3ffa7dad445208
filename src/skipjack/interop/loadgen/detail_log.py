"""LoadGen's detail logs: the measurements of a run, and whether and why it is invalid."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import NormalDist
from typing import Any

from skipjack.core import Metric
from skipjack.errors import MalformedError
from skipjack.reading import Field, numbered, parse_json

DETAIL_LOG = "mlperf_log_detail.txt"
_MARK = ":::MLLOG"
_RESULT = re.compile(r"result_|early_stopping_(ttft_|tpot_)?met$|num_errors$|error_runtime$")
_CONFIDENCE = 0.99
"""Confidence that early stopping requires for the percentile."""
_SAFETY_FACTOR = 1.25
"""Safety factor for the length of a repeated run."""
_MOST_EXACT = 1000
_MOST_QUERIES = 2.0**53
_MOST_TIMES_LONGER = 20
"""Maximum factor by which a run is made longer to settle its percentile."""
_REQUESTED_SETTINGS = (
    "effective_target_qps",
    "effective_samples_per_query",
    "requested_multi_stream_samples_per_query",
)
_SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")


class RunValidity(StrEnum):
    """Whether a run is valid, or what made it invalid."""

    VALID = "valid"
    TOO_SLOW = "too slow"
    TOO_LITTLE = "measured too little"


@dataclass(frozen=True, slots=True)
class LoadgenLog:
    """A detail log: the last value of each key, and the error messages."""

    values: Mapping[str, Any]
    errors: tuple[str, ...] = ()

    @property
    def scenario(self) -> str:
        """Server, Offline, SingleStream or MultiStream; empty if the log does not contain it."""
        text = str(self.values.get("effective_scenario", self.values.get("requested_scenario", "")))
        plain = text.replace(" ", "").replace("_", "").lower()
        return next((name for name in _SCENARIOS if name.lower() == plain), "")

    @property
    def finished(self) -> bool:
        """Whether the run has a result."""
        return "result_validity" in self.values

    @property
    def valid(self) -> bool:
        """Whether LoadGen reports the run as valid."""
        return self.values.get("result_validity") == "VALID"

    def number(self, name: str) -> float | None:
        """The value of a key, or None if it is missing or not a finite number."""
        try:
            return Field(self.values.get(name)).number()
        except MalformedError:
            return None

    @property
    def percentile(self) -> float:
        """The percentile of the latency bound or metric, as a fraction."""
        target = self.number("effective_target_latency_percentile")
        if target is None:
            return 0.9 if self.scenario == "SingleStream" else 0.99
        return target / 100 if target > 1 else target


@dataclass(frozen=True, slots=True)
class Judgement:
    """The validity of a run, its reasons, and settings that make the next run long enough."""

    verdict: RunValidity
    reasons: tuple[str, ...] = ()
    repair: Mapping[str, float] = field(default_factory=dict)
    """Settings by LoadGen's field names: ``offline_expected_qps``, ``min_query_count``."""


def read_detail_log(path: Path) -> LoadgenLog:
    """Read a log; damaged and unrelated lines are skipped."""
    return parse_detail_log(path.read_text(errors="replace"))


def parse_detail_log(text: str) -> LoadgenLog:
    """Parse the text of a log, as `read_detail_log` does."""
    values: dict[str, Any] = {}
    errors: list[str] = []
    for line in text.splitlines():
        if not line.startswith(_MARK):
            continue
        try:
            entry = parse_json(line[len(_MARK) :])
        except MalformedError:
            continue
        if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
            continue
        values[entry["key"]] = entry.get("value")
        metadata = entry.get("metadata")
        if isinstance(metadata, dict) and metadata.get("is_error"):
            errors.append(str(entry.get("value")))
    return LoadgenLog(values, tuple(errors))


def scenario_metrics(log: LoadgenLog) -> dict[str, Metric]:
    """All results of the log, the scenario, and requested settings.

    ``result_scheduled_samples_per_sec`` of a run that is not VALID is the offered load. It is not a
    property of the system, so runs must not be ranked by it.
    """
    found: dict[str, Metric] = {}
    for name, value in log.values.items():
        if not _RESULT.match(name) or isinstance(value, dict | list) or value is None:
            continue
        found[name] = value if isinstance(value, str) else float(value)
    if log.scenario:
        found["scenario"] = log.scenario
    for name in _REQUESTED_SETTINGS:
        if (number := log.number(name)) is not None:
            found[name] = number
    return found


def queries_needed(percentile: float, late: int = 0, confidence: float = _CONFIDENCE) -> int:
    """Number of queries that early stopping needs to accept a percentile of the latency bound.

    With no late query: the smallest n with percentile^n <= 1 - confidence, 459 at 99 %, 44 at 90 %.
    """
    if not 0.0 < percentile < 1.0:
        return 1
    if late > _MOST_EXACT:
        # The binomial distribution is nearly normal for so many late queries.
        share = 1.0 - percentile
        spread = NormalDist().inv_cdf(confidence) * math.sqrt(percentile * share)
        return math.ceil(((spread + math.sqrt(spread**2 + 4 * share * late)) / (2 * share)) ** 2)

    def enough(queries: int) -> bool:
        return _doubt(percentile, queries, late) <= 1.0 - confidence

    low, high = late + 1, late + 1
    while not enough(high):
        low, high = high, 2 * high
    return _least(enough, low, high)


def _least(enough: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number from `low` to `high` that is enough; `high` must be."""
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _doubt(percentile: float, queries: int, late: int) -> float:
    """Probability of at most `late` late queries if the bound is just violated."""
    log_odds = math.log1p(-percentile) - math.log(percentile)
    log_chance = queries * math.log(percentile)  # of exactly `count` late queries; initially none
    total = math.exp(log_chance)
    for count in range(1, min(late, queries) + 1):
        log_chance += math.log((queries - count + 1) / count) + log_odds
        total += math.exp(log_chance)
    return total


def judge(log: LoadgenLog) -> Judgement:
    """Whether a run is valid; if not, whether the system was too slow or the run too short."""
    if log.valid:
        return Judgement(RunValidity.VALID)
    values = log.values
    if values.get("result_perf_constraints_met") is False and not _undecided(log):
        return Judgement(RunValidity.TOO_SLOW, (_lateness(log),))
    reasons: list[str] = []
    repair: dict[str, float] = {}
    if values.get("result_min_duration_met") is False:
        reasons.append("the run was shorter than min_duration")
        repair |= _longer(log, 0)
    if values.get("result_min_queries_met") is False:
        reasons.append("the run had fewer queries than min_query_count")
        repair |= _longer(log, _count(log, "effective_min_query_count"))
    if values.get("early_stopping_met") is False:
        needed = _queries_to_settle(log)
        if needed is None:
            close = f"{_lateness(log)}, too close to the bound to settle it"
            return Judgement(RunValidity.TOO_SLOW, (close,))
        reasons.append(
            f"{numbered(_late(log)[1], 'query')} are too few to decide; {needed} are needed"
        )
        repair |= {**_longer(log, needed), "min_query_count": float(needed)}
    if not reasons:
        reason = str(values.get("result_invalid_reason") or "; ".join(log.errors[:1])).strip()
        return Judgement(RunValidity.TOO_SLOW, (reason or "LoadGen gives no reason",))
    return Judgement(RunValidity.TOO_LITTLE, tuple(reasons), repair)


def _late(log: LoadgenLog) -> tuple[int, int]:
    return _count(log, "result_overlatency_query_count"), _count(log, "result_query_count")


def _count(log: LoadgenLog, name: str) -> int:
    """A number of queries, limited to the integers that a float represents exactly."""
    return int(min(max(log.number(name) or 0.0, 0.0), _MOST_QUERIES))


def _undecided(log: LoadgenLog) -> bool:
    """Whether there were so few queries that a system within the bound may have this many late."""
    late, count = _late(log)
    if not late or count >= queries_needed(log.percentile):
        return False
    return 1.0 - _doubt(log.percentile, count, late - 1) > 1.0 - _CONFIDENCE


def _lateness(log: LoadgenLog) -> str:
    late, count = _late(log)
    bound = log.number("effective_target_latency_ns")
    text = (
        f"{late} of {numbered(count, 'query')} {'was' if late == 1 else 'were'} late"
        if count
        else "the latency bound was not met"
    )
    return f"{text} (bound {bound / 1e6:g} ms)" if bound else text


def _queries_to_settle(log: LoadgenLog) -> int | None:
    """Number of queries that settle the bound at the same rate of late ones; None if too many."""
    late, count = _late(log)
    # The stream scenarios report a latency that at least one query exceeds.
    late = max(late, 1 if log.scenario in ("SingleStream", "MultiStream") else 0)
    needed = queries_needed(log.percentile, late)
    if count < queries_needed(log.percentile):
        return needed  # too few to estimate the share of late queries
    most = _MOST_TIMES_LONGER * max(count, queries_needed(log.percentile))

    def settles(queries: int) -> bool:
        expected = math.ceil(late * max(1.0, queries / count)) if _late(log)[0] else late
        return queries_needed(log.percentile, expected) <= queries

    if needed > most or not settles(most):
        return None
    # Once a number of queries settles it, all larger numbers do as well, so bisection applies.
    return _least(settles, needed, most)


def _longer(log: LoadgenLog, queries: int) -> dict[str, float]:
    """Settings for a longer run: LoadGen derives the number of queries from expected rates."""
    expected_qps = log.number("effective_target_qps") or 0.0
    if log.scenario == "Offline":
        reached = log.number("result_samples_per_second") or 0.0
        next_qps = max(reached, expected_qps) * _SAFETY_FACTOR
        return (
            {"offline_expected_qps": float(math.ceil(next_qps))} if math.isfinite(next_qps) else {}
        )
    if log.scenario in ("SingleStream", "MultiStream"):
        name = "single_stream" if log.scenario == "SingleStream" else "multi_stream"
        expected_ns = 1e9 / expected_qps if expected_qps else math.inf
        # The shortest latency: preparing more queries than needed costs nothing.
        measured_ns = log.number("result_min_latency_ns") or math.inf
        shorter = min(expected_ns, measured_ns) / _SAFETY_FACTOR
        if math.isinf(shorter):
            return {}
        return {f"{name}_expected_latency_ns": float(max(1, math.floor(shorter)))}
    return {"min_query_count": float(queries)} if queries else {}

"""LoadGen's detail logs: what a run measured, whether it counts, and if not, why."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import NormalDist
from typing import Any

from skipjack.core.objective import Metric
from skipjack.errors import MalformedError
from skipjack.reading import Field, numbered, parse_json

DETAIL_LOG = "mlperf_log_detail.txt"
_MARK = ":::MLLOG"
_RESULT = re.compile(r"result_|early_stopping_(ttft_|tpot_)?met$|num_errors$|error_runtime$")
_CONFIDENCE = 0.99
"""Of early stopping: so sure must it be that the percentile holds."""
_ROOM = 1.25
"""What is measured again is asked for this much more than would do."""
_MOST_EXACT = 1000
_MOST_QUERIES = 2.0**53
_PATIENCE = 20
"""A run is made so many times longer at most to be sure of its percentile."""
_ASKED = (
    "effective_target_qps",
    "effective_samples_per_query",
    "requested_multi_stream_samples_per_query",
)
_SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")


class LoadgenVerdict(StrEnum):
    """What a run says about the system."""

    VALID = "valid"
    TOO_SLOW = "too slow"
    TOO_LITTLE = "measured too little"


@dataclass(frozen=True, slots=True)
class LoadgenLog:
    """A detail log: each key with its last value, and the messages of errors."""

    values: Mapping[str, Any]
    errors: tuple[str, ...] = ()

    @property
    def scenario(self) -> str:
        """Server, Offline, SingleStream or MultiStream; empty if the log does not say."""
        text = str(self.values.get("effective_scenario", self.values.get("requested_scenario", "")))
        plain = text.replace(" ", "").replace("_", "").lower()
        return next((name for name in _SCENARIOS if name.lower() == plain), "")

    @property
    def finished(self) -> bool:
        """Whether the run came to a result."""
        return "result_validity" in self.values

    @property
    def valid(self) -> bool:
        """What LoadGen itself says."""
        return self.values.get("result_validity") == "VALID"

    def number(self, name: str) -> float | None:
        """A value, if it is there and a finite number."""
        try:
            return Field(self.values.get(name)).number()
        except MalformedError:
            return None

    @property
    def percentile(self) -> float:
        """The share of queries that the latency bound or the metric is about."""
        given = self.number("effective_target_latency_percentile")
        if given is None:
            return 0.9 if self.scenario == "SingleStream" else 0.99
        return given / 100 if given > 1 else given


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, why, and which settings make the next run long enough."""

    verdict: LoadgenVerdict
    reasons: tuple[str, ...] = ()
    repair: Mapping[str, float] = field(default_factory=dict)
    """Settings by LoadGen's field names: ``offline_expected_qps``, ``min_query_count``."""


def read_detail_log(path: Path) -> LoadgenLog:
    """Read a log; lines that are broken or of another kind are passed over."""
    return parse_detail_log(path.read_text(errors="replace"))


def parse_detail_log(text: str) -> LoadgenLog:
    """As `read_detail_log`."""
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
    """Every result of the log, the scenario, and what was asked for.

    ``result_scheduled_samples_per_sec`` of a run that is not VALID is the load that it was offered:
    it says nothing about the system, and nobody should rank by it.
    """
    found: dict[str, Metric] = {}
    for name, value in log.values.items():
        if not _RESULT.match(name) or isinstance(value, dict | list) or value is None:
            continue
        found[name] = value if isinstance(value, str) else float(value)
    if log.scenario:
        found["scenario"] = log.scenario
    for name in _ASKED:
        if (number := log.number(name)) is not None:
            found[name] = number
    return found


def queries_needed(percentile: float, late: int = 0, confidence: float = _CONFIDENCE) -> int:
    """Queries that early stopping wants before it believes that a percentile of them is in time.

    With none late: the smallest n with percentile^n <= 1 - confidence, 459 at 99 %, 44 at 90 %.
    """
    if not 0.0 < percentile < 1.0:
        return 1
    if late > _MOST_EXACT:
        # Nearly normal by then: so many are late with this confidence where the bound just breaks.
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
    """The smallest number that is enough, where the last one is."""
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _doubt(percentile: float, queries: int, late: int) -> float:
    """Chance of at most `late` late ones among so many if the bound is just broken."""
    log_odds = math.log1p(-percentile) - math.log(percentile)
    log_chance = queries * math.log(percentile)  # of exactly `count` late ones, here of none
    total = math.exp(log_chance)
    for count in range(1, min(late, queries) + 1):
        log_chance += math.log((queries - count + 1) / count) + log_odds
        total += math.exp(log_chance)
    return total


def judge(log: LoadgenLog) -> Judgement:
    """Whether the run counts; an invalid one says something of the system, or of its own length."""
    if log.valid:
        return Judgement(LoadgenVerdict.VALID)
    values = log.values
    if values.get("result_perf_constraints_met") is False and not _undecided(log):
        return Judgement(LoadgenVerdict.TOO_SLOW, (_lateness(log),))
    reasons: list[str] = []
    repair: dict[str, float] = {}
    if values.get("result_min_duration_met") is False:
        reasons.append("it was shorter than min_duration")
        repair |= _longer(log, 0)
    if values.get("result_min_queries_met") is False:
        reasons.append("it had fewer queries than min_query_count")
        repair |= _longer(log, _count(log, "effective_min_query_count"))
    if values.get("early_stopping_met") is False:
        needed = _queries_to_settle(log)
        if needed is None:
            close = f"{_lateness(log)}, too close to the bound to be sure of it"
            return Judgement(LoadgenVerdict.TOO_SLOW, (close,))
        reasons.append(f"{numbered(_late(log)[1], 'query')} cannot settle it, it takes {needed}")
        repair |= {**_longer(log, needed), "min_query_count": float(needed)}
    if not reasons:
        reason = str(values.get("result_invalid_reason") or "; ".join(log.errors[:1])).strip()
        return Judgement(LoadgenVerdict.TOO_SLOW, (reason or "LoadGen does not say why",))
    return Judgement(LoadgenVerdict.TOO_LITTLE, tuple(reasons), repair)


def _late(log: LoadgenLog) -> tuple[int, int]:
    return _count(log, "result_overlatency_query_count"), _count(log, "result_query_count")


def _count(log: LoadgenLog, name: str) -> int:
    """A number of queries; what no run can have made is as many as one can tell apart."""
    return int(min(max(log.number(name) or 0.0, 0.0), _MOST_QUERIES))


def _undecided(log: LoadgenLog) -> bool:
    """Whether so few queries were made that one that holds the bound may have this many late."""
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
    """How many queries to make if as many of them are late as before; None: it takes too many."""
    late, count = _late(log)
    # The stream scenarios report a latency that one query at least is beyond.
    late = max(late, 1 if log.scenario in ("SingleStream", "MultiStream") else 0)
    needed = queries_needed(log.percentile, late)
    if count < queries_needed(log.percentile):
        return needed  # so few do not tell which share is late
    most = _PATIENCE * max(count, queries_needed(log.percentile))

    def settles(queries: int) -> bool:
        expected = math.ceil(late * max(1.0, queries / count)) if _late(log)[0] else late
        return queries_needed(log.percentile, expected) <= queries

    if needed > most or not settles(most):
        return None
    # More late ones are expected of more queries, but ever less so: what settles it goes on to.
    return _least(settles, needed, most)


def _longer(log: LoadgenLog, queries: int) -> dict[str, float]:
    """LoadGen makes as many queries as the expectation fills the time with; correct that."""
    expected_qps = log.number("effective_target_qps") or 0.0
    if log.scenario == "Offline":
        reached = log.number("result_samples_per_second") or 0.0
        wanted = max(reached, expected_qps) * _ROOM
        return {"offline_expected_qps": float(math.ceil(wanted))} if math.isfinite(wanted) else {}
    if log.scenario in ("SingleStream", "MultiStream"):
        name = "single_stream" if log.scenario == "SingleStream" else "multi_stream"
        expected_ns = 1e9 / expected_qps if expected_qps else math.inf
        # The quickest one: queries that were made ready and not needed cost nothing.
        measured_ns = log.number("result_min_latency_ns") or math.inf
        shorter = min(expected_ns, measured_ns) / _ROOM
        if math.isinf(shorter):
            return {}
        return {f"{name}_expected_latency_ns": float(max(1, math.floor(shorter)))}
    return {"min_query_count": float(queries)} if queries else {}

"""Runs that were too short to count: which settings make the next try long enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skipjack.interop.loadgen_log import Judgement, LoadgenLog, LoadgenVerdict

TRIES = 3
"""A run that measured too little is made so many times at most."""
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "offline_expected_qps": ("offline_expected_qps", "offline_target_qps", "target_qps"),
    "single_stream_expected_latency_ns": ("single_stream_expected_latency_ns",),
    "multi_stream_expected_latency_ns": ("multi_stream_expected_latency_ns",),
    "min_query_count": ("min_query_count",),
}
_LIMITS = {"min_query_count": "max_query_count"}
_EFFECTIVE = ("effective_target_qps", "effective_min_query_count", "effective_min_duration_ms")


def repair_settings(
    judgement: Judgement, config: Mapping[str, Any], point: Mapping[str, Any]
) -> dict[str, Any]:
    """What to lay over the config for the next try; empty if nothing can be done.

    Settings go under the name that the config has for them, else under LoadGen's own, from where
    they reach user.conf. A parameter that is being swept is never touched.
    """
    if judgement.verdict is not LoadgenVerdict.TOO_LITTLE:
        return {}
    settings: dict[str, Any] = {}
    for name, value in judgement.repair.items():
        spellings = _SPELLINGS.get(name, (name,))
        known = next((spelling for spelling in spellings if spelling in config), name)
        if known in point:
            continue
        settings[known] = int(value) if float(value).is_integer() else value
        limit = _LIMITS.get(name, "")
        if isinstance(config.get(limit), int | float) and 0 < config[limit] < value:
            settings[limit] = settings[known]
    return {name: value for name, value in settings.items() if config.get(name) != value}


def took_effect(before: LoadgenLog, after: LoadgenLog) -> bool:
    """Whether a repaired run was made with other settings than the one before."""
    return any(before.values.get(name) != after.values.get(name) for name in _EFFECTIVE)


def repair_note(judgement: Judgement, settings: Mapping[str, Any]) -> str:
    """``measured again with min_query_count=574: 144 queries cannot settle it``."""
    changes = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"measured again with {changes}: {'; '.join(judgement.reasons)}"

"""Runs that were too short to count: which settings make the next try long enough."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skipjack.core.config import Config
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
_OF_ALL_POINTS = ("min_query_count", "max_query_count")
"""How many queries settle a percentile is the same everywhere; how quick they are is not."""
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


class Learned:
    """Settings that repaired runs, for the next ones."""

    def __init__(self) -> None:
        self._everywhere: dict[str, dict[str, Any]] = {}
        self._at: dict[tuple[str, str], dict[str, Any]] = {}

    def at(self, point: Config, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What to lay over the config of a run from the start."""
        rung = json.dumps(dict(settings), default=str)
        known = self._everywhere.get(rung, {}) | self._at.get((rung, point.key), {})
        return {name: value for name, value in known.items() if name not in point}

    def add(
        self, point: Config, settings: Mapping[str, Any], repaired: Mapping[str, Any], *, late: bool
    ) -> None:
        """These made a run count. With `late` queries in it, all is a matter of that point."""
        rung = json.dumps(dict(settings), default=str)
        self._at[rung, point.key] = dict(repaired)
        if not late:
            shared = {name: value for name, value in repaired.items() if name in _OF_ALL_POINTS}
            self._everywhere.setdefault(rung, {}).update(shared)


def took_effect(before: LoadgenLog, after: LoadgenLog) -> bool:
    """Whether a repaired run was made with other settings than the one before."""
    return any(before.values.get(name) != after.values.get(name) for name in _EFFECTIVE)


def repair_note(judgement: Judgement, settings: Mapping[str, Any]) -> str:
    """``measured again with min_query_count=574: 144 queries cannot settle it``."""
    changes = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"measured again with {changes}: {'; '.join(judgement.reasons)}"

"""LoadGen's user.conf: ``model.Scenario.key = value``, times in ms, percentiles in percent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from skipjack.core import excerpt
from skipjack.errors import MalformedError, UsageError
from skipjack.reading import file_text, number

_NS_IN_MS, _PERCENT = 1e-6, 100.0
_SCENARIOS = {
    "server": "Server",
    "offline": "Offline",
    "singlestream": "SingleStream",
    "multistream": "MultiStream",
}
_OF_A_SCENARIO: dict[str, tuple[str, str, float]] = {
    "server_target_qps": ("Server", "target_qps", 1.0),
    "server_target_latency_ns": ("Server", "target_latency", _NS_IN_MS),
    "server_target_latency_percentile": ("Server", "target_latency_percentile", _PERCENT),
    "server_coalesce_queries": ("Server", "coalesce_queries", 1.0),
    "server_max_async_queries": ("Server", "max_async_queries", 1.0),
    "offline_expected_qps": ("Offline", "target_qps", 1.0),
    "offline_target_qps": ("Offline", "target_qps", 1.0),
    "single_stream_expected_latency_ns": ("SingleStream", "target_latency", _NS_IN_MS),
    "single_stream_target_latency_percentile": (
        *("SingleStream", "target_latency_percentile"),
        _PERCENT,
    ),
    "multi_stream_expected_latency_ns": ("MultiStream", "target_latency", _NS_IN_MS),
    "multi_stream_target_latency_percentile": (
        *("MultiStream", "target_latency_percentile"),
        _PERCENT,
    ),
    "multi_stream_samples_per_query": ("MultiStream", "samples_per_query", 1.0),
}
"""Settings by their names in LoadGen and in NVIDIA's configs: scenario, key, factor."""
_OF_ANY: dict[str, tuple[str, float]] = {
    **{
        name: (name, 1.0)
        for name in (
            *("target_qps", "target_latency", "target_latency_percentile", "samples_per_query"),
            *("min_duration", "max_duration", "min_query_count", "max_query_count"),
            *("performance_sample_count_override", "coalesce_queries", "max_async_queries"),
            *("use_token_latencies", "ttft_latency", "tpot_latency", "infer_token_latencies"),
            *("token_latency_scaling_factor", "sample_concatenate_permutation"),
        )
    },
    "min_duration_ms": ("min_duration", 1.0),
    "max_duration_ms": ("max_duration", 1.0),
}
"""Settings for the scenario of the config, or for all scenarios: key, factor."""
_LARGEST_BYTES = 1 << 20


class UserConfSetting(NamedTuple):
    """One line of a user.conf."""

    model: str
    scenario: str
    key: str
    value: float

    @property
    def line(self) -> str:
        """The line in a file; the spaces around the equals sign are required."""
        return f"{self.model}.{self.scenario}.{self.key} = {_plain(self.value)}"


def user_conf_settings(config: Mapping[str, Any], model: str = "*") -> tuple[UserConfSetting, ...]:
    """The settings of a config for LoadGen; for its scenario, if it has one.

    LoadGen's built-in values are for a scenario and take precedence over lines for any scenario
    (``*.*``). So a setting without a scenario becomes one line for each scenario.
    """
    scenario = scenario_of(config)
    found: dict[tuple[str, str], UserConfSetting] = {}
    for name, value in config.items():
        if name in _OF_ANY:
            key, factor = _OF_ANY[name]
            scenarios = (scenario,) if scenario else tuple(_SCENARIOS.values())
        elif name in _OF_A_SCENARIO:
            own, key, factor = _OF_A_SCENARIO[name]
            scenarios = (own,) if scenario in ("", own) else ()
        else:
            continue
        if isinstance(value, int | float):
            for each in scenarios:
                found[each, key] = UserConfSetting(model, each, key, float(value) * factor)
    return tuple(found.values())


def user_conf_lines(config: Mapping[str, Any], model: str = "*") -> tuple[str, ...]:
    """Lines for user.conf, in the order of the config."""
    return tuple(setting.line for setting in user_conf_settings(config, model))


def scenario_of(config: Mapping[str, Any]) -> str:
    """The scenario of a config in LoadGen's spelling; empty if unknown.

    Without an explicit scenario, settings that belong to only one scenario determine it.
    """
    text = str(config.get("scenario") or "")
    if text:
        return _SCENARIOS.get(re.sub(r"[\W_]", "", text).lower(), "")
    implied = {_OF_A_SCENARIO[name][0] for name in config if name in _OF_A_SCENARIO}
    return implied.pop() if len(implied) == 1 else ""


def parse_user_conf(text: str, name: str = "user.conf") -> tuple[UserConfSetting, ...]:
    """Parse lines; `UsageError` for a line that LoadGen would silently ignore or misread."""
    settings = []
    for at, line in enumerate(text.splitlines(), 1):
        words = _without_comment(line.split())
        if words:
            setting = _setting(words)
            if setting is None:
                raise UsageError(
                    f"{name}:{at}: {excerpt(line.strip())!r} is not `model.Scenario.key = number`"
                    " with spaces around the equals sign"
                )
            settings.append(setting)
    return tuple(settings)


def _setting(words: Sequence[str]) -> UserConfSetting | None:
    if len(words) != 3 or words[1] != "=":
        return None
    parts = words[0].rsplit(".", 2)
    try:
        value = number(words[2])
    except MalformedError:
        return None
    return (
        UserConfSetting(parts[0], parts[1], parts[2], value)
        if len(parts) == 3 and all(parts)
        else None
    )


def read_user_conf(path: Path) -> tuple[UserConfSetting, ...]:
    """Parse a file, as `parse_user_conf` does."""
    try:
        return parse_user_conf(file_text(path, most=_LARGEST_BYTES), str(path))
    except MalformedError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _without_comment(words: list[str]) -> list[str]:
    return words[: words.index("#")] if "#" in words else words


def _plain(value: float) -> str:
    """A number without an exponent, which LoadGen does not support."""
    return f"{value:.9f}".rstrip("0").rstrip(".")

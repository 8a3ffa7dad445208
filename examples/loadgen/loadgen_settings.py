"""From a config, or a user.conf, to LoadGen's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlperf_loadgen as loadgen

MODEL_NAME = "encoder"
"""How lines of a user.conf call this benchmark: ``encoder.Server.target_qps = 200``."""
SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
MODES = ("PerformanceOnly", "AccuracyOnly")
_NOT_FIELDS = ("mode", "scenario")


def scenario_of(config: Mapping[str, Any]) -> str:
    """The scenario that a config names."""
    scenario = config.get("scenario")
    if scenario not in SCENARIOS:
        raise SystemExit(f"scenario {scenario!r} is none of {', '.join(SCENARIOS)}")
    return str(scenario)


def settings_of(
    config: Mapping[str, Any], user_conf: Path | None, user_conf_only: bool, mode: str
) -> loadgen.TestSettings:
    """LoadGen's settings: first the user.conf, if any, then the config's fields over it.

    Keys of the config that are called like a field of LoadGen's settings set that field
    (``server_target_qps``, ``min_duration_ms``). `user_conf_only` is for the run that a submitter
    would make: LoadGen's own values for the scenario, and the file, and nothing else.
    """
    settings = loadgen.TestSettings()
    scenario = scenario_of(config)
    settings.scenario = getattr(loadgen.TestScenario, scenario)
    if user_conf is not None:
        _read(settings, user_conf, scenario)
    if not user_conf_only:
        for name, value in config.items():
            if hasattr(settings, name) and name not in _NOT_FIELDS and value is not None:
                setattr(settings, name, type(getattr(settings, name))(value))
    # The mode last: a user.conf may name one, and it is the caller's to choose.
    settings.mode = getattr(loadgen.TestMode, mode)
    return settings


def _read(settings: loadgen.TestSettings, path: Path, scenario: str) -> None:
    """Have LoadGen read a file. It does not raise but returns a number, so that goes unnoticed."""
    if not path.is_file():
        raise SystemExit(f"there is no {path}; LoadGen would run for ten minutes without it")
    code = settings.FromConfig(str(path), MODEL_NAME, scenario)
    if code:
        raise SystemExit(f"LoadGen cannot read {path} (its code is {code})")


def log_settings_of(directory: Path) -> loadgen.LogSettings:
    """Logs into a directory, which is made first: LoadGen aborts at its end if there is none."""
    directory.mkdir(parents=True, exist_ok=True)
    output = loadgen.LogOutputSettings()
    output.outdir = str(directory)
    settings = loadgen.LogSettings()
    settings.log_output = output
    settings.enable_trace = False
    return settings

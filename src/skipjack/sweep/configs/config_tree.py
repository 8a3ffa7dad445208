"""configs/BENCHMARK/SCENARIO/config.json: configs by system, which may build on one another.

``{"default": {...}, "A10x1": {...}, "A10x8": {"scales": {"A10x1": {"qps": 7.5}}}}``. A system's
config is the default, then what it ``extends`` (a list of systems), then what it ``scales`` (for
each system, names with factors), then its own values; later ones win, nested objects are merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skipjack.core.naming import did_you_mean
from skipjack.errors import UsageError
from skipjack.sweep.configs.base_config import DEFAULT, BaseConfig, is_tree_file
from skipjack.sweep.configs.names import benchmark_name, same_name, scenario_name
from skipjack.sweep.configs.overlay_config import overlay
from skipjack.sweep.files.json_file import parse_json_object
from skipjack.sweep.files.read import read_text

EXTENDS = "extends"
SCALES = "scales"
FILE = "config.json"
_PASSED_ON = ("benchmark", "scenario")


def read_config_tree(
    directory: Path, benchmark: str, scenario: str, system_id: str, *, nested: bool = False
) -> BaseConfig:
    """The config of a system in a tree, whichever way benchmark and scenario are spelled."""
    path = find_config(directory, benchmark, scenario)
    content = parse_json_object(path, read_text(path, "base config"))
    if not is_tree_file(content):
        raise UsageError(f"{path} has no entry {DEFAULT!r} with an object; add an empty one")
    names = {"benchmark": benchmark_name(benchmark), "scenario": scenario_name(scenario)}
    config = config_of_system({**names, **content}, system_id, str(path))
    return BaseConfig(config, str(path), system_id, nested)


def find_config(directory: Path, benchmark: str, scenario: str) -> Path:
    """The one file for benchmark and scenario."""
    if not directory.is_dir():
        raise UsageError(f"there is no directory {directory} with base configs; see --configs")
    files = sorted(directory.glob(f"*/*/{FILE}"))
    matching = [
        file
        for file in files
        if same_name(file.parent.parent.name, benchmark, benchmark_name)
        and same_name(file.parent.name, scenario, scenario_name)
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        several = ", ".join(map(str, matching))
        raise UsageError(f"{benchmark} {scenario} fits {several}; leave one of them")
    there = ", ".join(f"{file.parent.parent.name} {file.parent.name}" for file in files)
    raise UsageError(
        f"{directory} has no {FILE} for {benchmark} {scenario}; it has {there or 'none at all'}"
    )


def config_of_system(content: Mapping[str, Any], system_id: str, where: str) -> dict[str, Any]:
    """A system's config with all that it builds on."""
    own = _resolved(content, system_id, where, ())
    # As ever, a name of the system replaces the default's as a whole.
    config = overlay(content[DEFAULT], own)
    config["system_id"] = system_id
    config.update({name: content[name] for name in _PASSED_ON if name in content})
    return config


def _resolved(
    content: Mapping[str, Any], system_id: str, where: str, below: tuple[str, ...]
) -> dict[str, Any]:
    if system_id in below:
        circle = " -> ".join((*below[below.index(system_id) :], system_id))
        raise UsageError(f"{where}: these build on each other: {circle}")
    entry = _entry(content, system_id, where, below)
    extends, scales = _parents(entry, system_id, where)
    config: dict[str, Any] = {}
    for parent in extends:
        inherited = _resolved(content, parent, where, (*below, system_id))
        config = overlay(config, inherited, nested=True)
    for parent, factors in scales.items():
        inherited = _resolved(content, parent, where, (*below, system_id))
        _scale(inherited, factors, f"{where}: {system_id} scales {parent}")
        config = overlay(config, inherited, nested=True)
    own = {name: value for name, value in entry.items() if name not in (EXTENDS, SCALES)}
    return overlay(config, own, nested=True)


def _entry(
    content: Mapping[str, Any], system_id: str, where: str, below: tuple[str, ...]
) -> Mapping[str, Any]:
    systems = [name for name, value in content.items() if isinstance(value, dict)]
    if system_id in systems:
        entry: Mapping[str, Any] = content[system_id]
        return entry
    others = sorted(set(systems) - {DEFAULT})
    wanted_by = f", on which {below[-1]} builds" if below else ""
    raise UsageError(
        f"{where} has no entry for {system_id}{wanted_by}; it has {', '.join(others) or 'none'}"
        f"{did_you_mean(system_id, others)}"
    )


def _parents(
    entry: Mapping[str, Any], system_id: str, where: str
) -> tuple[list[str], dict[str, Mapping[str, float]]]:
    extends, scales = entry.get(EXTENDS, []), entry.get(SCALES, {})
    if not isinstance(extends, list) or not all(isinstance(name, str) for name in extends):
        raise UsageError(f"{where}: {EXTENDS} of {system_id} must be a list of systems")
    if not isinstance(scales, dict) or not all(isinstance(each, dict) for each in scales.values()):
        raise UsageError(
            f"{where}: {SCALES} of {system_id} must have for each system the names to scale with "
            'their factors, as {"A10x1": {"server_target_qps": 8}}'
        )
    for parent in extends:
        if parent in scales:
            raise UsageError(f"{where}: {system_id} cannot both extend and scale {parent}")
    return extends, scales


def _scale(config: dict[str, Any], factors: Mapping[str, Any], what: str) -> None:
    """Multiply values in place, also in other versions of the config."""
    versions = config.get("config_ver", {})
    for name, factor in factors.items():
        if name not in config:
            raise UsageError(f"{what}, which has no {name}")
        for part in (config, *(each for each in versions.values() if name in each)):
            value = part[name]
            if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in (value, factor)):
                raise UsageError(f"{what}: {name} is {value!r} times {factor!r}; both are numbers")
            part[name] = value * factor

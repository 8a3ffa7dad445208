"""The config that points are laid over: read from a file or from a tree of systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skipjack.core import Config, did_you_mean
from skipjack.errors import ForeignError, UsageError
from skipjack.sweep.configs.names import benchmark_name, same_name, scenario_name
from skipjack.sweep.files import SweepFile, parse_json_object, read_text

# Laying a point over a config, flat or into nested objects.


def overlay(
    base: Mapping[str, Any], point: Mapping[str, Any], *, nested: bool = False
) -> dict[str, Any]:
    """A new dict: `base` with the names of `point` set. Neither argument is changed.

    If flat, a name replaces the whole value. If nested, an object is merged into an object, and
    ``model.batch`` is the ``batch`` in the object ``model``, so that a point can change a part of
    an object and keep the rest.
    """
    result = {name: _copied(value) for name, value in base.items()}
    for name, value in point.items():
        if nested and name not in result and "." in name:
            name, value = _unfolded(name, value)
        under = result.get(name)
        if nested and isinstance(under, dict) and isinstance(value, Mapping):
            result[name] = overlay(under, value, nested=True)
        else:
            result[name] = _copied(value)
    return result


def find(base: Mapping[str, Any], name: str, *, nested: bool = False) -> tuple[Any] | None:
    """The value of a name, in a tuple, or None; if nested, also of a name like ``model.batch``."""
    if name in base:
        return (base[name],)
    first, dot, rest = name.partition(".")
    if nested and dot and isinstance(base.get(first), Mapping):
        return find(base[first], rest, nested=True)
    return None


def _unfolded(name: str, value: Any) -> tuple[str, Any]:
    """``a.b.c`` as the name ``a`` and an object."""
    first, *rest = name.split(".")
    for part in reversed(rest):
        value = {part: value}
    return first, value


def _copied(value: Any) -> Any:
    """A copy of JSON containers, so that a hook may modify what it receives."""
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


# The config that a sweep's points are laid over, and checks of their names against it.

DEFAULT = "default"
"""The key that marks a file as one with configs of several systems."""


@dataclass(frozen=True, slots=True)
class BaseConfig:
    """The values of all settings that a point does not set; `where` is empty without a config."""

    config: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    """The file, for messages."""
    system_id: str = ""
    nested: bool = False
    """Whether points reach into nested objects."""

    def with_point(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The whole config of a point, in a new dict."""
        return overlay(self.config, point, nested=self.nested)

    def point(self, names: Mapping[str, Any]) -> Config | None:
        """The base config's values of these names; None if it lacks one of them."""
        found = {name: find(self.config, name, nested=self.nested) for name in names}
        if None in found.values():
            return None
        return Config.of({name: held[0] for name, held in found.items() if held})

    def has(self, name: str) -> bool:
        """Whether the config has a setting of this name."""
        return find(self.config, name, nested=self.nested) is not None


def read_base_config(
    path: Path, system_id: str | Callable[[], str] = "", *, nested: bool = False
) -> BaseConfig:
    """Read a JSON object with settings, or with an object for each system and a ``default``.

    `system_id` may be a function; it is called only for a file of the second kind.
    """
    content = parse_json_object(path, read_text(path, "base config"))
    if not is_tree_file(content):
        chosen = system_id if isinstance(system_id, str) else ""
        return BaseConfig(content, str(path), chosen, nested)
    pass

    chosen = system_id if isinstance(system_id, str) else system_id()
    if not chosen:
        raise UsageError(
            f"base config {path} has an entry for each system; choose one with --system-id"
        )
    return BaseConfig(config_of_system(content, chosen, str(path)), str(path), chosen, nested)


def is_tree_file(content: Mapping[str, Any]) -> bool:
    """Whether a file has configs by system: objects and strings, one object is ``default``."""
    return isinstance(content.get(DEFAULT), dict) and all(
        isinstance(value, (dict, str)) for value in content.values()
    )


def check_names(file: SweepFile, base: BaseConfig) -> None:
    """Raise `UsageError` for a parameter that the base config, if there is one, lacks."""
    if not base.where:
        return
    for name in file.parameters:
        if not base.has(name):
            raise UsageError(
                f"{file.where(name)}: {name} is not in the base config {base.where}; "
                "correct it, or use --no-check-keys to sweep it nevertheless"
                f"{did_you_mean(name, base.config)}"
            )


def is_allowed(file: SweepFile, base: BaseConfig, point: Mapping[str, Any]) -> bool:
    """Whether the file's rule allows a point; an error in the rule names the point."""
    if file.is_valid is None:
        return True
    try:
        return bool(file.is_valid(base.with_point(point)))
    except ForeignError as error:
        if file.parameters:
            raise  # the message has the point already
        raise ForeignError(f"{error}; the point was {Config.of(dict(point))}") from error


# configs/BENCHMARK/SCENARIO/config.json: configs by system, which may derive from each other.
#
# ``{"default": {...}, "A10x1": {...}, "A10x8": {"scales": {"A10x1": {"qps": 7.5}}}}``. A config has
# the values of the default, then of what the system ``extends`` (a list of systems) and ``scales``
# (for each system, names with factors), then its own; later ones win, nested objects are merged.

EXTENDS = "extends"
SCALES = "scales"
FILE = "config.json"
_PASSED_ON = ("benchmark", "scenario")


def read_config_tree(
    directory: Path, benchmark: str, scenario: str, system_id: str, *, nested: bool = False
) -> BaseConfig:
    """The config of a system in a tree, for any spelling of benchmark and scenario."""
    path = find_config(directory, benchmark, scenario)
    content = parse_json_object(path, read_text(path, "base config"))
    if not is_tree_file(content):
        raise UsageError(f"{path} has no object {DEFAULT!r}; add an empty one")
    names = {"benchmark": benchmark_name(benchmark), "scenario": scenario_name(scenario)}
    config = config_of_system({**names, **content}, system_id, str(path))
    return BaseConfig(config, str(path), system_id, nested)


def find_config(directory: Path, benchmark: str, scenario: str) -> Path:
    """The only file for this benchmark and scenario."""
    if not directory.is_dir():
        raise UsageError(
            f"the directory of base configs {directory} does not exist; set it with --configs"
        )
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
        raise UsageError(f"several files match {benchmark} {scenario}: {several}; keep one of them")
    there = ", ".join(f"{file.parent.parent.name} {file.parent.name}" for file in files)
    raise UsageError(
        f"{directory} has no {FILE} for {benchmark} {scenario}; it has {there or 'none'}"
    )


def config_of_system(content: Mapping[str, Any], system_id: str, where: str) -> dict[str, Any]:
    """A system's config with everything that it derives from."""
    own = _resolved(content, system_id, where, ())
    # As in grid.py, a value of the system replaces the default's as a whole.
    config = overlay(content[DEFAULT], own)
    config["system_id"] = system_id
    config.update({name: content[name] for name in _PASSED_ON if name in content})
    return config


def _resolved(
    content: Mapping[str, Any], system_id: str, where: str, below: tuple[str, ...]
) -> dict[str, Any]:
    if system_id in below:
        circle = " -> ".join((*below[below.index(system_id) :], system_id))
        raise UsageError(f"{where}: systems derive from each other: {circle}")
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
    wanted_by = f", from which {below[-1]} derives" if below else ""
    raise UsageError(
        f"{where} has no entry for {system_id}{wanted_by}; it has {', '.join(others) or 'none'}"
        f"{did_you_mean(system_id, others)}"
    )


def _parents(
    entry: Mapping[str, Any], system_id: str, where: str
) -> tuple[list[str], dict[str, Mapping[str, float]]]:
    extends, scales = entry.get(EXTENDS, []), entry.get(SCALES, {})
    if not isinstance(extends, list) or not all(isinstance(name, str) for name in extends):
        raise UsageError(f"{where}: {EXTENDS} of {system_id} must be a list of system names")
    if not isinstance(scales, dict) or not all(isinstance(each, dict) for each in scales.values()):
        raise UsageError(
            f"{where}: {SCALES} of {system_id} must map systems to names with factors, such as "
            '{"A10x1": {"server_target_qps": 8}}'
        )
    for parent in extends:
        if parent in scales:
            raise UsageError(f"{where}: {system_id} cannot both extend and scale {parent}")
    return extends, scales


def _scale(config: dict[str, Any], factors: Mapping[str, Any], what: str) -> None:
    """Multiply values in place, including those in other versions of the config."""
    versions = config.get("config_ver", {})
    for name, factor in factors.items():
        if name not in config:
            raise UsageError(f"{what}, which has no {name}")
        for part in (config, *(each for each in versions.values() if name in each)):
            value = part[name]
            if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in (value, factor)):
                raise UsageError(
                    f"{what}: {name} is {value!r} times {factor!r}; both must be numbers"
                )
            part[name] = value * factor

"""The config that a sweep's points are laid over, and whether it knows their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skipjack.core.config import Config
from skipjack.core.naming import did_you_mean
from skipjack.errors import ForeignError, UsageError
from skipjack.sweep.configs.overlay_config import find, overlay
from skipjack.sweep.files.json_file import parse_json_object
from skipjack.sweep.files.read import read_text
from skipjack.sweep.files.sweep_file import SweepFile

DEFAULT = "default"
"""The key by which a file with configs of several systems is known."""


@dataclass(frozen=True, slots=True)
class BaseConfig:
    """What is run where a point says nothing. `where` is empty if no config was given."""

    config: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    """The file, for complaints."""
    system_id: str = ""
    nested: bool = False
    """Whether points reach into nested objects."""

    def with_point(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The whole config of a point, in a dict of the caller's own."""
        return overlay(self.config, point, nested=self.nested)

    def point(self, names: Mapping[str, Any]) -> Config | None:
        """The point at which the base config stands; None if it lacks one of the names."""
        found = {name: find(self.config, name, nested=self.nested) for name in names}
        if None in found.values():
            return None
        return Config.of({name: held[0] for name, held in found.items() if held})

    def has(self, name: str) -> bool:
        """Whether a parameter of this name is one of the config's."""
        return find(self.config, name, nested=self.nested) is not None


def read_base_config(
    path: Path, system_id: str | Callable[[], str] = "", *, nested: bool = False
) -> BaseConfig:
    """A JSON object with a value for each name; or one for each system, with a ``default``.

    `system_id` may be a function: it is called only for a file of the second kind.
    """
    content = parse_json_object(path, read_text(path, "base config"))
    if not is_tree_file(content):
        chosen = system_id if isinstance(system_id, str) else ""
        return BaseConfig(content, str(path), chosen, nested)
    from skipjack.sweep.configs.config_tree import config_of_system

    chosen = system_id if isinstance(system_id, str) else system_id()
    if not chosen:
        raise UsageError(
            f"base config {path} has an entry for each system; say which with --system-id"
        )
    return BaseConfig(config_of_system(content, chosen, str(path)), str(path), chosen, nested)


def is_tree_file(content: Mapping[str, Any]) -> bool:
    """Whether a file has configs by system: a ``default`` object among objects and texts."""
    return isinstance(content.get(DEFAULT), dict) and all(
        isinstance(value, (dict, str)) for value in content.values()
    )


def check_names(file: SweepFile, base: BaseConfig) -> None:
    """Refuse a parameter that the base config does not have. No base config: nothing to check."""
    if not base.where:
        return
    for name in file.parameters:
        if not base.has(name):
            raise UsageError(
                f"{file.where(name)}: {name} is not in the base config {base.where}; "
                "correct it, or say --no-check-keys to sweep it all the same"
                f"{did_you_mean(name, base.config)}"
            )


def is_allowed(file: SweepFile, base: BaseConfig, point: Mapping[str, Any]) -> bool:
    """Whether the file's rule lets a point be run; a rule that fails says at which point."""
    if file.is_valid is None:
        return True
    try:
        return bool(file.is_valid(base.with_point(point)))
    except ForeignError as error:
        if file.parameters:
            raise  # which says at which point already
        raise ForeignError(f"{error}; the point was {Config.of(dict(point))}") from error

"""Export formats by name: what `export` writes, `compare` reads and `promote` merges.

A format is a class (`ExportFormat`); `register` adds further formats.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path

from skipjack.core import check_new_name, did_you_mean
from skipjack.errors import UsageError
from skipjack.fleet.release.database_directory import PACKED
from skipjack.fleet.release.formats.export_format import (
    AND,
    FIND_DB,
    KERNEL_DB,
    MIOPEN,
    PERF_DB,
    SKIPJACK,
    Alias,
    Contents,
    ExportFormat,
    FindOptions,
    GatheredConfigs,
    GatheredRankings,
    KeyedFile,
    PerfOptions,
    ReleaseFile,
    base_name,
    check_aliases,
)
from skipjack.plugins import EntryPoints, named_instance

__all__ = [
    "AND",
    "FIND_DB",
    "KERNEL_DB",
    "MIOPEN",
    "PERF_DB",
    "SKIPJACK",
    "Alias",
    "Contents",
    "ExportFormat",
    "FindOptions",
    "GatheredConfigs",
    "GatheredRankings",
    "KeyedFile",
    "PerfOptions",
    "ReleaseFile",
    "base_name",
    "check_aliases",
    "every",
    "get",
    "installed",
    "keyed_file",
    "names",
    "of_find_db",
    "of_kernel_file",
    "register",
]

_known: dict[str, ExportFormat | str] = {
    SKIPJACK: "skipjack.fleet.release.formats.skipjack_format:SkipjackFormat",
    MIOPEN: "skipjack.fleet.release.formats.miopen_format:MiopenFormat",
}
"""Built-in formats as ``module:class``, loaded when used, then registered formats."""


def register(form: ExportFormat) -> None:
    """Register a format under its name, for ``--format``."""
    if not isinstance(form, ExportFormat):
        raise UsageError(
            f"an export format must be an instance of a subclass of ExportFormat, not {form!r}"
        )
    check_new_name("export format", form.name, _known)
    for ending in form.endings:
        for other in every():
            if ending in other.endings:
                raise UsageError(
                    f"export format {form.name!r} has files that end in {ending}, like those of "
                    f"{other.name}; choose another ending"
                )
    _known[form.name] = form


def _known_format(name: str) -> object | None:
    return _known.get(name)


def _add_installed(name: str, found: object) -> None:
    register(named_instance("export format", name, found))


@functools.cache
def installed() -> EntryPoints:
    """Plug-ins of other distributions."""
    return EntryPoints("export format", "skipjack.formats", _known_format, _add_installed)


def names() -> tuple[str, ...]:
    """The names of all formats, built-in ones first."""
    installed().load_all()
    return tuple(_known)


def get(name: str) -> ExportFormat:
    """The format with this name; `UsageError` lists the existing ones."""
    if name not in _known:
        installed().load(name)
    if name not in _known:
        hint = did_you_mean(name, names())
        raise UsageError(f"unknown format {name!r}: choose {' or '.join(names())}{hint}")
    known = _known[name]
    if isinstance(known, str):
        module, _, attribute = known.partition(":")
        made: ExportFormat = getattr(importlib.import_module(module), attribute)()
        _known[name] = known = made
    return known


def every(first: str = SKIPJACK) -> list[ExportFormat]:
    """All formats, the preferred one first."""
    return [get(first), *(get(name) for name in names() if name != first)]


def of_find_db(path: Path) -> ExportFormat | None:
    """The format of a find-db by its name, packed or not; None if no format has it."""
    name = path.name.removesuffix(PACKED)
    return next((one for one in every() if name.endswith(one.find_endings())), None)


def of_kernel_file(path: Path) -> ExportFormat | None:
    """The format of a file with the kernels of all devices, by its name."""
    endings = {one.kernel_ending: one for one in every() if one.kernel_ending}
    return endings.get(path.suffix)


def keyed_file(path: Path) -> KeyedFile:
    """How a file is read and merged, by its name; `UsageError` if it cannot be merged."""
    for form in every():
        for keyed in form.keyed:
            if path.name.endswith(keyed.endings):
                return keyed
    raise UsageError(
        f"{path} cannot be merged: no export format reads records from files with such a name"
    )

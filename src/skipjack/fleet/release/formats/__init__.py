"""Export formats by name: what `export` writes, `compare` reads and `promote` merges.

A format is one class (`ExportFormat`), registered beside ours by `register`.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path

from skipjack.core.naming import check_new_name, did_you_mean
from skipjack.entry_points import EntryPoints, named_instance
from skipjack.errors import UsageError
from skipjack.fleet.release.formats.contents import (
    AND,
    FIND_DB,
    KERNEL_DB,
    MIOPEN,
    PERF_DB,
    SKIPJACK,
    Alias,
    Contents,
    ReleaseFile,
    base_name,
    check_aliases,
)
from skipjack.fleet.release.formats.export_format import (
    ExportFormat,
    FindOptions,
    KeyedFile,
    PerfOptions,
)
from skipjack.fleet.release.formats.gathered import GatheredConfigs, GatheredRankings
from skipjack.fleet.release.placing import PACKED

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
"""``module:class`` of ours, which are loaded when used, and those of others behind them."""


def register(form: ExportFormat) -> None:
    """Add a format, which ``--format`` takes by its name from now on."""
    if not isinstance(form, ExportFormat):
        raise UsageError(f"an export format is an object of a subclass of ExportFormat: {form!r}")
    check_new_name("export format", form.name, _known)
    for ending in form.endings:
        for other in every():
            if ending in other.endings:
                raise UsageError(
                    f"export format {form.name!r} has files that end in {ending}, as those of "
                    f"{other.name} do; choose another ending"
                )
    _known[form.name] = form


def _held(name: str) -> object | None:
    return _known.get(name)


def _add_installed(name: str, found: object) -> None:
    register(named_instance("export format", name, found))


@functools.cache
def installed() -> EntryPoints:
    """Plug-ins of other distributions."""
    return EntryPoints("export format", "skipjack.formats", _held, _add_installed)


def names() -> tuple[str, ...]:
    """All formats, ours first."""
    installed().load_all()
    return tuple(_known)


def get(name: str) -> ExportFormat:
    """The format of this name; `UsageError` names those that there are."""
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
    """All formats, the one that is preferred first."""
    return [get(first), *(get(name) for name in names() if name != first)]


def of_find_db(path: Path) -> ExportFormat | None:
    """The format whose find-dbs have such a name, packed or not."""
    name = path.name.removesuffix(PACKED)
    return next((one for one in every() if name.endswith(one.find_endings())), None)


def of_kernel_file(path: Path) -> ExportFormat | None:
    """The format of a file for the kernels of all devices, by its name."""
    endings = {one.kernel_ending: one for one in every() if one.kernel_ending}
    return endings.get(path.suffix)


def keyed_file(path: Path) -> KeyedFile:
    """How a file is read and merged, by its name; `UsageError` if it cannot be."""
    for form in every():
        for keyed in form.keyed:
            if path.name.endswith(keyed.endings):
                return keyed
    raise UsageError(
        f"{path} cannot be merged: no export format reads records from files with such a name"
    )

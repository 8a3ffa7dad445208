"""Banks: their entries, one of them with its evidence, and the difference of two banks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from skipjack.app.views.fleet_pages import seconds_of
from skipjack.app.views.links import entry_path
from skipjack.app.views.searches import KnownEntry, known_entries_of
from skipjack.app.views.tables import RecordTable, TableRequest, ViewColumn, table_of
from skipjack.app.views.workspace import UnknownNameError, Workspace
from skipjack.bank import BankEntry, BankLayer, Key, entry_device_names, read_bank
from skipjack.core import Value, settings_text


@dataclass(frozen=True, slots=True)
class BankRow:
    """An entry of a bank in tables."""

    layer: str
    problem: str
    operation: str
    device: str
    kind: str
    deployed: str
    solver: str
    config: str
    time_ns: float
    gain: float | None
    """The main gain: how many times as fast it is as what it was compared with."""
    over: str
    """What that is: ``default``, or the name of a library."""
    samples: int | None
    created: float | None


def _row_of(layer: str, entry: BankEntry) -> BankRow:
    gain, over = main_gain(entry)
    return BankRow(
        layer=layer,
        problem=entry.problem,
        operation=entry.problem.partition(":")[0],
        device=entry.device_name,
        kind=entry.kind,
        deployed=entry.deployed,
        solver=entry.solver,
        config=settings_text(entry.config),
        time_ns=entry.time_ns,
        gain=gain,
        over=over,
        samples=entry.evidence.samples,
        created=seconds_of(entry.created),
    )


def _rows_of(layer: BankLayer) -> list[BankRow]:
    return [_row_of(layer.name, one) for one in layer.bank.entries()]


def main_gain(entry: BankEntry) -> tuple[float | None, str]:
    """The main gain of an entry, and what it is over; as in ``skipjack bank list``."""
    baseline = entry.evidence.baseline
    if baseline is not None:
        return baseline.ratio, baseline.over
    for name, shown in (("vendor", entry.vendor), ("default", "default")):
        if name in entry.speedup:
            return entry.speedup[name].get("ratio"), shown
    return None, ""


def _bank_column(
    name: str, title: str, unit: str = "", filterable: bool = False
) -> ViewColumn[BankRow]:
    return ViewColumn(
        name,
        title,
        lambda one: getattr(one, name),
        unit,  # type: ignore[arg-type]
        filterable=filterable,
        link=(lambda one: entry_path(one.layer, one.problem))
        if name == "problem"
        else (lambda _: None),
    )


BANK_COLUMNS: tuple[ViewColumn[BankRow], ...] = (
    _bank_column("problem", "problem", filterable=True),
    _bank_column("operation", "operation", filterable=True),
    _bank_column("device", "device", filterable=True),
    _bank_column("kind", "kind", filterable=True),
    _bank_column("deployed", "deployment", filterable=True),
    _bank_column("solver", "solver", filterable=True),
    _bank_column("config", "config", filterable=True),
    _bank_column("time_ns", "time", "ns"),
    _bank_column("gain", "gain", "ratio"),
    _bank_column("over", "over", filterable=True),
    _bank_column("samples", "samples", "count"),
    _bank_column("created", "created", "time"),
)


@dataclass(frozen=True, slots=True)
class BankSize:
    """A bank in use."""

    layer: str
    path: Path
    present: bool
    entries: int
    """The lines of its file: entries, and perhaps some that were replaced."""


@dataclass(frozen=True, slots=True)
class BankPage:
    """The banks in use, and the entries of one of them."""

    banks: Sequence[BankSize]
    layer: str
    entries: RecordTable[BankRow]


def bank_page(
    workspace: Workspace, layer: str = "user", request: TableRequest | None = None
) -> BankPage:
    """The entries of a bank, by problem and device."""
    chosen = workspace.layer(layer)
    rows = workspace.remembered("rows", chosen.path, lambda: _rows_of(chosen))
    table = table_of("entries", BANK_COLUMNS, rows, request or TableRequest())
    return BankPage(bank_sizes(workspace), layer, table)


def bank_sizes(workspace: Workspace) -> list[BankSize]:
    """The banks in use, in the order in which lookups ask them."""
    return [_size(workspace, one) for one in workspace.layers]


def _size(workspace: Workspace, layer: BankLayer) -> BankSize:
    lines = workspace.remembered("lines", layer.path, partial(_lines, layer.path))
    return BankSize(layer.name, layer.path, layer.path.is_file(), lines)


def _lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 0


@dataclass(frozen=True, slots=True)
class EntryPage:
    """All entries of a problem in a bank, with their evidence."""

    layer: str
    problem: str
    entries: Sequence[KnownEntry]


def entry_page(workspace: Workspace, layer: str, problem: str) -> EntryPage:
    """The entries of a problem in a bank; `UnknownNameError` if there are none."""
    workspace.layer(layer)
    found = [one for one in known_entries_of(workspace, problem) if one.layer == layer]
    if not found:
        raise UnknownNameError(
            f"the {layer} bank has no entry for {problem!r}; skipjack bank list lists all"
        )
    return EntryPage(layer, problem, found)


# The difference of two banks.

DifferenceKind = Literal["only in first", "only in second", "other config", "other time"]


@dataclass(frozen=True, slots=True)
class BankDifferenceRow:
    """A key whose strongest entries differ in two banks."""

    problem: str
    device: str
    kind: str
    deployed: str
    difference: DifferenceKind
    first_solver: str
    first_config: Mapping[str, Value]
    first_ns: float | None
    second_solver: str
    second_config: Mapping[str, Value]
    second_ns: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as fast the second is, by times that may be of different sessions."""
        if self.first_ns is None or not self.second_ns:
            return None
        return self.first_ns / self.second_ns


DIFFERENCE_COLUMNS: tuple[ViewColumn[BankDifferenceRow], ...] = (
    ViewColumn("problem", "problem", lambda one: one.problem, filterable=True),
    ViewColumn("device", "device", lambda one: one.device, filterable=True),
    ViewColumn("kind", "kind", lambda one: one.kind, filterable=True),
    ViewColumn("deployed", "deployment", lambda one: one.deployed, filterable=True),
    ViewColumn("difference", "difference", lambda one: one.difference, filterable=True),
    ViewColumn("first_solver", "solver before", lambda one: one.first_solver, filterable=True),
    ViewColumn("first_config", "config before", lambda one: settings_text(one.first_config)),
    ViewColumn("first_ns", "time before", lambda one: one.first_ns, "ns"),
    ViewColumn("second_solver", "solver after", lambda one: one.second_solver, filterable=True),
    ViewColumn("second_config", "config after", lambda one: settings_text(one.second_config)),
    ViewColumn("second_ns", "time after", lambda one: one.second_ns, "ns"),
    ViewColumn("ratio", "gain", lambda one: one.ratio, "ratio"),
)


@dataclass(frozen=True, slots=True)
class BankDifference:
    """How two banks differ, by their strongest entries."""

    first: str
    second: str
    same: int
    """Keys with equal solver, config and time."""
    counts: Mapping[str, int]
    """The number of keys by kind of difference."""
    rows: RecordTable[BankDifferenceRow]


def bank_difference(
    first: Path, second: Path, request: TableRequest | None = None
) -> BankDifference:
    """The difference of two banks, which are files, or directories with a bank."""
    old, new = (_strongest(place) for place in (first, second))
    rows: list[BankDifferenceRow] = []
    same = 0
    names = entry_device_names([*old.values(), *new.values()], by_class=True)
    for key in sorted(old.keys() | new.keys()):
        kind = _difference(old.get(key), new.get(key))
        if kind is None:
            same += 1
        else:
            rows.append(_difference_row(kind, old.get(key), new.get(key), names))
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.difference] = counts.get(row.difference, 0) + 1
    table = table_of("differences", DIFFERENCE_COLUMNS, rows, request or TableRequest())
    return BankDifference(str(first), str(second), same, counts, table)


def _strongest(place: Path) -> dict[Key, BankEntry]:
    return {key: entries[0] for key, entries in read_bank(place).items() if entries}


def _difference(old: BankEntry | None, new: BankEntry | None) -> DifferenceKind | None:
    if old is None:
        return "only in second"
    if new is None:
        return "only in first"
    if old.solver != new.solver or old.config != new.config:
        return "other config"
    return None if old.time_ns == new.time_ns else "other time"


def _difference_row(
    kind: DifferenceKind,
    old: BankEntry | None,
    new: BankEntry | None,
    names: Mapping[str, str],
) -> BankDifferenceRow:
    either = old or new
    assert either is not None
    return BankDifferenceRow(
        either.problem,
        names[either.device],
        either.kind,
        either.deployed,
        kind,
        old.solver if old else "",
        old.config if old else {},
        old.time_ns if old else None,
        new.solver if new else "",
        new.config if new else {},
        new.time_ns if new else None,
    )

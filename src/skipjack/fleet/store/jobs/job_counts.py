"""Numbers of jobs, by any combination of properties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, case, func, select

from skipjack.errors import UsageError
from skipjack.fleet.model import JobKind, JobState
from skipjack.fleet.store.catalog.devices import names_by_class
from skipjack.fleet.store.catalog.labels import id_of
from skipjack.fleet.store.jobs.jobs import check_device
from skipjack.fleet.store.schema import tables

_builder, _evaluator = tables.machines.alias("builder"), tables.machines.alias("evaluator")

_class = func.coalesce(tables.label_devices.c.class_key, tables.jobs.c.device)
"""The class of the device if it is known, else its name."""

# The names that users may give; no other text reaches a statement.
_COLUMNS: dict[str, ColumnElement[Any]] = {
    "label": tables.labels.c.name,
    "device": _class,
    "arch": tables.jobs.c.device,
    "units": tables.jobs.c.device,
    "state": tables.jobs.c.state,
    "stage": tables.jobs.c.stage,
    "solver": case(
        (tables.jobs.c.kind == str(JobKind.TUNE), tables.jobs.c.solver), else_=tables.jobs.c.kind
    ),
    "kind": tables.jobs.c.kind,
    "driver": tables.jobs.c.driver,
    "operation": tables.problems.c.operation,
    "direction": tables.problems.c.direction,
    "build_machine": _builder.c.name,
    "eval_machine": _evaluator.c.name,
    "gpu": tables.jobs.c.gpu,
}
BY = tuple(_COLUMNS)
"""Properties to count by. The stage is that of an error, and otherwise empty."""

_ORDER = {str(state): place for place, state in enumerate(JobState)}


def counts(
    connection: Connection,
    *,
    label: str | None = None,
    by: Sequence[str] = ("state",),
    state: JobState | None = None,
    device: str | None = None,
) -> list[tuple[tuple[str, ...], int]]:
    """The number of jobs for each combination of values that occurs, ordered by the values.

    States are in the order in which jobs pass them.
    """
    check_by(by)
    query = _joined(by)
    if label is not None:
        query = query.where(tables.jobs.c.label == id_of(connection, label))
    if state is not None:
        query = query.where(tables.jobs.c.state == state)
    if device is not None:
        check_device(connection, device)
        query = query.where(tables.jobs.c.device == device)
    names = names_by_class(connection) if "device" in by else {}
    counted: Counter[tuple[str, ...]] = Counter()
    for *values, count in connection.execute(query):
        told = (names.get(value, value) for value in values)
        counted[tuple(map(_value, by, told))] += count
    return sorted(counted.items(), key=lambda item: _place(by, item[0]))


def check_by(by: Sequence[str]) -> None:
    """`UsageError` that lists the properties to count by, if these are not among them."""
    odd = [name for name in by if name not in _COLUMNS]
    if odd:
        raise UsageError(f"jobs cannot be counted by {odd[0]!r}; choose from {', '.join(BY)}")
    if not by:
        raise UsageError(f"no property to count jobs by; choose from {', '.join(BY)}")


def _joined(by: Sequence[str]) -> Select[Any]:
    """Jobs, joined with the tables that are needed."""
    columns = [_COLUMNS[name] for name in by]
    needed = {column.table for column in columns if isinstance(column, Column)}
    job = tables.jobs.c
    source: Any = tables.jobs
    if "device" in by:
        of = tables.label_devices.c
        same = (of.label == job.label) & (of.device == job.device)
        source = source.outerjoin(tables.label_devices, same)
    for table, key in ((tables.labels, job.label), (tables.problems, job.problem)):
        if table in needed:
            source = source.join(table, table.c.id == key)
    for alias, key in ((_builder, job.build_machine), (_evaluator, job.eval_machine)):
        if alias in needed:
            source = source.outerjoin(alias, alias.c.id == key)
    named = [column.label(f"by_{place}") for place, column in enumerate(columns)]
    distinct = dict.fromkeys(columns)
    return select(*named, func.count()).select_from(source).group_by(*distinct)


def _value(name: str, value: str | None) -> str:
    if name in ("arch", "units"):
        arch, _, units = str(value).partition("/")
        return arch if name == "arch" else units
    return value or ""


def _place(by: Sequence[str], values: Sequence[str]) -> tuple[tuple[int, str], ...]:
    return tuple(
        (_ORDER[value], "")
        if name == "state"
        else (int(value), "")
        if name == "units" and value.isdecimal()
        else (0, value)
        for name, value in zip(by, values, strict=True)
    )


def live(
    connection: Connection,
    label: str | None = None,
    kind: JobKind | None = None,
    devices: Sequence[str] = (),
) -> dict[JobState, int]:
    """The number of jobs in each state; `label`, `kind` and `devices` (names) restrict them.

    States without jobs are left out.
    """
    job = tables.jobs.c
    query = select(job.state, func.count()).group_by(job.state)
    if label is not None:
        query = query.where(job.label == id_of(connection, label))
    if kind is not None:
        query = query.where(job.kind == str(kind))
    if devices:
        query = query.where(job.device.in_(devices))
    found = {JobState(state): count for state, count in connection.execute(query)}
    return {state: found[state] for state in JobState if state in found}

"""Jobs go from state to state here and nowhere else: rows in, `advance`, rows and story out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from skipjack.fleet.states import Event, Reset, Stage, Standing, State, advance
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.statements import update_and_insert

JobRow = Row[Any]
"""A job's row as `locked` reads it."""

LONGEST_REASON = 2000
"""Characters of a reason that are kept; the log has the rest."""

LONGEST_GPU = 64
"""Characters of a slot's name that are kept."""

# The device's record is long, and written once.
_READ = frozenset(column.name for column in tables.jobs.c) - {"device_record"}
_STANDING = frozenset(
    ("id", "state", "epoch", "round", "failures", "losses", "stage", "reason", "resume", "attempt")
)
_STARTED_OVER: Mapping[str, Any] = {
    "trials": 0,
    "failed_trials": 0,
    "best_ns": None,
    "result": None,
    "toolchain": "",
    "device_record": None,
}
"""What an epoch found out goes with it; its rounds and its story stay."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens to a job whose row is locked."""

    row: JobRow
    event: Event
    machine: int | None = None
    gpu: str = ""
    owner: str | None = None
    """The owner that has it afterwards."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Other columns that change with it."""


def reading(*names: str) -> Select[Any]:
    """Jobs with what any step needs, and the database's time as ``now``.

    With `names` of columns, where they stand and these alone: a column costs some drivers as much
    as a row.
    """
    wanted = _STANDING.union(names) if names else _READ
    columns = [column for column in tables.jobs.c if column.name in wanted]
    return select(*columns, clock.now().label("now"))


def locked(connection: Connection, *conditions: Any) -> Sequence[JobRow]:
    """The jobs that meet the conditions, locked in the order of their ids, as everybody does."""
    ordered = reading().where(*conditions).order_by(tables.jobs.c.id)
    return connection.execute(ordered.with_for_update()).all()


def standing(row: JobRow) -> Standing:
    """Where the job stands."""
    return Standing(
        State(row.state),
        row.epoch,
        row.round,
        row.failures,
        row.losses,
        Stage(row.stage) if row.stage else None,
        row.reason,
        State(row.resume) if row.resume else None,
    )


def worked_on(row: JobRow) -> tuple[int | None, str]:
    """The machine and the slot that have the job, if any has."""
    if row.state == State.BUILDING:
        return row.build_machine, ""
    if row.state == State.EVALUATING:
        return row.eval_machine, row.gpu
    return None, ""


def take(connection: Connection, steps: Sequence[Step]) -> list[Standing]:
    """Take each job its step further, with a line of its story; where they stand then.

    `IllegalStepError` before anything is written if one of them cannot happen.
    """
    if not steps:
        return []
    afterwards = [_after(step) for step in steps]
    pairs = list(zip(steps, afterwards, strict=True))
    changing = _changing(pairs)
    rows = [_row(*pair, changing) for pair in pairs]
    update_and_insert(connection, tables.jobs, rows, tables.story, [_line(*pair) for pair in pairs])
    return afterwards


def readable(text: str) -> str:
    """The text without what a database cannot hold: NUL, and halves of characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _after(step: Step) -> Standing:
    return advance(standing(step.row), step.event)


def _changing(pairs: Iterable[tuple[Step, Standing]]) -> tuple[str, ...]:
    """The columns beside the standing that any of the steps changes."""
    names = {name for step, after in pairs for name in _changes(step, after)}
    return tuple(sorted(names))


def _changes(step: Step, after: Standing) -> Mapping[str, Any]:
    return step.changes if after.epoch == step.row.epoch else _STARTED_OVER


def _row(step: Step, after: Standing, changing: tuple[str, ...]) -> dict[str, Any]:
    row, changes = step.row, _changes(step, after)
    values = {
        "id": row.id,
        "state": str(after.state),
        "epoch": after.epoch,
        "round": after.round,
        "failures": after.failures,
        "losses": after.losses,
        "stage": None if after.stage is None else str(after.stage),
        "reason": _kept(after.reason, after.state),
        "resume": None if after.resume is None else str(after.resume),
        "owner": step.owner,
        "updated": row.now,
    }
    for name in changing:
        values[name] = changes[name] if name in changes else getattr(row, name)
    return values


def _line(step: Step, after: Standing) -> dict[str, Any]:
    row = step.row
    return {
        "job": row.id,
        "at": row.now,
        "event": event_name(step.event),
        "before": row.state,
        "after": str(after.state),
        "epoch": row.epoch,
        "round": row.round,
        "attempt": step.changes.get("attempt", row.attempt),
        "machine": step.machine,
        "gpu": step.gpu,
        "reason": _kept(_reason(step.event), after.state),
    }


def _kept(reason: str, state: State) -> str:
    if not reason:
        return "no reason was given" if state is State.ERROR else ""
    return readable(reason)[:LONGEST_REASON]


def event_name(event: Event) -> str:
    """As the story spells it."""
    return type(event).__name__.lower()


def _reason(event: Event) -> str:
    if isinstance(event, Reset):
        return f"to {event.to}"
    return getattr(event, "reason", "")

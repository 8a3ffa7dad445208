"""Labels: batches of jobs with an owner and notes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, RowMapping, func, select, update

from skipjack.errors import UsageError
from skipjack.fleet.model import JobState, Label
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock, statements
from skipjack.fleet.store.sql.clock import iso_time

_TEXTS = ("toolchain", "versions", "image", "ticket")
_LONGEST = 255


@dataclass(frozen=True, slots=True)
class LabelSummary:
    """A label with the numbers of its jobs by state."""

    label: Label
    aborted: bool = False
    """Whether its jobs wait until it is resumed."""
    jobs: Mapping[JobState, int] = field(default_factory=dict)


def add_label(connection: Connection, label: Label) -> int:
    """Create the label if necessary; returns its id. Existing labels only get missing notes."""
    texts = {name: getattr(label, name) for name in _TEXTS}
    for name, text in {"name": label.name, "owner": label.owner, **texts}.items():
        if len(text) > _LONGEST:
            raise UsageError(f"the label's {name} is longer than {_LONGEST} characters")
    if not label.name or label.name != label.name.strip() or not label.name.isprintable():
        raise UsageError(
            f"label {label.name!r} is empty, begins or ends with a blank, "
            "or contains invisible characters"
        )
    for what, text in (("label", label.name), ("owner", label.owner), ("image", label.image)):
        if text.startswith("-"):
            raise UsageError(
                f"{what} {text!r} begins with a dash like an option; choose another name"
            )
    now = clock.read(connection)
    row = {"name": label.name, "owner": label.owner, **texts, "created": now}
    statements.insert_new(connection, tables.labels, [row])
    here = tables.labels.c.name == label.name
    for name, text in texts.items():
        if text:
            empty = tables.labels.c[name] == ""
            connection.execute(update(tables.labels).where(here, empty).values({name: text}))
    return int(connection.execute(select(tables.labels.c.id).where(here)).scalar_one())


def label(connection: Connection, name: str) -> Label:
    """The label with this name; `UsageError` with similar names if there is none."""
    found = connection.execute(
        select(tables.labels).where(tables.labels.c.id == id_of(connection, name))
    )
    return _label(found.mappings().one())


def is_aborted(connection: Connection, name: str) -> bool:
    """Whether the jobs of a label wait until it is resumed."""
    known = tables.labels.c
    return bool(connection.execute(select(known.aborted).where(known.name == name)).scalar())


def id_of(connection: Connection, name: str) -> int:
    """The label's id; `UsageError` with similar names if there is none."""
    known = tables.labels.c
    found = connection.execute(select(known.id).where(known.name == name)).scalar()
    if found is None:
        names = connection.execute(select(known.name)).scalars()
        raise unknown_name("label", name, names, "create one with skipjack load -l")
    return int(found)


def labels(connection: Connection) -> list[LabelSummary]:
    """Every label with the number of its jobs by state, oldest first."""
    job = tables.jobs.c
    counts: dict[int, dict[JobState, int]] = {}
    counted = select(job.label, job.state, func.count()).group_by(job.label, job.state)
    for id, state, count in connection.execute(counted):
        counts.setdefault(id, {})[JobState(state)] = count
    rows = connection.execute(select(tables.labels).order_by(tables.labels.c.id)).mappings()
    return [
        LabelSummary(_label(row), bool(row["aborted"]), counts.get(row["id"], {})) for row in rows
    ]


def _label(row: RowMapping) -> Label:
    texts = {name: row[name] for name in _TEXTS}
    return Label(row["name"], row["owner"], **texts, created=iso_time(row["created"]))


_MOST_SHOWN = 5


def unknown_name(kind: str, name: str, known: Iterable[str], otherwise: str) -> UsageError:
    """The error for an unknown label, tag, device or machine.

    `otherwise` says what to do if there is nothing of that kind at all.
    """
    names = sorted(known)
    if not names:
        return UsageError(f"unknown {kind} {name!r}: there is none yet; {otherwise}")
    return UsageError(f"unknown {kind} {name!r}: {name_suggestions(name, names)}")


def name_suggestions(name: str, known: Iterable[str]) -> str:
    """A hint with similar names, or with some of the known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return f"known names are {', '.join(names[:_MOST_SHOWN])}{more}"

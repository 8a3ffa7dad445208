"""Problems and their tags: adding, finding and retiring them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    exists,
    false,
    func,
    literal,
    select,
    update,
)

from skipjack.errors import UsageError
from skipjack.fleet.store.catalog.labels import unknown_name
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock, statements


@dataclass(frozen=True, slots=True)
class NewProblem:
    """A problem to add, which may be known already."""

    key: str
    operation: str
    direction: str = ""
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class AddedProblems:
    """The result of adding problems."""

    imported: int = 0
    """Problems that were new."""
    known: int = 0
    tagged: int = 0
    """Problems that did not have the tag before."""

    def __add__(self, other: AddedProblems) -> AddedProblems:
        return AddedProblems(
            self.imported + other.imported, self.known + other.known, self.tagged + other.tagged
        )


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """A row of a problem."""

    id: int
    key: str
    operation: str
    direction: str
    dtype: str
    retired: bool


@dataclass(frozen=True, slots=True)
class Provenance:
    """A tag of a problem, with its details."""

    tag: str
    recurrent: bool = False
    """Whether the problem is to be tuned repeatedly."""
    source: str = ""
    model: str = ""


def digest_of(key: str) -> str:
    """The digest that identifies a problem: databases limit the length of indexed texts."""
    return hashlib.sha256(key.encode()).hexdigest()


def add_problems(
    connection: Connection,
    problems: Iterable[NewProblem],
    tag: str,
    *,
    recurrent: bool = False,
    source: str = "",
    model: str = "",
    tag_only: bool = False,
) -> AddedProblems:
    """Add unknown problems, and tag all; with `tag_only`, only tag known ones.

    Several processes may do this at the same time. Add many problems in several transactions of a
    `statements.CHUNK` each, so that others do not wait long; adding them again changes nothing.
    """
    if tag.startswith("-"):
        raise UsageError(f"tag {tag!r} begins with a dash like an option; choose another name")
    provenance = Provenance(tag, recurrent, source, model)
    now = clock.read(connection)
    # Sorted by digest, so that two imports do not deadlock, and each page of the index is written
    # once.
    distinct = sorted({digest_of(problem.key): problem for problem in problems}.items())
    total = AddedProblems()
    for chunk in statements.chunks(distinct):
        total += _add_chunk(connection, chunk, provenance, tag_only, now)
    return total


def _add_chunk(
    connection: Connection,
    chunk: Sequence[tuple[str, NewProblem]],
    provenance: Provenance,
    tag_only: bool,
    now: float,
) -> AddedProblems:
    digests = [digest for digest, _ in chunk]
    imported = 0
    if not tag_only:
        rows = [
            {
                "digest": digest,
                "key": problem.key,
                "operation": problem.operation,
                "direction": problem.direction,
                "dtype": problem.dtype,
                "created": now,
            }
            for digest, problem in chunk
        ]
        imported = statements.insert_new(connection, tables.problems, rows)
    known = tables.problems.c
    these = select(known.id).where(statements.among_thousands(connection, known.digest, digests))
    there = len(digests)
    if tag_only:
        there = connection.execute(select(func.count()).select_from(these.subquery())).scalar_one()
    tagged = _tag(connection, these, provenance, now) if provenance.tag else 0
    if provenance.tag and tagged < there:
        _complete(connection, these, provenance)
    return AddedProblems(imported, there - imported, tagged)


def set_calls(connection: Connection, calls: Mapping[str, float], tag: str) -> None:
    """Record how often programs call the problems of a tag, by their keys."""
    tags = tables.problem_tags
    ids = ids_of(connection, map(digest_of, calls))
    for key, count in sorted(calls.items()):
        of = and_(tags.c.problem == ids.get(digest_of(key)), tags.c.tag == tag)
        connection.execute(update(tags).where(of).values(calls=count))


def calls_of(connection: Connection, ids: Iterable[int], tag: str | None) -> dict[int, float]:
    """How often problems are called according to a tag, or to all tags together, if known."""
    tags = tables.problem_tags.c
    counted = func.sum(tags.calls)
    query = select(tags.problem, counted).where(tags.calls.is_not(None)).group_by(tags.problem)
    if tag is not None:
        query = query.where(tags.tag == tag)
    return {
        int(id): float(count)
        for chunk in statements.chunks(ids)
        for id, count in connection.execute(
            query.where(statements.among_thousands(connection, tags.problem, chunk))
        )
    }


def ids_of(connection: Connection, digests: Iterable[str]) -> dict[str, int]:
    """The ids of known problems, by digest."""
    known = tables.problems.c
    found: dict[str, int] = {}
    for chunk in statements.chunks(digests):
        query = select(known.digest, known.id).where(
            statements.among_thousands(connection, known.digest, chunk)
        )
        found.update(connection.execute(query).all())
    return found


def _tag(connection: Connection, these: Select[int], provenance: Provenance, now: float) -> int:
    said = {
        "tag": provenance.tag,
        "recurrent": provenance.recurrent,
        "source": provenance.source,
        "model": provenance.model,
        "created": now,
    }
    columns = tables.problem_tags.c
    rows = these.add_columns(
        *(literal(value, columns[name].type).label(name) for name, value in said.items())
    ).order_by(tables.problems.c.id)
    return statements.insert_selected(connection, tables.problem_tags, ["problem", *said], rows)


def _complete(connection: Connection, these: Select[int], provenance: Provenance) -> None:
    """Add missing details to existing tags; details that they have stay."""
    tags = tables.problem_tags
    having = and_(tags.c.tag == provenance.tag, tags.c.problem.in_(these))
    if provenance.recurrent:
        plain = and_(having, tags.c.recurrent == false())
        connection.execute(update(tags).where(plain).values(recurrent=True))
    for name in ("source", "model"):
        if said := getattr(provenance, name):
            empty = and_(having, tags.c[name] == "")
            connection.execute(update(tags).where(empty).values({name: said}))


def problems(
    connection: Connection,
    *,
    tag: str | None = None,
    operations: Sequence[str] = (),
    recurrent: bool = False,
    directions: Sequence[str] = (),
    dtype: str | None = None,
) -> Iterator[ProblemRow]:
    """Problems that are not retired, by id; operations without directions match any direction."""
    if tag is not None:
        check_tag(connection, tag)
    known = tables.problems.c
    wanted: list[ColumnElement[bool]] = [known.retired == false()]
    if tag is not None or recurrent:
        wanted.append(_tagged(tag, recurrent))
    if operations:
        wanted.append(known.operation.in_(operations))
    if directions:
        wanted.append(known.direction.in_([*directions, ""]))
    if dtype is not None:
        wanted.append(known.dtype == dtype)
    return _paged(connection, and_(*wanted))


def _tagged(tag: str | None, recurrent: bool) -> ColumnElement[bool]:
    tags = tables.problem_tags.c
    having = [tags.problem == tables.problems.c.id]
    if tag is not None:
        having.append(tags.tag == tag)
    if recurrent:
        having.append(tags.recurrent)
    return exists().where(*having)


def _paged(connection: Connection, wanted: ColumnElement[bool]) -> Iterator[ProblemRow]:
    known = tables.problems.c
    columns = (known.id, known.key, known.operation, known.direction, known.dtype, known.retired)
    last = 0
    while True:
        page = (
            select(*columns)
            .where(wanted, known.id > last)
            .order_by(known.id)
            .limit(statements.CHUNK)
        )
        found = connection.execute(page).all()
        yield from (ProblemRow(*row) for row in found)
        if len(found) < statements.CHUNK:
            return
        last = found[-1][0]


def tags(connection: Connection) -> list[tuple[str, int]]:
    """Every tag with the number of its problems, by name."""
    tag = tables.problem_tags.c.tag
    counted = select(tag, func.count()).group_by(tag).order_by(tag)
    return [(name, count) for name, count in connection.execute(counted)]


def check_tag(connection: Connection, tag: str) -> None:
    """`UsageError` with similar names if no problem has this tag."""
    column = tables.problem_tags.c.tag
    if connection.execute(select(column).where(column == tag).limit(1)).first() is None:
        names = connection.execute(select(column).distinct()).scalars()
        raise unknown_name("tag", tag, names, "tag problems with skipjack import -t")


def retire(connection: Connection, keys: Iterable[str], retired: bool = True) -> int:
    """Exclude problems from later loads, or include them again; returns how many changed."""
    known = tables.problems.c
    digests = sorted({digest_of(key) for key in keys})
    return sum(
        connection.execute(
            update(tables.problems)
            .where(known.digest.in_(chunk), known.retired != retired)
            .values(retired=retired)
        ).rowcount
        for chunk in statements.chunks(digests)
    )

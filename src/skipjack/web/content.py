"""What pages consist of: facts, tables, figures, curves and logs. One template renders them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from skipjack.app.views import RecordTable, TableRequest, Unit, Value
from skipjack.errors import SkipjackError
from skipjack.report.figures import Figure

T = TypeVar("T")
AnyTable = RecordTable[Any]
TableReader = Callable[[TableRequest], AnyTable]
"""Reads a page of a table's rows."""


class ReadOnce(Generic[T]):
    """Reads a record for a request, and again only for another request.

    Pages read their record for what is above the tables; most often, its tables are those that
    the address asks for.
    """

    def __init__(self, read: Callable[[TableRequest], T]) -> None:
        self._read = read
        self._last: tuple[TableRequest, T] | None = None

    def __call__(self, request: TableRequest | None = None) -> T:
        """The record."""
        asked = request or TableRequest()
        if self._last is None or self._last[0] != asked:
            self._last = asked, self._read(asked)
        return self._last[1]


class PageNotFoundError(SkipjackError):
    """There is no page for the path, or nothing with the name in it."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link with its text."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A value with its name."""

    title: str
    value: Value
    unit: Unit = ""
    link: str | None = None
    help: str = ""
    """A sentence that says what the value means."""


@dataclass(frozen=True, slots=True)
class FactSection:
    """Values with their names."""

    id: str
    title: str
    facts: Sequence[Fact]
    large: bool = False
    """Whether these are the few numbers that the page is about."""
    half: bool = False
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True, slots=True)
class TableSection:
    """A table, which is read a page at a time."""

    id: str
    title: str
    read: TableReader
    note: str = ""
    empty: str = "There are none."
    rows: int = 50
    shown: Sequence[str] = ()
    """Columns of the page, by name; files have all. Empty: all."""
    half: bool = False
    """Whether it may stand beside another."""
    main: bool = False
    """Whether parameters of the page's address without a prefix are this table's."""
    kind: Literal["table"] = "table"

    @property
    def prefix(self) -> str:
        """What the names of its parameters begin with."""
        return "" if self.main else f"{self.id}."


@dataclass(frozen=True, slots=True)
class FigureSection:
    """A figure, and its numbers as a table."""

    id: str
    figure: Figure
    note: str = ""
    table: AnyTable | None = None
    half: bool = True
    kind: Literal["figure"] = "figure"

    @property
    def title(self) -> str:
        """That of the figure."""
        return self.figure.title


@dataclass(frozen=True, slots=True)
class CurveSection:
    """A curve that grows while one looks at it; without JavaScript the figure that it is now."""

    id: str
    figure: Figure
    data: str
    """The path of the data: `CurveData` as JSON."""
    note: str = ""
    table: AnyTable | None = None
    half: bool = True
    kind: Literal["curve"] = "curve"

    @property
    def title(self) -> str:
        """That of the figure."""
        return self.figure.title


@dataclass(frozen=True, slots=True)
class LogSection:
    """Text as programs wrote it."""

    id: str
    title: str
    text: str
    growing: bool = False
    note: str = ""
    half: bool = False
    kind: Literal["log"] = "log"


@dataclass(frozen=True, slots=True)
class StepsSection:
    """What was considered one after another, and why."""

    id: str
    title: str
    steps: Sequence[tuple[str, str]]
    """Pairs of a name and what is said about it."""
    note: str = ""
    half: bool = False
    kind: Literal["steps"] = "steps"


@dataclass(frozen=True, slots=True)
class ChoiceSection:
    """A form that leads to a page about what is chosen."""

    id: str
    title: str
    path: str
    choices: Sequence[tuple[str, str, Sequence[tuple[str, str]], str]]
    """For each: its name, its title, values with their texts, and the chosen value."""
    verb: str
    half: bool = False
    kind: Literal["choice"] = "choice"


@dataclass(frozen=True, slots=True)
class NoteSection:
    """A sentence or two, and commands that help."""

    id: str
    title: str
    text: str
    commands: Sequence[str] = ()
    warning: bool = False
    half: bool = False
    kind: Literal["note"] = "note"


Section = (
    FactSection
    | TableSection
    | FigureSection
    | CurveSection
    | LogSection
    | StepsSection
    | ChoiceSection
    | NoteSection
)


@dataclass(frozen=True, slots=True)
class PageContent:
    """A page without the frame around it."""

    title: str
    sections: Sequence[Section]
    within: Sequence[PageLink] = ()
    """Pages that this one belongs to, outermost first."""
    lead: str = ""
    """A sentence below the title."""
    actions: Sequence[PageLink] = ()
    """What may be done, for those who may."""
    badge: str = ""
    """A state, shown beside the title."""
    refresh_s: int = 5
    """How often the page asks for news; 0: never."""


@dataclass(frozen=True, slots=True)
class PageCall:
    """A request for a page."""

    path: str
    names: Mapping[str, str]
    """Parameters in the path, such as the name of a label."""
    query: Mapping[str, str]
    may_act: bool = False
    """Whether somebody is logged in who may abort and resume."""

    def name(self, key: str) -> str:
        """A parameter in the path."""
        return self.names[key]

    def chosen(self, key: str, default: str = "") -> str:
        """A parameter in the query, without blanks around it."""
        return self.query.get(key, default).strip()


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """An entry of the navigation."""

    title: str
    path: str
    covers: tuple[str, ...] = field(default=())
    """Beginnings of the paths of its pages."""

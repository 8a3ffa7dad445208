"""What a document has in it: sections with sentences, facts, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skipjack.app.views import RecordTable
from skipjack.report.figures import Figure


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class FactList:
    """Names and values, such as who started a label and when."""

    facts: Sequence[tuple[str, str]]
    """Those with an empty value are left out."""


@dataclass(frozen=True, slots=True)
class CodeText:
    """Text that is shown as it is: a log, JSON, a file to copy."""

    text: str


Part = Prose | FactList | CodeText | RecordTable[Any] | Figure


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """A heading and what is below it."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Document:
    """A report."""

    title: str
    sections: Sequence[DocumentSection]
    lead: Sequence[Part] = ()
    """Above the first heading: what came out, in a sentence or two."""
    foot: str = ""
    """When and by which version it was made."""

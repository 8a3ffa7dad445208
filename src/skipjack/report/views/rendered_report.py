"""A report before it is written: a document, and its figures by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from skipjack.errors import UsageError
from skipjack.report.documents import Document, DocumentSection, Part
from skipjack.report.figures import Figure
from skipjack.storage import utc_now


@dataclass(frozen=True, slots=True)
class RenderedReport:
    """A report."""

    title: str
    sections: Sequence[DocumentSection]
    figures: Mapping[str, Figure]
    """All figures by name; those of the document, and others for papers."""
    lead: Sequence[Part] = ()

    def document(self) -> Document:
        """The report as a document, with the time at which it was made."""
        made = str(utc_now())[:19].replace("T", " ")
        foot = f"made by skipjack {_version()} at {made} UTC".replace("  ", " ")
        return Document(self.title, self.sections, self.lead, foot)

    def figure(self, name: str) -> Figure:
        """A figure by name; `UsageError` with the known names if there is none."""
        if name in self.figures:
            return self.figures[name]
        known = ", ".join(self.figures) or "none"
        raise UsageError(f"there is no figure {name!r} in this report; it has {known}")


def _version() -> str:
    try:
        return metadata.version("skipjack")
    except metadata.PackageNotFoundError:  # run from its sources
        return ""

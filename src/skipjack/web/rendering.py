"""Pages as HTML: the environment of the templates, and how values are written."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from skipjack.app.views import Unit, Value
from skipjack.report import cell_text, moment, uncoloured
from skipjack.report.figures import Figure, figure_stylesheet, svg
from skipjack.web.content import NavigationEntry, PageCall, PageContent, Section, TableSection
from skipjack.web.security import WebSession
from skipjack.web.tables import TableView, read_table

NAVIGATION = (
    NavigationEntry("Overview", "/", ("/labels",)),
    NavigationEntry("Jobs", "/jobs", ("/jobs",)),
    NavigationEntry("Machines", "/machines", ("/machines",)),
    NavigationEntry("Problems", "/problems", ("/problems",)),
    NavigationEntry("Sweeps", "/sweeps", ("/sweeps",)),
    NavigationEntry("Training", "/training", ("/training",)),
    NavigationEntry("Bank", "/bank", ("/bank",)),
    NavigationEntry("Programs", "/programs", ("/programs",)),
)
NUMERIC: frozenset[Unit] = frozenset({"ns", "s", "bytes", "share", "count", "ratio"})
"""Units of columns that are set at the right."""
STATES = frozenset(
    {
        *("new", "building", "built", "evaluating", "evaluated", "not_applicable", "error"),
        *("aborted", "alive", "silent", "busy", "idle", "enabled", "disabled", "quarantined"),
        *("paused", "ok", "failed", "running", "ended", "finished", "tie", "working", "done"),
        *("interrupted", "never seen"),
    }
)
"""Values that are shown as a badge."""
_FIGURES = "figures.css"
_PACKAGE = "skipjack.web"


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at a page, and whether the server has a token at all."""

    session: WebSession | None = None
    has_token: bool = False


STATIC_FILES = frozenset(
    {
        *("skipjack.css", "skipjack.js", "theme.js", "icon.svg", _FIGURES),
        *(f"vendor/{name}" for name in ("htmx-2.0.11.min.js", "uplot-1.6.32.min.js")),
        *("vendor/uplot-1.6.32.min.css", "vendor/htmx-LICENSE.txt", "vendor/uplot-LICENSE.txt"),
    }
)
"""Names below ``/static``."""


@cache
def static_file(name: str) -> bytes:
    """A file of the folder of static files."""
    if name == _FIGURES:
        return figure_stylesheet().encode()
    return files(_PACKAGE).joinpath("static", name).read_bytes()


@cache
def static_path(name: str) -> str:
    """The address of a static file, which changes with what is in it."""
    return f"/static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:12]}"


def written(value: Value, unit: Unit = "") -> str:
    """A value as people read it; a dash if there is none."""
    return cell_text(value, unit) or "-"


def cell(value: Value, unit: Unit = "", link: str | None = None) -> Markup:
    """A value as HTML: times and states are marked up, links lead on."""
    text = written(value, unit)
    if unit == "time" and isinstance(value, int | float) and not isinstance(value, bool):
        shown = Markup('<time datetime="{}">{}</time>').format(f"{moment(value):%FT%TZ}", text)
    elif isinstance(value, str) and value in STATES:
        shown = Markup('<span class="badge badge-{}">{}</span>').format(
            value.replace(" ", "_"), value.replace("_", " ")
        )
    else:
        shown = _breakable(text)
    if link and link.startswith("/"):
        return Markup('<a href="{}">{}</a>').format(link, shown)
    return shown


def _breakable(text: str) -> Markup:
    """Long keys may be broken after a sign, and nowhere else."""
    if len(text) < 24 or " " in text:
        return escape(text)
    return Markup("<wbr>").join(part for part in re.split(r"(?<=[/:,=])", text))


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell, "written": written, "uncoloured": uncoloured}
    environment.globals |= {"static": static_path, "numeric": NUMERIC, "navigation": NAVIGATION}
    environment.globals["drawn"] = drawn
    return environment


_WIDTH, _WIDE = 600.0, 860.0


def drawn(figure: Figure, wide: bool) -> Markup:
    """A figure as an element of the page. `svg` has escaped all texts in it."""
    return Markup(svg(figure, width=_WIDE if wide else _WIDTH))


@dataclass(frozen=True, slots=True)
class PlacedSection:
    """A section, the rows of its table, and whether it stands beside another."""

    section: Section
    view: TableView | None
    half: bool


def placed(sections: Sequence[Section], call: PageCall) -> list[PlacedSection]:
    """Sections with their rows; a half one without another beside it takes the whole width."""
    halves = [False] * len(sections)
    for place, section in enumerate(sections[:-1]):
        if section.half and sections[place + 1].half and not halves[place]:
            halves[place] = halves[place + 1] = True
    return [
        PlacedSection(
            one,
            read_table(one, call.path, call.query) if isinstance(one, TableSection) else None,
            half,
        )
        for one, half in zip(sections, halves, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page, and the part of it that is asked for again."""

    part: str
    tag: str
    """The ETag of the part."""
    content: PageContent
    call: PageCall

    def whole(self, viewer: Viewer) -> str:
        """The page in its frame."""
        return render(
            "page.html",
            viewer,
            self.call.path,
            content=self.content,
            part=Markup(self.part),
            tag=self.tag,
            address=_address(self.call),
        )


def render_page(content: PageContent, call: PageCall) -> RenderedPage:
    """A page with the tables that its address asks for."""
    from skipjack.web.responses import tag_of  # which renders pages

    sections = placed(content.sections, call)
    part = _templates().get_template("sections.html").render(content=content, sections=sections)
    return RenderedPage(part, tag_of(part.encode("utf-8", "replace")), content, call)


def render(template: str, viewer: Viewer, path: str, **values: Any) -> str:
    """A page in the frame."""
    here = next(
        (entry.path for entry in NAVIGATION if path == entry.path or path.startswith(entry.covers)),
        "",
    )
    return _templates().get_template(template).render(viewer=viewer, here=here, **values)


def _address(call: PageCall) -> str:
    query = f"?{urlencode(call.query)}" if call.query else ""
    return f"{quote(call.path)}{query}"

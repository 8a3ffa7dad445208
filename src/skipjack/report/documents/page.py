"""Documents as one file of HTML that loads and runs nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from skipjack.app.views import RecordTable, ViewColumn
from skipjack.report.documents.document import (
    CodeText,
    Document,
    DocumentSection,
    FactList,
    Part,
    Prose,
)
from skipjack.report.escaping import escaped
from skipjack.report.figures import figure_stylesheet, svg
from skipjack.report.numbers import cell_text
from skipjack.storage import atomic_write

MOST_SHOWN = 500
"""Rows of a table in a document; it says how many there are in all."""
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif;
  margin: 2rem auto; max-width: 76rem; padding: 0 1rem;
  color: var(--fig-ink); background: var(--fig-paper); overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; line-height: 1.25; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
a { color: var(--fig-running); }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
caption { text-align: left; color: var(--fig-faint); padding-bottom: .3rem; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--fig-grid);
  vertical-align: top; min-width: 2rem; max-width: 30rem; }
th { font-weight: 600; white-space: nowrap; }
.n { text-align: right; } .n, .w { white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; }
dt { color: var(--fig-faint); } dd { margin: 0; }
.warning { color: var(--fig-failed); }
pre { border: 1px solid var(--fig-grid); padding: .7rem; overflow-x: auto; }
figure { margin: 1rem 0; overflow-x: auto; }
footer { margin-top: 3rem; color: var(--fig-faint); font-size: .85rem; }
@media print {
  body { max-width: none; margin: 0; font-size: 11px; }
  nav { display: none; } .scroll, figure { overflow: visible; }
  figure, tr, dl { break-inside: avoid; } h2 { break-after: avoid; }
  thead { display: table-header-group; } .fig { min-width: 0; }
}
"""


def html_of(document: Document) -> str:
    """The document's text."""
    style = f"{figure_stylesheet()}\n{_STYLE}"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Whatever a log or a host's name has in it: no other style, no image, no script.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(_line(document.title))}</title><style>{style}</style></head>"
    )
    sections = [section for section in document.sections if section.parts]
    parts = [
        f"<body>\n<header><h1>{escape(_line(document.title))}</h1></header>\n<main>",
        *map(_part, document.lead),
        _contents(sections),
        *(_section(number, section) for number, section in enumerate(sections, 1)),
        "</main>",
        f"<footer>{escape(_line(document.foot))}</footer>" if document.foot else "",
        "</body></html>",
    ]
    return "\n".join([head, *(part for part in parts if part), ""])


def write_document(document: Document, path: Path) -> None:
    """Write the file, whole or not at all."""
    atomic_write(path, html_of(document).encode())


def _contents(sections: Sequence[DocumentSection]) -> str:
    if len(sections) < 4:
        return ""
    items = "".join(
        f'<li><a href="#part-{number}">{escape(_line(section.title))}</a></li>'
        for number, section in enumerate(sections, 1)
    )
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _section(number: int, section: DocumentSection) -> str:
    head = f'<h2 id="part-{number}">{escape(_line(section.title))}</h2>'
    body = "\n".join(map(_part, section.parts))
    return f'<section aria-labelledby="part-{number}">\n{head}\n{body}\n</section>'


def _part(part: Part) -> str:
    if isinstance(part, Prose):
        role = ' class="warning"' if part.warning else ""
        return f"<p{role}>{escape(_line(part.text))}</p>"
    if isinstance(part, FactList):
        facts = "".join(
            f"<dt>{escape(_line(name))}</dt><dd>{escape(_line(value))}</dd>"
            for name, value in part.facts
            if value
        )
        return f"<dl>{facts}</dl>" if facts else ""
    if isinstance(part, CodeText):
        return f'<pre tabindex="0">{escape(_printable(part.text))}</pre>'
    if isinstance(part, RecordTable):
        return _table(part)
    return f"<figure>{svg(part)}</figure>"


def _table(table: RecordTable[Any]) -> str:
    rows = table.rows[:MOST_SHOWN]
    if not rows:
        return f"<p>There are no {escape(_line(table.name))}.</p>"
    columns = [one for one in table.columns if any(_has(one.value(row)) for row in rows)]
    classes = [_class(column, rows) for column in columns]
    heads = "".join(
        f'<th scope="col"{name}>{escape(_line(column.title))}</th>'
        for column, name in zip(columns, classes, strict=True)
    )
    lines = [
        "<tr>"
        + "".join(
            f"<td{name}>{escape(_line(cell_text(column.value(row), column.unit)))}</td>"
            for column, name in zip(columns, classes, strict=True)
        )
        + "</tr>"
        for row in rows
    ]
    left = table.total - len(lines)
    caption = f"{table.name}: {len(lines)} of {table.total}" if left > 0 else ""
    above = f"<caption>{escape(_line(caption))}</caption>" if caption else ""
    body = "\n".join(lines)
    name = escape(_line(table.name))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table>{above}'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _has(value: object) -> bool:
    """Columns in which no row has anything are left out."""
    return value is not None and value != ""


def _class(column: ViewColumn[Any], rows: Sequence[Any]) -> str:
    """Numbers are at the right, if all values of the column are numbers; times do not wrap."""
    if column.unit == "time":
        return ' class="w"'
    known = [value for row in rows if (value := column.value(row)) is not None]
    plain = all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)
    return ' class="n"' if known and plain else ""


def _line(text: str) -> str:
    return _printable(" ".join(text.split()))


def _printable(text: str) -> str:
    return escaped(text).encode("utf-8", "replace").decode()

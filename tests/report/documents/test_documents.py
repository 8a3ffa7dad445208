"""Documents are one file that loads and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from skipjack.app.views import TableRequest, Unit, Value, ViewColumn, table_of
from skipjack.errors import SkipjackError
from skipjack.report import cell_text
from skipjack.report.documents import (
    CodeText,
    Document,
    DocumentSection,
    FactList,
    Prose,
    html_of,
    write_document,
)
from skipjack.report.figures import BarFigure, FigureAxis, FigureBar

MARKUP = "</pre><script>alert(1)</script>\x1b[31m"
COLUMNS = (
    ViewColumn[tuple[str, float]]("name", "Name", lambda row: row[0]),
    ViewColumn[tuple[str, float]]("time_ns", "Time", lambda row: row[1], "ns"),
)


def document(rows: int = 2) -> Document:
    table = table_of(
        "configs",
        COLUMNS,
        [(f"{MARKUP}{n}", 1e6 * n) for n in range(rows)],
        TableRequest(size=1_000),
    )
    figure = BarFigure(MARKUP, FigureAxis("time", "ns"), [FigureBar(MARKUP, 1e6)])
    parts = (
        Prose(MARKUP),
        FactList([("who", MARKUP), ("why", "")]),
        CodeText(MARKUP),
        table,
        figure,
    )
    sections = [DocumentSection(f"Part {number}", parts) for number in range(4)]
    return Document(MARKUP, sections, [Prose("what came out", warning=True)], "made today")


class Tags(HTMLParser):
    """Counts opened and closed elements."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag not in ("meta", "rect", "path", "circle") or self.get_starttag_text() is None:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1] in ("meta", "rect", "path", "circle"):
            self.open.pop()
        if self.open and self.open[-1] == tag:
            self.open.pop()


def test_everything_is_closed_and_nothing_runs() -> None:
    text = html_of(document())
    tags = Tags()
    tags.feed(text)
    assert not tags.open
    assert "script" not in tags.names
    assert "img" not in tags.names
    assert "link" not in tags.names
    assert tags.names.count("svg") == 4
    assert "\x1b" not in text
    assert not re.search(r"(src|href)=\"(?!#)", text)


def test_the_policy_allows_its_own_stylesheet_only() -> None:
    text = html_of(document())
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in text
    assert " style=" not in text


def test_a_long_table_says_how_long_it_is() -> None:
    text = html_of(document(800))
    assert "configs: 500 of 800" in text
    assert text.count("<tr>") == 4 * 501


def test_an_empty_table_and_an_empty_section() -> None:
    table = table_of("configs", COLUMNS, [], TableRequest())
    text = html_of(Document("t", [DocumentSection("a", [table]), DocumentSection("b", [])]))
    assert "There are no configs." in text
    assert ">b</h2>" not in text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "ns", ""),
        (True, "", "yes"),
        (12_345_678, "count", "12\u202f345\u202f678"),
        (12_345_678, "", "12345678"),
        (10**17 + 1, "", "100000000000000001"),
        (1e17, "", "1e+17"),
        (123.456, "ratio", "123"),
        (float("inf"), "ns", "-"),
        ("a\x00b", "", "a\\x00b"),
        (1.5e6, "ns", "1.5 ms"),
        (0.25, "share", "25 %"),
        ("x", "ns", "x"),
        (1_790_000_000, "time", "2026-09-21 14:13:20 UTC"),
    ],
)
def test_cells(value: Value, unit: Unit, text: str) -> None:
    assert cell_text(value, unit) == text


def test_a_file_is_whole_or_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_document(document(), path)
    before = path.read_text()
    assert before.endswith("</html>\n")
    with pytest.raises(SkipjackError):
        write_document(document(), tmp_path / "missing" / "report.html")
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]

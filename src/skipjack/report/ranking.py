"""A table of ranked solvers, from the records that ``find`` prints and the bank holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from skipjack.core.config import settings_text
from skipjack.report.numbers import gain_text, size_text, time_text
from skipjack.report.render import TableColumn, table

_NUMBERS = ("time", "spread", "x first", "workspace", "trials")
_OK = "ok"


def ranking_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Solvers as JSON has them, fastest first; those that failed with their reason."""
    cells: list[tuple[Text | str, ...]] = []
    for number, row in enumerate(rows, 1):
        if row.get("status") != _OK:
            failed = Text(f"{row.get('status')}: {row.get('reason')}", style="red")
            cells.append(("", str(row.get("solver")), *["-"] * len(_NUMBERS), failed))
            continue
        place = 1 if row.get("tie") else number
        cells.append((f"{place}", str(row.get("solver")), *_cells(row, number), _config(row)))
    return table(
        [
            *(TableColumn("rank", right=True), "solver"),
            *(TableColumn(name, right=True) for name in _NUMBERS),
            TableColumn("config", folded=True),
        ],
        cells,
    )


def _cells(row: Mapping[str, Any], number: int) -> list[str]:
    spread, behind = row.get("spread"), row.get("behind") or {}
    gain = gain_text(behind.get("ratio"), behind.get("low"), behind.get("high"))
    return [
        time_text(row.get("time_ns")),
        f"{100 * spread:.1f} %" if spread and row.get("samples") != 1 else "-",
        "1" if number == 1 else f"{gain} tie" if row.get("tie") else gain,
        size_text(row.get("workspace_bytes") or 0),
        str(row.get("trials") or "-"),
    ]


def _config(row: Mapping[str, Any]) -> Text:
    settings = settings_text(row.get("config", {}))
    reason = row.get("reason")
    return Text(f"{settings or '-'}{f' ({reason})' if reason else ''}")

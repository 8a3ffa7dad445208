"""A sweep's plots as files, and one HTML page with everything in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from skipjack.report.numbers import metric_text
from skipjack.report.sweep.best_so_far import draw_best_so_far
from skipjack.report.sweep.drawing import PlotsMissingError, picture
from skipjack.report.sweep.parameter_plots import draw_front, draw_heat_map, draw_parallel
from skipjack.report.sweep.summary import (
    best_settings,
    facts,
    failures,
    gain_sentences,
    headline,
    metric_name,
    overlay_text,
    point_cells,
    remarks,
)
from skipjack.storage import atomic_write, output_directory
from skipjack.sweep.engine import SweepResult
from skipjack.sweep.results import one_line, parameter_names, pareto_front, setting_text, summarize

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# A sweep as a single HTML page with tables and pictures, which loads no other files.

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
       color: #1a1c1f; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #e2e4e8;
         vertical-align: top; }
th { font-weight: 600; white-space: nowrap; } td.n { text-align: right; white-space: nowrap; }
.changed { color: #1b7f3b; font-weight: 600; } .note { color: #8a5a00; }
pre { background: #f4f5f7; padding: .8rem; overflow-x: auto; }
figure { margin: 1rem 0; overflow-x: auto; } svg { max-width: 100%; height: auto; }
"""
_MOST = 500
"""Rows of a table; the CSV has all."""


def page_text(result: SweepResult, pictures: Mapping[str, str], note: str = "") -> str:
    """The page's HTML. `pictures` are SVGs by name; `note` says why there are none."""
    parts = [
        f"<h1>{escape(headline(result))}</h1>",
        _best(result),
        *(f"<p>{escape(sentence)}</p>" for sentence in gain_sentences(result)),
        f"<p>{escape(facts(result))}</p>",
        *(f'<p class="note">{escape(line)}</p>' for line in remarks(result)),
        *(f"<figure>{_bare_svg(picture)}</figure>" for picture in pictures.values()),
        f'<p class="note">{escape(note)}</p>' if note else "",
        _front(result),
        _points(result),
        *_failures(result),
        _paste(result),
    ]
    body = "\n".join(part for part in parts if part)
    # The page may load and run nothing, whatever a benchmark printed.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(one_line(result.name))}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _bare_svg(text: str) -> str:
    """The SVG element without the file's prologue."""
    return text[max(0, text.find("<svg")) :]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """Cells are text; the first `numbers` columns are aligned as numbers."""
    titles = "".join(f"<th>{escape(one_line(name))}</th>" for name in head)
    lines = [
        "<tr>"
        + "".join(
            f"<td{' class=n' if place < numbers else ''}>{escape(cell)}</td>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    ]
    left = len(lines) - _MOST
    more = f"<p>and {left} more</p>" if left > 0 else ""
    body = "\n".join(lines[:_MOST])
    return f'<div class="scroll"><table><tr>{titles}</tr>\n{body}\n</table></div>{more}'


def _best(result: SweepResult) -> str:
    lines = [
        f"<tr><td>{escape(s.name)}</td>"
        f"<td{' class=changed' if s.changed else ''}>{escape(s.value)}</td>"
        f"<td>{escape(f'was {s.before}' if s.changed else '')}</td></tr>"
        for s in best_settings(result)
    ]
    return f"<table>{''.join(lines)}</table>" if lines else ""


def _points(result: SweepResult) -> str:
    names = parameter_names(result)
    summaries = summarize(result)
    if not summaries:
        return ""
    head = (metric_name(result), "spread", "runs", *names)
    rows = [[*point_cells(s), *(_setting(s.point, name) for name in names)] for s in summaries]
    return f"<h2>Points</h2>{_table(head, rows, numbers=3)}"


def _front(result: SweepResult) -> str:
    front = pareto_front(result)
    if not front:
        return ""
    names = parameter_names(result)
    head = (*(f"{o.metric} ({o.direction})" for o in result.objectives), *names)
    rows = [
        [*(metric_text(value) for value in s.values), *(_setting(s.point, name) for name in names)]
        for s in front
    ]
    return f"<h2>The front</h2>{_table(head, rows, numbers=len(result.objectives))}"


def _setting(point: Mapping[str, object], name: str) -> str:
    return one_line(setting_text(point[name])) if name in point else ""


def _failures(result: SweepResult) -> list[str]:
    return [
        f"<h2>{escape(group.title)}</h2>"
        + _table(("point", "reason", "log"), [(x.point, x.reason, x.log) for x in group.failures])
        for group in failures(result)
    ]


def _paste(result: SweepResult) -> str:
    if result.best is None:
        return ""
    conf = "\n".join(one_line(line) for line in result.user_conf)
    first = f"<h2>For user.conf</h2><pre>{escape(conf)}</pre>" if conf else ""
    return f"{first}<h2>To merge into the config</h2><pre>{escape(overlay_text(result))}</pre>"


# A sweep's plots as files, and one page with all results.

__all__ = ["PlotsMissingError", "plots", "write_html", "write_plots"]
Kind = Literal["svg", "png"]
Pair = tuple[str, str]


def plots(
    result: SweepResult, kind: Kind = "svg", heat_map: Pair | None = None
) -> dict[str, bytes]:
    """Pictures by name; empty ones are left out.

    `heat_map` names two parameters; by default, those with most effect are used.
    """
    draws: dict[str, Callable[[], Figure | None]] = {
        "best-so-far": lambda: draw_best_so_far(result),
        "heat-map": lambda: draw_heat_map(result, heat_map),
        "parallel-coordinates": lambda: draw_parallel(result),
        "front": lambda: draw_front(result),
    }
    drawn = {name: picture(draw, name, kind) for name, draw in draws.items()}
    return {name: data for name, data in drawn.items() if data is not None}


def write_plots(
    result: SweepResult, directory: Path, kind: Kind = "svg", heat_map: Pair | None = None
) -> list[Path]:
    """Write ``best-so-far.svg`` and others to a directory, which is created if needed."""
    output_directory(directory)
    paths = []
    for name, data in plots(result, kind, heat_map).items():
        paths.append(directory / f"{name}.{kind}")
        atomic_write(paths[-1], data)
    return paths


def write_html(result: SweepResult, path: Path) -> None:
    """Write a self-contained page; without matplotlib, it has a note in place of the plots."""
    try:
        pictures, note = plots(result), ""
    except PlotsMissingError as error:
        pictures, note = {}, str(error)
    texts = {name: data.decode() for name, data in pictures.items()}
    atomic_write(path, page_text(result, texts, note).encode())

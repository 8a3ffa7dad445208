"""``skipjack report``: one self-contained file about a label, a problem, a sweep and others."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skipjack.cli.arguments import LabelOption, Work, check_outputs, examples, in_two_steps
from skipjack.errors import UsageError

if TYPE_CHECKING:
    from skipjack.app import ReportRequest

EXAMPLES = examples(
    "skipjack report -l resnet_2026_11 -o report.html",
    "skipjack report matmul:192x192x192 -o report.html",
    "skipjack report matmul:192x192x192 --figure best-so-far -o best.png",
    "skipjack report sweep-report/ -o report.html",
    "skipjack report user team.jsonl -o difference.html",
    "skipjack report tune_result_20261116_101500_pid4242.json",
    "skipjack report tune_result_20261116_101500_pid4242.json --all",
)
_ROWS = 30
_PICTURES = (".svg", ".png")
_THEMES = ("light", "dark")


@in_two_steps
def report(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET...",
            help="A problem key, a program's tune_result_*.json, the folder or result.json of a "
            "sweep or its name, the folder of a training run, a measured training step, or two "
            "banks.",
        ),
    ] = None,
    label: LabelOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The file to write: .html; with --figure, .svg or .png."
        ),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(help="Only this figure, such as best-so-far; an unknown name lists all."),
    ] = None,
    theme: Annotated[
        str, typer.Option(help="Colors of a figure in a file: light or dark.")
    ] = "light",
    width: Annotated[
        int, typer.Option(min=320, max=4000, help="Width of a figure in a file, in pixels.")
    ] = 720,
    every: Annotated[
        bool,
        typer.Option("--all", help=f"Without -o: show all operations, not only the first {_ROWS}."),
    ] = False,
) -> Work:
    """Write a report as one HTML file, or one of its figures.

    Without -o, result files of programs are shown on the screen: operations whose calls take
    longest come first.
    """
    from skipjack.app import ReportRequest

    if output is None:
        if figure is not None:
            raise UsageError("--figure needs a file to write: add -o figure.svg or -o figure.png")
        if label is not None or not targets or not all(one.endswith(".json") for one in targets):
            raise UsageError("name the file to write: add -o report.html")
        return partial(_show_programs, [Path(one) for one in targets], every)
    if theme not in _THEMES:
        raise UsageError(f"unknown theme {theme!r}; choose light or dark")
    picture = output.suffix.lower() in _PICTURES
    if figure is None and picture:
        raise UsageError(f"{output.name} is a picture: name a figure by --figure, or write .html")
    if figure is not None and not picture:
        raise UsageError(f"a figure is written as .svg or .png, not as {output.name}")
    request = ReportRequest(tuple(targets or ()), label)
    if figure is not None:
        return partial(_write_figure, request, figure, output, theme, float(width))
    return partial(_write_report, request, output)


def _write_report(request: ReportRequest, output: Path) -> None:
    from skipjack.app import read_report
    from skipjack.report.documents import write_document
    from skipjack.report.views import report_of

    check_outputs(output)
    write_document(report_of(read_report(request)).document(), output)
    typer.echo(f"written to {output}")


def _write_figure(
    request: ReportRequest, name: str, output: Path, theme: str, width: float
) -> None:
    from skipjack.app import read_report
    from skipjack.report.figures import png, svg
    from skipjack.report.views import report_of
    from skipjack.storage import atomic_write

    check_outputs(output)
    figure = report_of(read_report(request)).figure(name)
    colors: Literal["light", "dark"] = "dark" if theme == "dark" else "light"
    if output.suffix.lower() == ".png":
        atomic_write(output, png(figure, colors, width))
    else:
        atomic_write(output, svg(figure, colors, width).encode())
    typer.echo(f"written to {output}")


def _show_programs(files: list[Path], every: bool) -> None:
    from skipjack.errors import StorageError
    from skipjack.integrations.torch.outcomes import read_result
    from skipjack.report import render_program_result

    for file in files:
        try:
            result = read_result(file)
        except OSError as error:
            raise StorageError(f"cannot read {file}: {error.strerror or error}") from None
        render_program_result(result, None if every else _ROWS)

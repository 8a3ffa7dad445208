"""``skipjack compare``: a label against what is shipped, problem by problem, and a gate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import JsonOption, device_name, examples
from skipjack.cli.parsing import Work, in_two_steps
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.app import CompareOptions, CompareRequest, Gate

EXAMPLES = examples(
    "skipjack compare resnet_2026_11 --against gfx90a68.HIP.fdb.txt",
    "skipjack compare resnet_2026_11 --against resnet_2026_10 --fail-if-slower 2%",
    "skipjack compare new/gfx908_60.HIP.fdb.txt --against old/ --csv changes.csv",
    "skipjack compare resnet_2026_11 --against bank --relative-to cblas --json",
)

FailIfSlower = Annotated[
    str | None,
    typer.Option(help="Exit with 1 if a problem is slower by more than this beyond doubt, as 2%."),
]
FailIfMeanSlower = Annotated[
    str | None,
    typer.Option(help="Exit with 1 if the geometric mean is slower by more than this, as 1%."),
]
FailIfMissing = Annotated[
    bool,
    typer.Option(
        "--fail-if-missing", help="Exit with 1 if a problem or a device of the baseline is missing."
    ),
]
MinEffect = Annotated[str, typer.Option(help="Differences up to this are none.")]
AssumedSpread = Annotated[
    str, typer.Option(help="Of times whose spread is not known, as those in files.")
]


@in_two_steps
def compare(
    new: Annotated[
        str,
        typer.Argument(
            help="A label, a find-db, a directory of them, or bank; label:NAME and file:PATH "
            "where a name could be both."
        ),
    ],
    against: Annotated[str, typer.Option(help="The baseline: the same choice.")],
    device: Annotated[
        str | None, typer.Option(help="Of what is compared, as gfx90a/104; all that both have.")
    ] = None,
    against_device: Annotated[
        str | None, typer.Option(help="Of the baseline, where it is another.")
    ] = None,
    across_devices: Annotated[
        bool, typer.Option("--across-devices", help="Compare results of different devices.")
    ] = False,
    fail_if_slower: FailIfSlower = None,
    fail_if_mean_slower: FailIfMeanSlower = None,
    fail_if_missing: FailIfMissing = False,
    min_effect: MinEffect = "1%",
    assumed_spread: AssumedSpread = "3%",
    relative_to: Annotated[
        str, typer.Option(help="Compare multiples of this solver's time, measured on each side.")
    ] = "",
    top: Annotated[int, typer.Option(min=0, help="How many of the extremes to show.")] = 10,
    json: JsonOption = False,
    csv: Annotated[Path | None, typer.Option(help="Write all problems to this file.")] = None,
) -> Work:
    """Compare results with a baseline: faster, equal or slower."""
    from skipjack.app import CompareRequest

    request = CompareRequest(
        new,
        against,
        device_name(device),
        device_name(against_device),
        make_gate(fail_if_slower, fail_if_mean_slower, fail_if_missing),
        _options(min_effect, assumed_spread, relative_to, across_devices),
    )
    return partial(_compare, request, csv, top, json)


def _compare(request: CompareRequest, csv: Path | None, top: int, json: bool) -> None:
    from skipjack import app
    from skipjack.report.fleet.comparison import render_comparison, write_csv

    _check_csv(csv)
    found = app.compare(request)
    if csv is not None:
        write_csv(found.comparison, csv)
    render_comparison(found, top, json)
    if found.failure:
        raise SkipjackError(f"not good enough: {found.failure}")


def make_gate(slower: str | None, mean_slower: str | None, missing: bool) -> Gate:
    """What must not happen, out of the options that say it."""
    from skipjack.fleet.release.compare.gates import Gate, parse_percent

    return Gate(
        parse_percent(slower, "--fail-if-slower") if slower is not None else None,
        parse_percent(mean_slower, "--fail-if-mean-slower") if mean_slower is not None else None,
        missing,
    )


def _options(
    min_effect: str, assumed_spread: str, relative_to: str, across: bool
) -> CompareOptions:
    from skipjack.app import CompareOptions
    from skipjack.fleet.release.compare.gates import parse_percent
    from skipjack.fleet.release.compare.verdicts import Margin

    margin = Margin(
        parse_percent(min_effect, "--min-effect"), parse_percent(assumed_spread, "--assumed-spread")
    )
    return CompareOptions(margin, relative_to, across)


def _check_csv(path: Path | None) -> None:
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no directory {path.absolute().parent}")

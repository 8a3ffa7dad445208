"""``skipjack compare`` and ``skipjack promote``: results against a baseline, and releases."""

from __future__ import annotations

import functools
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import JsonOption, Work, device_name, examples, in_two_steps
from skipjack.cli.export import Backend
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.app import CompareRequest, PromoteRequest
    from skipjack.fleet.release.compare import CompareOptions, Gate
    from skipjack.fleet.release.formats import Alias, MergeRule
    from skipjack.fleet.release.promote import PromotionRequest


# ``skipjack compare``: results against a baseline, problem by problem, and a gate.

COMPARE_EXAMPLES = examples(
    "skipjack compare resnet_2026_11 --against gfx90a68.HIP.fdb.txt",
    "skipjack compare resnet_2026_11 --against resnet_2026_10 --fail-if-slower 2%",
    "skipjack compare new/gfx908_60.HIP.fdb.txt --against old/ --csv changes.csv",
    "skipjack compare resnet_2026_11 --against bank --relative-to cblas --json",
)

FailIfSlower = Annotated[
    str | None,
    typer.Option(help="Exit with 1 if a problem is significantly slower by more than this: 2%."),
]
FailIfMeanSlower = Annotated[
    str | None,
    typer.Option(help="Exit with 1 if the geometric mean is slower by more than this: 1%."),
]
FailIfMissing = Annotated[
    bool,
    typer.Option(
        "--fail-if-missing", help="Exit with 1 if a problem or a device of the baseline is missing."
    ),
]
MinEffect = Annotated[str, typer.Option(help="Treat smaller differences as equal.")]
AssumedSpread = Annotated[
    str, typer.Option(help="The spread of times stored without one, such as those in files.")
]


@in_two_steps
def compare(
    new: Annotated[
        str,
        typer.Argument(
            help="A label, a find-db, a directory of find-dbs, or bank. Write label:NAME or "
            "file:PATH if a name could be either."
        ),
    ],
    against: Annotated[str, typer.Option(help="The baseline, named in the same ways.")],
    device: Annotated[
        str | None, typer.Option(help="Only this device, such as gfx90a/104 (all that both have).")
    ] = None,
    against_device: Annotated[
        str | None, typer.Option(help="The baseline's device, if it is another one.")
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
        str, typer.Option(help="Compare times relative to this solver's time on the same side.")
    ] = "",
    top: Annotated[int, typer.Option(min=0, help="How many of the largest changes to show.")] = 10,
    json: JsonOption = False,
    csv: Annotated[Path | None, typer.Option(help="Write all problems to this CSV file.")] = None,
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
    from skipjack.report.fleet import render_comparison, write_csv

    _check_csv(csv)
    found = app.compare(request)
    if csv is not None:
        write_csv(found.comparison, csv)
    render_comparison(found, top, json)
    if found.failure:
        raise SkipjackError(f"not good enough: {found.failure}")


def make_gate(slower: str | None, mean_slower: str | None, missing: bool) -> Gate:
    """The gate that these options ask for."""
    from skipjack.fleet.release.compare import Gate, parse_percent

    return Gate(
        parse_percent(slower, "--fail-if-slower") if slower is not None else None,
        parse_percent(mean_slower, "--fail-if-mean-slower") if mean_slower is not None else None,
        missing,
    )


def _options(
    min_effect: str, assumed_spread: str, relative_to: str, across: bool
) -> CompareOptions:
    from skipjack.fleet.release.compare import CompareOptions, Margin, parse_percent

    margin = Margin(
        parse_percent(min_effect, "--min-effect"), parse_percent(assumed_spread, "--assumed-spread")
    )
    return CompareOptions(margin, relative_to, across)


def _check_csv(path: Path | None) -> None:
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no directory {path.absolute().parent}")


# ``skipjack promote``: merges a label's databases into the directory that ships, and undoes it.

PROMOTE_EXAMPLES = examples(
    "skipjack promote resnet_2026_11 --into src/kernels --dry-run",
    "skipjack promote resnet_2026_11 --into src/kernels --fail-if-slower 2%",
    "skipjack promote --into src/kernels --list",
    "skipjack promote --into src/kernels --undo",
)


@in_two_steps
def promote(
    label: Annotated[str | None, typer.Argument(help="The label whose databases to merge.")] = None,
    into: Annotated[
        Path | None, typer.Option(help="The directory with the databases to update.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Only this device, such as gfx90a/104.")
    ] = None,
    format: Annotated[
        str, typer.Option(help="File format: miopen, skipjack, or a plug-in's.")
    ] = "miopen",
    kinds: Annotated[
        str,
        typer.Option(
            help="Kinds of databases: find, perf, kernel (all that the label has jobs for)."
        ),
    ] = "",
    top: Annotated[
        int | None,
        typer.Option(min=1, help="How many solvers of each problem to keep in a find-db (all)."),
    ] = None,
    backend: Annotated[
        Backend,
        typer.Option(case_sensitive=False, help="The backend in the names of MIOpen's find-dbs."),
    ] = Backend.HIP,
    alias: Annotated[
        list[str] | None,
        typer.Option(
            help="TARGET=SOURCE: give TARGET the files of SOURCE, too: gfx803/56=gfx900/64."
        ),
    ] = None,
    replace_keys: Annotated[
        bool, typer.Option("--replace-keys", help="Replace records of the same key (the default).")
    ] = False,
    keep_solvers: Annotated[
        bool,
        typer.Option(
            "--keep-solvers", help="In such records, keep solvers that the new ones lack."
        ),
    ] = False,
    whole_file: Annotated[bool, typer.Option("--whole-file", help="Replace whole files.")] = False,
    against: Annotated[
        str | None, typer.Option(help="The baseline to compare with (the files in the directory).")
    ] = None,
    fail_if_slower: FailIfSlower = None,
    fail_if_mean_slower: FailIfMeanSlower = None,
    fail_if_missing: FailIfMissing = False,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Promote although some jobs of the label are not done."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would change, and change nothing.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last promotion.")] = False,
    to: Annotated[
        int | None,
        typer.Option(min=1, help="With --undo: undo all promotions from this number on."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --undo: even if files were changed since.")
    ] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the promotions.")] = False,
    json: JsonOption = False,
) -> Work:
    """Merge a label's databases into a directory.

    The old files are kept, so that the promotion can be undone.
    """
    from skipjack.app import PromoteRequest

    if into is None:
        raise UsageError("give --into DIR, the directory with the databases to update")
    if list_all or undo:
        if label is not None:
            raise UsageError("--undo and --list are about a directory; leave the label out")
        if undo:
            return functools.partial(_undo, into, to, force, json)
        return functools.partial(_list, into, json)
    if to is not None or force:
        raise UsageError("--to and --force are options of --undo; add --undo")
    if label is None:
        raise UsageError("name a label to promote, or give --undo or --list")
    request = PromoteRequest(
        replace(
            _choice(label, device, kinds, format, top, partial),
            aliases=_aliases(alias or []),
            backend=str(backend),
        ),
        into,
        _rule(replace_keys, keep_solvers, whole_file),
        make_gate(fail_if_slower, fail_if_mean_slower, fail_if_missing),
        against,
        dry_run,
    )
    return functools.partial(_promote, request, json)


def _undo(into: Path, to: int | None, force: bool, json: bool) -> None:
    from skipjack import app
    from skipjack.report.fleet import release as report

    report.undone(into, app.undo_promotions(into, to=to, force=force), json)


def _list(into: Path, json: bool) -> None:
    from skipjack import app
    from skipjack.report.fleet import release as report

    report.listed(into, app.promotions(into), json)


def _promote(request: PromoteRequest, json: bool) -> None:
    from skipjack import app
    from skipjack.report.fleet import release as report

    done = app.promote(request)
    report.render_promotion(done, json)
    if done.failure:
        raise SkipjackError(f"nothing was promoted: {done.failure}")


def _rule(replace_keys: bool, keep_solvers: bool, whole_file: bool) -> MergeRule:
    from skipjack.fleet.release.formats import MergeRule

    if replace_keys + keep_solvers + whole_file > 1:
        raise UsageError("--replace-keys, --keep-solvers and --whole-file exclude each other")
    if whole_file:
        return MergeRule.WHOLE_FILE
    return MergeRule.KEEP_SOLVERS if keep_solvers else MergeRule.REPLACE_KEYS


def _choice(
    label: str, device: str | None, kinds: str, format: str, top: int | None, partial: bool
) -> PromotionRequest:
    from skipjack.core import parse_device_name
    from skipjack.fleet.release.promote import PromotionRequest, parse_kinds

    if device is not None:
        parse_device_name(device)
    return PromotionRequest(
        label, device, parse_kinds(kinds) if kinds else (), format, top, partial
    )


def _aliases(texts: list[str]) -> tuple[Alias, ...]:
    from skipjack.fleet.release.formats import Alias

    return tuple(Alias.parse(text) for text in texts)

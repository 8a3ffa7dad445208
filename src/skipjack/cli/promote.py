"""``skipjack promote``: a label's databases into the directory that ships, and back out of it."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.compare import FailIfMeanSlower, FailIfMissing, FailIfSlower, make_gate
from skipjack.cli.export import Backend
from skipjack.cli.options import JsonOption, examples
from skipjack.cli.parsing import Work, in_two_steps
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.app import Alias, PromoteRequest, Rule
    from skipjack.fleet.release.promote.gathering import Choice

EXAMPLES = examples(
    "skipjack promote resnet_2026_11 --into src/kernels --dry-run",
    "skipjack promote resnet_2026_11 --into src/kernels --fail-if-slower 2%",
    "skipjack promote --into src/kernels --list",
    "skipjack promote --into src/kernels --undo",
)


@in_two_steps
def promote(
    label: Annotated[str | None, typer.Argument(help="The label whose databases go there.")] = None,
    into: Annotated[
        Path | None, typer.Option(help="The directory with the databases to update.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Of this device alone, as gfx90a/104.")] = None,
    format: Annotated[
        str, typer.Option(help="Whose files: miopen, skipjack, or a plug-in's.")
    ] = "miopen",
    kinds: Annotated[
        str, typer.Option(help="Of find, perf and kernel; all that the label has jobs for.")
    ] = "",
    top: Annotated[
        int | None, typer.Option(min=1, help="Solvers of each problem in a find-db; all.")
    ] = None,
    backend: Annotated[
        Backend, typer.Option(case_sensitive=False, help="In the names of MIOpen's find-dbs.")
    ] = Backend.HIP,
    alias: Annotated[
        list[str] | None,
        typer.Option(help="Another device that gets a device's files, as gfx803/56=gfx900/64."),
    ] = None,
    replace_keys: Annotated[
        bool, typer.Option("--replace-keys", help="New records replace those of the same key.")
    ] = False,
    keep_solvers: Annotated[
        bool,
        typer.Option("--keep-solvers", help="Of such records, keep solvers the new ones lack."),
    ] = False,
    whole_file: Annotated[
        bool, typer.Option("--whole-file", help="Replace the files, whatever is in them.")
    ] = False,
    against: Annotated[
        str | None, typer.Option(help="What to compare with first; the files that are there.")
    ] = None,
    fail_if_slower: FailIfSlower = None,
    fail_if_mean_slower: FailIfMeanSlower = None,
    fail_if_missing: FailIfMissing = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Although jobs of the label are not done.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last promotion back.")] = False,
    to: Annotated[
        int | None, typer.Option(min=1, help="With --undo: take back all from this number on.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --undo: although files were changed since.")
    ] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the promotions.")] = False,
    json: JsonOption = False,
) -> Work:
    """Merge a label's databases into a directory.

    The old ones are kept, so that it can be undone.
    """
    from skipjack.app import PromoteRequest

    if into is None:
        raise UsageError("say --into DIR, the directory with the databases to update")
    if list_all or undo:
        if label is not None:
            raise UsageError("--undo and --list are about a directory; leave the label out")
        if undo:
            return functools.partial(_undo, into, to, force, json)
        return functools.partial(_list, into, json)
    if to is not None or force:
        raise UsageError("--to and --force say how --undo is done; say --undo, too")
    if label is None:
        raise UsageError("say which label to promote, or --undo, or --list")
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
    from skipjack.report.fleet import promotion as report

    report.undone(into, app.undo_promotions(into, to=to, force=force), json)


def _list(into: Path, json: bool) -> None:
    from skipjack import app
    from skipjack.report.fleet import promotion as report

    report.listed(into, app.promotions(into), json)


def _promote(request: PromoteRequest, json: bool) -> None:
    from skipjack import app
    from skipjack.report.fleet import promotion as report

    done = app.promote(request)
    report.render_promotion(done, json)
    if done.failure:
        raise SkipjackError(f"nothing was promoted: {done.failure}")


def _rule(replace_keys: bool, keep_solvers: bool, whole_file: bool) -> Rule:
    from skipjack.app import Rule

    if replace_keys + keep_solvers + whole_file > 1:
        raise UsageError("--replace-keys, --keep-solvers and --whole-file exclude each other")
    if whole_file:
        return Rule.WHOLE_FILE
    return Rule.KEEP_SOLVERS if keep_solvers else Rule.REPLACE_KEYS


def _choice(
    label: str, device: str | None, kinds: str, format: str, top: int | None, partial: bool
) -> Choice:
    from skipjack.core.device import parse_device_name
    from skipjack.fleet.release.promote.gathering import Choice, parse_kinds

    if device is not None:
        parse_device_name(device)
    return Choice(label, device, parse_kinds(kinds) if kinds else (), format, top, partial)


def _aliases(texts: list[str]) -> tuple[Alias, ...]:
    from skipjack.app import Alias

    return tuple(Alias.parse(text) for text in texts)

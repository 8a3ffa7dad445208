"""``skipjack promote``: a label's databases into the directory that ships, and back out of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.compare import FailIfMeanSlower, FailIfMissing, FailIfSlower, make_gate
from skipjack.cli.export import Backend
from skipjack.cli.options import JsonOption, examples
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.fleet.release.compare.comparing import Comparison
    from skipjack.fleet.release.compare.gates import Gate
    from skipjack.fleet.release.formats import Alias
    from skipjack.fleet.release.promote.gathering import Choice
    from skipjack.fleet.release.promote.merging import Rule
    from skipjack.fleet.store.store import Store
    from skipjack.settings import Settings

EXAMPLES = examples(
    "skipjack promote resnet_2026_11 --into src/kernels --dry-run",
    "skipjack promote resnet_2026_11 --into src/kernels --fail-if-slower 2%",
    "skipjack promote --into src/kernels --list",
    "skipjack promote --into src/kernels --undo",
)


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
) -> None:
    """Merge a label's databases into a directory.

    The old ones are kept, so that it can be undone.
    """
    from skipjack import plugins
    from skipjack.settings import load_settings

    directory = _directory(into)
    if list_all or undo:
        if label is not None:
            raise UsageError("--undo and --list are about a directory; leave the label out")
        if undo:
            _undo(directory, to, force, json)
        else:
            _list(directory, json)
        return
    if to is not None or force:
        raise UsageError("--to and --force say how --undo is done; say --undo, too")
    if label is None:
        raise UsageError("say which label to promote, or --undo, or --list")
    rule = _rule(replace_keys, keep_solvers, whole_file)
    gate = make_gate(fail_if_slower, fail_if_mean_slower, fail_if_missing)
    if against is not None and not gate.closed:
        raise UsageError("--against needs --fail-if-slower or another condition to check")
    settings = load_settings()
    plugins.load(settings.plugins)
    choice = replace(
        _choice(label, device, kinds, format, top, partial),
        aliases=_aliases(alias or []),
        backend=str(backend),
    )
    _promote(directory, choice, rule, gate, against, dry_run, json, settings)


def _directory(into: Path | None) -> Path:
    if into is None:
        raise UsageError("say --into DIR, the directory with the databases to update")
    if not into.is_dir():
        what = "is not a directory" if into.exists() else "does not exist"
        raise UsageError(f"{into} {what}; name the directory with the databases to update")
    return into


def _rule(replace_keys: bool, keep_solvers: bool, whole_file: bool) -> Rule:
    from skipjack.fleet.release.promote.merging import Rule

    if replace_keys + keep_solvers + whole_file > 1:
        raise UsageError("--replace-keys, --keep-solvers and --whole-file exclude each other")
    if whole_file:
        return Rule.WHOLE_FILE
    return Rule.KEEP_SOLVERS if keep_solvers else Rule.REPLACE_KEYS


def _choice(
    label: str, device: str | None, kinds: str, format: str, top: int | None, partial: bool
) -> Choice:
    from skipjack.core.device import parse_device_name
    from skipjack.fleet.release.formats import get
    from skipjack.fleet.release.promote.gathering import Choice, parse_kinds

    get(format)
    if device is not None:
        parse_device_name(device)
    return Choice(label, device, parse_kinds(kinds) if kinds else (), format, top, partial)


def _aliases(texts: list[str]) -> tuple[Alias, ...]:
    from skipjack.fleet.release.formats import Alias

    return tuple(Alias.parse(text) for text in texts)


def _promote(
    directory: Path,
    choice: Choice,
    rule: Rule,
    gate: Gate,
    against: str | None,
    dry_run: bool,
    json: bool,
    settings: Settings,
) -> None:
    from skipjack.fleet.release.promote.gathering import release_of
    from skipjack.fleet.release.promote.promoting import promote as promote_files
    from skipjack.fleet.store.opening import open_store
    from skipjack.report.fleet import promotion as report

    with open_store(settings=settings) as store:
        release = release_of(store, choice, rule)
        comparison = _compared(store, settings, choice, gate, against, directory)
        _check(gate, comparison, json)
        done = promote_files(release, directory, dry_run=dry_run)
    report.promoted(done, comparison, dry_run, json)


def _compared(
    store: Store,
    settings: Settings,
    choice: Choice,
    gate: Gate,
    against: str | None,
    directory: Path,
) -> Comparison | None:
    """The comparison that the gate asks for, with what is there if nothing else was named."""
    if not gate.closed:
        return None
    from skipjack.fleet.release.compare.comparing import compare
    from skipjack.fleet.release.compare.naming_sides import LABEL, SideReader
    from skipjack.fleet.release.compare.sides import has_find_dbs, side_of_path

    if against is None and not has_find_dbs(directory):
        return None  # nothing is there that could have been faster
    with SideReader(settings, store) as reader:
        new = reader.side(f"{LABEL}{choice.label}", choice.device)
        if against is None:
            form, backend = choice.form, choice.backend
            old = side_of_path(directory, choice.device, form=form, backend=backend)
        else:
            old = reader.side(against, choice.device)
    return compare(new, old)


def _check(gate: Gate, comparison: Comparison | None, json: bool) -> None:
    """`SkipjackError` if the gate is not passed; for machines, the comparison is printed first."""
    failure = gate.failure(comparison) if comparison else ""
    if not comparison or not failure:
        return
    if json:
        from skipjack.report.fleet.comparison import comparison_json

        for line in comparison_json(comparison, 10, failure):
            typer.echo(line)
    raise SkipjackError(f"nothing was promoted: {failure}")


def _undo(directory: Path, to: int | None, force: bool, json: bool) -> None:
    from skipjack.fleet.release.promote.promotions import Promotions
    from skipjack.fleet.release.promote.undoing import undo
    from skipjack.report.fleet import promotion as report

    report.undone(directory, undo(Promotions(directory), to=to, force=force), json)


def _list(directory: Path, json: bool) -> None:
    from skipjack.fleet.release.promote.promotions import Promotions
    from skipjack.report.fleet import promotion as report

    report.listed(directory, Promotions(directory).all(), json)

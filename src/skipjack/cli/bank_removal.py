"""``skipjack bank clean`` and ``bank remove``, and the choice of entries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import DtypeOption, JsonOption, PluginOption, device_name
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.bank import Bank, BankEntry
    from skipjack.settings import Settings


DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device", help="Only this device: znver4/1, gfx90a/104, cpu or gpu of this machine."
    ),
]
DeployedOption = Annotated[
    str | None,
    typer.Option(help="How programs call the kernel: native (CPUs), graph (GPUs) or eager."),
]
CachesOption = Annotated[
    str | None, typer.Option(help="Whether the arrays are in the caches: hot or cold.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
]


def remove(
    problems: Annotated[
        list[str],
        typer.Argument(help="Problem keys, such as matmul:192x192x192.", metavar="KEY..."),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: DryRunOption = False,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    deployed: DeployedOption = None,
    caches: CachesOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> None:
    """Remove all entries of problems from the bank, after you have typed each problem's name.

    A copy is kept next to the bank, and the ledger keeps all results.
    """
    from skipjack.bank import Bank
    from skipjack.errors import UsageError
    from skipjack.operations import parse

    settings = settings_with(plugin)
    fits = _entries_as(device, deployed, caches)
    keys = list(dict.fromkeys(parse(one, dtype).key for one in problems))
    bank = Bank.open(settings.user_dir)
    for key in keys:  # if one key is wrong, nothing is removed
        entries_known_of(bank, key, device)
    if not (yes or dry_run):
        if not is_terminal():
            raise UsageError(
                "bank remove asks before it removes, and there is no terminal to ask on; add --yes"
            )
        keys = [key for key in keys if _confirmed(key, bank, fits, dtype)]
    _remove(settings, lambda entry: entry.problem in keys and fits(entry), dry_run, json)


def clean(
    problem: Annotated[
        str | None, typer.Argument(help="A problem key, such as matmul:192x192x192 (all).")
    ] = None,
    stale: Annotated[
        bool,
        typer.Option("--stale", help="Only entries made with another compiler or driver."),
    ] = False,
    dry_run: DryRunOption = False,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    deployed: DeployedOption = None,
    caches: CachesOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> None:
    """Remove entries from the bank; a copy is kept next to it, and the ledger keeps all results."""
    from skipjack.bank import Bank
    from skipjack.operations import parse
    from skipjack.runtime.local_kernels import why_stale

    settings = settings_with(plugin)
    key = parse(problem, dtype).key if problem else None
    fits = _entries_as(device, deployed, caches)
    if key:
        entries_known_of(Bank.open(settings.user_dir), key, device)

    def unwanted(entry: BankEntry) -> bool:
        named = key in (None, entry.problem) and fits(entry)
        return named and (not stale or bool(why_stale(entry)))

    _remove(settings, unwanted, dry_run, json, stale=stale)


def is_terminal() -> bool:
    """Whether standard input is a terminal, so that a question can be answered."""
    return sys.stdin.isatty()


def _remove(
    settings: Settings,
    unwanted: Callable[[BankEntry], bool],
    dry_run: bool,
    json: bool,
    *,
    stale: bool = False,
) -> None:
    """Remove entries, or only find them with `dry_run`, and print each of them."""
    from skipjack.bank import REMOVED, Bank
    from skipjack.storage import user_directory

    directory = user_directory(settings)
    bank = Bank.open(directory)
    if dry_run:
        gone = [entry for entry in bank.all_entries() if unwanted(entry)]
    else:
        gone = bank.clean(unwanted)
    aside = directory / REMOVED
    if json:
        _print_json(gone, str(aside) if gone and not dry_run else "", dry_run)
        return
    verb = "would remove" if dry_run else "removed"
    for entry in gone:
        behind = "; a current entry is used instead" if stale and bank.ranked(*entry.key) else ""
        typer.echo(f"{verb} {_entry_name(entry)}{behind if not dry_run else ''}")
    if not gone:
        typer.echo("the bank has no such entry; nothing was removed")
        return
    count, them = numbered(len(gone), "entry"), "it" if len(gone) == 1 else "them"
    if dry_run:
        typer.echo(f"{count} would be removed; nothing was")
    else:
        typer.echo(f"{count} removed; skipjack bank merge {aside} brings {them} back")


def _print_json(gone: Sequence[BankEntry], copies: str, dry_run: bool) -> None:
    from skipjack.report import print_json

    names = [
        {
            "problem": entry.problem,
            "device": entry.device_name,
            "device_class": entry.device,
            "deployed": entry.deployed,
            "kind": entry.kind,
            "solver": entry.solver,
            "config": dict(entry.config),
        }
        for entry in gone
    ]
    counted = {"removed": 0 if dry_run else len(gone), "dry_run": dry_run}
    print_json("bank clean", {**counted, "copies": copies, "entries": names})


def _confirmed(key: str, bank: Bank, fits: Callable[[BankEntry], bool], dtype: str | None) -> bool:
    """Whether the user confirms the removal by typing the problem's name."""
    from skipjack.errors import ProblemError
    from skipjack.operations import parse

    listed = [entry for entry in bank.all_entries() if entry.problem == key and fits(entry)]
    if not listed:
        return True  # nothing will be removed, which is reported later
    for entry in listed:
        typer.echo(_entry_name(entry), err=True)
    typed = typer.prompt(
        f"type {key} to remove these entries", default="", show_default=False, err=True
    )
    try:
        same = parse(typed.strip(), dtype).key == key
    except ProblemError:
        same = False
    if not same:
        typer.echo(f"{key} was not removed", err=True)
    return same


def _entry_name(entry: BankEntry) -> str:
    from skipjack.core import Config

    name = f"{entry.problem} on {entry.device_name} ({entry.deployed})"
    return f"{name}: {entry.kind} {entry.solver} {Config(entry.config)}".rstrip()


def _entries_as(
    device: str | None, deployed: str | None, caches: str | None
) -> Callable[[BankEntry], bool]:
    """A filter for entries of a device and a deployment; `UsageError` if these do not exist."""
    from skipjack.core import COLD, EAGER, GRAPH, HOT, NATIVE
    from skipjack.errors import UsageError

    if deployed not in (None, NATIVE, GRAPH, EAGER):
        raise UsageError(f"--deployed is {deployed!r}; write {NATIVE}, {GRAPH} or {EAGER}")
    if caches not in (None, HOT, COLD):
        raise UsageError(f"--caches is {caches!r}; write {HOT} or {COLD}")
    named = device_name(device)

    def fits(entry: BankEntry) -> bool:
        calls, temperature = entry.deployed.split("/")
        return (
            named in (None, entry.device_name)
            and deployed in (None, calls)
            and caches in (None, temperature)
        )

    return fits


def settings_with(plugin: list[str] | None) -> Settings:
    """The settings in force, after loading their plug-ins and the given ones."""
    from skipjack import plugins
    from skipjack.settings import load_settings

    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    return settings


def entries_known_of(bank: Bank, key: str, device: str | None) -> list[BankEntry]:
    """The entries of a problem, on every device or on one; `SkipjackError` if there is none."""
    from skipjack.app import known_entries

    return known_entries(bank, key, device_name(device))


def entries_on(entries: list[BankEntry], device: str | None) -> list[BankEntry]:
    """The entries for a device, of all classes with its name; all entries if none is given."""
    named = device_name(device)
    return [entry for entry in entries if named in (None, entry.device_name)]

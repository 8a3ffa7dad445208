"""``skipjack bank``: what is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import (
    DtypeOption,
    JsonOption,
    PluginOption,
    ProblemArgument,
    device_name,
    examples,
)

if TYPE_CHECKING:
    from skipjack.bank import BankEntry, Changes

DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device", help="Of this one, as znver4/1 or gfx90a/104; cpu or gpu is this machine's."
    ),
]

app = typer.Typer(
    help="What is known: the best config of each problem and device, with its evidence.",
    epilog=examples(
        "skipjack bank list",
        "skipjack bank show matmul:192x192x192",
        "skipjack bank why matmul:192x192x192",
        "skipjack bank merge colleague/bank.jsonl",
        "skipjack bank build -l resnet_2026_11",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", epilog=examples("skipjack bank list --json"))
def list_entries(device: DeviceOption = None, json: JsonOption = False) -> None:
    """List all entries, or those of one device."""
    from skipjack.bank import Bank
    from skipjack.errors import SkipjackError
    from skipjack.settings import load_settings

    entries = _of_device(Bank.open(load_settings().user_dir).entries(), device)
    if device and not entries:
        raise SkipjackError(f"the bank has no entry for {device}; skipjack bank list shows all")
    if json:
        for entry in entries:
            typer.echo(entry.line)
        return
    from skipjack.report.bank import print_entries

    print_entries(entries)


@app.command(
    "show",
    epilog=examples(
        "skipjack bank show matmul:192x192x192",
        "skipjack bank show matmul:192x192x192 --device cpu",
    ),
)
def show(
    problem: ProblemArgument,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> None:
    """Show what is known about a problem, on every device or on one."""
    from skipjack import plugins
    from skipjack.bank import Bank
    from skipjack.errors import SkipjackError
    from skipjack.operations import parse
    from skipjack.settings import load_settings

    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    key = parse(problem, dtype).key
    bank = Bank.open(settings.user_dir)
    found = _of_device(bank.entries_of(key), device)
    if not found:
        on = f" on {device}" if device else ""
        again = f"tune {key}{f' --device {device}' if device else ''}"
        raise SkipjackError(f"the bank knows nothing of {key}{on}; try skipjack {again}")
    if json:
        for entry in found:
            typer.echo(entry.line)
        return
    from skipjack.report.bank import print_entry

    for entry in found:
        print_entry(entry, bank.ranked(*entry.key)[1:])


@app.command(
    "why",
    epilog=examples(
        "skipjack bank why matmul:512x768x3072",
        "skipjack bank why softmax:4096x1024 --dtype f16 --device gpu --json",
    ),
)
def why(
    problem: ProblemArgument,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> None:
    """Say what a program that looks a problem up here is given, step by step, and why."""
    from json import dumps

    from skipjack.runtime import explain

    told = explain(problem, dtype=dtype, device=device, plugins=tuple(plugin or ()))
    if json:
        typer.echo(dumps(told.record()))
        return
    typer.echo(f"{told.problem} on {told.device}, policy {told.policy}")
    width = max(len(step.step) for step in told.decision.steps)
    for step in told.decision.steps:
        verdict = "answers" if step.answered else "passed over"
        typer.echo(f"  {step.step:<{width}}  {verdict}: {step.said}")
    answer = told.decision.answer
    typer.echo(f"source: {answer.source}" if answer else "nothing here can compute it")


@app.command("rebuild", epilog=examples("skipjack bank rebuild"))
def rebuild(json: JsonOption = False) -> None:
    """Take in all that the ledger says, and drop lines of the bank that cannot be read."""
    from json import dumps

    from skipjack.bank import Bank
    from skipjack.ledger import Ledger
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory

    directory = user_directory(load_settings())
    with Ledger.open(directory) as ledger:
        changes = Bank.open(directory).rebuild(ledger)
    if json:
        typer.echo(dumps({"format": 1, "entries": changes.offered, **_counts(changes)}))
        return
    typer.echo(f"{changes.offered} entries from the ledger: {_told(changes)}")


@app.command("build", epilog=examples("skipjack bank build -l resnet_2026_11"))
def build(
    label: Annotated[str, typer.Option("--label", "-l", help="The label of the jobs.")],
    json: JsonOption = False,
) -> None:
    """Take in what a label's finished jobs found: into the ledger, and the best into the bank."""
    from dataclasses import asdict
    from json import dumps

    from skipjack.bank import Bank
    from skipjack.fleet.projecting import project
    from skipjack.fleet.store.opening import open_store
    from skipjack.ledger import Ledger
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory

    settings = load_settings()
    directory = user_directory(settings)
    with open_store(settings=settings) as store, Ledger.open(directory) as ledger:
        done = project(store, label, ledger, Bank.open(directory))
    if json:
        typer.echo(dumps({"format": 1, **asdict(done)}))
        return
    typer.echo(
        f"{done.jobs} finished jobs of {label}: {done.rows} new rows in the ledger; "
        f"{done.entries} entries: {done.new} new, {done.replaced} replaced, "
        f"{done.kept} kept because their evidence is stronger"
    )


@app.command(
    "merge",
    epilog=examples(
        "skipjack bank merge colleague/bank.jsonl",
        "skipjack bank merge a.jsonl b.jsonl -o merged.jsonl",
        "skipjack bank merge a.jsonl b.jsonl -o merged.jsonl --device znver4/1",
    ),
)
def merge(
    files: Annotated[
        list[Path], typer.Argument(help="Files of other banks, or their directories.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write their union here; one's own bank stays."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Only entries of this class, as znver4/1 or its class key."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Take in other banks' entries; of several for one problem the strongest evidence is used.

    Any order, grouping or repetition gives the same bytes. With -o, banks that share no class of
    devices are refused.
    """
    from functools import reduce
    from json import dumps

    from skipjack.bank import Bank, merged, on_device, read_bank, union, write_bank
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory

    banks = {path: read_bank(path) for path in files}
    if device:
        banks = {path: on_device(entries, device, path) for path, entries in banks.items()}
    listed = ", ".join(map(str, banks))
    if output:
        found = merged(banks)
        write_bank(output, found)
        counts = {"keys": len(found), "entries": sum(map(len, found.values()))}
        if json:
            typer.echo(dumps({"format": 1, "output": str(output), **counts}))
            return
        keys = f"{counts['keys']} keys (problem, device, kind, deployment)"
        typer.echo(f"{counts['entries']} entries of {listed}, for {keys}, are in {output}")
        return
    changes = Bank.open(user_directory(load_settings())).join(reduce(union, banks.values()))
    if json:
        typer.echo(dumps({"format": 1, "changed": changes.changed, **_counts(changes)}))
        return
    typer.echo(f"{changes.offered} entries of {listed}: {_told(changes)}")


@app.command(
    "verify",
    epilog=examples("skipjack bank verify", "skipjack bank verify matmul:192x192x192"),
)
def verify(
    problem: Annotated[
        str | None,
        typer.Argument(help="A problem key, as matmul:192x192x192; all stale ones without."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Most seconds for each problem (5).")
    ] = None,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> None:
    """Time known configs again after a change of compiler or driver, and search nothing.

    The bank's entry and the next best few are built, checked and timed beside the default and the
    libraries. The entry is confirmed, or gives way.
    """
    from skipjack import plugins
    from skipjack.cli.tune import verify_all
    from skipjack.operations import parse
    from skipjack.settings import load_settings

    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    key = parse(problem, dtype).key if problem else None
    verify_all(settings, key, device_name(device), seconds, json)


@app.command(
    "clean",
    epilog=examples(
        "skipjack bank clean matmul:192x192x192",
        "skipjack bank clean --stale",
        "skipjack bank clean --device znver4/1",
    ),
)
def clean(
    problem: Annotated[
        str | None, typer.Argument(help="A problem key, as matmul:192x192x192; all without one.")
    ] = None,
    stale: Annotated[
        bool,
        typer.Option("--stale", help="Only entries of another compiler or driver than today's."),
    ] = False,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> None:
    """Remove entries from the bank; a copy of them stays beside it, and the ledger keeps all."""
    from json import dumps

    from skipjack import plugins
    from skipjack.bank import REMOVED, Bank
    from skipjack.operations import parse
    from skipjack.runtime import why_stale
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory

    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    key = parse(problem, dtype).key if problem else None
    named = device_name(device)

    def unwanted(entry: BankEntry) -> bool:
        return (
            key in (None, entry.problem)
            and named in (None, entry.device_name)
            and (not stale or bool(why_stale(entry)))
        )

    directory = user_directory(settings)
    gone = Bank.open(directory).clean(unwanted)
    aside = directory / REMOVED
    if json:
        typer.echo(dumps({"format": 1, "removed": len(gone), "copies": str(aside) if gone else ""}))
        return
    for entry in gone:
        typer.echo(f"removed {entry.problem} on {entry.device_name}: {entry.kind} {entry.solver}")
    if not gone:
        typer.echo("the bank has no such entry; nothing was removed")
        return
    typer.echo(f"{len(gone)} entries removed; skipjack bank merge {aside} brings them back")


@app.command(
    "ship",
    epilog=examples(
        "skipjack bank ship ~/.local/share/skipjack -o site-bank",
        "skipjack bank ship tuned-on-a tuned-on-b -o site-bank --json",
    ),
)
def ship(
    directories: Annotated[
        list[Path], typer.Argument(help="User directories whose banks are taken together.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The directory to write, new or of an earlier.")
    ],
    json: JsonOption = False,
) -> None:
    """Write a system bank: confirmed entries, kernels for GPUs, a manifest with digests.

    Programs read it where SKIPJACK_SYSTEM_DB_PATH names its directory. Entries that are stale or
    unconfirmed are left out. The same entries give the same bytes.
    """
    from dataclasses import asdict
    from json import dumps

    from skipjack.runtime import ship as ship_bank

    done = ship_bank(directories, output)
    if json:
        typer.echo(dumps({"format": 1, **asdict(done), "directory": str(output)}))
        return
    for sentence in done.left_out:
        typer.echo(sentence, err=True)
    typer.echo(
        f"{done.entries} entries and {done.kernels} kernels for {', '.join(done.devices)}, "
        f"{done.bytes} bytes, are in {output}"
    )


def _of_device(entries: list[BankEntry], device: str | None) -> list[BankEntry]:
    """Those for a device, of all classes that have its name; all where none is named."""
    named = device_name(device)
    return [entry for entry in entries if named in (None, entry.device_name)]


def _counts(changes: Changes) -> dict[str, int]:
    from dataclasses import asdict

    return asdict(changes)


def _told(changes: Changes) -> str:
    return (
        f"{changes.new} new, {changes.replaced} replaced, "
        f"{changes.kept} kept because their evidence is stronger, {changes.same} as before"
    )

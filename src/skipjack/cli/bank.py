"""``skipjack bank``: the best known configs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import (
    DtypeOption,
    JsonOption,
    PluginOption,
    ProblemArgument,
    device_name,
    examples,
)
from skipjack.cli.bank_removal import (
    CachesOption,
    DeployedOption,
    DeviceOption,
    clean,
    entries_known_of,
    entries_on,
    remove,
    settings_with,
)
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.bank import BankEntry, Changes

app = typer.Typer(
    help="The best known config of each problem and device.",
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

    entries = entries_on(Bank.open(load_settings().user_dir).entries(), device)
    if device and not entries:
        raise SkipjackError(f"the bank has no entry for {device}; skipjack bank list lists all")
    if json:
        _print_json(entries)
        return
    from skipjack.report import print_entries

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
    """Show what is known about a problem, on every device or on one.

    autotune:NAME shows all calls of the kernel NAME, which is decorated with @skipjack.autotune.
    """
    from skipjack.bank import Bank
    from skipjack.core import CALL_OPERATION
    from skipjack.operations import parse

    settings = settings_with(plugin)
    of_calls = problem.startswith(f"{CALL_OPERATION}:")
    key = problem if of_calls else parse(problem, dtype).key
    bank = Bank.open(settings.user_dir)
    found = entries_known_of(bank, key, device)
    if json:
        _print_json(found)
        return
    from skipjack.report import print_entry

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
    deployed: DeployedOption = None,
    caches: CachesOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> None:
    """Explain step by step what a lookup of a problem returns on this machine, and why."""
    from skipjack.report import print_fields, print_json
    from skipjack.runtime import explain

    explanation = explain(
        problem,
        dtype=dtype,
        device=device,
        deployed=deployed,
        caches=caches,
        plugins=tuple(plugin or ()),
    )
    answer = explanation.decision.answer
    if json:
        print_json("bank why", explanation.record())
        raise typer.Exit(0 if answer else 1)
    typer.echo(f"{explanation.problem} on {explanation.device}, policy {explanation.policy}")
    verdicts = {True: "answers", False: "passed over"}
    steps = explanation.decision.steps
    print_fields([(one.step, f"{verdicts[one.answered]}: {one.said}") for one in steps], indent=2)
    typer.echo(f"source: {answer.source}" if answer else "no solver on this machine can compute it")
    if explanation.then:
        typer.echo(f"policy {explanation.policy}: {explanation.then}")
    if answer is None:
        raise typer.Exit(1)


@app.command("rebuild", epilog=examples("skipjack bank rebuild"))
def rebuild(json: JsonOption = False) -> None:
    """Add the ledger's results to the bank, and drop lines of the bank that cannot be read."""
    from skipjack.bank import Bank
    from skipjack.ledger import Ledger
    from skipjack.report import print_json
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory

    directory = user_directory(load_settings())
    with Ledger.open(directory) as ledger:
        changes = Bank.open(directory).rebuild(ledger)
    if json:
        print_json("bank rebuild", {"entries": changes.offered, **_counts(changes)})
        return
    typer.echo(f"{numbered(changes.offered, 'entry')} from the ledger: {_changes_text(changes)}")


@app.command("build", epilog=examples("skipjack bank build -l resnet_2026_11"))
def build(
    label: Annotated[str, typer.Option("--label", "-l", help="The label of the jobs.")],
    json: JsonOption = False,
) -> None:
    """Add results of a label's finished jobs to the ledger, and the best of them to the bank."""
    from dataclasses import asdict

    from skipjack.bank import Bank
    from skipjack.fleet.labels import project
    from skipjack.fleet.store import open_store
    from skipjack.ledger import Ledger
    from skipjack.report import print_json
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory

    settings = load_settings()
    directory = user_directory(settings)
    with open_store(settings=settings) as store, Ledger.open(directory) as ledger:
        done = project(store.results, label, ledger, Bank.open(directory))
    if json:
        print_json("bank build", asdict(done))
        return
    jobs, rows = numbered(done.jobs, "finished job"), numbered(done.rows, "new row")
    typer.echo(
        f"{jobs} of {label}: {rows} in the ledger; {numbered(done.entries, 'entry')}: "
        f"{done.new} new, {done.replaced} replaced, "
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
        typer.Option("--output", "-o", help="Write the union here, and leave your bank alone."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Only entries of this class: znver4/1, or a class key."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Merge entries of other banks; for each problem, the entry with the strongest evidence wins.

    Merging the same banks in any order, any number of times, gives the same bytes. A bank of
    another processor is refused unless --device names it. With -o, banks that have no device class
    in common are refused.
    """
    from functools import reduce

    from skipjack import devices
    from skipjack.bank import (
        Bank,
        check_processors,
        merged,
        on_device,
        read_bank,
        union,
        write_bank,
    )
    from skipjack.report import print_json
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
            print_json("bank merge", {"output": str(output), **counts})
            return
        keys = f"{numbered(counts['keys'], 'key')} (problem, device, kind, deployment)"
        entries = numbered(counts["entries"], "entry")
        typer.echo(f"{output} has {entries} from {listed}, for {keys}")
        return
    home = user_directory(load_settings())
    bank = Bank.open(home)
    if not device:
        own = {entry.device for entry in bank.entries()} | {
            one.class_key for one in devices.local_devices()
        }
        # Entries that were removed from this bank earlier may come back.
        others = {path: one for path, one in banks.items() if home not in path.resolve().parents}
        check_processors(others, own)
    changes = bank.join(reduce(union, banks.values()))
    if json:
        print_json("bank merge", {"changed": changes.changed, **_counts(changes)})
        return
    typer.echo(f"{numbered(changes.offered, 'entry')} from {listed}: {_changes_text(changes)}")


@app.command(
    "verify",
    epilog=examples("skipjack bank verify", "skipjack bank verify matmul:192x192x192"),
)
def verify(
    problem: Annotated[
        str | None,
        typer.Argument(help="A problem key, such as matmul:192x192x192 (all stale ones)."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Time limit for each problem, in seconds (5).")
    ] = None,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> None:
    """Time known configs again after a change of compiler or driver; nothing is searched.

    The bank's entry and the few next best are built, checked, and timed against the default and
    the libraries. The entry is then either confirmed or replaced.
    """
    from skipjack.app import VerifyRequest
    from skipjack.app import verify as do_verify
    from skipjack.cli.tune import finish
    from skipjack.operations import parse
    from skipjack.report.tuning import TuneView

    settings = settings_with(plugin)
    key = parse(problem, dtype).key if problem else None
    request = VerifyRequest(key, device_name(device), seconds)
    with TuneView(json) as view:
        run = do_verify(request, view, settings=settings)
    finish(run)


app.command(
    "remove",
    epilog=examples(
        "skipjack bank remove matmul:192x192x192",
        "skipjack bank remove add:4096 mul:4096 --dry-run",
        "skipjack bank remove add:4096 --device znver4/1 --yes --json",
    ),
)(remove)
app.command(
    "clean",
    epilog=examples(
        "skipjack bank clean matmul:192x192x192",
        "skipjack bank clean --stale",
        "skipjack bank clean --device znver4/1 --dry-run",
    ),
)(clean)


@app.command(
    "ship",
    epilog=examples(
        "skipjack bank ship ~/.local/share/skipjack -o site-bank",
        "skipjack bank ship tuned-on-a tuned-on-b -o site-bank --json",
    ),
)
def ship(
    directories: Annotated[
        list[Path], typer.Argument(help="User directories whose banks are combined.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The directory to write, which may exist.")
    ],
    json: JsonOption = False,
) -> None:
    """Write a system bank: confirmed entries, kernels for GPUs, and a manifest with digests.

    Programs read it if SKIPJACK_SYSTEM_DB_PATH names its directory. Stale and unconfirmed entries
    are left out. The same entries always give the same bytes.
    """
    from dataclasses import asdict

    from skipjack.report import print_json
    from skipjack.runtime import ship as ship_bank

    done = ship_bank(directories, output)
    if json:
        print_json("bank ship", {**asdict(done), "directory": str(output)})
        return
    for sentence in done.left_out:
        typer.echo(sentence, err=True)
    entries, kernels = numbered(done.entries, "entry"), numbered(done.kernels, "kernel")
    devices = ", ".join(done.devices)
    typer.echo(f"{output} has {entries} and {kernels} for {devices}: {done.bytes} bytes")


def _print_json(entries: Iterable[BankEntry]) -> None:
    from skipjack.bank import printed_entry
    from skipjack.report import print_json

    for entry in entries:
        print_json("bank list", printed_entry(entry))


def _counts(changes: Changes) -> dict[str, int]:
    from dataclasses import asdict

    return asdict(changes)


def _changes_text(changes: Changes) -> str:
    return (
        f"{changes.new} new, {changes.replaced} replaced, "
        f"{changes.kept} kept because their evidence is stronger, {changes.same} as before"
    )

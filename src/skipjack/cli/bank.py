"""``skipjack bank``: what is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skipjack.cli.options import DtypeOption, JsonOption, ProblemArgument, examples

app = typer.Typer(
    help="What is known: the best config of each problem and device, with its evidence.",
    epilog=examples(
        "skipjack bank list",
        "skipjack bank show matmul:192x192x192",
        "skipjack bank merge colleague/bank.jsonl",
        "skipjack bank build -l resnet_2026_11",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", epilog=examples("skipjack bank list --json"))
def list_entries(json: JsonOption = False) -> None:
    """List all entries."""
    from skipjack.bank import Bank
    from skipjack.settings import load_settings

    entries = Bank.open(load_settings().user_dir).entries()
    if json:
        for entry in entries:
            typer.echo(entry.line)
        return
    from skipjack.report.bank import print_entries

    print_entries(entries)


@app.command("show", epilog=examples("skipjack bank show matmul:192x192x192"))
def show(problem: ProblemArgument, dtype: DtypeOption = None, json: JsonOption = False) -> None:
    """Show what is known about a problem, on every device."""
    from skipjack import plugins
    from skipjack.bank import Bank
    from skipjack.errors import SkipjackError
    from skipjack.operations import parse
    from skipjack.settings import load_settings

    settings = load_settings()
    plugins.load(settings.plugins)
    key = parse(problem, dtype).key
    bank = Bank.open(settings.user_dir)
    found = [entry for entry in bank.entries() if entry.problem == key]
    if not found:
        raise SkipjackError(f"the bank knows nothing of {key}; try skipjack tune {key}")
    if json:
        for entry in found:
            typer.echo(entry.line)
        return
    from skipjack.report.bank import print_entry

    for entry in found:
        print_entry(entry)


@app.command("rebuild", epilog=examples("skipjack bank rebuild"))
def rebuild(json: JsonOption = False) -> None:
    """Make the bank anew from the ledger."""
    from json import dumps

    from skipjack.bank import Bank
    from skipjack.ledger import Ledger
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory

    directory = user_directory(load_settings())
    with Ledger.open(directory) as ledger:
        count = Bank.open(directory).rebuild(ledger)
    typer.echo(
        dumps({"format": 1, "entries": count}) if json else f"{count} entries from the ledger"
    )


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
        f"{done.jobs} finished jobs of {label}: {done.rows} new rows in the ledger, "
        f"{done.changed} of {done.entries} entries of the bank changed"
    )


@app.command("merge", epilog=examples("skipjack bank merge colleague/bank.jsonl"))
def merge(
    file: Annotated[Path, typer.Argument(help="Another bank's file.")], json: JsonOption = False
) -> None:
    """Take in another bank's entries; of two for one problem and device the newer stays."""
    from json import dumps

    from skipjack.bank import Bank
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory

    changed = Bank.open(user_directory(load_settings())).merge(file)
    typer.echo(dumps({"format": 1, "changed": changed}) if json else f"{changed} entries changed")

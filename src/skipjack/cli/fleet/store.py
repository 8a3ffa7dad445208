"""``skipjack store``: the fleet's database itself."""

from __future__ import annotations

from typing import Annotated

import typer

from skipjack.cli.arguments import JsonOption, examples, the_store

app = typer.Typer(
    help="Inspect and upgrade the fleet's database.",
    epilog=examples(
        "skipjack store info",
        "skipjack store tags",
        "skipjack store machines --json",
        "skipjack store upgrade",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("info", epilog=examples("skipjack store info"))
def info(json: JsonOption = False) -> None:
    """Show where the store is and what it contains."""
    from skipjack.report import print_fields, print_json

    with the_store() as store:
        counts = {str(state): count for state, count in store.queue.live().items() if count}
        facts = {"store": store.url_for_people, "labels": len(store.labels.all()), "jobs": counts}
    if json:
        print_json("store info", facts)
        return
    listed = ", ".join(f"{n} {state}" for state, n in counts.items()) or "none"
    print_fields([(name, str(value)) for name, value in {**facts, "jobs": listed}.items()])


@app.command("upgrade", epilog=examples("skipjack store upgrade"))
def upgrade() -> None:
    """Upgrade a team's database to this version; a local file is upgraded automatically."""
    from skipjack.fleet.store import upgrade as upgrade_tables

    changed = upgrade_tables()
    typer.echo("the tables are now up to date" if changed else "the tables were already up to date")


@app.command("tags", epilog=examples("skipjack store tags"))
def tags(json: JsonOption = False) -> None:
    """List the tags and how many problems each has."""
    from skipjack.report import TableColumn, print_json, print_rows

    with the_store() as store:
        found = store.problems.tags()
    if json:
        for tag, count in found:
            print_json("store tags", {"tag": tag, "problems": count})
        return
    print_rows(
        [TableColumn("problems", right=True), "tag"],
        [(str(count), tag) for tag, count in found],
        if_empty="no problem has a tag",
    )


@app.command("machines", epilog=examples("skipjack store machines"))
def machines(json: JsonOption = False) -> None:
    """List the machines that have been seen, and which of them get no jobs."""
    from skipjack.report import print_json

    with the_store() as store:
        found = store.machines.all()
    for machine in found:
        idle = machine.quarantined or ("aborted" if machine.aborted else machine.pause)
        if json:
            record = {"name": machine.name, "engine": machine.engine, "cores": machine.cores}
            more = {"devices": list(machine.devices), "idle": idle, "seen": machine.seen}
            print_json("store machines", {**record, **more})
        else:
            devices = ", ".join(machine.devices)
            note = f"  gets no jobs: {idle}" if idle else ""
            typer.echo(f"{machine.name}  {machine.engine}  {devices}{note}")


@app.command("retire", epilog=examples("skipjack store retire matmul:192x192x192"))
def retire(
    problems: Annotated[list[str], typer.Argument(help="Problem keys.")],
    undo: Annotated[
        bool, typer.Option("--undo", help="Undo it: the problems are loaded again.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Exclude problems from everything that is loaded from now on."""
    from skipjack.operations import parse
    from skipjack.reading import numbered
    from skipjack.report import print_json

    keys = [parse(problem).key for problem in problems]
    with the_store() as store:
        count = store.problems.retire(keys, not undo)
    verb = "back" if undo else "retired"
    if json:
        print_json("store retire", {verb: count})
        return
    unchanged = len(set(keys)) - count
    note = (
        f"; {unchanged} unchanged, as they are not in the store or were so before"
        if unchanged
        else ""
    )
    typer.echo(f"{numbered(count, 'problem')} {verb}{note}")

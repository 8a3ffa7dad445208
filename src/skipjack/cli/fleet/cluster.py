"""``skipjack fleet``: a Ray cluster on the enabled machines, started and stopped over ssh."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import JsonOption, examples, the_store
from skipjack.errors import SkipjackError

if TYPE_CHECKING:
    from skipjack.fleet.machines import ClusterFile, ClusterState

log = logging.getLogger(__name__)

app = typer.Typer(
    help="Start and stop a Ray cluster on the enabled machines.",
    epilog=examples(
        "skipjack fleet up --head gpu7",
        "skipjack fleet status",
        "skipjack run -l resnet_2026_11 --engine ray --address ray://10.0.0.7:10001",
        "skipjack fleet down",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    "up",
    epilog=examples("skipjack fleet up", "skipjack fleet up --head gpu7 --address-file head.txt"),
)
def up(
    head: Annotated[str, typer.Option(help="The head node (the first machine by name).")] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The head's port (6379).")] = 0,
    client_port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port of ray:// addresses (10001).")
    ] = 0,
    image: Annotated[str, typer.Option(help="Run the nodes in containers of this image.")] = "",
    ray_option: Annotated[
        list[str] | None, typer.Option(help="A further option of ray start; repeatable.")
    ] = None,
    address_file: Annotated[
        Path | None, typer.Option(help="Also write the cluster's address to this file.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Start Ray on all enabled machines; nodes that are already running stay as they are."""
    from skipjack.fleet.machines import cluster, select_machines

    with the_store() as store:
        if head:
            store.registrations.get(head)
        machines = select_machines(store.registrations)
    options = cluster.ClusterOptions(head, port, client_port, tuple(ray_option or ()), image)
    file = _file()
    try:
        state = cluster.up(file, machines, options)
    except KeyboardInterrupt:
        typer.echo("nodes that were started keep running; skipjack fleet down stops them", err=True)
        raise
    _show(state, file, json)
    for node in state.nodes:
        if node.warning:
            log.warning("%s", node.warning)
    record = state.record
    if record is not None and record.ip:
        if address_file is not None:
            from skipjack.storage import atomic_write

            atomic_write(address_file, f"{record.client_address}\n".encode())
        if not json:
            typer.echo(_how_to_run(record.client_address, file.token_path))
    leader = next((node for node in state.down if node.head), None)
    if leader is not None:
        raise SkipjackError(
            f"{leader.machine}, the head, did not start: {leader.text}; no other machine was "
            "tried; fix it and run skipjack fleet up again"
        )
    _complain(state, "did not start", "the others stay up; fix it and run skipjack fleet up again")


@app.command("down", epilog=examples("skipjack fleet down", "skipjack fleet down --forget gpu7"))
def down(
    forget: Annotated[
        list[str] | None,
        typer.Option(help="A machine to give up if its node cannot be stopped; repeatable."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Stop exactly what up started; other programs on the machines, and their Ray, keep running."""
    from skipjack.fleet.machines import cluster

    with the_store() as store:
        machines = store.registrations.all()
    file = _file()
    state = cluster.down(file, machines, forget or ())
    _show(state, file, json)
    _complain(
        state,
        "could not be stopped",
        "run skipjack fleet down again when it is back, or with --forget NAME to give it up",
    )


@app.command("status", epilog=examples("skipjack fleet status", "skipjack fleet status --json"))
def status(json: JsonOption = False) -> None:
    """Show which nodes are up."""
    from skipjack.fleet.machines import cluster

    with the_store() as store:
        machines = store.registrations.all()
    file = _file()
    state = cluster.status(file, machines)
    _show(state, file, json)
    _complain(state, "is not up", "skipjack fleet up starts what is missing")


def _file() -> ClusterFile:
    from skipjack.fleet.machines import ClusterFile
    from skipjack.settings import load_settings

    return ClusterFile(load_settings())


def _show(state: ClusterState, file: ClusterFile, json: bool) -> None:
    from skipjack.report.fleet import cluster_state

    cluster_state(state, file.token_path, json)


def _how_to_run(address: str, token: Path) -> str:
    from shlex import quote

    return (
        f"export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH={quote(str(token))}\n"
        f"skipjack run -l LABEL --engine ray --address {address}"
    )


def _complain(state: ClusterState, what: str, advice: str) -> None:
    if not state.down:
        return
    reasons = "; ".join(f"{node.machine} {what}: {node.text}" for node in state.down)
    raise SkipjackError(f"{reasons}; {advice}")

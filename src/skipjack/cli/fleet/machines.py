"""``skipjack machine``: the machines of a fleet, reached over ssh."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import (
    ArchOption,
    JsonOption,
    LabelOption,
    UnitsOption,
    device_of,
    examples,
    the_store,
)
from skipjack.errors import SkipjackError, UsageError
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.fleet.machines import SshResult

app = typer.Typer(
    help="Register, check and use the machines of a fleet.",
    epilog=examples(
        "skipjack machine add gpu7 --host 10.0.0.7 --user tuner --device gfx908/120 --gpus 8",
        "skipjack machine list",
        "skipjack machine check -l resnet_2026_11",
        'skipjack machine exec "uptime" -a gfx908 -n 120',
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(help="The machine's name.")]
NamesArgument = Annotated[list[str], typer.Argument(help="Names of machines.")]
NamesOption = Annotated[
    list[str] | None, typer.Option("--machine", help="A machine by name; repeatable.")
]
HasDeviceOption = Annotated[
    str | None, typer.Option("--device", help="Machines with this device, such as gfx908/120.")
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=1, help="Time limit for each machine, in seconds.")
]


@app.command(
    "add",
    epilog=examples(
        "skipjack machine add gpu7 --host 10.0.0.7 --port 22 --user tuner --device gfx908/120 "
        "--gpus 8",
        "skipjack machine add gpu7 --host 10.0.0.8 --device gfx908/120 --gpus 4 --replace",
    ),
)
def add(
    name: NameArgument,
    host: Annotated[
        str, typer.Option(help="A host name, an address, or an alias of your ssh configuration.")
    ],
    port: Annotated[
        int, typer.Option(help="The port of its sshd (ssh's default).", show_default=False)
    ] = 0,
    user: Annotated[str, typer.Option(help="The user to log in as (ssh's default).")] = "",
    device: Annotated[
        str | None, typer.Option(help="The device to measure on, such as gfx908/120 or znver4/1.")
    ] = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    gpus: Annotated[int, typer.Option(help="How many GPUs of this kind it has.")] = 0,
    python: Annotated[str, typer.Option(help="The Python there that has Skipjack (python3).")] = "",
    remarks: Annotated[str, typer.Option(help="A remark.")] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the registration of this name.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Register a machine. Logins use ssh keys or the ssh agent; no password is stored."""
    from skipjack.core import parse_device_name
    from skipjack.fleet.model import Registration
    from skipjack.report import print_json
    from skipjack.report.fleet import machine_json

    if device:
        parse_device_name(device)  # refuses "cpu", which would be this machine's
    named = device_of(device, arch, units) or ""
    one = Registration(name, host, port, user, named, gpus, remarks=remarks, python=python)
    with the_store() as store:
        replaced = store.registrations.add(one, replace=replace)
        one = store.registrations.get(name)
    if json:
        print_json("machine list", {**machine_json(one, None), "replaced": replaced})
        return
    verb = "registered again" if replaced else "registered"
    note = "" if one.enabled else "; it is still disabled"
    typer.echo(f"{one.place} is {verb}{note}; skipjack machine check {name} checks it")


@app.command("list", epilog=examples("skipjack machine list", "skipjack machine list --json"))
def list_machines(
    device: HasDeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    json: JsonOption = False,
) -> None:
    """List the machines, whether each is enabled, and when it was last seen as a worker."""
    from skipjack.report.fleet import machine_list

    named = device_of(device, arch, units)
    with the_store() as store:
        found = [one for one in store.registrations.all() if named in (None, one.device)]
        workers = {worker.name: worker for worker in store.machines.all()}
    machine_list(found, workers, json)


@app.command("show", epilog=examples("skipjack machine show gpu7"))
def show(name: NameArgument, json: JsonOption = False) -> None:
    """Show everything that is known about a machine."""
    from skipjack.report import print_json
    from skipjack.report.fleet import machine_details, machine_json

    with the_store() as store:
        one = store.registrations.get(name)
        worker = next((each for each in store.machines.all() if each.name == name), None)
    if json:
        print_json("machine list", machine_json(one, worker))
    else:
        machine_details(one, worker)


@app.command("remove", epilog=examples("skipjack machine remove gpu7 gpu8"))
def remove(names: NamesArgument, json: JsonOption = False) -> None:
    """Remove machines from the registry; their measurements are kept."""
    with the_store() as store:
        gone = store.registrations.remove(names)
        idle = {worker.name for worker in store.machines.all() if worker.quarantined}
    _say("removed", [one.name for one in gone], json)
    for one in gone:
        if one.name in idle and not json:
            typer.echo(
                f"{one.name} stays quarantined as a worker; "
                f"skipjack resume --machine {one.name} gives it jobs again"
            )


@app.command("enable", epilog=examples("skipjack machine enable gpu7 gpu8"))
def enable(names: NamesArgument, json: JsonOption = False) -> None:
    """Enable machines again, including those quarantined for their failures."""
    from skipjack.app import enable_machines

    with the_store() as store:
        _say("enabled", enable_machines(store, names, by=getpass.getuser()), json)


@app.command("disable", epilog=examples('skipjack machine disable gpu7 --reason "new fans"'))
def disable(
    names: NamesArgument,
    reason: Annotated[
        str, typer.Option(help="The reason, which is shown wherever the machine is skipped.")
    ] = "",
    json: JsonOption = False,
) -> None:
    """Exclude machines from jobs, commands, images and clusters. Running jobs finish."""
    from skipjack.app import disable_machines

    with the_store() as store:
        done = disable_machines(store, names, by=getpass.getuser(), reason=reason)
    _say("disabled", done, json)


@app.command(
    "check",
    epilog=examples(
        "skipjack machine check",
        "skipjack machine check gpu7 --accept-new-keys",
        "skipjack machine check -l resnet_2026_11 --json",
    ),
)
def check(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of machines (all enabled ones).")
    ] = None,
    label: LabelOption = None,
    device: HasDeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    accept_new_keys: Annotated[
        bool,
        typer.Option(
            "--accept-new-keys", help="Trust the host keys of machines that are new to ssh."
        ),
    ] = False,
    timeout: TimeoutOption = 60.0,
    json: JsonOption = False,
) -> None:
    """Check that machines are reachable and have their device, GPUs, disk space and versions.

    Versions are compared with those of this machine, and with -l also with the label's notes and
    results.
    """
    from skipjack.fleet.machines import check_machines, requirements, select_machines
    from skipjack.report.fleet import conditions

    named = device_of(device, arch, units)
    with the_store() as store:
        machines = select_machines(
            store.registrations, names or (), named, disabled_too=bool(names)
        )
        wish = requirements(store.labels, label or "")
    found = check_machines(machines, wish, timeout_s=timeout, accept_new=accept_new_keys)
    conditions(found, json)
    bad = [one.machine.name for one in found if not one.ok]
    if bad:
        verb = "is" if len(bad) == 1 else "are"
        raise SkipjackError(
            f"{len(bad)} of {numbered(len(found), 'machine')} {verb} not ready: {', '.join(bad)}"
        )


@app.command(
    "exec",
    epilog=examples(
        'skipjack machine exec "uptime"',
        'skipjack machine exec "rocm-smi --showuse" -a gfx908 -n 120',
        'skipjack machine exec "df -h /" --machine gpu7 --machine gpu8 --json',
    ),
)
def execute(
    command: Annotated[str, typer.Argument(help="The command for the login shell.")],
    names: NamesOption = None,
    device: HasDeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    timeout: TimeoutOption = 60.0,
    json: JsonOption = False,
) -> None:
    """Run a command on all enabled machines at once, or on some, and print output as it comes."""
    from skipjack.fleet.machines import run_everywhere, select_machines
    from skipjack.report.fleet import render_answers, say_line

    if not command.strip():
        raise UsageError('the command is empty; write one, such as skipjack machine exec "uptime"')
    with the_store() as store:
        machines = select_machines(store.registrations, names or (), device_of(device, arch, units))
    observer = None if json else say_line
    answers = run_everywhere(machines, command, timeout_s=timeout, observer=observer)
    render_answers(answers, json)
    _complain(answers)


def _complain(answers: list[SshResult]) -> None:
    failed = [answer for answer in answers if not answer.ok]
    if not failed:
        return
    reasons = [one.failure or f"{one.machine} exited with {one.exit_code}" for one in failed]
    raise SkipjackError(
        f"failed on {len(failed)} of {numbered(len(answers), 'machine')}: {'; '.join(reasons)}"
    )


def _say(verb: str, names: list[str], json: bool) -> None:
    from skipjack.report import print_json

    if json:
        print_json("machine remove", {verb: names})
        return
    is_or_are = "is" if len(names) == 1 else "are"
    typer.echo(f"{', '.join(names)} {is_or_are} {verb}")

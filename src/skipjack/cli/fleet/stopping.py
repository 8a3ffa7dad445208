"""``skipjack abort`` and ``skipjack resume``: by label, device or machine."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.fleet.options import (
    DeviceOption,
    LabelOption,
    UnitsOption,
    device_of,
    the_store,
)
from skipjack.cli.options import JsonOption, examples
from skipjack.errors import SkipjackError, UsageError
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.fleet.store import Store

ABORT_EXAMPLES = examples(
    "skipjack abort -l resnet_2026_11",
    "skipjack abort --machine gpu7",
    "skipjack abort --device gfx90a/104 --yes",
    "skipjack abort -a gfx900",
)
RESUME_EXAMPLES = examples(
    "skipjack resume -l resnet_2026_11",
    "skipjack resume --machine gpu7",
    "skipjack resume -a gfx900",
)

MachineOption = Annotated[str | None, typer.Option("--machine", help="A machine by its name.")]
ArchOption = Annotated[
    str | None,
    typer.Option(
        "-a", "--arch", help="All devices of an architecture; with -n as --device ARCH/UNITS."
    ),
]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Do not ask, also for labels of other people.")
]


def abort(
    label: LabelOption = None,
    machine: MachineOption = None,
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    reason: Annotated[str, typer.Option(help="Why; the jobs' stories will say so.")] = "",
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Stop jobs until they are resumed; nothing found is lost.

    They stop within seconds.
    """
    target = _target(label, machine, device, arch, units)
    with the_store() as store:
        if not yes:
            _ask_before_touching_others(store, target)
        by = f"by {getpass.getuser()}" + (f": {reason}" if reason else "")
        count = store.jobs.abort(**target, reason=f"aborted {by}")
    _say("aborted", count, json, _machine_sentence(machine, count, stopped=True))


def resume(
    label: LabelOption = None,
    machine: MachineOption = None,
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    json: JsonOption = False,
) -> None:
    """Let what was aborted go on.

    A machine that was set aside gets jobs again.
    """
    target = _target(label, machine, device, arch, units)
    with the_store() as store:
        count = store.jobs.resume(**target)
        still = _still_stopped(store, label) if label and not count else []
    _say("resumed", count, json, _machine_sentence(machine, count, stopped=False))
    if still:
        raise SkipjackError(
            f"jobs of {label} are for devices that are aborted: {', '.join(still)}; "
            f"skipjack resume --device {still[0]} lets them go on"
        )


def _still_stopped(store: Store, label: str) -> list[str]:
    return sorted(set(store.machines.stopped_devices()) & store.labels.devices(label).keys())


def _machine_sentence(machine: str | None, count: int, *, stopped: bool) -> str:
    if machine is None:
        return ""
    if stopped:
        return f"{machine} gets no jobs until it is resumed; {numbered(count, 'job')} given back"
    return f"{machine} gets jobs again"


def _target(
    label: str | None, machine: str | None, device: str | None, arch: str | None, units: int | None
) -> dict[str, str]:
    """What is meant, by its kind; an architecture alone means all its devices."""
    if arch is not None and units is None and device is None:
        named = {"arch": arch}
    else:
        one = device_of(device, arch, units)
        named = {} if one is None else {"device": one}
    rest = {"label": label, "machine": machine}
    target = {**named, **{kind: name for kind, name in rest.items() if name is not None}}
    if len(target) != 1:
        raise UsageError(
            "say which: one of -l LABEL, --machine NAME, --device ARCH/UNITS or -a ARCH"
        )
    return target


def _ask_before_touching_others(store: Store, target: Mapping[str, str]) -> None:
    me = getpass.getuser()
    touched = store.jobs.touched(**target)
    others = [f"{name} of {owner}" for name, owner in touched if owner != me]
    if not others:
        return
    listed = ", ".join(others)
    if not sys.stdin.isatty():
        raise UsageError(f"this would stop labels of others: {listed}; add --yes if that is meant")
    typer.confirm(f"This stops labels of others: {listed}. Go on?", abort=True, err=True)


def _say(what: str, count: int, json: bool, sentence: str = "") -> None:
    from skipjack.report import print_json

    if json:
        print_json("abort", {what: count})
    else:
        typer.echo(sentence or f"{numbered(count, 'job')} {what}")

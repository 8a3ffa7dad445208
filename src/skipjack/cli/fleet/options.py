"""Options that commands of the fleet share, and opening its store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import device_name
from skipjack.errors import UsageError

if TYPE_CHECKING:
    from skipjack.fleet.states import State
    from skipjack.fleet.store import Store

LabelOption = Annotated[str | None, typer.Option("-l", "--label", help="Name of a batch of jobs.")]
RequiredLabel = Annotated[str, typer.Option("-l", "--label", help="Name of a batch of jobs.")]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="What jobs are for, as znver4/1 or gfx90a/104; cpu or gpu is this machine's.",
    ),
]
ArchOption = Annotated[
    str | None, typer.Option("-a", "--arch", help="With -n the same as --device ARCH/UNITS.")
]
UnitsOption = Annotated[
    int | None, typer.Option("-n", "--units", min=1, help="Compute units, or threads of a CPU.")
]


def device_of(device: str | None, arch: str | None, units: int | None) -> str | None:
    """The name of the device that was given in one way or the other."""
    if (arch is None) != (units is None):
        raise UsageError("-a and -n go together: -a gfx90a -n 104 is --device gfx90a/104")
    if arch is not None:
        if device is not None:
            raise UsageError("--device and -a/-n say the same; give one of them")
        device = f"{arch}/{units}"
    return device_name(device)


def state_of(text: str) -> State:
    """The state of this name."""
    from skipjack.fleet.states import State

    try:
        return State(text)
    except ValueError:
        known = ", ".join(State)
        raise UsageError(f"unknown state {text!r}: choose one of {known}") from None


def the_store(give_up: Callable[[], bool] = lambda: False, *, to_read: bool = False) -> Store:
    """The store of SKIPJACK_DB, or the file in the user directory."""
    from skipjack.fleet.store import open_store

    return open_store(give_up=give_up, to_read=to_read)

"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.errors import UsageError

if TYPE_CHECKING:
    from skipjack.fleet.model import JobState
    from skipjack.fleet.store import Store


# Options that several commands share.

DtypeOption = Annotated[
    str | None,
    typer.Option(
        help="Element type if the key has none: f32 or f64; on GPUs also f16, bf16, tf32, f8e4m3 "
        "or f8e5m2."
    ),
]
LayoutOption = Annotated[
    str | None,
    typer.Option(help="Layout if the key has none: NCHW or NHWC, NCDHW or NDHWC."),
]
DirectionOption = Annotated[
    str | None,
    typer.Option(help="Direction if the key has none: fwd, bwd, wrw, or all."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON lines for programs.")]
PlotsOption = Annotated[
    Path | None,
    typer.Option(help="Write plots of the results to this folder, as SVG."),
]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(help="A module or .py file that registers operations, solvers or searchers."),
]
SearcherOption = Annotated[
    str,
    typer.Option(
        help="Search algorithm: auto, exhaustive, random, hill_climbing, simulated_annealing, "
        "genetic, model, policy, optuna:tpe or a plug-in's; genetic:population=30 sets a parameter."
    ),
]
ShapesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shapes", help="A shape for a kernel of your own, such as 4096x1024; repeatable."
    ),
]
ProblemArgument = Annotated[str, typer.Argument(help="A problem key, such as matmul:192x192x192.")]


def examples(*lines: str) -> str:
    """The examples at the end of a command's help, one on each line."""
    # The control character keeps the help formatter from folding the lines into a paragraph.
    head = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["\b", head, *(f"  {line}" for line in lines)])


def device_name(text: str | None) -> str | None:
    """The device's name, if one is given: ``cpu`` and ``gpu`` are those of this machine."""
    if text is None:
        return None
    from skipjack.devices import name_of  # loads the drivers

    return name_of(text)


def check_outputs(*files: Path | None, folder: Path | None = None) -> None:
    """`StorageError` if results cannot be written, raised before hours of work."""
    from skipjack.errors import StorageError
    from skipjack.storage import can_create_in, output_directory

    if folder is not None:
        output_directory(folder)
    for path in files:
        if path is not None and not can_create_in(path.parent):
            raise StorageError(f"cannot write {path}: no file can be created in {path.parent}")
        if path is not None and path.is_dir():
            raise StorageError(f"cannot write {path}: it is a directory; name a file")


# Options that commands of the fleet share, and access to its store.

LabelOption = Annotated[
    str | None, typer.Option("-l", "--label", help="The label: the name of a set of jobs.")
]
RequiredLabel = Annotated[
    str, typer.Option("-l", "--label", help="The label: the name of a set of jobs.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="The device of the jobs: znver4/1, gfx90a/104, cpu or gpu of this machine.",
    ),
]
ArchOption = Annotated[
    str | None, typer.Option("-a", "--arch", help="With -n, the same as --device ARCH/UNITS.")
]
UnitsOption = Annotated[
    int | None,
    typer.Option("-n", "--units", min=1, help="Compute units of a GPU, or threads of a CPU."),
]


def device_of(device: str | None, arch: str | None, units: int | None) -> str | None:
    """The name of the device, given by --device or by -a and -n."""
    if (arch is None) != (units is None):
        raise UsageError("-a and -n go together: -a gfx90a -n 104 is --device gfx90a/104")
    if arch is not None:
        if device is not None:
            raise UsageError("--device and -a/-n both name a device; give only one of them")
        device = f"{arch}/{units}"
    return device_name(device)


def state_of(text: str) -> JobState:
    """The state of this name; `UsageError` if there is none."""
    from skipjack.fleet.model import JobState

    try:
        return JobState(text)
    except ValueError:
        known = ", ".join(JobState)
        raise UsageError(f"unknown state {text!r}; choose from {known}") from None


def the_store(give_up: Callable[[], bool] = lambda: False, *, to_read: bool = False) -> Store:
    """Open the store of SKIPJACK_DB, or the file in the user directory."""
    from skipjack.fleet.store import open_store

    return open_store(give_up=give_up, to_read=to_read)

"""``skipjack export``: what is known, in files for other programs."""

from __future__ import annotations

import functools
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.fleet.options import ArchOption, DeviceOption, UnitsOption, device_of
from skipjack.cli.options import JsonOption, PluginOption, examples
from skipjack.cli.parsing import Work, in_two_steps

if TYPE_CHECKING:
    from skipjack.app import Alias, ExportOptions

app = typer.Typer(
    help="What is known, in files for other programs.",
    epilog=examples(
        "skipjack export find-db -l resnet -o out/ --format miopen",
        "skipjack export perf-db -l resnet -o out/ --format miopen --sqlite",
        "skipjack export kernel-db -l gpu -o sm_90_132.skk",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Backend(StrEnum):
    """What a find-db's name says of how kernels are launched."""

    HIP = "HIP"
    OPENCL = "OpenCL"


OutputOption = Annotated[
    Path, typer.Option("--output", "-o", help="The directory to write to; made if need be.")
]
SourceOption = Annotated[
    str | None,
    typer.Option("--label", "-l", help="What this label's jobs found; else what the bank knows."),
]
FormatOption = Annotated[
    str, typer.Option("--format", help="Whose files: skipjack, miopen, or a plug-in's.")
]
AliasOption = Annotated[
    list[str] | None,
    typer.Option(
        "--alias",
        help="TARGET=SOURCE, as gfx803/56=gfx900/64: write SOURCE's file for TARGET too; repeat.",
    ),
]
ReleaseOption = Annotated[
    str | None, typer.Option("--release", help="Write below rel-RELEASE of the directory, as 6.2.")
]
PartialOption = Annotated[
    bool, typer.Option("--partial", help="Export what is there though jobs are not done.")
]
ReplaceOption = Annotated[
    bool,
    typer.Option("--replace", help="Replace files that are there and were not exported, too."),
]
UserOption = Annotated[
    bool,
    typer.Option(
        "--user",
        help="MIOpen: merge what its own jobs found into the user databases of the directory.",
    ),
]
BuildOption = Annotated[
    str | None,
    typer.Option("--build", help="With --user: of MIOpen, as 3_3_0_a85ca8a54; else the jobs'."),
]

SKIPJACK = "skipjack"
"""The format that files have if none is named."""


@app.callback()
def group() -> None:
    """Files for other programs."""


@app.command(
    "find-db",
    epilog=examples(
        "skipjack export find-db -l resnet -o out/",
        "skipjack export find-db -l resnet -o out/ --format miopen --top 4",
        "skipjack export find-db -l resnet -o out/ --format miopen --alias gfx803/56=gfx900/64",
        "skipjack export find-db -l resnet -o out/ --format miopen --release 6.2 --partial",
        "skipjack export find-db -l resnet -o ~/.config/miopen --user",
    ),
)
@in_two_steps
def find_db(
    output: OutputOption,
    label: SourceOption = None,
    form: FormatOption = SKIPJACK,
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    alias: AliasOption = None,
    release: ReleaseOption = None,
    partial: PartialOption = False,
    replace: ReplaceOption = False,
    top: Annotated[
        int | None, typer.Option(min=1, help="Solvers to keep of each problem; all by default.")
    ] = None,
    backend: Annotated[
        Backend, typer.Option(case_sensitive=False, help="MIOpen: in the names of the files.")
    ] = Backend.HIP,
    user: UserOption = False,
    build: BuildOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> Work:
    """Write the solvers of every problem, ranked: a file for each device, and a manifest."""
    from skipjack.app import DatabaseKind, ExportOptions

    options = ExportOptions(
        DatabaseKind.FIND,
        output,
        label,
        device_of(device, arch, units),
        form,
        _aliases(alias),
        release,
        partial,
        replace,
        top=top,
        backend=str(backend),
        user=user,
        build=build,
    )
    return functools.partial(_export, options, plugin, json)


@app.command(
    "perf-db",
    epilog=examples(
        "skipjack export perf-db -l resnet -o out/",
        "skipjack export perf-db -l resnet -o out/ --format miopen",
        "skipjack export perf-db -l resnet -o out/ --format miopen --sqlite --release 6.2",
        "skipjack export perf-db -l resnet --one-file miopen.db",
        "skipjack export perf-db -l resnet -o ~/.config/miopen --user --build 3_3_0_a85ca8a54",
    ),
)
@in_two_steps
def perf_db(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The directory to write to; made if need be."),
    ] = None,
    label: SourceOption = None,
    form: FormatOption = SKIPJACK,
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    alias: AliasOption = None,
    release: ReleaseOption = None,
    partial: PartialOption = False,
    replace: ReplaceOption = False,
    sqlite: Annotated[
        bool, typer.Option("--sqlite", help="MIOpen: a database of SQLite instead of text.")
    ] = False,
    one_file: Annotated[
        Path | None,
        typer.Option("--one-file", help="MIOpen: one database of SQLite for all devices."),
    ] = None,
    user: UserOption = False,
    build: BuildOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> Work:
    """Write the best config of every solver of every problem: a file for each device, or one."""
    from skipjack.app import DatabaseKind, ExportOptions

    options = ExportOptions(
        DatabaseKind.PERF,
        output,
        label,
        device_of(device, arch, units),
        form,
        _aliases(alias),
        release,
        partial,
        replace,
        sqlite=sqlite,
        one_file=one_file,
        user=user,
        build=build,
    )
    return functools.partial(_export, options, plugin, json)


@app.command(
    "kernel-db",
    epilog=examples(
        "skipjack export kernel-db -l gpu -o sm_90_132.skk",
        "skipjack export kernel-db -l resnet -o out/ --format miopen --release 6.2",
        "skipjack export kernel-db -o mine.skk",
    ),
)
@in_two_steps
def kernel_db(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="One file, as x.skk or x.kdb, or a directory for many."
        ),
    ],
    label: SourceOption = None,
    form: Annotated[
        str | None, typer.Option("--format", help="Whose files to write; a file's name says it.")
    ] = None,
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    alias: AliasOption = None,
    release: ReleaseOption = None,
    partial: PartialOption = False,
    replace: ReplaceOption = False,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> Work:
    """Write precompiled winners, from which programs run them without compiling."""
    from skipjack.app import DatabaseKind, ExportOptions

    options = ExportOptions(
        DatabaseKind.KERNEL,
        output,
        label,
        device_of(device, arch, units),
        form,
        _aliases(alias),
        release,
        partial,
        replace,
    )
    return functools.partial(_export, options, plugin, json)


def _aliases(texts: list[str] | None) -> tuple[Alias, ...]:
    from skipjack.app import Alias

    return tuple(Alias.parse(text) for text in texts or ())


def _export(options: ExportOptions, plugin: list[str] | None, json: bool) -> None:
    from skipjack import app as use_cases
    from skipjack.report.fleet.export import render_export

    render_export(use_cases.export(options, plugins=tuple(plugin or ())), json)

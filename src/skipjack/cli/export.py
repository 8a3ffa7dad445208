"""``skipjack export``: results in files for other programs."""

from __future__ import annotations

import functools
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import (
    ArchOption,
    DeviceOption,
    JsonOption,
    PluginOption,
    UnitsOption,
    Work,
    check_outputs,
    device_of,
    examples,
    in_two_steps,
)
from skipjack.cli.replay import DeviceChoice, ProblemChoice, SolverChoice

if TYPE_CHECKING:
    from skipjack.app import ExportOptions, LedgerChoice
    from skipjack.fleet.release.formats import Alias

app = typer.Typer(
    help="Write results to files for other programs.",
    epilog=examples(
        "skipjack export find-db -l resnet -o out/ --format miopen",
        "skipjack export perf-db -l resnet -o out/ --format miopen --sqlite",
        "skipjack export kernel-db -l gpu -o sm_90_132.skk",
        "skipjack export t4 --problem matmul:512x512x512:f32 --solver packed -o packed.json.gz",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Backend(StrEnum):
    """How kernels are launched, as given in the names of find-dbs."""

    HIP = "HIP"
    OPENCL = "OpenCL"


OutputOption = Annotated[
    Path, typer.Option("--output", "-o", help="The directory to write to; created if needed.")
]
SourceOption = Annotated[
    str | None,
    typer.Option("--label", "-l", help="Export what this label's jobs found (the bank)."),
]
FormatOption = Annotated[
    str, typer.Option("--format", help="File format: skipjack, miopen, or a plug-in's.")
]
AliasOption = Annotated[
    list[str] | None,
    typer.Option(
        "--alias",
        help="TARGET=SOURCE: write the file of SOURCE for TARGET, too; repeatable.",
    ),
]
ReleaseOption = Annotated[
    str | None, typer.Option("--release", help="Write to the sub-folder rel-RELEASE, such as 6.2.")
]
PartialOption = Annotated[
    bool, typer.Option("--partial", help="Export although some jobs are not done.")
]
ReplaceOption = Annotated[
    bool,
    typer.Option("--replace", help="Also replace files that no export wrote."),
]
UserOption = Annotated[
    bool,
    typer.Option(
        "--user",
        help="MIOpen: merge results of its own solvers into the user databases there.",
    ),
]
BuildOption = Annotated[
    str | None,
    typer.Option(
        "--build", help="With --user: MIOpen's build, such as 3_3_0_a85ca8a54 (that of the jobs)."
    ),
]

SKIPJACK = "skipjack"
"""The default format."""


@app.callback()
def group() -> None:
    """Write results to files for other programs."""


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
        int | None, typer.Option(min=1, help="How many solvers of each problem to keep (all).")
    ] = None,
    backend: Annotated[
        Backend, typer.Option(case_sensitive=False, help="MIOpen: the backend in file names.")
    ] = Backend.HIP,
    user: UserOption = False,
    build: BuildOption = None,
    json: JsonOption = False,
    plugin: PluginOption = None,
) -> Work:
    """Write the ranked solvers of every problem: a file for each device, and a manifest."""
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
        typer.Option("--output", "-o", help="The directory to write to; created if needed."),
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
        bool, typer.Option("--sqlite", help="MIOpen: write SQLite databases instead of text.")
    ] = False,
    one_file: Annotated[
        Path | None,
        typer.Option("--one-file", help="MIOpen: one SQLite database for all devices."),
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
            "--output", "-o", help="One file, such as x.skk or x.kdb, or a directory for several."
        ),
    ],
    label: SourceOption = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="File format; that of one file follows from its name."),
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
    """Write the compiled kernels of the winners, so that programs need not compile them."""
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


@app.command(
    "t4",
    epilog=examples(
        "skipjack export t4 --problem matmul:512x512x512:f32 --solver packed -o packed.json.gz",
        "skipjack export t4 team/ledger.sqlite --problem matmul:512x512x512:f32 -o packed.json",
        "skipjack export t4 cache_of_kernel_tuner.json -o convolution_T4.json.gz",
    ),
)
@in_two_steps
def t4(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file to write; .gz at its end compresses it."),
    ],
    recording: Annotated[
        Path | None,
        typer.Argument(
            help="A ledger, a user directory, or a cache file of Kernel Tuner (your own ledger)."
        ),
    ] = None,
    problem: ProblemChoice = None,
    solver: SolverChoice = None,
    device: DeviceChoice = None,
    json: JsonOption = False,
) -> Work:
    """Write all trials of a problem and solver in T4, the JSON format that autotuners share."""
    from skipjack.app import LedgerChoice

    choice = LedgerChoice(problem, solver, device)
    return functools.partial(_export_t4, recording, output, choice, json)


def _export_t4(recording: Path | None, output: Path, choice: LedgerChoice, json: bool) -> None:
    from skipjack.app import export_t4
    from skipjack.report import render_t4_export

    check_outputs(output)
    render_t4_export(export_t4(recording, output, choice), json)


def _aliases(texts: list[str] | None) -> tuple[Alias, ...]:
    from skipjack.fleet.release.formats import Alias

    return tuple(Alias.parse(text) for text in texts or ())


def _export(options: ExportOptions, plugin: list[str] | None, json: bool) -> None:
    from skipjack import app as use_cases
    from skipjack.report.fleet import render_export

    render_export(use_cases.export(options, plugins=tuple(plugin or ())), json)

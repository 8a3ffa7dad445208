"""``skipjack export``: what is known, in files for other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from skipjack.cli.fleet.options import ArchOption, DeviceOption, UnitsOption, device_of
from skipjack.cli.options import JsonOption, PluginOption, examples

if TYPE_CHECKING:
    from skipjack.fleet.release.export.exporting import ExportRequest
    from skipjack.fleet.release.export.one_kernel_file import OneFile
    from skipjack.fleet.release.export.publishing import Exported
    from skipjack.fleet.release.export.user_databases import UserExport
    from skipjack.settings import Settings

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
_NOUNS = {"devices": "device", "problems": "problem", "entries": "entry", "kernels": "kernel"}


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
) -> None:
    """Write the solvers of every problem, ranked: a file for each device, and a manifest."""
    from skipjack.fleet.release.export.exporting import export_find_db, export_user
    from skipjack.fleet.release.export.output_names import check_directory_name
    from skipjack.fleet.release.formats import FindOptions

    named = device_of(device, arch, units)
    settings = _settings(plugin)
    check_directory_name(output)
    request = _request(output, label, named, form, alias, release, partial, replace)
    if user or build:
        wanted = _user_request("find", request, user, build, top=top, backend=str(backend))
        _report(export_user(wanted, settings, partial=partial), json)
        return
    _report(export_find_db(request, settings, FindOptions(top, str(backend))), json)


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
) -> None:
    """Write the best config of every solver of every problem: a file for each device, or one."""
    from skipjack.errors import UsageError
    from skipjack.fleet.release.export.exporting import export_perf_db, export_user
    from skipjack.fleet.release.export.output_names import check_directory_name, check_one_database
    from skipjack.fleet.release.formats import MIOPEN, PerfOptions

    if output is None and one_file is None:
        raise UsageError("give -o DIRECTORY, or --one-file miopen.db for one file")
    if one_file is not None and (user or build):
        raise UsageError("--one-file holds all devices, a user database holds one; choose one")
    named = device_of(device, arch, units)
    settings = _settings(plugin)
    directory = output or Path()
    if one_file is not None:
        check_one_database(directory / one_file)
        directory, form = (directory / one_file).parent, MIOPEN
    check_directory_name(directory)
    request = _request(directory, label, named, form, alias, release, partial, replace)
    if user or build:
        wanted = _user_request("perf", request, user, build, sqlite=sqlite)
        _report(export_user(wanted, settings, partial=partial), json)
        return
    options = PerfOptions(sqlite, one_file.name if one_file else "")
    _report(export_perf_db(request, settings, options), json)


@app.command(
    "kernel-db",
    epilog=examples(
        "skipjack export kernel-db -l gpu -o sm_90_132.skk",
        "skipjack export kernel-db -l resnet -o out/ --format miopen --release 6.2",
        "skipjack export kernel-db -o mine.skk",
    ),
)
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
) -> None:
    """Write precompiled winners, from which programs run them without compiling."""
    from skipjack.fleet.release.export.exporting import export_kernel_db
    from skipjack.fleet.release.export.one_kernel_file import check_one_file, export_one_file
    from skipjack.fleet.release.export.output_names import check_file_or_directory
    from skipjack.fleet.release.formats import of_kernel_file

    named = device_of(device, arch, units)
    settings = _settings(plugin)
    one = of_kernel_file(output) if not output.is_dir() else None
    chosen = form or (one.name if one else SKIPJACK)
    request = _request(output, label, named, chosen, alias, release, partial, replace)
    if one is None:
        check_file_or_directory(output)
        _report(export_kernel_db(request, settings), json)
        return
    check_one_file(request)
    _report_one(output, export_one_file(request, settings), json)


def _settings(plugin: list[str] | None) -> Settings:
    """With the plug-ins loaded: what is exported may be of one."""
    from skipjack import plugins
    from skipjack.settings import load_settings

    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    return settings


def _request(
    output: Path,
    label: str | None,
    device: str | None,
    form: str,
    aliases: list[str] | None,
    release: str | None,
    partial: bool,
    replacing: bool,
) -> ExportRequest:
    """What is asked for, checked before anything is read."""
    from skipjack.errors import UsageError
    from skipjack.fleet.release.export.exporting import ExportRequest
    from skipjack.fleet.release.export.publishing import release_directory
    from skipjack.fleet.release.formats import Alias, get

    get(form)
    if partial and label is None:
        raise UsageError("--partial is for the jobs of a label; give -l as well")
    if release == "":
        raise UsageError("--release needs the name of one, as 6.2")
    release_directory(output, release or "")
    parsed = tuple(Alias.parse(text) for text in aliases or ())
    return ExportRequest(output, label, device, form, parsed, release or "", partial, replacing)


def _user_request(
    kind: Literal["find", "perf"],
    request: ExportRequest,
    user: bool,
    build: str | None,
    **rest: Any,
) -> UserExport:
    """For user databases of MIOpen, whose names and places leave less to say."""
    from skipjack.errors import UsageError
    from skipjack.fleet.release.export.user_databases import UserExport, build_name

    if not user:
        raise UsageError("--build is for --user: other files are named after no build of MIOpen")
    if request.label is None:
        raise UsageError(
            "--user needs -l LABEL: MIOpen uses results of its own solvers, which jobs of MIOpen "
            "bring (skipjack load --solver miopen); a bank has none"
        )
    if request.aliases or request.release or request.replacing:
        raise UsageError(
            "--user merges into the user databases of one directory; leave out --alias, --release "
            "and --replace"
        )
    name = build_name(build) if build else None
    return UserExport(kind, request.output, request.label, request.device, name, **rest)


def _report(done: Exported, json: bool) -> None:
    from json import dumps

    from skipjack.reading import numbered

    if json:
        typer.echo(dumps(done.to_json()))
        return
    for note in done.files:
        counts = ", ".join(numbered(count, _NOUNS[key]) for key, count in note.counts.items())
        copied = f" (measured on {note.alias_of})" if note.alias_of else ""
        typer.echo(f"{done.directory / note.name}: {counts}{copied}")
    if done.unfinished:
        typer.echo(f"  left out: {numbered(done.unfinished, 'job')} not done")
    if done.not_applicable:
        typer.echo(f"  left out: {numbered(done.not_applicable, 'job')} that no solver can do")
    for remark in done.remarks:
        typer.echo(f"  {remark}")


def _report_one(output: Path, done: OneFile, json: bool) -> None:
    from json import dumps

    from skipjack.reading import numbered
    from skipjack.report.numbers import size_text

    size = output.stat().st_size
    if json:
        record = {"format": 1, "file": str(output), "kernels": done.kernels, "bytes": size}
        typer.echo(dumps({**record, "remarks": list(done.remarks)}))
        return
    typer.echo(f"{numbered(done.kernels, 'kernel')} in {output}, {size_text(size)}")
    for remark in done.remarks:
        typer.echo(f"  {remark}")

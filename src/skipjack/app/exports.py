"""``export``: results in files for other programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from skipjack.app.configuration import configured
from skipjack.errors import UsageError
from skipjack.fleet.release.export import (
    ExportRequest,
    ExportResult,
    UserExport,
    build_name,
    check_directory_name,
    check_file_or_directory,
    check_one_database,
    check_one_file,
    export_find_db,
    export_kernel_db,
    export_one_file,
    export_perf_db,
    export_user,
    release_directory,
)
from skipjack.fleet.release.formats import (
    MIOPEN,
    SKIPJACK,
    Alias,
    FindOptions,
    PerfOptions,
    get,
    of_kernel_file,
)
from skipjack.settings import Settings


class DatabaseKind(StrEnum):
    """The kind of database to export."""

    FIND = "find-db"
    PERF = "perf-db"
    KERNEL = "kernel-db"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What to export, and to which files."""

    kind: DatabaseKind
    output: Path | None = None
    """The directory to write to, or one file of kernels."""
    label: str | None = None
    """None for the entries of the user's bank."""
    device: str | None = None
    form: str | None = None
    """``skipjack``, ``miopen`` or a plug-in's; None for ours, or by the name of one file."""
    aliases: tuple[Alias, ...] = ()
    release: str | None = None
    partial: bool = False
    replacing: bool = False
    top: int | None = None
    """How many solvers of each problem to keep in a find-db; None for all."""
    backend: str = "HIP"
    """The backend in the names of MIOpen's find-dbs."""
    sqlite: bool = False
    """Write MIOpen's perf-dbs as SQLite databases."""
    one_file: Path | None = None
    """The file of MIOpen's perf-db for all devices."""
    user: bool = False
    """Merge into user databases of MIOpen."""
    build: str | None = None
    """MIOpen's build, in the names of its user databases."""


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """The kernels of all devices in one file."""

    file: Path
    kernels: int
    bytes: int
    remarks: tuple[str, ...] = ()


def export(
    options: ExportOptions, *, settings: Settings | None = None, plugins: tuple[str, ...] = ()
) -> ExportResult | ExportedFile:
    """Write results to files; if anything is wrong, no file is changed."""
    if options.kind is DatabaseKind.KERNEL:
        return _export_kernels(options, settings, plugins)
    directory = _directory(options)
    chosen = configured(settings, plugins)
    form = MIOPEN if options.one_file else options.form or SKIPJACK
    request = _request(replace(options, output=directory), form)
    if options.user or options.build:
        return export_user(_user_request(options, request), chosen, partial=options.partial)
    if options.kind is DatabaseKind.FIND:
        return export_find_db(request, chosen, FindOptions(options.top, options.backend))
    name = options.one_file.name if options.one_file else ""
    return export_perf_db(request, chosen, PerfOptions(options.sqlite, name))


def _export_kernels(
    options: ExportOptions, settings: Settings | None, plugins: tuple[str, ...]
) -> ExportResult | ExportedFile:
    output = options.output
    if output is None:
        raise UsageError(
            "name the file to write, such as x.skk or x.kdb, or a directory for several"
        )
    chosen = configured(settings, plugins)  # loads plug-ins, which may add formats
    one = of_kernel_file(output) if not output.is_dir() else None
    request = _request(options, options.form or (one.name if one else SKIPJACK))
    if one is None:
        check_file_or_directory(output)
        return export_kernel_db(request, chosen)
    check_one_file(request)
    done = export_one_file(request, chosen)
    return ExportedFile(output, done.kernels, output.stat().st_size, done.remarks)


def _directory(options: ExportOptions) -> Path:
    """The output directory, checked before anything is read."""
    output, one_file = options.output, options.one_file
    if output is None and one_file is None:
        raise UsageError("give -o DIRECTORY, or --one-file miopen.db for one file")
    if one_file is not None and (options.user or options.build):
        raise UsageError("--one-file holds all devices, a user database holds one; choose one")
    directory = output or Path()
    if one_file is not None:
        check_one_database(directory / one_file)
        directory = (directory / one_file).parent
    check_directory_name(directory)
    return directory


def _request(options: ExportOptions, form: str) -> ExportRequest:
    """The request, checked before anything is read."""
    get(form)
    if options.partial and options.label is None:
        raise UsageError("--partial is for the jobs of a label; give -l as well")
    if options.release == "":
        raise UsageError("--release is empty; name a release, such as 6.2")
    output = options.output or Path()
    release_directory(output, options.release or "")
    return ExportRequest(
        output,
        options.label,
        options.device,
        form,
        options.aliases,
        options.release or "",
        options.partial,
        options.replacing,
    )


def _user_request(options: ExportOptions, request: ExportRequest) -> UserExport:
    """The request for MIOpen's user databases, which have fewer options."""
    if not options.user:
        raise UsageError(
            "--build is an option of --user: names of other files have no build of MIOpen"
        )
    if request.label is None:
        raise UsageError(
            "--user needs -l LABEL: MIOpen uses results of its own solvers, which only its own "
            "jobs produce (skipjack load --solver miopen); a bank has none"
        )
    if request.aliases or request.release or request.replacing:
        raise UsageError(
            "--user merges into the user databases of one directory; leave out --alias, --release "
            "and --replace"
        )
    name = build_name(options.build) if options.build else None
    kind: Literal["find", "perf"] = "perf"
    more: dict[str, Any] = {"sqlite": options.sqlite}
    if options.kind is DatabaseKind.FIND:
        kind, more = "find", {"top": options.top, "backend": options.backend}
    return UserExport(kind, request.output, request.label, request.device, name, **more)

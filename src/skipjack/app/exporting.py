"""``export``: what is known, in files for other programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from skipjack.app.configuring import configured
from skipjack.errors import UsageError
from skipjack.fleet.release.export.exporting import (
    ExportRequest,
    export_find_db,
    export_kernel_db,
    export_perf_db,
    export_user,
)
from skipjack.fleet.release.export.one_kernel_file import check_one_file, export_one_file
from skipjack.fleet.release.export.output_names import (
    check_directory_name,
    check_file_or_directory,
    check_one_database,
)
from skipjack.fleet.release.export.publishing import Exported, release_directory
from skipjack.fleet.release.export.user_databases import UserExport, build_name
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
    """What an export is of."""

    FIND = "find-db"
    PERF = "perf-db"
    KERNEL = "kernel-db"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported from where, and which files it becomes."""

    kind: DatabaseKind
    output: Path | None = None
    """The directory to write to, or one file of kernels."""
    label: str | None = None
    """None: what this user's bank knows."""
    device: str | None = None
    form: str | None = None
    """``skipjack``, ``miopen`` or a plug-in's; None: ours, or what the name of one file says."""
    aliases: tuple[Alias, ...] = ()
    release: str | None = None
    partial: bool = False
    replacing: bool = False
    top: int | None = None
    """Solvers of each problem in a find-db; all."""
    backend: str = "HIP"
    """In the names of MIOpen's find-dbs."""
    sqlite: bool = False
    """MIOpen's perf-dbs as databases of SQLite."""
    one_file: Path | None = None
    """MIOpen's perf-db of all devices."""
    user: bool = False
    """Merge into user databases of MIOpen."""
    build: str | None = None
    """Of MIOpen, for its user databases."""


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """The kernels of all devices in one file."""

    file: Path
    kernels: int
    bytes: int
    remarks: tuple[str, ...] = ()


def export(
    options: ExportOptions, *, settings: Settings | None = None, plugins: tuple[str, ...] = ()
) -> Exported | ExportedFile:
    """Write what is known of problems into files; nothing is changed if something is wrong."""
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
) -> Exported | ExportedFile:
    output = options.output
    if output is None:
        raise UsageError("name the file to write, as x.skk or x.kdb, or a directory for many")
    chosen = configured(settings, plugins)  # before names are read: a format may be a plug-in's
    one = of_kernel_file(output) if not output.is_dir() else None
    request = _request(options, options.form or (one.name if one else SKIPJACK))
    if one is None:
        check_file_or_directory(output)
        return export_kernel_db(request, chosen)
    check_one_file(request)
    done = export_one_file(request, chosen)
    return ExportedFile(output, done.kernels, output.stat().st_size, done.remarks)


def _directory(options: ExportOptions) -> Path:
    """Where the files go, checked before anything is read."""
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
    """What is asked for, checked before anything is read."""
    get(form)
    if options.partial and options.label is None:
        raise UsageError("--partial is for the jobs of a label; give -l as well")
    if options.release == "":
        raise UsageError("--release needs the name of one, as 6.2")
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
    """For user databases of MIOpen, whose names and places leave less to say."""
    if not options.user:
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
    name = build_name(options.build) if options.build else None
    kind: Literal["find", "perf"] = "perf"
    more: dict[str, Any] = {"sqlite": options.sqlite}
    if options.kind is DatabaseKind.FIND:
        kind, more = "find", {"top": options.top, "backend": options.backend}
    return UserExport(kind, request.output, request.label, request.device, name, **more)

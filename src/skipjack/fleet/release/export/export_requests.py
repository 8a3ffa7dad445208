"""``skipjack export``: from a label's jobs, or this user's bank, to files for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.bank import Bank
from skipjack.errors import UsageError
from skipjack.fleet.release import formats
from skipjack.fleet.release.database_directory import PACKED
from skipjack.fleet.release.export.manifest import ExportOrigin
from skipjack.fleet.release.export.publication import ExportResult, publish
from skipjack.fleet.release.formats import (
    SKIPJACK,
    Alias,
    Contents,
    FindOptions,
    PerfOptions,
    every,
)
from skipjack.fleet.release.results import (
    CACHED,
    RANKINGS,
    TUNINGS,
    Fetch,
    JobSelection,
    Readiness,
    Shipment,
    configs_readiness,
    fetching,
    found_in_bank,
    found_in_label,
    kernels_in_label,
    outdated_remarks,
    readiness_of,
    tuned_in_bank,
    tuned_in_label,
)
from skipjack.interop.miopen import parse_db_name
from skipjack.settings import Settings

if TYPE_CHECKING:
    from skipjack.fleet.release.export.user_databases import UserExport
    from skipjack.fleet.store import Store


# Requests of exports, and what they write.


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Options of an export."""

    output: Path
    label: str | None = None
    """None exports this user's bank."""
    device: str | None = None
    """None exports all devices."""
    form: str = SKIPJACK
    aliases: tuple[Alias, ...] = ()
    release: str = ""
    partial: bool = False
    """Export even if jobs are not finished."""
    replacing: bool = False
    """Replace files even if they were not exported."""


def export_find_db(
    request: ExportRequest, settings: Settings, options: FindOptions | None = None
) -> ExportResult:
    """Export rankings of solvers."""
    form, options = formats.get(request.form), options or FindOptions()
    if request.label is None:
        found = found_in_bank(Bank.open(settings.user_dir), request.device)
        return _published(request, form.find(found, options))
    with _checked_jobs(request, settings, RANKINGS) as (store, ready):
        found = found_in_label(store.results, request.label, request.device)
        return _published(request, form.find(found, options), store, ready)


def export_perf_db(
    request: ExportRequest, settings: Settings, options: PerfOptions | None = None
) -> ExportResult:
    """Export the best config of every solver, to a file for each device or one for all."""
    form, options = formats.get(request.form), options or PerfOptions()
    form.check_perf(options)
    if options.one_file:
        # Its rows contain the device, so that one file serves all aliases.
        options = replace(options, aliases=request.aliases)
        request = replace(request, aliases=())
    if request.label is None:
        tuned = tuned_in_bank(Bank.open(settings.user_dir), request.device)
        return _published(request, form.perf(tuned, options))
    with _store(settings) as store:
        ready = configs_readiness(store, request.label, request.device)
        ready.check(partial=request.partial)
        tuned = tuned_in_label(store.results, request.label, request.device)
        return _published(request, form.perf(tuned, options), store, ready)


def export_kernel_db(request: ExportRequest, settings: Settings) -> ExportResult:
    """Export machine code of the winners."""
    form = formats.get(request.form)
    if request.label is None:
        shipments, fetch, left_out = bank_kernels(settings, request.device)
        done = _published(request, form.kernel(shipments, fetch))
        return replace(done, remarks=(*done.remarks, *left_out))
    with label_kernels(request, settings) as (store, ready, shipments):
        contents = form.kernel(shipments, fetching(store.results, request.label))
        return _published(request, contents, store, ready)


def export_user(request: UserExport, settings: Settings, *, partial: bool = False) -> ExportResult:
    """Merge the results of MIOpen's own jobs into user databases of MIOpen."""
    from skipjack.fleet.release.export.user_databases import export_user_databases

    with _store(settings) as store:
        if request.kind == "find":
            ready = readiness_of(store, request.label, RANKINGS, request.device)
        else:
            ready = configs_readiness(store, request.label, request.device)
        ready.check(partial=partial)
        done = export_user_databases(request, store.results)
        return replace(
            done,
            not_applicable=ready.not_applicable,
            unfinished=ready.unfinished,
            remarks=(*done.remarks, *ready.remarks),
        )


@contextmanager
def label_kernels(
    request: ExportRequest, settings: Settings
) -> Iterator[tuple[Store, Readiness, dict[str, Shipment]]]:
    """The kernels of a label: from jobs that packed them, or else from tunings."""
    assert request.label is not None
    with _store(settings) as store:
        packed, tuned = (
            readiness_of(store, request.label, selection, request.device)
            for selection in (CACHED, TUNINGS)
        )
        ready = tuned if tuned.jobs and not packed.jobs else packed
        ready.check(partial=request.partial)
        yield store, ready, kernels_in_label(store.results, request.label, request.device)


def bank_kernels(
    settings: Settings, device: str | None
) -> tuple[dict[str, Shipment], Fetch, tuple[str, ...]]:
    """The kernels of this user's bank for local devices, and remarks about the others."""
    from skipjack.runtime import banked_kernels

    shipments: dict[str, Shipment] = {}
    code: dict[str, bytes] = {}
    found = banked_kernels(settings)
    for record, data in found.kernels:
        if device in (None, record.device):
            shipments.setdefault(record.device, Shipment()).kernels.append(record)
            code[record.artifact] = data
    return shipments, lambda digest, what: code[digest], found.left_out


@contextmanager
def _checked_jobs(
    request: ExportRequest, settings: Settings, selection: JobSelection
) -> Iterator[tuple[Store, Readiness]]:
    assert request.label is not None
    with _store(settings) as store:
        ready = readiness_of(store, request.label, selection, request.device)
        ready.check(partial=request.partial)
        yield store, ready


def _store(settings: Settings) -> Store:
    from skipjack.fleet.store import open_store

    return open_store(settings=settings)


def _published(
    request: ExportRequest,
    contents: Contents,
    store: Store | None = None,
    ready: Readiness | None = None,
) -> ExportResult:
    origin = ExportOrigin()
    if store is not None and request.label is not None:
        label = store.labels.get(request.label)
        origin = ExportOrigin(label.name, label.owner, label.versions, label.image, label.ticket)
    done = publish(
        contents,
        request.output,
        origin,
        aliases=request.aliases,
        release=request.release,
        replacing=request.replacing,
    )
    if ready is None:
        return done
    remarks = (*done.remarks, *ready.remarks)
    return replace(
        done,
        not_applicable=ready.not_applicable,
        unfinished=ready.unfinished,
        remarks=remarks,
    )


# Export of all kernels of a label or bank to one file, whose name determines the format.


def check_one_file(request: ExportRequest) -> None:
    """`UsageError` for options that need a directory or contradict the file name."""
    output = request.output
    if request.aliases or request.release:
        raise UsageError(
            f"--alias and --release apply to files of several devices, but {output} is one file; "
            "give a directory"
        )
    named = formats.of_kernel_file(output)
    if named and request.form != named.name:
        raise UsageError(
            f"{output} has the name of a file in the format {named.name}, not {request.form}"
        )
    if not output.absolute().parent.is_dir():
        raise UsageError(
            f"cannot write {output}: the directory {output.absolute().parent} does not exist"
        )


@dataclass(frozen=True, slots=True)
class KernelFileResult:
    """The result of the export."""

    kernels: int
    remarks: tuple[str, ...] = ()


def export_one_file(request: ExportRequest, settings: Settings) -> KernelFileResult:
    """Write the kernels of all devices to the file."""
    form = formats.get(request.form)
    if request.label is None:
        shipments, fetch, remarks = bank_kernels(settings, request.device)
        return KernelFileResult(form.one_kernel_file(request.output, shipments, fetch), remarks)
    with label_kernels(request, settings) as (store, _, shipments):
        fetch = fetching(store.results, request.label)
        count = form.one_kernel_file(request.output, shipments, fetch)
    return KernelFileResult(count, tuple(outdated_remarks(shipments)))


# Checks of output names: a directory for the files of all devices, or one file.


def check_directory_name(output: Path) -> None:
    """`UsageError` for a new directory with the name of a database."""
    endings = tuple(ending for form in every() for ending in form.endings)
    if not output.is_dir() and output.name.removesuffix(PACKED).endswith(endings):
        raise UsageError(
            f"{output} is the name of a database; give a directory, in which each device gets a "
            "file that is named after it"
        )


def check_file_or_directory(output: Path) -> None:
    """`UsageError` for a file name with an ending that cannot be written."""
    check_directory_name(output)
    if not output.is_dir() and output.suffix[1:2].isalpha():
        files = " or ".join(f"x{form.kernel_ending}" for form in every() if form.kernel_ending)
        raise UsageError(
            f"cannot tell the format of {output}: name one file {files}, or a directory "
            "that exists or has no ending"
        )


def check_one_database(path: Path) -> None:
    """`UsageError` unless a file for all devices has a name that MIOpen accepts for it."""
    if path.suffix != ".db" or path.is_dir():
        raise UsageError(f"--one-file {path} must be an SQLite database; name it miopen.db")
    if parse_db_name(path.name) is not None:
        raise UsageError(
            f"--one-file {path} has the name of the database of one device, but it is for all "
            "devices; name it miopen.db"
        )

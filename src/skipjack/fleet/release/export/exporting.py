"""``skipjack export``: from a label's jobs, or this user's bank, to files for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.bank import Bank
from skipjack.fleet.release import formats
from skipjack.fleet.release.export.manifest import Origin
from skipjack.fleet.release.export.publishing import Exported, publish
from skipjack.fleet.release.formats import SKIPJACK, Alias, Contents, FindOptions, PerfOptions
from skipjack.fleet.release.results import (
    CACHED,
    RANKINGS,
    TUNINGS,
    Fetch,
    Readiness,
    Shipment,
    Wanted,
    configs_readiness,
    fetching,
    found_in_bank,
    found_in_label,
    kernels_in_label,
    readiness_of,
    tuned_in_bank,
    tuned_in_label,
)
from skipjack.settings import Settings

if TYPE_CHECKING:
    from skipjack.fleet.release.export.user_databases import UserExport
    from skipjack.fleet.store import Store


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What is to be exported, and where to."""

    output: Path
    label: str | None = None
    """None: what this user's bank knows."""
    device: str | None = None
    """None: all there are."""
    form: str = SKIPJACK
    aliases: tuple[Alias, ...] = ()
    release: str = ""
    partial: bool = False
    """Also if jobs are not done."""
    replacing: bool = False
    """Also files that were not exported."""


def export_find_db(
    request: ExportRequest, settings: Settings, options: FindOptions | None = None
) -> Exported:
    """Rankings of solvers."""
    form, options = formats.get(request.form), options or FindOptions()
    if request.label is None:
        found = found_in_bank(Bank.open(settings.user_dir), request.device)
        return _published(request, form.find(found, options))
    with _ready(request, settings, RANKINGS) as (store, ready):
        found = found_in_label(store.results, request.label, request.device)
        return _published(request, form.find(found, options), store, ready)


def export_perf_db(
    request: ExportRequest, settings: Settings, options: PerfOptions | None = None
) -> Exported:
    """The best config of every solver: a file for each device, or one file for all of them."""
    form, options = formats.get(request.form), options or PerfOptions()
    form.check_perf(options)
    if options.one_file:
        # Its rows say which devices they are for, so that it is written once.
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


def export_kernel_db(request: ExportRequest, settings: Settings) -> Exported:
    """Machine code of the winners."""
    form = formats.get(request.form)
    if request.label is None:
        shipments, fetch, left_out = banked_kernels(settings, request.device)
        done = _published(request, form.kernel(shipments, fetch))
        return replace(done, remarks=(*done.remarks, *left_out))
    with shipping(request, settings) as (store, ready, shipments):
        contents = form.kernel(shipments, fetching(store.results, request.label))
        return _published(request, contents, store, ready)


def export_user(request: UserExport, settings: Settings, *, partial: bool = False) -> Exported:
    """What MIOpen's own jobs found, merged into user databases of MIOpen."""
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
def shipping(
    request: ExportRequest, settings: Settings
) -> Iterator[tuple[Store, Readiness, dict[str, Shipment]]]:
    """The kernels of a label: those that were packed for this, else what tunings left."""
    assert request.label is not None
    with _store(settings) as store:
        packed, tuned = (
            readiness_of(store, request.label, wanted, request.device)
            for wanted in (CACHED, TUNINGS)
        )
        ready = tuned if tuned.jobs and not packed.jobs else packed
        ready.check(partial=request.partial)
        yield store, ready, kernels_in_label(store.results, request.label, request.device)


def banked_kernels(
    settings: Settings, device: str | None
) -> tuple[dict[str, Shipment], Fetch, tuple[str, ...]]:
    """The kernels of this user's bank for the devices that are here, and remarks on the others."""
    from skipjack.runtime import banked

    shipments: dict[str, Shipment] = {}
    code: dict[str, bytes] = {}
    found = banked(settings)
    for record, data in found.kernels:
        if device in (None, record.device):
            shipments.setdefault(record.device, Shipment()).kernels.append(record)
            code[record.artifact] = data
    return shipments, lambda digest, what: code[digest], found.left_out


@contextmanager
def _ready(
    request: ExportRequest, settings: Settings, wanted: Wanted
) -> Iterator[tuple[Store, Readiness]]:
    assert request.label is not None
    with _store(settings) as store:
        ready = readiness_of(store, request.label, wanted, request.device)
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
) -> Exported:
    origin = Origin()
    if store is not None and request.label is not None:
        label = store.labels.get(request.label)
        origin = Origin(label.name, label.owner, label.versions, label.image, label.ticket)
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

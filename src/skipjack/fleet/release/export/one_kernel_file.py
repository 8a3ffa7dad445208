"""All kernels of a label or a bank in one file, whose name says whose format it is."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.bank.kernel_db import write_kernel_db as write_skk
from skipjack.errors import UsageError
from skipjack.fleet.release.export.contents import MIOPEN, SKIPJACK, base_name
from skipjack.fleet.release.export.exporting import ExportRequest, banked_kernels, shipping
from skipjack.fleet.release.export.kernel_export import (
    Fetch,
    Shipment,
    fetching,
    kernel_rows,
    outdated_remarks,
    with_code,
)
from skipjack.interop.miopen import write_kernel_db as write_kdb
from skipjack.settings import Settings

FORMS = {".skk": SKIPJACK, ".kdb": MIOPEN}


def check_one_file(request: ExportRequest) -> None:
    """`UsageError` for what goes with a directory only, or contradicts the file's name."""
    output = request.output
    if request.aliases or request.release:
        raise UsageError(
            f"--alias and --release are for files of several devices; {output} is one file, name a "
            "directory"
        )
    if request.form != FORMS[output.suffix]:
        raise UsageError(
            f"{output} is a file of format {FORMS[output.suffix]} by its name, not {request.form}"
        )
    if not output.absolute().parent.is_dir():
        raise UsageError(f"cannot write {output}: there is no directory {output.absolute().parent}")


@dataclass(frozen=True, slots=True)
class OneFile:
    """What was written."""

    kernels: int
    remarks: tuple[str, ...] = ()


def export_one_file(request: ExportRequest, settings: Settings) -> OneFile:
    """Write the kernels of all devices into the file."""
    if request.label is None:
        shipments, fetch, remarks = banked_kernels(settings, request.device)
        return OneFile(_written(request, shipments, fetch), remarks)
    with shipping(request, settings) as (store, _, shipments):
        count = _written(request, shipments, fetching(store, request.label))
    return OneFile(count, tuple(outdated_remarks(shipments)))


def _written(request: ExportRequest, shipments: dict[str, Shipment], fetch: Fetch) -> int:
    kernels = [kernel for _, one in sorted(shipments.items()) for kernel in one.kernels]
    if request.form == SKIPJACK:
        if not kernels:
            raise UsageError("only MIOpen's own kernels are there, which a .kdb holds")
        return write_skk(request.output, with_code(kernels, fetch))
    if len(shipments) > 1:
        names = " or ".join(f"{base_name(device)}.kdb" for device in sorted(shipments))
        raise UsageError(
            f"a .kdb is for one device and there are {len(shipments)}; choose one with --device, "
            f"or name a directory for {names}"
        )
    return sum(write_kdb(request.output, kernel_rows(one, fetch)) for one in shipments.values())

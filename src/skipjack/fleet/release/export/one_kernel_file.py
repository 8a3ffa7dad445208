"""All kernels of a label or a bank in one file, whose name says whose format it is."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.errors import UsageError
from skipjack.fleet.release import formats
from skipjack.fleet.release.export.exporting import ExportRequest, banked_kernels, shipping
from skipjack.fleet.release.results import fetching, outdated_remarks
from skipjack.settings import Settings


def check_one_file(request: ExportRequest) -> None:
    """`UsageError` for what goes with a directory only, or contradicts the file's name."""
    output = request.output
    if request.aliases or request.release:
        raise UsageError(
            f"--alias and --release are for files of several devices; {output} is one file, name a "
            "directory"
        )
    named = formats.of_kernel_file(output)
    if named and request.form != named.name:
        raise UsageError(
            f"{output} is a file of format {named.name} by its name, not {request.form}"
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
    form = formats.get(request.form)
    if request.label is None:
        shipments, fetch, remarks = banked_kernels(settings, request.device)
        return OneFile(form.one_kernel_file(request.output, shipments, fetch), remarks)
    with shipping(request, settings) as (store, _, shipments):
        fetch = fetching(store.results, request.label)
        count = form.one_kernel_file(request.output, shipments, fetch)
    return OneFile(count, tuple(outdated_remarks(shipments)))

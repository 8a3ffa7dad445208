"""The kernels of a label by device; their code is loaded when it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from skipjack.bank import KernelRecord
from skipjack.errors import UsageError
from skipjack.fleet.labels import artifact, winning
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.fleet.labels import LabelResults


@dataclass(frozen=True, slots=True)
class MiopenKernel:
    """A kernel that MIOpen compiled."""

    name: str
    args: str
    digest: str


@dataclass(slots=True)
class Shipment:
    """The kernels of a device; their code is loaded when it is written."""

    kernels: list[KernelRecord] = field(default_factory=list)
    harvested: dict[tuple[str, str], MiopenKernel] = field(default_factory=dict)
    toolchains: set[str] = field(default_factory=set)
    outdated: list[str] = field(default_factory=list)
    """Problems whose packed kernel is no longer the fastest."""


Fetch = Callable[[str, str], bytes]
"""Maps the digest of code, and its problem or name, to the code."""


def kernels_in_label(
    results: LabelResults, label: str, device: str | None = None
) -> dict[str, Shipment]:
    """The kernels of a label, by device."""
    shipments: dict[str, Shipment] = {}
    for verdict in results.verdicts(label, device):
        for kernel in verdict.result.get("miopen", {}).get("kernels", ()):
            shipment = shipments.setdefault(verdict.device, Shipment())
            one = _miopen_kernel(kernel)
            shipment.harvested[one.name, one.args] = one
            shipment.toolchains.update(filter(None, [verdict.toolchain]))
    try:
        found = winning(results, label, device)
    except UsageError:
        if not shipments:
            raise
        found = []
    for winner in found:
        shipment = shipments.setdefault(winner.record.device, Shipment())
        shipment.kernels.append(winner.record)
        shipment.toolchains.update(filter(None, [winner.toolchain]))
        if winner.outdated:
            shipment.outdated.append(winner.record.problem)
    return shipments


def _miopen_kernel(kernel: Mapping[str, Any]) -> MiopenKernel:
    return MiopenKernel(str(kernel["name"]), str(kernel["args"]), str(kernel["digest"]))


def fetching(results: LabelResults, label: str) -> Fetch:
    """Fetches code from the store of a label."""
    return partial(artifact, results, label)


def outdated_remarks(shipments: Mapping[str, Shipment]) -> Iterator[str]:
    """Remarks about packed kernels that are no longer the fastest."""
    outdated = [problem for one in shipments.values() for problem in one.outdated]
    if outdated:
        yield (
            f"{numbered(len(outdated), 'packed kernel')} not used, as another kernel is faster now "
            f"(first: {outdated[0]}); the build of its job is used instead, if it exists; "
            "skipjack run --kernel-cache packs it"
        )

"""The kernels that a label ships, by device; code is fetched when it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from skipjack.bank.kernel_db import KernelRecord
from skipjack.errors import UsageError
from skipjack.fleet.shipping import artifact, winning
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.fleet.store_protocols import LabelResults


@dataclass(frozen=True, slots=True)
class Harvested:
    """A kernel that MIOpen compiled."""

    name: str
    args: str
    digest: str


@dataclass(slots=True)
class Shipment:
    """The kernels of a device; code is fetched when it is written."""

    kernels: list[KernelRecord] = field(default_factory=list)
    harvested: dict[tuple[str, str], Harvested] = field(default_factory=dict)
    toolchains: set[str] = field(default_factory=set)
    outdated: list[str] = field(default_factory=list)
    """Problems of which another kernel was packed than the one that wins now."""


Fetch = Callable[[str, str], bytes]
"""The code with a digest, and of what it is."""


def kernels_in_label(
    results: LabelResults, label: str, device: str | None = None
) -> dict[str, Shipment]:
    """What a label ships, by device."""
    shipments: dict[str, Shipment] = {}
    for verdict in results.verdicts(label, device):
        for kernel in verdict.result.get("miopen", {}).get("kernels", ()):
            shipment = shipments.setdefault(verdict.device, Shipment())
            one = _harvested(kernel)
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


def _harvested(kernel: Mapping[str, Any]) -> Harvested:
    return Harvested(str(kernel["name"]), str(kernel["args"]), str(kernel["digest"]))


def fetching(results: LabelResults, label: str) -> Fetch:
    """Code of a label's store."""
    return partial(artifact, results, label)


def outdated_remarks(shipments: Mapping[str, Shipment]) -> Iterator[str]:
    """What to say of kernels that were packed before another one won."""
    outdated = [problem for one in shipments.values() for problem in one.outdated]
    if outdated:
        yield (
            f"{numbered(len(outdated), 'packed kernel')} not taken, as another one wins by now "
            f"(first: {outdated[0]}); the build that its job left ships if there is one, and "
            "skipjack run --kernel-cache packs it"
        )

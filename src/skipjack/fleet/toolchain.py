"""The toolchain that a result depends on: one short text that is compared, never parsed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version

from skipjack.core import Device
from skipjack.solvers import building_for

_LONGEST = 255
"""Length of the store's column."""


def toolchain(device: Device, built: Mapping[str, Collection[str]] | None = None) -> str:
    """Skipjack's version, a digest of the solvers' versions, and the compilers for a device.

    `built` has the compilers that built what was timed, by the name of each compiler on this
    machine: a machine that only evaluates need not have them.

    The text does not depend on the order in which plugins registered their solvers, nor on
    compilers for other kinds of devices, which a machine need not have.
    """
    building = building_for(device)
    versions = "\n".join(f"{solver.name} {solver.version}" for solver in building)
    digest = hashlib.sha256(versions.encode()).hexdigest()[:12]
    here = {solver.compiler() for solver in building}
    compilers = "; ".join(sorted({one for name in here for one in (built or {}).get(name, [name])}))
    return f"skipjack {_skipjack()}, solvers {digest}, {compilers}"[:_LONGEST]


def _skipjack() -> str:
    try:
        return version("skipjack")
    except PackageNotFoundError:  # run from its sources without an installation
        return "unknown"

"""The compilers and drivers of this machine, which decide whether an entry of a bank is stale."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skipjack.native import llvm

if TYPE_CHECKING:
    from skipjack.bank import BankEntry, Toolchain


def why_stale(entry: BankEntry) -> str:
    """What has changed here since an entry was measured; empty if no change is known."""
    from skipjack.bank import stale_reason  # not needed for a hit of `lookup`

    return stale_reason(entry, toolchain_of(entry.device.partition(":")[0]))


def fresh_first(entries: Sequence[BankEntry]) -> tuple[BankEntry, ...]:
    """The entries in the same order, but with stale ones last."""
    if len(entries) < 2:
        return tuple(entries)
    return tuple(sorted(entries, key=lambda entry: bool(why_stale(entry))))


def toolchain_of(kind: str) -> Toolchain:
    """The compiler and the driver for a kind of device on this machine."""
    from skipjack.bank import Toolchain

    if kind == "cpu":
        return Toolchain(_compilers(kind))
    from skipjack.gpu import driver_release

    return Toolchain(_compilers(kind), tuple(filter(None, [driver_release(kind)])))


@functools.cache
def _compilers(kind: str) -> tuple[str, ...]:
    if kind == "cpu":
        return (llvm.compiler_release(),)
    from skipjack.solvers.gpu.triton import compilation

    return () if compilation.missing() else (compilation.compiler_name(),)

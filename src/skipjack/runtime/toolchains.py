"""The compilers and drivers of this machine, by which entries of a bank are known to be stale."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from skipjack.bank import BankEntry, Toolchain, stale_reason
from skipjack.native import llvm


def why_stale(entry: BankEntry) -> str:
    """What has changed here since an entry was measured; empty if nothing is known to have."""
    return stale_reason(entry, toolchain_of(entry.device.partition(":")[0]))


def fresh_first(entries: Sequence[BankEntry]) -> tuple[BankEntry, ...]:
    """In their order, with those that are stale behind the others."""
    if len(entries) < 2:
        return tuple(entries)
    return tuple(sorted(entries, key=lambda entry: bool(why_stale(entry))))


def toolchain_of(kind: str) -> Toolchain:
    """What compiles for a kind of devices, and drives them, on this machine."""
    if kind == "cpu":
        return Toolchain(_compilers(kind))
    from skipjack.gpu.opening import driver_release

    return Toolchain(_compilers(kind), tuple(filter(None, [driver_release(kind)])))


@functools.cache
def _compilers(kind: str) -> tuple[str, ...]:
    if kind == "cpu":
        return (llvm.compiler_release(),)
    from skipjack.solvers.gpu import compiling

    return () if compiling.missing() else (compiling.compiler_name(),)

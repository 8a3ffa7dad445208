"""Whether an entry was measured with the compiler and the driver of today. Pure.

What another compiler made of a config, or another driver of its code, may be faster or slower. An
entry whose compiler or driver has changed since is stale: it stays in the bank and stands behind
those that are not, searches start from it, and `skipjack bank verify` times it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from skipjack.bank.entry import BankEntry

_NAME = re.compile(r"[A-Za-z_]+")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What compiles and drives kernels here, each by its name and version."""

    compilers: tuple[str, ...] = ()
    """As entries name them, perhaps without what stands before the first slash."""
    drivers: tuple[str, ...] = ()


def stale_reason(entry: BankEntry, here: Toolchain) -> str:
    """What has changed since an entry was measured; empty if nothing is known to have.

    A compiler or a driver that is not here says nothing, nor does an entry that names none.
    """
    for what, then, now in (
        ("compiled by", entry.toolchain, here.compilers),
        ("timed with the driver", entry.evidence.driver, here.drivers),
    ):
        other = _changed(_release(then), map(_release, now))
        if other:
            return f"{what} {_release(then)}, and here is {other}"
    return ""


def _changed(then: str, now: Iterable[str]) -> str:
    """The release that is here of what had another one then; empty if it has not changed."""
    name = _NAME.match(then)
    same_name = [one for one in now if name and (_NAME.match(one) or name)[0] == name[0]]
    return same_name[0] if same_name and then not in same_name else ""


def _release(text: str) -> str:
    """``llvmlite-0.45.1 -disable-lsr`` of ``llvm-20.1.8/llvmlite-0.45.1 -disable-lsr``."""
    return text.partition("/")[2] or text

"""What was decided about a call of PyTorch's when it was first seen: our kernel, or PyTorch's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TorchStatus(StrEnum):
    """What became of a problem; the words of AutoTune's result file, and two more."""

    HIT = "bank_hit"
    """A bank had it, and nothing was searched."""
    APPEND = "bank_append"
    """It was searched, and is new in the user bank."""
    UPDATE = "bank_update"
    """It was searched, and replaced what the user bank had."""
    RESERVED = "bank_reserved"
    """It was searched, and what was there before stays: the default or the bank's entry."""
    VENDOR = "vendor"
    """Nothing of ours computes it, or nothing was searched: PyTorch's own kernel runs."""
    FAILED = "failed"
    """Looking it up or searching it went wrong; PyTorch's own kernel runs."""


@dataclass(frozen=True, slots=True)
class TorchDecision:
    """About all calls with the same operation, device, dtypes, sizes, strides and switches."""

    op: str
    """As PyTorch calls it: ``aten::mm``."""
    description: str
    """Dtypes, sizes and strides, for people."""
    problem: str | None
    """Its key; None if no operation of ours is the same."""
    device: str
    """As on the command line: ``znver4/2``."""
    is_ours: bool
    """Whether our kernel runs from now on."""
    reason: str
    """Why, in a few words."""
    status: TorchStatus
    solver: str = ""
    """What computes it: one of ours, or a library."""
    kernel: str = ""
    """Digests of our kernels' code: processes whose digests are the same run the same kernels."""
    searcher: str = ""
    """Who searched, if anybody did: ``genetic``, ``policy`` ..."""
    before_ns: float | None = None
    """A call with PyTorch's own kernel."""
    after_ns: float | None = None
    """A call with ours, through the hook."""
    is_final: bool = True
    """False while a search goes on: when a bank knows the problem, it is decided again."""
    rounds: tuple[tuple[float, str], ...] = ()
    """The best time after each round of the search in nanoseconds, and when that ended."""

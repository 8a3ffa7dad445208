"""Sums over many pixels, cut into parts so that every unit of the GPU has work."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.solvers.gpu.conv_boxes import ceil_div


@dataclass(frozen=True, slots=True)
class Parts:
    """How many parts there are, and how many chunks of pixels each of them sums."""

    count: int
    share: int

    @classmethod
    def of(cls, chunks: int, tiles: int, units: int, waves: int) -> Parts:
        """As many parts as fill the units so many times, if there are chunks for them."""
        wanted = max(1, min(chunks, round(waves * units / tiles)))
        share = ceil_div(chunks, wanted)
        return cls(ceil_div(chunks, share), share)

    @property
    def several(self) -> bool:
        """Whether they must be added up."""
        return self.count > 1

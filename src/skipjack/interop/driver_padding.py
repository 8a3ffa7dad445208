"""``pad_mode``: pads that the driver works out from the sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PAD_MODES = ("default", "same", "valid")
UNEVEN = "pad_mode same pads one side by one more here, and kernels pad both sides alike"


@dataclass(frozen=True, slots=True)
class Span:
    """One spatial axis of a convolution or a pooling."""

    size: int
    filter: int
    stride: int
    pad: int

    @property
    def same_total(self) -> int:
        """Both pads together that ``same`` asks for."""
        over = self.size % self.stride
        return max(self.filter - (over or self.stride), 0)


@dataclass(frozen=True, slots=True)
class Pads:
    """Of each axis; `even` unless one side needs more than the other."""

    pads: tuple[int, ...]
    even: bool = True


def resolve_pads(mode: str, spans: Sequence[Span]) -> Pads:
    """The pads that the driver would use."""
    if mode == "same":
        totals = [span.same_total for span in spans]
        return Pads(tuple(total // 2 for total in totals), all(total % 2 == 0 for total in totals))
    if mode == "valid":
        return Pads((0,) * len(spans))
    return Pads(tuple(span.pad for span in spans))

"""Times that can be."""

from __future__ import annotations

import math


def possible_time(time: float | None) -> bool:
    """Whether a kernel can take that long, in any unit.

    Zero, less, or no number are bugs of a timer, and would win every ranking.
    """
    return time is not None and math.isfinite(time) and time > 0

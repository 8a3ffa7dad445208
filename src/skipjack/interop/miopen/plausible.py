"""Times that no device can reach, whatever it is.

The bounds are far above every GPU's peak, so that what is flagged is wrong for certain: work that
cannot be saved at `_RATES`, bytes of the result at `_BYTES_PER_S`, and no kernel of a GPU under
`SHORTEST_MS`, as it has to be launched. How much arithmetic can be saved depends on the algorithm:
Winograd's needs at least one multiplication for each element of the result and channel, FFT's rule
says nothing.
"""

from __future__ import annotations

from math import prod

from skipjack.interop.miopen.keys import FindKey
from skipjack.operations.conv_geometry import Axis

SHORTEST_MS = 1e-4
SHORTEST_CALL_MS = 1e-7
"""On a CPU, where a kernel is a call and a small one takes nanoseconds: less than a tick of any."""
_RATES = {"FP64": 5e14, "FP32": 2e15}
"""Operations in a second."""
_RATE = 2e16
"""Of types with 16 bits and fewer."""
_BYTES_PER_S = 1e14
_BYTES = {"FP64": 8, "INT64": 8, "FP32": 4, "INT32": 4, "FP16": 2, "BF16": 2}
_MOST_TAPS = 4096
"""Of an axis that are counted: fewer only lower the bound, and a file may claim any number."""
_EXACT = ("GEMM", "Direct", "ImplicitGEMM")
"""Families that do every multiplication."""


class Bounds:
    """The least time of a problem, by family of algorithms."""

    def __init__(self, key: FindKey, shortest_ms: float = SHORTEST_MS) -> None:
        """Exact ones are computed when first asked for."""
        self._key = key
        self._shortest_ms = shortest_ms
        self._least: dict[str, float] = {}
        taps = prod(key.filter) * prod((key.second if key.direction == "F" else key.first)[1:])
        work = 2.0 * key.n * key.first[0] * key.second[0] * taps
        least_s = max(work / _RATES.get(key.type, _RATE), _moved_s(key))
        self.harmless_ms = max(shortest_ms, least_s * 1e3)
        """From this time on, nothing can be wrong: cheap to say for most."""

    def least_ms(self, family: str) -> float:
        """A time in milliseconds below which a result is wrong."""
        if family not in self._least:
            work = _operations(self._key, family) / _RATES.get(self._key.type, _RATE)
            self._least[family] = max(self._shortest_ms, work * 1e3, _moved_s(self._key) * 1e3)
        return self._least[family]


def _operations(key: FindKey, family: str) -> float:
    axes = key.axes
    channels = key.first[0] * key.second[0] / key.groups
    if family in _EXACT:
        return 2.0 * key.n * channels * prod(_pairs(axis) for axis in axes)
    if family == "Winograd":
        pixels = prod(min(axis.result, axis.image) for axis in axes)
        return 2.0 * key.n * channels * pixels
    return 0.0


def _pairs(axis: Axis) -> int:
    """Taps of the filter that fall on the image and not on padding, over all pixels."""
    total = 0
    for tap in range(min(axis.filter, _MOST_TAPS)):
        start = tap * axis.dilation - axis.pad
        first = max(0, -(start // axis.stride))
        last = (axis.image - 1 - start) // axis.stride
        total += max(0, min(last, axis.result - 1) - first + 1)
    return total


def _moved_s(key: FindKey) -> float:
    """The result must be written."""
    size = _BYTES.get(key.type, 1)
    if key.direction == "W":
        elements = key.first[0] * key.second[0] // key.groups * prod(key.filter)
    else:
        elements = key.n * prod(key.second)
    return size * elements / _BYTES_PER_S

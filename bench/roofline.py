"""The least time that an operation's traffic and arithmetic can take, measured beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skipjack.core import Array, Tensor
from skipjack.execute import Ratio
from skipjack.execute.cpu.kernels import Kernel
from skipjack.native import aligned, parallel_slot
from stand import Plan, Rounds, Stand
from traffic import Way, traffic_kernel, ways

TRAFFIC = "traffic"
ARITHMETIC = "arithmetic"
_KEPT = 2
"""So many of the fastest ways to move the data run beside the operation."""
_RACE = Plan(rounds=8, samples=2, sample_ns=50_000, seconds=1.0)
_SCRATCH = "scratch"
_LARGE_COUNT = 4 << 20


@dataclass(slots=True)
class Traffic:
    """Kernels that move an operation's data. Which ways are fastest is found on its very arrays.

    For large arrays, where the race takes seconds, it is found once for a number of elements.
    """

    stand: Stand
    _fastest: dict[tuple[int, bool, int], list[Way]] = field(default_factory=dict)

    def kernels(
        self, reads: Sequence[Tensor], written: Tensor | None, arrays: dict[str, Array]
    ) -> dict[str, Kernel]:
        """The fastest ways to read these arrays and write that one, by name."""
        count = min(tensor.size for tensor in (*reads, *([written] if written else [])))
        kind = (len(reads), written is not None, count)
        if kind not in self._fastest or count < _LARGE_COUNT:
            able = ways(self.stand.device.vector_bytes, kind[1], len(self.stand.cores))
            able = [way for way in able if way.round_floats <= count]
            racing = {way: self._kernel(reads, written, count, way, arrays) for way in able}
            rounds = self.stand.time({way.name: racing[way] for way in able}, _RACE)
            able.sort(key=lambda way: rounds.time_ns(way.name))
            self._fastest[kind] = able[:_KEPT]
        return {
            f"{TRAFFIC} {way.name}": self._kernel(reads, written, count, way, arrays)
            for way in self._fastest[kind]
        }

    def _kernel(
        self,
        reads: Sequence[Tensor],
        written: Tensor | None,
        count: int,
        way: Way,
        arrays: dict[str, Array],
    ) -> Kernel:
        there = {_SCRATCH: aligned((way.vector_bytes // 4,), "float32")}
        size = count // way.streams
        for tensor in reads:
            whole = arrays[tensor.name].reshape(-1)
            for part in range(way.streams):
                there[f"{tensor.name} {part}"] = whole[part * size : (part + 1) * size]
        names = [name for name in there if name != _SCRATCH]
        if written:
            there[written.name] = arrays[written.name]
        text = traffic_kernel(len(names), written is not None, size, way)
        last = written.name if written else _SCRATCH
        return self.stand.assemble(text, [*names, last, parallel_slot(way.threads)], there)


@dataclass(frozen=True, slots=True)
class Bound:
    """How much of the roofline an operation reached, and what bounds it."""

    share: Ratio
    by: str
    """`TRAFFIC`, `ARITHMETIC`, or a rival that is faster than both say."""

    def record(self) -> dict[str, Any]:
        """For the result file."""
        return {"by": self.by, **ratio_record(self.share)}


def bound(
    rounds: Rounds,
    subject: str,
    traffic: Mapping[str, float],
    arithmetic: Mapping[str, float],
    rivals: Iterable[str],
) -> Bound:
    """The share of the roofline that the subject reached.

    Both say for some kernels how many times their work the subject does at least: those that move
    data, and those that compute with what is in registers or in the first cache. A rival that is
    faster than these raises the roofline: it shows that more can be done.
    """
    moving, computing = (_least(rounds, subject, work) for work in (traffic, arithmetic))
    found = Bound(moving, TRAFFIC)
    if computing.ratio > moving.ratio:
        found = Bound(computing, ARITHMETIC)
    for rival in rivals:
        ratio = rounds.ratio(rival, subject)
        if ratio.ratio < found.share.ratio:
            found = Bound(ratio, rival)
    return found


def shared_out(rounds: Rounds, name: str, times: float, threads: int) -> float:
    """How many of a serial kernel's calls its work so many times must last on several threads.

    They share the work out if that saves more than calling them costs.
    """
    return min(times, times / threads + rounds.fork_ns / rounds.time_ns(name))


def _least(rounds: Rounds, subject: str, work: Mapping[str, float]) -> Ratio:
    """By the fastest of the kernels; nothing where there is none."""
    found = [_scaled(rounds.ratio(name, subject), factor) for name, factor in work.items()]
    return min(found, key=lambda ratio: ratio.ratio, default=Ratio(0.0, 0.0, 0.0))


def _scaled(ratio: Ratio, factor: float) -> Ratio:
    low, high = ratio.low * factor, ratio.high * factor
    return Ratio(ratio.ratio * factor, low, high, ratio.confidence, ratio.pairs)


def ratio_record(found: Ratio) -> dict[str, Any]:
    """A ratio with its interval, rounded."""
    return {
        "ratio": round(found.ratio, 4),
        "low": round(found.low, 4),
        "high": round(found.high, 4),
        "pairs": found.pairs,
    }

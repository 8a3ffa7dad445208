"""The test stand: kernels side by side in this process, on chosen cores, in interleaved blocks."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from skipjack.core import Arrays, Device
from skipjack.execute import Block, Ratio, best_sentinel, paired_ratio
from skipjack.execute.cpu import ThreadCounters
from skipjack.execute.cpu.kernels import Kernel, NativeKernel, Samples, pinned, take_samples
from skipjack.execute.statistics import undisturbed
from skipjack.native import (
    SENTINEL_ROUNDS,
    NativeTimer,
    VectorType,
    aligned,
    arithmetic_flops,
    arithmetic_kernel,
    llvm,
    parallel_slot,
    target_of,
)
from skipjack.solvers import Slot
from traffic import NOTHING, ON_ALL_THREADS

CONFIDENCE = 0.95
PEAK = "peak"
"""The kernel that takes part in every round to show what the cores can do at most."""
FORK = "fork"
"""Threads that are called and do nothing: what sharing work out costs at least."""
_MOST_EXTRA = 3
"""On a busy machine up to this many times the rounds are run to get enough undisturbed ones."""
_SLOW_NS = 2e6
"""A kernel whose single call takes longer is sampled once a round, without a call before."""
_FEWEST_ROUNDS = 8
_RARE_ROUNDS = 4
_RARE_SHARE = 6
"""One whose call takes more than one part in so many of the time given runs in few rounds."""
_LONGER = 64
"""How many times as long as the sentinel the peak kernel of several threads is."""
_SETTLE_S = 0.002
"""Until threads of the contender before have stopped spinning; see `machine.library_threads`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is timed."""

    rounds: int = 60
    samples: int = 4
    sample_ns: int = 200_000
    """Calls are repeated until a sample takes about this long."""
    seconds: float = inf
    """Slow kernels get fewer rounds, so that all of it takes about this long; at least 8."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """The blocks of every kernel, and what the sentinel between the rounds says."""

    blocks: Mapping[str, Sequence[Block]]
    count: int
    quiet: int
    """Rounds in which nothing disturbed the machine."""
    peak_flops: int
    """What one call of the peak kernel computes."""

    def ratio(self, slower: str, faster: str) -> Ratio:
        """How many times faster the second is: the median of the rounds' own ratios."""
        return paired_ratio(self.blocks[slower], self.blocks[faster], CONFIDENCE)

    def time_ns(self, name: str) -> float:
        """Median over the undisturbed blocks."""
        good = undisturbed(self.blocks[name])
        return float(np.median([block.time_ns for block in good]))

    @property
    def peak_flops_per_s(self) -> float:
        """What arithmetic on registers alone reached in the same rounds."""
        return self.peak_flops / self.time_ns(PEAK) * 1e9

    @property
    def fork_ns(self) -> float:
        """What calling the other threads takes; nothing where there are none."""
        return self.time_ns(FORK) if FORK in self.blocks else 0.0


class Stand:
    """Loads kernels and times them. While it times, all threads stay on the cores given.

    The peak kernel runs on as many threads as there are cores. A library must have been called
    once before it is timed: the threads it starts then may go anywhere.
    """

    def __init__(self, device: Device, cores: Sequence[int]) -> None:
        self.device, self.cores = device, tuple(cores)
        self.target = target_of(device)
        self._loader = llvm.Loader()
        self._timer = NativeTimer(self._loader, self.target)
        self._watch = ThreadCounters(cores[0] if len(cores) == 1 else None)
        self._loaded: list[int] = []
        vector = VectorType("f32", device.vector_bytes // 4)
        # Calling other threads takes a microsecond or two, of which the peak must show nothing.
        rounds = SENTINEL_ROUNDS * (1 if len(cores) == 1 else _LONGER)
        self._peak_flops = arithmetic_flops(vector, rounds) * len(cores)
        out = {"out": aligned((4096,), "float32")}
        address, longer = (
            self._loader.load(
                llvm.compile_object(arithmetic_kernel(vector, each), self.target), "kernel"
            )
            for each in (SENTINEL_ROUNDS, rounds)
        )
        self._sentinel = NativeKernel(address, ["out"], out, self._timer)
        self._own: dict[str, Kernel] = {PEAK: self._sentinel}
        if len(cores) > 1:
            code = llvm.compile_object(ON_ALL_THREADS, self.target)
            everywhere = self._loader.load(code, "kernel")
            nothing = self._loader.load(llvm.compile_object(NOTHING, self.target), "kernel")
            for name, inner in ((PEAK, longer), (FORK, nothing)):
                slots: list[Slot] = [parallel_slot(len(cores)), len(cores), inner, "out"]
                self._own[name] = NativeKernel(everywhere, slots, out, self._timer)

    def load(self, code: bytes, symbol: str, slots: Sequence[Slot], arrays: Arrays) -> Kernel:
        """Machine code bound to arrays."""
        address = self._loader.load(code, symbol)
        self._loaded.append(address)
        return NativeKernel(address, slots, arrays, self._timer)

    def assemble(self, text: str, slots: Sequence[Slot], arrays: Arrays) -> Kernel:
        """IR of a ``@kernel``, compiled and bound to arrays."""
        return self.load(llvm.compile_object(text, self.target), "kernel", slots, arrays)

    def clear(self) -> None:
        """Unload every kernel; none may be called any more."""
        for address in self._loaded:
            self._loader.unload(address)
        self._loaded.clear()

    def time(self, kernels: Mapping[str, Kernel], plan: Plan) -> Rounds:
        """Every kernel once a round, each round in another order."""
        with pinned(self.cores), _no_collections():
            self._sentinel.sample(1, 400)  # a core that slept needs a while to reach its clock
            everyone = {**kernels, **self._own}
            paces = {name: self._pace(kernel, plan) for name, kernel in everyone.items()}
            return self._rounds(everyone, paces, plan)

    def _pace(self, kernel: Kernel, plan: Plan) -> _Pace:
        self._settle()
        once = float(kernel.sample(1, 2).min())  # the first call also warms caches up
        if once < plan.sample_ns:
            once = float(kernel.sample(max(1, int(plan.sample_ns / 4 / max(once, 1.0))), 3).min())
        calls = max(1, round(plan.sample_ns / max(once, 1.0)))
        return _Pace(calls, once, 1 if once > _SLOW_NS else plan.samples)

    def _settle(self) -> None:
        if len(self.cores) > 1:
            time.sleep(_SETTLE_S)

    def _rounds(
        self, kernels: Mapping[str, Kernel], paces: Mapping[str, _Pace], plan: Plan
    ) -> Rounds:
        blocks: dict[str, list[Block]] = {name: [] for name in kernels}
        wanted, rare = _share_out(paces, plan)
        deadline = time.monotonic() + 2 * plan.seconds
        # In an order drawn anew each round, what one contender leaves in the caches hits all alike.
        rng = np.random.default_rng(0)
        done = quiet = 0
        before = self._beat()
        while quiet < wanted and done < _MOST_EXTRA * wanted:
            if done >= wanted and time.monotonic() > deadline:
                break
            names = [name for name in kernels if done < _RARE_ROUNDS or name not in rare]
            turn = {}
            for name in rng.permutation(names).tolist():
                turn[name] = self._samples(kernels[name], paces[name])
            after = self._beat()
            for at, name in enumerate(names):
                taken, calls = turn[name], paces[name].calls
                around = (before, after)
                blocks[name].append(
                    Block(at, done, calls, taken.times_ns, around, taken.disturbed, taken.dropped)
                )
            before = after
            done += 1
            quiet = _quiet_rounds(blocks) if done >= wanted else 0
        return Rounds(blocks, done, quiet, self._peak_flops)

    def _samples(self, kernel: Kernel, pace: _Pace) -> Samples:
        self._settle()
        return take_samples([kernel], pace.calls, pace.samples, self._watch, warm=not pace.slow)

    def _beat(self) -> float:
        """The best of three, so that one interruption does not count."""
        return float(self._sentinel.sample(1, 3).min())


@dataclass(frozen=True, slots=True)
class _Pace:
    """How a kernel is sampled in a round."""

    calls: int
    once_ns: float
    samples: int

    @property
    def round_s(self) -> float:
        calls = self.calls * self.samples + (not self.slow)
        return calls * self.once_ns / 1e9

    @property
    def slow(self) -> bool:
        """Whether one call is long enough by itself, whatever the caches held before."""
        return self.once_ns > _SLOW_NS


def _share_out(paces: Mapping[str, _Pace], plan: Plan) -> tuple[int, set[str]]:
    """How many rounds there is time for, and who is too slow to run in all of them."""
    slow = plan.seconds * 1e9 / _RARE_SHARE
    rare = {name for name, pace in paces.items() if pace.once_ns > slow}
    each = sum(pace.round_s for name, pace in paces.items() if name not in rare)
    return max(_FEWEST_ROUNDS, min(plan.rounds, int(min(plan.seconds / each, 1e6)))), rare


def _quiet_rounds(blocks: Mapping[str, Sequence[Block]]) -> int:
    everyone = [block for mine in blocks.values() for block in mine]
    best = best_sentinel(everyone)
    loud = {block.round for block in everyone if block.disturbed or block.drifted(best)}
    return len({block.round for block in everyone}) - len(loud)


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

"""The test stand: kernels side by side in this process, on one core, in interleaved blocks."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from skipjack.core.device import Device
from skipjack.core.operation import Arrays
from skipjack.execute.disturbance import Watch
from skipjack.execute.kernels import Kernel, NativeKernel
from skipjack.execute.statistics import Block, Ratio, best_sentinel, paired_ratio, undisturbed
from skipjack.native import llvm
from skipjack.native.cpu import target_of
from skipjack.native.ir import VectorType
from skipjack.native.memory import aligned
from skipjack.native.timer import (
    SENTINEL_ROUNDS,
    NativeTimer,
    arithmetic_flops,
    arithmetic_kernel,
)
from skipjack.solvers.solver import Slot

CONFIDENCE = 0.95
PEAK = "peak"
"""The kernel that takes part in every round to show what the core can do at most."""
_MOST_EXTRA = 3
"""On a busy machine up to this many times the rounds are run to get enough undisturbed ones."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is timed."""

    rounds: int = 60
    samples: int = 4
    sample_ns: int = 200_000
    """Calls are repeated until a sample takes about this long."""


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


class Stand:
    """Loads kernels and times them. While it times, this thread stays on one core."""

    def __init__(self, device: Device, core: int) -> None:
        self.device, self.core = device, core
        self.target = target_of(device)
        self._loader = llvm.Loader()
        self._timer = NativeTimer(self._loader, self.target)
        self._watch = Watch(core)
        self._loaded: list[int] = []
        vector = VectorType("f32", device.vector_bytes // 4)
        self._peak_flops = arithmetic_flops(vector, SENTINEL_ROUNDS)
        code = llvm.compile_object(arithmetic_kernel(vector, SENTINEL_ROUNDS), self.target)
        out = {"out": aligned((4096,), "float32")}
        self._sentinel = NativeKernel(self._loader.load(code, "kernel"), ["out"], out, self._timer)

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
        """Every kernel once a round, each round beginning with another one."""
        with pinned(self.core), _no_collections():
            self._sentinel.sample(1, 400)  # a core that slept needs a while to reach its clock
            everyone = {**kernels, PEAK: self._sentinel}
            calls = {name: _calls(kernel, plan.sample_ns) for name, kernel in everyone.items()}
            return self._rounds(everyone, calls, plan)

    def _rounds(
        self, kernels: Mapping[str, Kernel], calls: Mapping[str, int], plan: Plan
    ) -> Rounds:
        names = list(kernels)
        blocks: dict[str, list[Block]] = {name: [] for name in names}
        done = quiet = 0
        before = self._beat()
        while quiet < plan.rounds and done < _MOST_EXTRA * plan.rounds:
            start = done % len(names)
            turn = {}
            for name in [*names[start:], *names[:start]]:
                turn[name] = self._samples(kernels[name], calls[name], plan.samples)
            after = self._beat()
            for at, name in enumerate(names):
                samples, disturbed = turn[name]
                block = Block(at, done, calls[name], samples, (before, after), disturbed)
                blocks[name].append(block)
            before = after
            done += 1
            quiet = _quiet_rounds(blocks) if done >= plan.rounds else 0
        return Rounds(blocks, done, quiet, self._peak_flops)

    def _samples(self, kernel: Kernel, calls: int, samples: int) -> tuple[tuple[float, ...], bool]:
        before = self._watch.read()
        kernel.sample(1, 1)  # bring its code and data back into the caches
        times = kernel.sample(calls, samples)
        disturbed = self._watch.read().disturbed_since(before)
        return tuple(float(time) for time in times), disturbed

    def _beat(self) -> float:
        """The best of three, so that one interruption does not count."""
        return float(self._sentinel.sample(1, 3).min())


def _calls(kernel: Kernel, sample_ns: int) -> int:
    kernel.sample(1, 2)
    once = float(kernel.sample(4, 3).min())
    return max(1, round(sample_ns / max(once, 1.0)))


def _quiet_rounds(blocks: Mapping[str, Sequence[Block]]) -> int:
    everyone = [block for mine in blocks.values() for block in mine]
    best = best_sentinel(everyone)
    loud = {block.round for block in everyone if block.disturbed or block.drifted(best)}
    return len({block.round for block in everyone}) - len(loud)


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """Keep this thread on one core for a while. Children started meanwhile would inherit it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

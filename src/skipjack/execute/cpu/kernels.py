"""Kernels of a CPU and how their samples are taken: where their arrays lie, on which core they run,
and which samples were disturbed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from skipjack.core import Arrays
from skipjack.native import PAGE, BoundKernel, LoadedCode, NativeTimer, Slots, aligned, llvm, pool
from skipjack.solvers import ResultCall, Slot

# Kernels in a run session: native ones by address and slots, library calls from Python.


class Kernel(Protocol):
    """Something that can be called on one set of arrays, and timed."""

    def call(self) -> None:
        """Run once."""
        ...

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        """Nanoseconds per call, for each sample of this many calls."""
        ...


class NativeKernel:
    """Machine code at an address."""

    def __init__(
        self,
        address: int,
        slots: Sequence[Slot],
        arrays: Arrays,
        timer: NativeTimer,
        *,
        is_poisoned: bool = False,
    ) -> None:
        """If `is_poisoned`, its workspace is filled with NaN."""
        self._address, self._timer = address, timer
        self._slots = Slots(slots, arrays, is_poisoned=is_poisoned)
        self._shares = any(str(slot).startswith("@parallel") for slot in slots)
        self._arrays = tuple(arrays.values())
        self._call = llvm.c_function(address, ctypes.c_void_p)

    def call(self) -> None:
        """Run once."""
        self._call(self._slots.address)

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        """Samples that are timed in native code."""
        return self._timer.sample(self._address, self._slots.address, calls, samples)

    def bound(self) -> BoundKernel:
        """The kernel as a program calls it from Python."""
        lock = pool.call_lock if self._shares else None
        return BoundKernel(LoadedCode(self._call), self._slots, self._arrays, lock)


class ColdKernel:
    """A kernel whose arrays are flushed from the caches before each timed call."""

    def __init__(self, kernel: Kernel, flush: Callable[[], None]) -> None:
        self._kernel, self._flush = kernel, flush

    def call(self) -> None:
        """Run once."""
        self._kernel.call()

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        """Samples that are means of calls timed one by one."""
        out = np.empty(samples)
        for number in range(samples):
            total = 0.0
            for _ in range(calls):
                self._flush()
                total += float(self._kernel.sample(1, 1)[0])
            out[number] = total / calls
        return out


class PythonKernel:
    """A library call as a user makes it, including the time of the interpreter."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._timed = function.compute if isinstance(function, ResultCall) else function

    def call(self) -> None:
        """Run once."""
        self._function()

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        """Samples that are timed around a Python loop."""
        function = self._timed
        out = np.empty(samples)
        for number in range(samples):
            started = time.perf_counter_ns()
            for _ in range(calls):
                function()
            out[number] = (time.perf_counter_ns() - started) / calls
        return out


# The addresses of arrays while kernels are timed: more than one, since an address can favor one.
#
# A load waits for an earlier store at the same offset of another page, so that a kernel can be
# twice as slow on arrays at unfavorable addresses, which differ between kernels. Users' arrays may
# be at any address, so every kernel is timed at two sets of addresses, in the same memory.

Array = npt.NDArray[Any]

_STAGGER = 64
"""At the second addresses, each array begins this many bytes further into its page."""


def placements(contents: Mapping[str, Array]) -> list[dict[str, Array]]:
    """The same arrays at page starts, and slightly shifted; both share memory.

    The first are equal to `contents`; the others have the same values in another order.
    """
    places: list[dict[str, Array]] = [{}, {}]
    for number, (name, array) in enumerate(contents.items()):
        shift = number * _STAGGER % PAGE // array.itemsize
        room = aligned((array.size + shift,), array.dtype, PAGE)
        room[: array.size] = array.ravel()
        room[array.size :] = np.resize(array.ravel()[:shift], shift)
        places[0][name] = room[: array.size].reshape(array.shape)
        places[1][name] = room[shift:].reshape(array.shape)
    return places


class PlacedKernel:
    """A kernel on arrays at several places; samples are taken at each."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.places = tuple(kernels)

    def at(self, place: int) -> Kernel:
        """The kernel at one of the places; numbers beyond the last start again at the first."""
        return self.places[place % len(self.places)]

    def call(self) -> None:
        """Run once."""
        self.places[0].call()

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        """Half of the samples at each of two places; a single sample at the last."""
        times = []
        for number, kernel in enumerate(self.places):
            count = (samples + number) // len(self.places)
            if count:
                kernel.sample(1, 1)  # brings code and data back into the caches
                times.append(kernel.sample(calls, count))
        return np.concatenate(times)


# Samples and whether they were disturbed: other threads ran, or the hypervisor took the core.
#
# Each sample is judged separately. On a shared core, a call as long as a time slice of the system
# is hardly ever undisturbed, a short one nearly always; so disturbed samples are taken again.

_STAT = Path("/proc/stat")
_STEAL_FIELD = 8
"""Position of ``steal`` in a cpu line of /proc/stat, counting the name of the cpu."""
_TRIES = 3
"""Attempts per sample of a block, on average."""
_PATIENCE_NS = 3e7
"""In a block whose disturbed samples took longer, no sample is taken again."""


class Counters(Protocol):
    """Counters that grow when something else had the core."""

    def switches(self) -> int:
        """How often this thread was preempted; read for every sample."""
        ...

    def steal(self) -> int:
        """Ticks in which the hypervisor ran another machine; read for every block."""
        ...

    def busy_ns(self) -> float | None:
        """The CPU time of this thread; None if it does not do all of the work."""
        ...


class ThreadCounters:
    """The counters of this thread and of one core."""

    def __init__(self, core: int | None) -> None:
        self._alone = core is not None
        self._label = f"cpu{core} " if core is not None else "cpu "

    def switches(self) -> int:
        """Involuntary context switches of this thread."""
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw

    def steal(self) -> int:
        """Stolen ticks of the core; 0 if they are not counted."""
        try:
            with _STAT.open() as stat:
                for line in stat:
                    if line.startswith(self._label):
                        return int(line.split()[_STEAL_FIELD])
        except (OSError, ValueError, IndexError):
            pass
        return 0

    def busy_ns(self) -> float | None:
        """The CPU time of this thread, if kernels run on one core and so only in this thread."""
        return float(time.thread_time_ns()) if self._alone else None


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of a block, in nanoseconds per call."""

    times_ns: tuple[float, ...]
    disturbed: bool
    """Whether all of them were disturbed."""
    dropped: int
    """The number of disturbed samples that were left out."""


def take_samples(
    places: Sequence[Kernel], calls: int, samples: int, counters: Counters, *, warm: bool = True
) -> Samples:
    """Samples of `calls` calls each, an equal share at each place; odd ones at the last place.

    The time of a disturbed sample is the CPU time of the kernel. That is not exact, because other
    threads have emptied the caches meanwhile, but good enough for a search. Disturbed samples are
    taken again, a few times. With `warm`, a call before the first sample of a place, and after a
    disturbance, brings code and data back into the caches.
    """
    quiet: list[float] = []
    disturbed: list[float] = []
    stolen, lost_ns = counters.steal(), 0.0
    for number, kernel in enumerate(places):
        wanted = len(quiet) + (samples + number) // len(places)
        cold = warm
        while len(quiet) < wanted and len(disturbed) < _TRIES * samples and lost_ns < _PATIENCE_NS:
            if cold:
                kernel.sample(1, 1)
            before, busy = counters.switches(), counters.busy_ns()
            time_ns = float(kernel.sample(calls, 1)[0])
            cold = counters.switches() != before
            if not cold:
                quiet.append(time_ns)
                continue
            now = counters.busy_ns()
            ran_ns = (now - busy) / calls if now is not None and busy is not None else time_ns
            disturbed.append(min(time_ns, ran_ns))
            lost_ns += time_ns * calls
            cold = warm
    if counters.steal() != stolen:
        disturbed += quiet
        quiet = []
    kept = quiet or disturbed
    return Samples(tuple(kept), not quiet, len(disturbed) if quiet else 0)


# Pinning the threads of a process to cores while something is timed.


@contextlib.contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Within the block, keep this thread on the last core and all other threads on the rest.

    Every thread pool, ours and those of libraries, has one thread less than there are cores, and
    only one pool works at a time. The system would sometimes wake a thread on the core where this
    one already waits for it. Do not start processes within the block: they inherit the one core.
    """
    before = os.sched_getaffinity(0)
    for other in _other_threads() if len(cores) > 1 else ():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(other, cores[:-1])
    os.sched_setaffinity(0, cores[-1:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _other_threads() -> list[int]:
    """The other threads of this process; none if the system does not list them."""
    me, directory = threading.get_native_id(), Path("/proc/self/task")
    ids = [int(task.name) for task in directory.iterdir()] if directory.is_dir() else []
    return [number for number in ids if number != me]

"""Timing launches of this process on its GPU: events around each, the caches cleared before it.

Launches are queued without waiting in between. While the GPU clears its caches the host has the
next launch ready, and where a launch can be recorded as a graph it takes the host a few
microseconds: what lies between two events is the kernel alone, with and
without graphs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Hashable)
Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Shot:
    """A launch, and what is done before and after it outside of the time that is taken."""

    launch: Call
    before: Call
    after: Call

    def __call__(self) -> None:
        """All three."""
        self.before()
        self.launch()
        self.after()


class LaunchTimer:
    """By the events and graphs of torch, for NVIDIA and AMD."""

    def __init__(self, graphs: bool = True) -> None:
        from triton.runtime import driver

        self._driver = driver.active
        self._device: Any = self._driver.get_device_interface()
        self._cache = self._large_buffer()
        self._graphs = graphs and hasattr(self._device, "CUDAGraph")

    def _large_buffer(self) -> Any:
        """Larger than the caches; None where the caller has left no memory for it."""
        try:
            return self._driver.get_empty_cache_for_benchmark()
        except RuntimeError as error:
            log.warning("kernels are timed without clearing the caches: %s", error)
            return None

    def ready(self, shot: Shot) -> Shot:
        """The shot made quick to repeat, as a graph where that can be recorded.

        It was made once before, and worked.
        """
        if not self._graphs:
            return shot
        try:
            return Shot(self._record(shot.launch).replay, shot.before, shot.after)
        except RuntimeError as error:
            log.debug("a launch cannot be recorded as a graph: %s", error)
            self._graphs = False
            with contextlib.suppress(RuntimeError):
                self._device.synchronize()
            return shot

    def _record(self, launch: Call) -> Any:
        """By the plain calls: torch's own context would empty the caller's memory cache."""
        graph, stream = self._device.CUDAGraph(), self._device.Stream()
        stream.wait_stream(self._device.current_stream())
        with self._device.stream(stream):
            # Other threads of the program may go on using the GPU.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                launch()
            finally:
                graph.capture_end()
        return graph

    def synchronize(self) -> None:
        """Wait for all launches; raises what went wrong with one."""
        self._device.synchronize()

    def sample(self, shots: Mapping[T, Shot], order: Sequence[T]) -> Mapping[T, float]:
        """Nanoseconds of one launch of each; all are queued before the first is waited for."""
        events = {}
        for name in order:
            shot = shots[name]
            start, end = (self._device.Event(enable_timing=True) for _ in range(2))
            shot.before()
            if self._cache is not None:
                self._driver.clear_cache(self._cache)
            start.record()
            shot.launch()
            end.record()
            shot.after()
            events[name] = start, end
        self._device.synchronize()
        return {name: start.elapsed_time(end) * 1e6 for name, (start, end) in events.items()}

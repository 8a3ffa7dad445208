"""Calls of a Triton kernel as a session of the engine: built in parallel, timed here in turn."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from skipjack.core import Config, Status, Trial
from skipjack.execute import Block, Failure
from skipjack.integrations.triton.builds import build
from skipjack.integrations.triton.tuned_call import (
    ConfigOutcome,
    GpuLostError,
    TunedCall,
    WrongResultError,
    failed_launch,
)

# Timing launches of this process on its GPU: events around each, caches cleared before it.
#
# Launches are queued without waiting in between. While the GPU clears its caches, the host prepares
# the next launch; a launch that can be captured as a graph takes the host a few microseconds. So
# the time between two events is that of the kernel alone, with and without graphs.

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Hashable)
Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class TimedLaunch:
    """A launch, and what is done before and after it outside the measured time."""

    launch: Call
    before: Call
    after: Call

    def __call__(self) -> None:
        self.before()
        self.launch()
        self.after()


class LaunchTimer:
    """Times launches with the events and graphs of PyTorch, on NVIDIA and AMD."""

    def __init__(self, graphs: bool = True) -> None:
        from triton.runtime import driver

        self._driver = driver.active
        self._device: Any = self._driver.get_device_interface()
        self._cache = self._large_buffer()
        self._graphs = graphs and hasattr(self._device, "CUDAGraph")

    def _large_buffer(self) -> Any:
        """A buffer larger than the caches; None if there is no memory left for it."""
        try:
            return self._driver.get_empty_cache_for_benchmark()
        except RuntimeError as error:
            log.warning("kernels are timed without clearing the caches: %s", error)
            return None

    def ready(self, shot: TimedLaunch) -> TimedLaunch:
        """The shot with its launch captured as a graph, if possible, for quick repetition.

        It must have run once before.
        """
        if not self._graphs:
            return shot
        try:
            return TimedLaunch(self._record(shot.launch).replay, shot.before, shot.after)
        except RuntimeError as error:
            log.debug("a launch cannot be captured as a graph: %s", error)
            self._graphs = False
            with contextlib.suppress(RuntimeError):
                self._device.synchronize()
            return shot

    def _record(self, launch: Call) -> Any:
        """Capture a graph; `torch.cuda.graph` would empty the caller's memory cache."""
        graph, stream = self._device.CUDAGraph(), self._device.Stream()
        stream.wait_stream(self._device.current_stream())
        with self._device.stream(stream):
            # Other threads of the program may continue to use the GPU.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                launch()
            finally:
                graph.capture_end()
        return graph

    def synchronize(self) -> None:
        """Wait for all launches; raises the error of one that failed."""
        self._device.synchronize()

    def sample(self, shots: Mapping[T, TimedLaunch], order: Sequence[T]) -> Mapping[T, float]:
        """Nanoseconds of one launch of each; all are queued before waiting for the first."""
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


# Calls of a Triton kernel as a session of the study engine: built in parallel, timed here.


Benchmark = Callable[..., Any]
"""A user's ``do_bench(call, quantiles=...)``, which returns milliseconds."""

_LOST = (
    "illegal memory access",
    "misaligned address",
    "illegal instruction",
    "unspecified launch failure",
    "device-side assert",
    "hardware stack error",
    "invalid address space",
    "context is destroyed",
    "launch timed out",
    "invalid program counter",
)
"""Messages of drivers when the context is lost, with all work of this process on the GPU."""
_QUANTILES = (0.5, 0.2, 0.8)
_LEAST_NS = 1.0


@dataclass(frozen=True, slots=True)
class LaunchTools:
    """The tools for building and timing configs."""

    workers: int
    make_timer: Callable[[], LaunchTimer]
    do_bench: Benchmark | None = None

    def build(self, call: TunedCall, configs: Mapping[str, Any]) -> dict[str, ConfigOutcome]:
        """Compile these configs in parallel; returns the failures by the texts of configs."""
        built = build(call, configs, self.workers)
        failed = {text: one for text, one in built.items() if one.status is not Status.OK}
        for text, outcome in failed.items():
            _log_failure(call, text, outcome)
        return failed


@dataclass(slots=True)
class TritonSession:
    """Implements `skipjack.tuning.calls.CallSession`."""

    call: TunedCall
    to_triton: Callable[[Config], Any]
    """The ``triton.Config`` of a config."""
    tools: LaunchTools
    samples: int = 2
    """Samples of each kernel in a block."""
    _configs: list[Config] = field(default_factory=list)
    _shots: dict[int, TimedLaunch] = field(default_factory=dict)
    _timer: LaunchTimer | None = None

    def build(self, configs: Sequence[Config]) -> Mapping[Config, Trial]:
        """Compile all of these in parallel processes; returns the failures."""
        by_key = {config.key: config for config in configs}
        made = {key: self.to_triton(config) for key, config in by_key.items()}
        failed = self.tools.build(self.call, made)
        return {by_key[key]: _trial(by_key[key], outcome) for key, outcome in failed.items()}

    def add(self, config: Config) -> int | Trial:
        """Launch a config for the first time, which loads the binary and reveals most errors."""
        problem: Exception | None = None
        chosen = self.to_triton(config)
        try:
            self.call.before(chosen)
            self.call.launch(chosen)
            self._synchronize()
        except _expected() as error:
            self._raise_if_lost([config], error)
            problem = error
        try:
            self.call.after(chosen, problem)
        except WrongResultError as error:
            problem = problem or error
        if problem is not None:
            return self._refused(config, problem)
        self._configs.append(config)
        return len(self._configs) - 1

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Blocks of these kernels; a kernel that fails is reported, and the others continue."""
        taken: list[Block] = []
        failures: dict[int, Failure] = {}
        for number in range(blocks):
            samples: dict[int, list[float]] = {}
            for turn in range(self.samples):
                left = [kernel for kernel in kernels if kernel not in failures]
                # Alternate the direction: no kernel always follows the same other one.
                order = left if (number + turn) % 2 == 0 else left[::-1]
                for kernel, time_ns in self._sample(order, failures).items():
                    samples.setdefault(kernel, []).append(max(time_ns, _LEAST_NS))
            taken += (
                Block(kernel, number, 1, tuple(times), (), disturbed=False)
                for kernel, times in samples.items()
                if kernel not in failures
            )
        return [one for one in taken if one.kernel not in failures], list(failures.values())

    def unload(self, kernel: int) -> None:
        """Drop the graph of a launch; it is captured again if needed."""
        self._shots.pop(kernel, None)

    def _sample(self, order: Sequence[int], failures: dict[int, Failure]) -> Mapping[int, float]:
        """One sample of each; if one fails, each is timed alone to find it."""
        try:
            # A user's benchmark waits for each launch, so an error belongs to the launch it timed.
            if len(order) == 1 or self.tools.do_bench is None:
                return self._sample_all(order)
        except _expected() as error:
            configs = [self._configs[kernel] for kernel in order]
            self._raise_if_lost(configs, error)
            if len(order) == 1:
                trial = self._refused(configs[0], error)
                failures[order[0]] = Failure(order[0], trial.status, trial.reason)
                return {}
        each = [self._sample([kernel], failures) for kernel in order]
        return {kernel: time_ns for one in each for kernel, time_ns in one.items()}

    def _sample_all(self, order: Sequence[int]) -> Mapping[int, float]:
        if self.tools.do_bench is not None:
            return {kernel: self._asked(self.tools.do_bench, kernel) for kernel in order}
        timer = self._ready_timer()
        for kernel in order:
            if kernel not in self._shots:
                self._shots[kernel] = timer.ready(self._shot(kernel))
        return timer.sample(self._shots, order)

    def _asked(self, bench: Benchmark, kernel: int) -> float:
        """A time from the user's function, which returns quantiles or one time."""
        told = bench(self._shot(kernel), quantiles=_QUANTILES)
        return float(told[0] if isinstance(told, Sequence) else told) * 1e6

    def _shot(self, kernel: int) -> TimedLaunch:
        config = self.to_triton(self._configs[kernel])
        return TimedLaunch(
            partial(self.call.launch, config),
            partial(self.call.before, config),
            partial(self.call.after, config, None),
        )

    def _ready_timer(self) -> LaunchTimer:
        if self._timer is None:
            self._timer = self.tools.make_timer()
        return self._timer

    def _synchronize(self) -> None:
        """Wait for launches; a user's benchmark waits itself."""
        if self.tools.do_bench is None:
            self._ready_timer().synchronize()

    def _refused(self, config: Config, error: Exception) -> Trial:
        trial = _trial(config, failed_launch(error))
        _log_failure(self.call, config.key, trial)
        return trial

    def _raise_if_lost(self, configs: Sequence[Config], error: Exception) -> None:
        """Raise if the context is lost; of several queued launches, any may have failed."""
        if not any(words in str(error) for words in _LOST):
            return
        texts = [config.key for config in configs]
        which = f"config {texts[0]}" if len(texts) == 1 else f"one of configs {', '.join(texts)}"
        raise GpuLostError(
            f"{which} of {self.call.name} broke the GPU's context ({error}), so this process "
            "cannot use the GPU any more: remove the config, or tune the kernel in separate "
            "processes (skipjack tune file.py::kernel)",
            configs[0] if len(configs) == 1 else None,
        ) from error


def _trial(config: Config, outcome: ConfigOutcome) -> Trial:
    return Trial(config, outcome.status, reason=outcome.reason)


def _log_failure(call: TunedCall, text: str, outcome: ConfigOutcome | Trial) -> None:
    log.info("%s: config %s: %s: %s", call.name, text, outcome.status, outcome.reason)


def _expected() -> tuple[type[Exception], ...]:
    """The exceptions that a bad config may raise; others are the caller's mistakes."""
    from triton.errors import TritonError

    return TritonError, RuntimeError, WrongResultError

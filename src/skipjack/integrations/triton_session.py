"""Calls of a Triton kernel as a session of the study engine: built at once, timed in turn here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from skipjack.core.config import Config
from skipjack.core.trial import Status, Trial
from skipjack.execute.session import Failure
from skipjack.execute.statistics import Block
from skipjack.integrations.gpu_timing import LaunchTimer, Shot
from skipjack.integrations.outcomes import GpuLostError, Outcome, failed_launch
from skipjack.integrations.triton_builds import build
from skipjack.integrations.tuned_call import TunedCall, WrongResultError

log = logging.getLogger(__name__)

Benchmark = Callable[..., Any]
"""A user's ``do_bench(call, quantiles=...)``, in milliseconds."""

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
"""What drivers say when the context is lost and with it everything of this process on the GPU."""
_QUANTILES = (0.5, 0.2, 0.8)
_LEAST_NS = 1.0


@dataclass(frozen=True, slots=True)
class LaunchTools:
    """What configs are built and timed with."""

    workers: int
    make_timer: Callable[[], LaunchTimer]
    do_bench: Benchmark | None = None

    def build(self, call: TunedCall, configs: Mapping[str, Any]) -> dict[str, Outcome]:
        """Compile these configs at once; gives those that cannot be, by their texts."""
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
    """Of each kernel in a block."""
    _configs: list[Config] = field(default_factory=list)
    _shots: dict[int, Shot] = field(default_factory=dict)
    _timer: LaunchTimer | None = None

    def build(self, configs: Sequence[Config]) -> Mapping[Config, Trial]:
        """Compile all of these in parallel processes; gives those that cannot be."""
        by_key = {config.key: config for config in configs}
        made = {key: self.to_triton(config) for key, config in by_key.items()}
        failed = self.tools.build(self.call, made)
        return {by_key[key]: _trial(by_key[key], outcome) for key, outcome in failed.items()}

    def add(self, config: Config) -> int | Trial:
        """The first launch loads the binary; what is wrong with a config mostly shows here."""
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
        """Blocks of these kernels; one that can run no more is a failure, the others go on."""
        taken: list[Block] = []
        failures: dict[int, Failure] = {}
        for number in range(blocks):
            samples: dict[int, list[float]] = {}
            for turn in range(self.samples):
                left = [kernel for kernel in kernels if kernel not in failures]
                # Every other time backwards: no kernel always follows the same neighbour.
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
        """Forget the graph of a launch; it is recorded again if it is timed again."""
        self._shots.pop(kernel, None)

    def _sample(self, order: Sequence[int], failures: dict[int, Failure]) -> Mapping[int, float]:
        """One sample of each; where one fails, all are timed alone to see which."""
        try:
            # A benchmark of the user's waits for each launch, so a fault is of the one it timed.
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
        """By a function of the user's, which gives quantiles or one time."""
        told = bench(self._shot(kernel), quantiles=_QUANTILES)
        return float(told[0] if isinstance(told, Sequence) else told) * 1e6

    def _shot(self, kernel: int) -> Shot:
        config = self.to_triton(self._configs[kernel])
        return Shot(
            partial(self.call.launch, config),
            partial(self.call.before, config),
            partial(self.call.after, config, None),
        )

    def _ready_timer(self) -> LaunchTimer:
        if self._timer is None:
            self._timer = self.tools.make_timer()
        return self._timer

    def _synchronize(self) -> None:
        """A benchmark of the user's waits by itself."""
        if self.tools.do_bench is None:
            self._ready_timer().synchronize()

    def _refused(self, config: Config, error: Exception) -> Trial:
        trial = _trial(config, failed_launch(error))
        _log_failure(self.call, config.key, trial)
        return trial

    def _raise_if_lost(self, configs: Sequence[Config], error: Exception) -> None:
        """Launches are queued, so a fault of one of several is told by the GPU without its name."""
        if not any(words in str(error) for words in _LOST):
            return
        texts = [config.key for config in configs]
        which = f"config {texts[0]}" if len(texts) == 1 else f"one of configs {', '.join(texts)}"
        raise GpuLostError(
            f"{which} of {self.call.name} broke the GPU's context ({error}), which no process "
            "survives: leave the config out, or tune the kernel in processes of their own "
            "(skipjack tune file.py::kernel)",
            configs[0] if len(configs) == 1 else None,
        ) from error


def _trial(config: Config, outcome: Outcome) -> Trial:
    return Trial(config, outcome.status, reason=outcome.reason)


def _log_failure(call: TunedCall, text: str, outcome: Outcome | Trial) -> None:
    log.info("%s: config %s: %s: %s", call.name, text, outcome.status, outcome.reason)


def _expected() -> tuple[type[Exception], ...]:
    """What a bad config may raise; anything else is the caller's mistake."""
    from triton.errors import TritonError

    return TritonError, RuntimeError, WrongResultError

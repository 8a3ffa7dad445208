"""Trying configs of a Triton kernel in this process: build them all, launch each once, race."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from skipjack.core.trial import Status
from skipjack.integrations.autotune_results import KnownConfigs
from skipjack.integrations.gpu_timing import LaunchTimer, Shot
from skipjack.integrations.outcomes import GpuLostError, Outcome, failed_launch
from skipjack.integrations.race import race
from skipjack.integrations.triton_builds import build
from skipjack.integrations.tuned_call import TunedCall

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


@dataclass(frozen=True, slots=True)
class Found:
    """What one sitting found, by the texts of configs."""

    samples_ns: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, Outcome] = field(default_factory=dict)

    def added_to(self, known: KnownConfigs) -> KnownConfigs:
        """With the failures of this sitting, also those that are not held against a config."""
        return KnownConfigs(known.times_ns, {**known.failures, **self.failures}, known.marks)


@dataclass(frozen=True, slots=True)
class ConfigBench:
    """How configs are tried."""

    workers: int
    make_timer: Callable[[], LaunchTimer]
    do_bench: Benchmark | None = None
    out_of_time: Callable[[], bool] = lambda: False

    def try_all(self, call: TunedCall, configs: Mapping[str, Any]) -> Found:
        """Build and time these; a config that fails is a failure with its reason."""
        found = Found(failures=self.build_all(call, configs))
        built = {text: c for text, c in configs.items() if text not in found.failures}
        if self.do_bench is not None:
            self._ask(self.do_bench, call, built, found)
        else:
            self._race(call, built, found)
        for text, outcome in found.failures.items():
            log.info("%s: config %s: %s: %s", call.name, text, outcome.status, outcome.reason)
        return found

    def build_all(self, call: TunedCall, configs: Mapping[str, Any]) -> dict[str, Outcome]:
        """Compile these at once; gives those that cannot be."""
        built = build(call, configs, self.workers)
        return {text: one for text, one in built.items() if one.status is not Status.OK}

    def _race(self, call: TunedCall, configs: Mapping[str, Any], found: Found) -> None:
        timer = self.make_timer()
        shots: dict[str, Shot] = {}
        for text, config in configs.items():
            if failure := _first(call, config, text, timer.synchronize):
                found.failures[text] = failure
            else:
                shots[text] = timer.ready(_shot(call, config))

        def sample(order: Sequence[str]) -> Mapping[str, float]:
            return _sample(call, timer, shots, order, found)

        if shots:
            found.samples_ns.update(race(shots, sample, out_of_time=self.out_of_time))
        for text in found.failures:
            found.samples_ns.pop(text, None)

    def _ask(
        self, bench: Benchmark, call: TunedCall, configs: Mapping[str, Any], found: Found
    ) -> None:
        """By a function of the user's, one after the other."""
        for text, config in configs.items():
            if failure := _first(call, config, text, lambda: None):
                found.failures[text] = failure
                continue
            try:
                told = bench(_shot(call, config), quantiles=(0.5, 0.2, 0.8))
            except _expected() as error:
                _raise_if_lost(call, [text], error)
                found.failures[text] = failed_launch(error)
                continue
            times_ms = told if isinstance(told, Sequence) else [float(told)]
            found.samples_ns[text] = [float(ms) * 1e6 for ms in times_ms]


def _first(
    call: TunedCall, config: Any, text: str, synchronize: Callable[[], object]
) -> Outcome | None:
    """The first launch loads the binary; what is wrong with a config mostly shows here."""
    problem: Exception | None = None
    try:
        call.before(config)
        call.launch(config)
        synchronize()
    except _expected() as error:
        _raise_if_lost(call, [text], error)
        problem = error
    call.after(config, problem)
    return failed_launch(problem) if problem is not None else None


def _sample(
    call: TunedCall,
    timer: LaunchTimer,
    shots: Mapping[str, Shot],
    order: Sequence[str],
    found: Found,
) -> Mapping[str, float]:
    """One sample of each; who can run no more is a failure, and the others are timed alone."""
    try:
        return timer.sample(shots, order)
    except _expected() as error:
        _raise_if_lost(call, order, error)
        if len(order) == 1:
            found.failures[order[0]] = failed_launch(error)
            return {}
    each = [_sample(call, timer, shots, [text], found) for text in order]
    return {text: time_ns for one in each for text, time_ns in one.items()}


def _raise_if_lost(call: TunedCall, texts: Sequence[str], error: Exception) -> None:
    """Launches are queued, so a fault of one of several is told by the GPU without its name."""
    if not any(words in str(error) for words in _LOST):
        return
    which = f"config {texts[0]}" if len(texts) == 1 else f"one of configs {', '.join(texts)}"
    raise GpuLostError(
        f"{which} of {call.name} broke the GPU's context ({error}), which no process "
        "survives: leave the config out, or tune the kernel in processes of their own "
        "(skipjack tune file.py::kernel)"
    ) from error


def _shot(call: TunedCall, config: Any) -> Shot:
    return Shot(
        partial(call.launch, config),
        partial(call.before, config),
        partial(call.after, config, None),
    )


def _expected() -> tuple[type[Exception], ...]:
    """What a bad config may raise; anything else is the caller's mistake."""
    from triton.errors import TritonError

    return TritonError, RuntimeError

"""The object that a decorated kernel is: Triton's autotuner, with the tuning our own.

What Triton's class says about arguments, pruning and hooks stays as it is; how the best config is
found is for `call_tuning` to say.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from triton import knobs
from triton.runtime import autotuner

from skipjack.core.parameters import ParameterSpace
from skipjack.integrations import gpu_timing
from skipjack.integrations.autotune_results import AutotuneResults
from skipjack.integrations.call_identity import place_of
from skipjack.integrations.call_tuning import CallDecision, CallTuning, decide, decide_in
from skipjack.integrations.hook_identity import hook_text
from skipjack.integrations.trials import ConfigBench
from skipjack.integrations.triton_autotune import Search
from skipjack.integrations.triton_configs import config_text, make_space, to_triton
from skipjack.integrations.tuned_call import TunedCall
from skipjack.runtime import mode_of_decorated
from skipjack.runtime.online import is_recording, one_at_a_time
from skipjack.settings import load_settings

log = logging.getLogger(__name__)

_WARMED = 256
"""A space up to this size is warmed up as a whole."""


@dataclass(frozen=True, slots=True)
class Options:
    """What ours takes beyond Triton's."""

    search: Search | None = None
    seconds: float | None = None
    graphs: bool = True
    keep: bool = True


class Autotuner(autotuner.Autotuner):  # type: ignore[misc]
    """A kernel that is tuned when it is first called with new values of its key.

    As Triton's: ``kernel[grid](...)``, `run`, `warmup`, `best_config`, `cache`, `configs_timings`
    (milliseconds) and `bench_time`. Configs that failed are in `failures` with their reasons.
    """

    def __init__(self, *args: Any, options: Options, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.options = options
        self.failures: dict[Any, str] = {}
        self.nargs: dict[str, Any] = {}
        self._meanwhile: dict[tuple[Any, ...], Any] = {}
        """Untuned choices that graphs were recorded with; they hold for recording alone."""

    # What Triton calls

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the best config, which is found first if it is not known."""
        if kwargs.get("warmup"):
            return self.warmup(*args, **kwargs)
        call = TunedCall(self, args, kwargs)
        config = self.best_config = self._config(call)
        call.call_hook(config)
        return call.launch(config)

    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compile all configs in parallel and launch none; gives the compiled kernels."""
        call = TunedCall(self, args, kwargs)
        configs = self._configs(call)
        failed = self._tools(0.0).build_all(call, configs)
        for text, outcome in failed.items():
            log.info("%s: config %s: %s", call.name, text, outcome.reason)
        return [_compiled(call, one) for text, one in configs.items() if text not in failed]

    # Choosing a config

    def _config(self, call: TunedCall) -> Any:
        if self.options.search is None and len(self.configs) == 1:
            return self.configs[0]
        key = call.key
        if key in self.cache:
            return self.cache[key]
        if is_recording():
            return self._while_recording(key, call)
        started = time.monotonic()
        decision = self._decide(call)
        self.bench_time = time.monotonic() - started
        self.cache[key] = decision.best
        self.configs_timings = {one: [ms] * 3 for one, ms in decision.times_ms.items()}
        self.failures = dict(decision.failures)
        self._announce(key, decision)
        return self.cache[key]

    def _while_recording(self, key: tuple[Any, ...], call: TunedCall) -> Any:
        """Nothing can be timed now; the first call outside of a graph tunes."""
        if key not in self._meanwhile:
            log.warning("a kernel is first called while a graph is recorded: it is not tuned")
            self._meanwhile[key] = self._untuned(self._results(call), call).best
        return self._meanwhile[key]

    def _decide(self, call: TunedCall) -> CallDecision:
        if knobs.runtime.interpret:
            return CallDecision(next(iter(self._configs(call).values())))
        mode, search = mode_of_decorated(load_settings().autotune), self.options.search
        results = self._results(call, known=mode not in ("off", "clean", "exhaustive"))
        if mode in ("off", "db", "clean"):
            return self._untuned(results, call)
        tuning = CallTuning(call, self._tools(time.monotonic()), results)
        with one_at_a_time(results.place.problem), call.as_it_was():
            if search is not None:
                return tuning.search(search, _space(search, call))
            return tuning.listed(self._configs(call))

    def _untuned(self, results: AutotuneResults, call: TunedCall) -> CallDecision:
        """What is known, or the first config; nothing is timed."""
        known, search = results.known(), self.options.search
        if search is None:
            return decide(self._configs(call), known)
        return decide_in(_space(search, call), known)

    def _configs(self, call: TunedCall) -> dict[str, Any]:
        """Those to choose among, by their texts; of a large space the default alone."""
        if self.options.search is None:
            return {config_text(one): one for one in self._pruned(call)}
        space = _space(self.options.search, call)
        few = space.count() <= _WARMED
        configs = map(to_triton, space.enumerate() if few else [space.default()])
        return {config_text(config): config for config in configs}

    def _pruned(self, call: TunedCall) -> list[Any]:
        """By Triton, which reads the arguments from the tuner."""
        before, self.nargs = self.nargs, call.by_position
        try:
            return list(self.prune_configs(dict(call.kwargs)))
        finally:
            self.nargs = before

    # What tuning needs, and what is said of it

    def _results(self, call: TunedCall, *, known: bool = True) -> AutotuneResults:
        own = self._do_bench
        protocol = gpu_timing.PROTOCOL if own is None else f"do_bench {hook_text(own)}"
        directory = load_settings().user_dir if self.options.keep else None
        return AutotuneResults(directory, place_of(call, protocol), earlier=known)

    def _tools(self, started: float) -> ConfigBench:
        seconds = self.options.seconds
        return ConfigBench(
            load_settings().build_workers,
            partial(gpu_timing.LaunchTimer, self.options.graphs),
            self._do_bench,
            lambda: seconds is not None and time.monotonic() - started > seconds,
        )

    def _announce(self, key: tuple[Any, ...], decision: CallDecision) -> None:
        """In Triton's words, for those who read them."""
        if knobs.autotuning.print and decision.fresh:
            print(
                f"Triton autotuning for function {self.base_fn.__name__},\nwith key as {key},\n"
                f"finished after {self.bench_time:.2f}s,\nbest config selected: {decision.best};"
            )
        if listener := getattr(knobs.autotuning, "listener", None):
            listener(
                fn=self.fn,
                key=key,
                best_config=decision.best,
                configs_timings=self.configs_timings,
                duration=self.bench_time,
                cache_hit=not decision.fresh,
            )


def _compiled(call: TunedCall, config: Any) -> Any:
    call.ready(config)
    return call.warm_up(config)


def _space(search: Search, call: TunedCall) -> ParameterSpace:
    plain = (bool, int, float, str)
    sizes = {name: value for name, value in call.named.items() if isinstance(value, plain)}
    return make_space(search.space, search.constraints, sizes)

"""The class of decorated kernels: Triton's autotuner, with Skipjack's tuning.

Arguments, pruning and hooks work as in Triton's class; the study engine finds the best config
(`skipjack.tuning.calls`).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from triton import knobs
from triton.runtime import autotuner

from skipjack.core import ParameterSpace
from skipjack.errors import SkipjackError
from skipjack.integrations.triton import call_session
from skipjack.integrations.triton.call_session import LaunchTools, TritonSession
from skipjack.integrations.triton.choices import (
    CallChoices,
    CallDecision,
    ListedChoices,
    SpaceChoices,
)
from skipjack.integrations.triton.configs import Search, config_text, make_space, to_triton
from skipjack.integrations.triton.identity import hook_text
from skipjack.integrations.triton.results import AutotuneResults, KnownCall
from skipjack.integrations.triton.tuned_call import TunedCall, place_of
from skipjack.runtime.online import is_recording, one_at_a_time
from skipjack.runtime.process import mode_of_decorated
from skipjack.settings import load_settings
from skipjack.solvers.gpu.triton import compiler_name
from skipjack.tuning.calls import CallContext, tune_call

log = logging.getLogger(__name__)

_WARMED = 256
"""`warmup` compiles all configs of a space up to this size."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options beyond those of Triton's autotuner."""

    search: Search | None = None
    seconds: float | None = None
    graphs: bool = True
    keep: bool = True


class Autotuner(autotuner.Autotuner):  # type: ignore[misc]
    """A kernel that is tuned when it is first called with new values of its key.

    It has Triton's interface: ``kernel[grid](...)``, `run`, `warmup`, `best_config`, `cache`,
    `configs_timings` (milliseconds) and `bench_time`. `failures` has the configs that failed, with
    reasons.
    """

    def __init__(self, *args: Any, options: Options, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.options = options
        self.failures: dict[Any, str] = {}
        self.nargs: dict[str, Any] = {}
        self._meanwhile: dict[tuple[Any, ...], Any] = {}
        """Untuned configs that graphs were captured with; they apply only during capture."""

    # What Triton calls

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the best config; it is searched first if it is not known."""
        if kwargs.get("warmup"):
            return self._compile_all(TunedCall(self, args, kwargs))
        call = TunedCall(self, args, kwargs)
        config = self.best_config = self._config(call)
        call.call_hook(config)
        return call.launch(config)

    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compile all configs in parallel and launch none; returns the compiled kernels."""
        return self._compile_all(TunedCall(self, args, kwargs))

    def _compile_all(self, call: TunedCall) -> list[Any]:
        configs = self._configs(call)
        failed = self._tools().build(call, configs)
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
        """A config for graph capture, when nothing can be timed; the first call outside tunes."""
        if key not in self._meanwhile:
            log.warning("a kernel is not tuned when it is first called during graph capture")
            results = self._results(call)
            self._meanwhile[key] = self._untuned(results, self._choices(call, results)).best
        return self._meanwhile[key]

    def _decide(self, call: TunedCall) -> CallDecision:
        if knobs.runtime.interpret:
            return CallDecision(next(iter(self._configs(call).values())))
        mode = mode_of_decorated(load_settings().autotune)
        results = self._results(call)
        choices = self._choices(call, results)
        if mode in ("off", "clean"):
            return CallDecision(choices.triton(choices.default))
        if mode == "db":
            return self._untuned(results, choices)
        with one_at_a_time(results.place.problem.key), call.as_it_was():
            known = results.known(choices.study.id)
            best = choices.settled(known) if mode != "exhaustive" else None
            if best is not None:
                return choices.decision(known, best)
            return self._tuned(call, results, choices, known, again=mode == "exhaustive")

    def _untuned(self, results: AutotuneResults, choices: CallChoices) -> CallDecision:
        """The best known config, or the first one; nothing is timed."""
        known = results.known(choices.study.id)
        best = choices.best(known, unconfirmed=True)
        return choices.decision(known, choices.default if best is None else best)

    def _tuned(
        self,
        call: TunedCall,
        results: AutotuneResults,
        choices: CallChoices,
        known: KnownCall,
        *,
        again: bool,
    ) -> CallDecision:
        """The result of a study of the call, which is stored."""
        place = results.place
        with results.ledger() as ledger:
            context = CallContext(
                TritonSession(
                    call, choices.triton, self._tools(), place.protocol.samples_per_block
                ),
                place.device,
                place.protocol,
                ledger,
                results.bank(),
                compiler_name(),
            )
            verdict = tune_call(context, choices.wish(place.problem, known, again=again))
        if verdict.best is None:
            reasons = (f"{one.key}: {why}" for one, why in verdict.reasons.items())
            told = next(reasons, "no config was timed")
            raise SkipjackError(f"no config of {call.name} can run; {told}")
        return choices.made(verdict.best, verdict.times_ns, verdict.reasons)

    def _choices(self, call: TunedCall, results: AutotuneResults) -> CallChoices:
        search = self.options.search
        if search is not None:
            return SpaceChoices(results.place, _space(search, call), search)
        configs = list(self._configs(call).values())
        if not configs:
            raise SkipjackError(
                f"pruning left no config of {call.name}: change it to keep at least one"
            )
        return ListedChoices(results.place, configs, self.options.seconds)

    def _configs(self, call: TunedCall) -> dict[str, Any]:
        """The configs to compile or choose from, by text; of a large space only the default."""
        if self.options.search is None:
            return {config_text(one): one for one in self._pruned(call)}
        space = _space(self.options.search, call)
        few = space.count() <= _WARMED
        configs = map(to_triton, space.enumerate() if few else [space.default()])
        return {config_text(config): config for config in configs}

    def _pruned(self, call: TunedCall) -> list[Any]:
        """The configs after Triton's pruning, which reads the arguments from the tuner."""
        before, self.nargs = self.nargs, call.by_position
        try:
            return list(self.prune_configs(dict(call.kwargs)))
        finally:
            self.nargs = before

    # Results, tools and messages

    def _results(self, call: TunedCall) -> AutotuneResults:
        own = self._do_bench
        place = place_of(call, hook_text(own) if own is not None else "")
        return AutotuneResults(load_settings() if self.options.keep else None, place)

    def _tools(self) -> LaunchTools:
        timer = partial(call_session.LaunchTimer, self.options.graphs)
        return LaunchTools(load_settings().build_workers, timer, self._do_bench)

    def _announce(self, key: tuple[Any, ...], decision: CallDecision) -> None:
        """Print and report a decision in Triton's format."""
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
    return call.compile(config)


def _space(search: Search, call: TunedCall) -> ParameterSpace:
    plain = (bool, int, float, str)
    sizes = {name: value for name, value in call.named.items() if isinstance(value, plain)}
    return make_space(search.space, search.constraints, sizes)

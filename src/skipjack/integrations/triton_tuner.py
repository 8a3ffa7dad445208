"""The object that a decorated kernel is: Triton's autotuner, with the tuning our own.

What Triton's class says about arguments, pruning and hooks stays as it is; how the best config is
found is for `call_tuning` to say.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from triton import knobs
from triton.runtime import autotuner
from triton.runtime.jit import JITFunction

from skipjack.core.parameters import ParameterSpace
from skipjack.errors import SkipjackError, StorageError
from skipjack.execute.device_lock import slot_lock
from skipjack.integrations import gpu_timing
from skipjack.integrations.autotune_results import Place, Results
from skipjack.integrations.call_identity import argument_types, current_device, problem_text
from skipjack.integrations.call_tuning import CallTuning, Decision, decide, known_of
from skipjack.integrations.kernel_identity import digest
from skipjack.integrations.trials import Bench, GpuLostError, Subject
from skipjack.integrations.triton_autotune import Search
from skipjack.integrations.triton_configs import config_text, hook_text, make_space, to_triton
from skipjack.settings import load_settings

log = logging.getLogger(__name__)

_LOCKS = 64
"""Kernels that are tuned at the same time by processes of one host, before two share a lock."""
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

    # What Triton calls

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the best config, which is found first if it is not known."""
        if kwargs.get("warmup"):
            return self.warmup(*args, **{k: v for k, v in kwargs.items() if k != "warmup"})
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            config = self.best_config = self._config(args, kwargs)
            settings = config.all_kwargs()
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **settings})
            return self.fn.run(*args, **kwargs, **settings)
        finally:
            self.nargs = {}

    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compile all configs in parallel and launch none; gives the compiled kernels."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            configs = self._configs(kwargs)
            subject = self._subject(args, kwargs)
            failed = self._tools(0.0).build_all(subject, configs)
            for text, outcome in failed.items():
                log.info("%s: config %s: %s", subject.name, text, outcome.reason)
            return [subject.warm_up(one) for text, one in configs.items() if text not in failed]
        finally:
            self.nargs = {}

    # Choosing a config

    def _config(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if self.options.search is None and len(self.configs) == 1:
            return self.configs[0]
        key = self._key(kwargs)
        if key not in self.cache:
            started = time.monotonic()
            decision = self._decide(key, args, kwargs)
            self.bench_time = time.monotonic() - started
            self.cache[key] = decision.best
            self.configs_timings = {one: [ms] * 3 for one, ms in decision.times_ms.items()}
            self.failures = dict(decision.failures)
            self._announce(key, decision)
        return self.cache[key]

    def _key(self, kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """As Triton's: the values named, and the types of all arguments that have one."""
        named = self._named(kwargs)
        values = [named[name] for name in self.keys if name in named]
        return (*values, *(str(v.dtype) for v in named.values() if hasattr(v, "dtype")))

    def _named(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        given = {**self.nargs, **kwargs}
        return {name: value for name, value in given.items() if name in self.arg_names}

    def _decide(
        self, key: tuple[Any, ...], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Decision:
        if knobs.runtime.interpret:
            return Decision(next(iter(self._configs(kwargs).values())))
        settings, search = load_settings(), self.options.search
        place = self._place(key, kwargs)
        results = Results(settings.user_dir if self.options.keep else None, place)
        if settings.autotune == "off" or _capturing():
            return self._untuned(results, kwargs)
        tuning = CallTuning(self._subject(args, kwargs), self._tools(time.monotonic()), results)
        with _one_at_a_time(place.problem), self._as_it_was(kwargs):
            if search is not None:
                return tuning.search(search, self._space(search, kwargs))
            return tuning.listed(self._configs(kwargs))

    def _untuned(self, results: Results, kwargs: Mapping[str, Any]) -> Decision:
        """What is known, or the first config; nothing is timed."""
        known, search = results.known(), self.options.search
        if search is None:
            return decide(self._configs(kwargs), known)
        space = self._space(search, kwargs)
        return decide(known_of(space, known) or {"": to_triton(space.default())}, known)

    def _configs(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Those to choose among, by their texts; of a large space the default alone."""
        if self.options.search is None:
            return {config_text(one): one for one in self.prune_configs(dict(kwargs))}
        space = self._space(self.options.search, kwargs)
        few = space.count() <= _WARMED
        configs = map(to_triton, space.enumerate() if few else [space.default()])
        return {config_text(config): config for config in configs}

    def _space(self, search: Search, kwargs: Mapping[str, Any]) -> ParameterSpace:
        plain = (bool, int, float, str)
        sizes = {n: v for n, v in self._named(kwargs).items() if isinstance(v, plain)}
        return make_space(search.space, search.constraints, sizes)

    # What tuning needs

    def _tools(self, started: float) -> Bench:
        seconds = self.options.seconds
        return Bench(
            load_settings().build_workers,
            partial(gpu_timing.GpuTimer, self.options.graphs),
            self._do_bench,
            lambda: seconds is not None and time.monotonic() - started > seconds,
        )

    def _subject(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Subject:
        given = {name: value for name, value in kwargs.items() if name != "warmup"}
        nargs = dict(self.nargs)

        def full(config: Any) -> dict[str, Any]:
            return {**nargs, **given, **config.all_kwargs()}

        def warm_up(config: Any) -> Any:
            self._refuse_conflicts(given, config)
            if config.pre_hook:  # it may set what the kernel is compiled for
                config.pre_hook(full(config))
            return self.fn.warmup(*args, **given, **config.all_kwargs())

        def launch(config: Any) -> None:
            self.fn.run(*args, **given, warmup=False, **config.all_kwargs())

        def before(config: Any) -> None:
            if config.pre_hook:
                config.pre_hook(full(config))
            self._prepare(full(config))

        def after(config: Any, error: Exception | None) -> None:
            if self.user_defined_post_hook:
                self.post_hook(full(config), exception=error)

        return Subject(self.base_fn.__name__, warm_up, launch, before, after)

    def _prepare(self, full: dict[str, Any]) -> None:
        if self.user_defined_pre_hook:
            self.pre_hook(full)
            return
        for name in self.reset_to_zero:
            full[name].zero_()
        for name, copy in self.restore_copies.items():
            full[name].copy_(copy)

    @contextmanager
    def _as_it_was(self, kwargs: Mapping[str, Any]) -> Iterator[None]:
        """Tensors to be restored hold their values again, those to be reset zeros."""
        full = {**self.nargs, **kwargs}
        self.restore_copies = {name: full[name].clone() for name in self.restore_value}
        lost = False
        try:
            yield
        except GpuLostError:
            lost = True
            raise
        finally:
            copies, self.restore_copies = self.restore_copies, {}
            if not lost:
                for name, copy in copies.items():
                    full[name].copy_(copy)
                self._reset(full)

    def _reset(self, full: dict[str, Any]) -> None:
        if self.user_defined_pre_hook:
            self.pre_hook(full, reset_only=True)
            return
        for name in self.reset_to_zero:
            full[name].zero_()

    def _refuse_conflicts(self, given: Mapping[str, Any], config: Any) -> None:
        if conflicts := given.keys() & config.kwargs.keys():
            raise ValueError(
                f"Conflicting meta-parameters: {', '.join(sorted(conflicts))}. "
                "Make sure that you don't re-define auto-tuned symbols."
            )

    # What is known elsewhere, and what is said

    def _place(self, key: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Place:
        function, named = self._function(), self._named(kwargs)
        besides = {name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}
        types = argument_types(function, named)
        constants = {name: besides[name] for name in besides if name not in dict(types)}
        constants |= {f"heuristic {name}": text for name, text in self._heuristics()}
        try:
            device = current_device()
        except RuntimeError as error:
            raise SkipjackError(
                f"kernel {function.__name__} cannot be tuned: Triton finds no GPU here ({error})"
            ) from error
        own = self._do_bench
        timed = gpu_timing.PROTOCOL if own is None else f"do_bench {hook_text(own)}"
        problem = problem_text(function, key, types, constants)
        return Place(problem, device.class_key, device.instance_key, timed)

    def _function(self) -> Any:
        function = self.fn
        while not isinstance(function, JITFunction):
            function = function.fn
        return function

    def _heuristics(self) -> Iterator[tuple[str, str]]:
        function = self.fn
        while not isinstance(function, JITFunction):
            values: Mapping[str, Callable[..., object]] = getattr(function, "values", {})
            yield from ((name, hook_text(one)) for name, one in values.items())
            function = function.fn

    def _announce(self, key: tuple[Any, ...], decision: Decision) -> None:
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


@contextmanager
def _one_at_a_time(problem: str) -> Iterator[None]:
    """Of the processes of a host that meet the same kernel at once, one tunes and others wait.

    They then find its results.
    """
    with ExitStack() as held:
        try:
            unit = int(digest(problem), 16) % _LOCKS
            held.enter_context(slot_lock("autotune", [unit], log.info))
        except StorageError as error:
            log.warning("tuning without a lock: %s", error)
        yield


def _capturing() -> bool:
    """Whether the caller is recording a graph, in which nothing can be timed."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return False
    recording: bool = torch.cuda.is_current_stream_capturing()
    if recording:
        log.warning("a kernel is first called while a graph is recorded: it is not tuned")
    return recording

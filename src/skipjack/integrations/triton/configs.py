"""`@skipjack.autotune`, which stands in for `@triton.autotune`; Triton's configs and ours, and
spaces of them.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from skipjack.core import (
    Budget,
    Config,
    ConstraintLike,
    Expression,
    Parameter,
    ParameterSpace,
    Value,
)
from skipjack.errors import SpaceError, UsageError
from skipjack.integrations.triton.identity import hook_text

# Triton's configs and ours: their canonical texts, and spaces of them.

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Settings of Triton, besides a kernel's own constants."""


def to_triton(config: Config) -> Any:
    """One of our configs as a ``triton.Config``."""
    import triton

    options = {name: config[name] for name in LAUNCH_OPTIONS if name in config}
    constants = {name: value for name, value in config.items() if name not in options}
    return triton.Config(constants, **options)


def as_settings(config: Any) -> dict[str, Any]:
    """A ``triton.Config`` or a mapping as settings by name; settings at None are left out."""
    if isinstance(config, Mapping):
        return {name: value for name, value in config.items() if value is not None}
    return dict(config.all_kwargs())


def config_text(config: Any) -> str:
    """Canonical text of a ``triton.Config``: equal texts mean equal kernels and launches."""
    settings = {name: _plain(value) for name, value in as_settings(config).items()}
    if override := getattr(config, "ir_override", None):
        settings["ir_override"] = hashlib.sha256(Path(override).read_bytes()).hexdigest()
    if hook := getattr(config, "pre_hook", None):
        settings["pre_hook"] = hook_text(hook)
    return Config.of(settings).key


def _plain(value: object) -> Value:
    return value if isinstance(value, bool | int | float | str) else str(value)


def make_space(
    values: Mapping[str, Sequence[Value]],
    constraints: Sequence[ConstraintLike] = (),
    sizes: Mapping[str, Value] | None = None,
    still: Collection[str] = (),
) -> ParameterSpace:
    """A space of settings; constraints may also read `sizes`, which are fixed.

    Settings in `still` keep their first value.
    """
    parameters = [
        Parameter(name, _values(name, given)[: 1 if name in still else None])
        for name, given in values.items()
    ]
    fixed = {name: value for name, value in (sizes or {}).items() if name not in values}
    return ParameterSpace(parameters, [_at(one, tuple(values), fixed) for one in constraints])


def _values(name: str, given: object) -> tuple[Value, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence | range):
        raise SpaceError(f"setting {name} needs a list of values like [64, 128], not {given!r}")
    return tuple(given)


def _at(
    constraint: ConstraintLike, varying: tuple[str, ...], fixed: Mapping[str, Value]
) -> ConstraintLike:
    """The constraint at fixed sizes: a function of its varying names."""
    if isinstance(constraint, str):
        expression = Expression(constraint)
        names, text, holds = tuple(sorted(expression.names)), constraint, expression.holds
    else:
        names = tuple(inspect.signature(constraint).parameters)
        text = getattr(constraint, "__qualname__", repr(constraint))
        function = constraint

        def holds(values: Mapping[str, Any]) -> bool:
            return bool(function(**values))

    unknown = [name for name in names if name not in varying and name not in fixed]
    if unknown:
        have = ", ".join((*varying, *fixed))
        raise SpaceError(
            f"constraint `{text}` uses unknown names: {', '.join(unknown)}; known are {have}"
        )
    known = tuple((name, fixed[name]) for name in names if name in fixed)
    if not known:
        return constraint

    def at_sizes(**values: Value) -> bool:
        return holds({**dict(known), **values})

    wanted = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
        for name in names
        if name not in fixed
    ]
    at_sizes.__signature__ = inspect.Signature(wanted)  # type: ignore[attr-defined]
    at_sizes.__qualname__ = text
    return at_sizes


class ListedSpace:
    """A list of configs. Implements `Space`, `Countable`, `Promising`, `Pinnable`."""

    def __init__(self, configs: Sequence[Mapping[str, Value]]) -> None:
        self._configs = list(dict.fromkeys(Config(config) for config in configs))
        self._places = {config: at for at, config in enumerate(self._configs)}
        if not self._configs:
            raise SpaceError("a list of configs is empty; give at least one")

    def default(self) -> Config:
        """The first config."""
        return self._configs[0]

    def contains(self, config: Config) -> bool:
        return config in self._places

    def sample(self, rng: np.random.Generator) -> Config:
        """One of the configs, all equally likely."""
        return self._configs[int(rng.integers(len(self._configs)))]

    def neighbours(self, config: Config) -> Sequence[Config]:
        """The configs that differ in the fewest settings."""
        others = [other for other in self._configs if other != config]
        apart = [len(set(other.items()) ^ set(config.items())) for other in others]
        return [o for o, far in zip(others, apart, strict=True) if far == min(apart)]

    def key(self, config: Config) -> str:
        return config.key

    def features(self, config: Config) -> tuple[float, ...]:
        """The position in the list."""
        return (float(self._places[config]),)

    def count(self) -> int:
        return len(self._configs)

    def enumerate(self) -> Iterator[Config]:
        return iter(self._configs)

    def promising(self, count: int) -> Sequence[Config]:
        """The first configs of the list, which its author probably prefers."""
        return self._configs[:count]

    def choices(self) -> dict[str, tuple[Value, ...]]:
        """The values of each setting in the list."""
        found: dict[str, dict[Value, None]] = {}
        for config in self._configs:
            for name, value in config.items():
                found.setdefault(name, {})[value] = None
        return {name: tuple(values) for name, values in found.items()}

    def pinned(self, settings: Mapping[str, Value]) -> ListedSpace:
        """The configs of the list that have these settings."""
        return ListedSpace([one for one in self._configs if settings.items() <= dict(one).items()])

    @property
    def digest(self) -> str:
        """Identifies the list."""
        return "|".join(config.key for config in self._configs)


# ``@skipjack.autotune``: replaces ``@triton.autotune``, and takes the same arguments.


@dataclass(frozen=True, slots=True)
class Search:
    """The space to search if no configs are listed, and the budget of the search."""

    space: Mapping[str, Sequence[Value]]
    constraints: tuple[ConstraintLike, ...] = ()
    budget: Budget = field(default_factory=Budget)
    searcher: str = "auto"
    seed: int = 0


def autotune(
    configs: Sequence[Any] | None = None,
    key: Sequence[str] = (),
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., object] | None = None,
    post_hook: Callable[..., object] | None = None,
    warmup: int | None = None,
    rep: int | None = None,
    use_cuda_graph: bool | None = None,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool | None = None,
    *,
    space: Mapping[str, Sequence[Value]] | None = None,
    constraints: Sequence[ConstraintLike] = (),
    budget: int | None = None,
    seconds: float | None = None,
    searcher: str = "auto",
    seed: int = 0,
) -> Callable[[Any], Any]:
    """Decorate a ``triton.jit`` function: the first call with new `key` values tunes it.

    `configs` are ``triton.Config`` objects, all of which are tried; or `space` names settings with
    their values (constants of the kernel, ``num_warps``, ``num_stages``, ``num_ctas``,
    ``maxnreg``), with `constraints` such as ``"BLOCK_M * BLOCK_N <= 32768"``, which may also use
    integer arguments of the call. A space is searched for `seconds` or for `budget` trials.

    Configs are compiled in parallel processes, then timed in turn; the winner is confirmed against
    the first config. It is stored in the user directory's bank, and all trials in its ledger,
    unless `cache_results` is False. `warmup` and `rep` are ignored, and accepted for compatibility;
    with `use_cuda_graph` False no graphs are used.
    """
    if (configs is None) == (space is None):
        raise UsageError("autotune needs either configs=[...] or space={...}")
    if space is None and (constraints or budget is not None):
        raise UsageError("constraints and budget need space={...}; listed configs are all tried")
    search = None
    if space is not None:
        search = Search(space, tuple(constraints), Budget(budget, seconds), searcher, seed)
    graphs, keep = use_cuda_graph is not False, cache_results is not False

    def decorate(function: Any) -> Any:
        from skipjack.integrations.triton.tuner import Autotuner, Options

        return Autotuner(
            function,
            function.arg_names,
            list(configs or ()),
            list(key),
            reset_to_zero,
            restore_value,
            pre_hook=pre_hook,
            post_hook=post_hook,
            prune_configs_by=prune_configs_by,
            do_bench=do_bench,
            options=Options(search, seconds, graphs, keep),
        )

    return decorate

"""Triton's configs and ours: one text for each, and spaces of them."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skipjack.core.config import Config, Value
from skipjack.core.constraints import ConstraintLike
from skipjack.core.expressions import Expression
from skipjack.core.parameter import Parameter
from skipjack.core.parameters import ParameterSpace
from skipjack.errors import SpaceError
from skipjack.integrations.hook_identity import hook_text

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Settings that Triton takes besides a kernel's own constants."""


def to_triton(config: Config) -> Any:
    """One of our configs as a ``triton.Config``."""
    import triton

    options = {name: config[name] for name in LAUNCH_OPTIONS if name in config}
    constants = {name: value for name, value in config.items() if name not in options}
    return triton.Config(constants, **options)


def as_settings(config: Any) -> dict[str, Any]:
    """A ``triton.Config``, or a plain mapping, as settings by name; what is at None is left out."""
    if isinstance(config, Mapping):
        return {name: value for name, value in config.items() if value is not None}
    return dict(config.all_kwargs())


def config_text(config: Any) -> str:
    """Canonical text of a ``triton.Config``: equal texts mean the same kernel and launch."""
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
    """A space of settings; constraints may read `sizes` besides, which do not vary.

    Settings that are `still` keep their first value.
    """
    parameters = [
        Parameter(name, _values(name, given)[: 1 if name in still else None])
        for name, given in values.items()
    ]
    fixed = {name: value for name, value in (sizes or {}).items() if name not in values}
    return ParameterSpace(parameters, [_at(one, tuple(values), fixed) for one in constraints])


def _values(name: str, given: object) -> tuple[Value, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence | range):
        raise SpaceError(f"setting {name} needs a list of values, as [64, 128], not {given!r}")
    return tuple(given)


def _at(
    constraint: ConstraintLike, varying: tuple[str, ...], fixed: Mapping[str, Value]
) -> ConstraintLike:
    """The constraint at these sizes: a function of those of its names that vary."""
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
        raise SpaceError(f"constraint `{text}` reads {', '.join(unknown)}; there are {have}")
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
    """These configs and no others. Implements `Space`, `Countable`, `Promising`, `Pinnable`."""

    def __init__(self, configs: Sequence[Mapping[str, Value]]) -> None:
        self._configs = list(dict.fromkeys(Config(config) for config in configs))
        self._places = {config: at for at, config in enumerate(self._configs)}
        if not self._configs:
            raise SpaceError("a list of configs is empty; give at least one")

    def default(self) -> Config:
        """The first."""
        return self._configs[0]

    def contains(self, config: Config) -> bool:
        return config in self._places

    def sample(self, rng: np.random.Generator) -> Config:
        """One of them; all are equally likely."""
        return self._configs[int(rng.integers(len(self._configs)))]

    def neighbours(self, config: Config) -> Sequence[Config]:
        """Those with the fewest settings changed."""
        others = [other for other in self._configs if other != config]
        apart = [len(set(other.items()) ^ set(config.items())) for other in others]
        return [o for o, far in zip(others, apart, strict=True) if far == min(apart)]

    def key(self, config: Config) -> str:
        return config.key

    def features(self, config: Config) -> tuple[float, ...]:
        """Its place in the list."""
        return (float(self._places[config]),)

    def count(self) -> int:
        return len(self._configs)

    def enumerate(self) -> Iterator[Config]:
        return iter(self._configs)

    def promising(self, count: int) -> Sequence[Config]:
        """The first ones of the list, which its author put first."""
        return self._configs[:count]

    def choices(self) -> dict[str, tuple[Value, ...]]:
        """The values that configs of the list have, by setting."""
        found: dict[str, dict[Value, None]] = {}
        for config in self._configs:
            for name, value in config.items():
                found.setdefault(name, {})[value] = None
        return {name: tuple(values) for name, values in found.items()}

    def pinned(self, settings: Mapping[str, Value]) -> ListedSpace:
        """Those of the list that have these settings."""
        return ListedSpace([one for one in self._configs if settings.items() <= dict(one).items()])

    @property
    def digest(self) -> str:
        """What tells this list from another."""
        return "|".join(config.key for config in self._configs)

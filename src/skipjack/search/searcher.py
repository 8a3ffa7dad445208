"""The interface of a searcher, its context and parameters, and the cost of a trial."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from skipjack.core import Config, Device, Problem, Space, Trial, did_you_mean
from skipjack.errors import UsageError

# The interface of a searcher, and its context.

_BEFORE_DEFAULT = 2


@dataclass(frozen=True, slots=True)
class SearchContext:
    """Everything that a search depends on in addition to the trials that it is told."""

    space: Space
    seed: int = 0
    trials: int | None = None
    """The most configs that may be requested; None for no limit."""
    seeds: tuple[Config, ...] = ()
    """Configs to try first: winners of similar problems, promising configs."""
    known: tuple[Trial, ...] = ()
    """Trials of earlier runs of the study. They are not requested again and cost no budget."""
    default_soon: bool = True
    """Whether the default is requested early, since gains are relative to it; else after all seeds.

    Two seeds come before it: they are worth more if time is short.
    """
    problem: Problem | None = None
    """The problem to tune; None if there is none, as in a sweep of commands."""
    device: Device | None = None
    """The device to tune for, which may be another machine's; None without a problem."""
    repeats: bool = False
    """Whether a config may be requested again, because runs of a command differ."""
    prior: tuple[Trial, ...] = ()
    """Trials of related studies, such as the same kernel on other devices, for learned searchers.

    A value is relative to the best of its own study: 1.0 is the best, 2.0 takes twice as long.
    Configs have the settings of the space, with values for which it has features, but need not be
    legal; a config may come from several studies. Prior trials are not `known`: configs may be
    requested.
    """
    score: Callable[[Config], float] | None = None
    """A trained model's estimate of a config: the logarithm of its time relative to the problem's
    best, lower is better. `score_all` scores many at once. None without a model."""

    def starts(self) -> tuple[Config, ...]:
        """The configs to request first: the default and the legal seeds, each once."""
        legal = [config for config in self.seeds if self.space.contains(config)]
        place = _BEFORE_DEFAULT if self.default_soon else len(legal)
        order = (*legal[:place], self.space.default(), *legal[place:])
        return tuple({self.space.key(config): config for config in order}.values())

    def rng(self) -> np.random.Generator:
        """A new random generator, the same for the same seed."""
        return np.random.default_rng(self.seed)


def score_all(score: Callable[[Config], float], configs: Sequence[Config]) -> list[float]:
    """The scores of many configs: at once if the score has a method ``many`` for that."""
    many = getattr(score, "many", None)
    return list(many(configs)) if many is not None else [score(config) for config in configs]


@runtime_checkable
class Searcher(Protocol):
    """Decides which configs to try next. `GeneratorSearcher` is the easiest way to write one.

    The configs of `ask` are legal, distinct, and not among the trials told before (unless the
    context allows repeats), and never more than the budget. A searcher is deterministic: the same
    context and the same calls in the same order give the same configs.
    """

    def ask(self, n: int) -> list[Config]:
        """Up to `n` configs; fewer or none while it waits for trials, none once it is `done`."""
        ...

    def tell(self, trial: Trial) -> None:
        """Record a trial. Trials come in any order, also of configs that were never requested."""
        ...

    @property
    def done(self) -> bool:
        """Whether it will never ask again, whatever it is told."""
        ...


# The order of trials: a smaller value is better, and failed trials are last.


def cost(trial: Trial) -> float:
    """The trial's value; infinite if it failed."""
    value = trial.value if trial.ok else None
    return math.inf if value is None or math.isnan(value) else value


def best(trials: Iterable[Trial]) -> Trial | None:
    """The first trial of the lowest cost; None if all failed."""
    found = min(trials, key=cost, default=None)
    return None if found is None or math.isinf(cost(found)) else found


def worsening(old: float, new: float) -> float:
    """The logarithm of the factor by which a value got worse; negative if it got better.

    Values are times or, to be maximised, negated rates, usually all of one sign. If signs differ,
    the relative difference is used instead.
    """
    if old > 0 and new > 0:
        return math.log(new / old)
    if old < 0 and new < 0:
        return math.log(old / new)
    return (new - old) / max(abs(new), abs(old), 1e-300)


# Parameters of searchers, given by name or as text: ``genetic:population=30,tournament=5``.
#
# They are the arguments of a searcher's class or generator function after the first, each with a
# default that defines its type. `Bounds` in an annotation limit a number. If the first parameter is
# a text, its name may be left out: ``optuna:tpe,startup=20``.

Value = bool | int | float | str

_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
UNNAMED = ""
_LONGEST = 255
"""The size of the column in a fleet's database."""


class Bounds(NamedTuple):
    """The smallest and the largest value of a number."""

    least: float
    most: float


Count = Annotated[int, Bounds(1, 10_000)]
Share = Annotated[float, Bounds(0, 1)]


def split_text(text: str) -> tuple[str, dict[str, str]]:
    """A searcher's name, and its parameters as text; one without a name has the key `UNNAMED`."""
    name, colon, rest = text.partition(":")
    given: dict[str, str] = {}
    for at, part in enumerate(rest.split(",") if colon else ()):
        key, equals, value = (word.strip() for word in part.partition("="))
        if at == 0 and key and not equals:
            key, value = UNNAMED, key
        elif not key or not value:
            raise _not_written_so(text)
        if key in given:
            raise UsageError(f"searcher {text!r} sets {key} twice; remove one of them")
        given[key] = value
    return name, given


def _not_written_so(text: str) -> UsageError:
    return UsageError(
        f"searcher {text!r}: write parameters as NAME:PARAMETER=VALUE,PARAMETER=VALUE, "
        "for example genetic:population=30"
    )


def read_parameters(
    name: str, factory: Callable[..., object], given: Mapping[str, object]
) -> dict[str, Value]:
    """The values of a searcher's parameters that differ from their defaults."""
    known = {one.name: one.default for one in _after_first(factory) if type(one.default) in _KINDS}
    hints = _hints(factory)
    values = {}
    for key, value in sorted(_named(name, given, known).items()):
        if key not in known:
            takes = f"it takes {', '.join(known) or 'none'}{did_you_mean(key, known)}"
            raise UsageError(f"searcher {name} has no parameter {key!r}; {takes}")
        notes = getattr(hints.get(key), "__metadata__", ())
        bounds = [note for note in notes if isinstance(note, Bounds)]
        values[key] = _value(value, type(known[key]), bounds, f"{key} of searcher {name}")
    return {key: value for key, value in values.items() if value != known[key]}


def _named(
    name: str, given: Mapping[str, object], known: Mapping[str, Value]
) -> Mapping[str, object]:
    """The given parameters, all by name: one without a name is the first, if that is a text."""
    if UNNAMED not in given:
        return given
    value = given[UNNAMED]
    first = next(iter(known), "")
    if not isinstance(known.get(first), str):
        raise _not_written_so(f"{name}:{value}")
    if first in given:
        raise UsageError(f"searcher {name} sets {first} twice: to {value} and to {given[first]}")
    return {first: value, **{key: one for key, one in given.items() if key != UNNAMED}}


def spelled(name: str, values: Mapping[str, Value]) -> str:
    """Name and parameters as canonical text, which identifies the study."""
    said = (str(v).lower() if isinstance(v, bool) else str(v) for v in values.values())
    words = (f"{key}={value}" for key, value in zip(values, said, strict=True))
    text = name + ":" * bool(values) + ",".join(words)
    if len(text) > _LONGEST:
        raise UsageError(
            f"searcher {name} with its parameters has {len(text)} characters; "
            f"at most {_LONGEST} are possible"
        )
    return text


def check_defaults(name: str, factory: Callable[..., object]) -> None:
    """Raise `UsageError` for a searcher that needs a parameter."""
    for one in _after_first(factory):
        if one.default is one.empty:
            raise UsageError(f"parameter {one.name} of searcher {name!r} needs a default")


def _value(given: object, kind: type[Any], bounds: list[Bounds], what: str) -> Any:
    """The value of a parameter, from text or from Python."""
    value: Any = given
    if isinstance(given, str) and kind is bool:
        value = {"true": True, "false": False}.get(given.lower())
    elif isinstance(given, str) or (kind is float and type(given) is int):
        try:
            value = kind(given)
        except ValueError:
            value = None
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise UsageError(f"{what} must be {_KINDS[kind]}, not {given!r}")
    if kind is str and set(value) & set(",="):
        raise UsageError(f"{what} must not contain commas or =; it is {value!r}")
    for least, most in bounds:
        if not least <= value <= most:
            raise UsageError(f"{what} must be from {least} to {most}, not {value}")
    return value


def _after_first(factory: Callable[..., object]) -> list[inspect.Parameter]:
    """The arguments after the context that can be given by name."""
    try:
        arguments = list(inspect.signature(factory).parameters.values())[1:]
    except (TypeError, ValueError):
        return []  # a C function without a signature
    return [one for one in arguments if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]


def _hints(factory: Any) -> Mapping[str, Any]:
    while isinstance(factory, partial):
        factory = factory.func
    function = inspect.getattr_static(factory, "__init__") if inspect.isclass(factory) else factory
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}  # a plug-in may import names only for type checkers

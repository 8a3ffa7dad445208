"""Parameter spaces: typed values, constraints, and which parameters decide the build.

A space of a billion points with constraints is counted exactly and sampled uniformly without
listing anything (`skipjack.core.counting`).
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nsmallest
from itertools import combinations
from typing import Literal, Self

import numpy as np

from skipjack.core.config import Config, Value, digest_of
from skipjack.core.constraints import Constraint, ConstraintLike, read_constraint
from skipjack.core.counting import Counting, Point, minimal_conflict
from skipjack.errors import SpaceError

# One parameter: a name, typed values, a default, and whether it affects the build.

Stage = Literal["build", "run"]

_KINDS = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting and its possible values, all of one type. The default is the first value."""

    name: str
    values: tuple[Value, ...]
    default: Value | None = None
    stage: Stage = "build"

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        name = self.name
        if not name.isidentifier() or keyword.iskeyword(name) or "__" in name:
            raise SpaceError(
                f"parameter {name!r} needs a name that is valid in an expression, such as tile_m"
            )
        if not self.values:
            raise SpaceError(f"parameter {name} has no values; give at least one")
        kinds = {type(value) for value in self.values}
        if len(kinds) > 1 or not kinds <= set(_KINDS):
            found = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise SpaceError(
                f"parameter {name} has values of type {found}; use one of bool, int, float and str"
            )
        if any(isinstance(value, float) and not math.isfinite(value) for value in self.values):
            raise SpaceError(f"parameter {name} has a value that is not finite")
        if len(set(self.values)) < len(self.values):
            raise SpaceError(f"parameter {name} lists a value twice")
        if self.default is None:
            object.__setattr__(self, "default", self.values[0])
        elif not self.accepts(self.default):
            raise SpaceError(
                f"parameter {name} has the default {self.default!r}, which is not one of its values"
            )
        if self.stage not in ("build", "run"):
            raise SpaceError(f"parameter {name} has the stage {self.stage!r}; write build or run")

    @property
    def default_index(self) -> int:
        """The index of the default in `values`."""
        return self.values.index(self.default)

    def accepts(self, value: object) -> bool:
        """Whether this is one of the values and of their type: 1 is not True."""
        return type(value) is type(self.values[0]) and value in self.values

    def nearest(self, value: Value) -> Value | None:
        """The number nearest to another one, in ratio if all are positive; None if there is none.

        Of two that are as near, the smaller one.
        """
        kind = type(self.values[0])
        if kind not in (int, float) or type(value) is not kind:
            return None
        numbers = [float(one) for one in (value, *self.values)]
        wanted, *offered = [math.log(n) for n in numbers] if min(numbers) > 0 else numbers
        places = range(len(offered))
        return self.values[min(places, key=lambda at: (abs(offered[at] - wanted), offered[at]))]

    def ranks(self) -> list[int]:
        """The rank of each value: by size for numbers, as listed for strings."""
        if isinstance(self.values[0], str):
            return list(range(len(self.values)))
        order = sorted(range(len(self.values)), key=lambda at: self.values[at])
        ranks = [0] * len(order)
        for rank, at in enumerate(order):
            ranks[at] = rank
        return ranks

    def feature(self, value: Value) -> float:
        """A number for a value: the logarithm of a size, the index of a string."""
        if isinstance(value, str):
            return float(self.values.index(value))
        sizes = type(value) is int and all(v > 0 for v in self.values if isinstance(v, int))
        return math.log2(value) if sizes else float(value)


# Parameter spaces: typed values, constraints, and which parameters affect the build.
#
# A space of a billion points with constraints is counted exactly and sampled uniformly without
# enumerating it (`skipjack.core.counting`); children and mutants are drawn from the legal points
# near their parents, so that they are legal by construction.

LISTABLE = 20_000
"""Spaces up to this size are enumerated in the order of their parameters and ranked as a whole."""


class ParameterSpace:
    """The configs that give every parameter one of its values and satisfy every constraint.

    A constraint is an expression (``tile_m * tile_n <= 4096``) or a function whose arguments are
    named after the parameters it reads. `order` estimates a cost without a measurement, lower is
    better, and is the basis of `promising`. Instances are immutable; expensive results are computed
    on first use and cached.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        constraints: Sequence[ConstraintLike] = (),
        order: Callable[[Config], float] | None = None,
        default_by_order: bool = False,
    ) -> None:
        self._default_by_order = default_by_order and order is not None
        self._set(tuple(parameters))
        if len(self._domains) < len(self.parameters):
            names = [parameter.name for parameter in self.parameters]
            twice = next(name for name in names if names.count(name) > 1)
            raise SpaceError(f"parameter {twice} is defined twice")
        known = frozenset(self._domains)
        self.constraints: tuple[Constraint, ...] = tuple(
            read_constraint(constraint, known) for constraint in constraints
        )
        self._order = order

    def _set(self, parameters: tuple[Parameter, ...]) -> None:
        self.parameters = parameters
        self._domains = {parameter.name: parameter.values for parameter in parameters}
        self._indices = [{v: at for at, v in enumerate(p.values)} for p in parameters]
        self._ranks = [parameter.ranks() for parameter in parameters]

    # Methods of every space

    def default(self) -> Config:
        """All parameters at their defaults, or the legal config nearest to that.

        With `default_by_order`, the best config by the order of the space.
        """
        return self._first if self._default_by_order else self._default

    def contains(self, config: Config) -> bool:
        """Whether each parameter has one of its values and all constraints hold."""
        return (
            len(config) == len(self.parameters)
            and all(p.name in config and p.accepts(config[p.name]) for p in self.parameters)
            and all(constraint.holds(config) for constraint in self.constraints)
        )

    def sample(self, rng: np.random.Generator) -> Config:
        """A random legal config, drawn uniformly."""
        return self._config(self._counting.draw(rng))

    def neighbours(self, config: Config) -> Sequence[Config]:
        """One parameter changed, adjacent values first; two if no single change is legal."""
        here = self._point(config)
        every = range(len(self.parameters))
        single = [near for at in every for near in self._moves(here, (at,))]
        if not single:
            single = [near for pair in combinations(every, 2) for near in self._moves(here, pair)]
        single.sort(key=lambda near: self._distance(here, near) > 1)
        return [self._config(near) for near in single]

    def key(self, config: Config) -> str:
        return config.key

    def features(self, config: Config) -> tuple[float, ...]:
        return tuple(p.feature(config[p.name]) for p in self.parameters)

    # Capabilities: Countable, Recombining, Staged, Promising, Pinnable

    def count(self) -> int:
        """The number of legal configs, exactly."""
        return self._counting.total

    def enumerate(self) -> Iterator[Config]:
        """Every legal config once; small spaces in the order of parameters and values."""
        points: Iterator[Point] = self._counting.points()
        if self.count() <= LISTABLE:
            points = iter(sorted(points))
        return map(self._config, points)

    def recombine(self, first: Config, second: Config, rng: np.random.Generator) -> Config:
        """A legal mixture of the parents' values, drawn uniformly."""
        a, b = self._point(first), self._point(second)
        allowed = [(x,) if x == y else (x, y) for x, y in zip(a, b, strict=True)]
        return self._config(self._draw_within(allowed, rng) or a)

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """One parameter changed, and as few others as necessary."""
        here = self._point(config)
        for at in rng.permutation(len(here)).tolist():
            others = [other for other in rng.permutation(len(here)).tolist() if other != at]
            freed = 0
            while True:
                mutant = self._draw_within(self._around(here, at, others[:freed]), rng)
                if mutant is not None:
                    return self._config(mutant)
                if freed >= len(others):
                    break
                freed = 2 * freed + 1
        return config

    def build_part(self, config: Config) -> Config:
        """The settings of parameters with the stage ``build``."""
        return Config({p.name: config[p.name] for p in self.parameters if p.stage == "build"})

    def promising(self, count: int) -> Sequence[Config]:
        """The best configs by the order, of all or of a fixed sample; none without an order."""
        if self._order is None:
            return ()
        if self.count() <= LISTABLE:
            configs = list(self.enumerate())
        else:
            rng = np.random.default_rng(0)
            drawn = (self.sample(rng) for _ in range(LISTABLE // 10))
            configs = list({config.key: config for config in drawn}.values())
        return nsmallest(count, configs, key=self._order)

    def adapted(self, config: Config) -> Config | None:
        """The nearest legal config: values that this space lacks become the nearest ones.

        None if it has other parameters, or a string that this space does not have.
        """
        if set(config) != set(self._domains):
            return None
        point = []
        for parameter in self.parameters:
            value = config[parameter.name]
            if not parameter.accepts(value):
                near = parameter.nearest(value)
                if near is None:
                    return None
                value = near
            point.append(parameter.values.index(value))
        found = self._config(tuple(point))
        return found if self.contains(found) else self._config(self._nearest(tuple(point)))

    def choices(self) -> dict[str, tuple[Value, ...]]:
        """The values of every parameter."""
        return dict(self._domains)

    def pinned(self, settings: Mapping[str, Value]) -> Self:
        """The part of the space that has these values."""
        part = copy(self)
        for kind in type(self).__mro__:  # cached results are those of the whole space
            for name, member in vars(kind).items():
                if isinstance(member, cached_property):
                    part.__dict__.pop(name, None)
        part._set(
            tuple(
                replace(p, values=(settings[p.name],), default=None) if p.name in settings else p
                for p in self.parameters
            )
        )
        _ = part._counting  # an empty space is reported as such
        return part

    @cached_property
    def _first(self) -> Config:
        return ParameterSpace.promising(self, 1)[0]

    @cached_property
    def digest(self) -> str:
        """A digest of parameters, values and constraints, which identifies the space."""
        parameters = [[p.name, list(p.values), p.default, p.stage] for p in self.parameters]
        parts = [parameters, [constraint.identity for constraint in self.constraints]]
        return digest_of(parts)

    def expected_cost(self, config: Config) -> float | None:
        """The cost of a config by the order; None without an order."""
        return None if self._order is None else self._order(config)

    # Implementation

    @cached_property
    def _counting(self) -> Counting:
        counting = Counting(self._domains, self.constraints)
        if counting.total == 0:
            raise SpaceError(_explain(minimal_conflict(self._domains, self.constraints)))
        return counting

    @cached_property
    def _default(self) -> Config:
        here = tuple(p.default_index for p in self.parameters)
        config = self._config(here)
        return config if self.contains(config) else self._config(self._nearest(here))

    def _nearest(self, here: Point) -> Point:
        """A legal point with few and small changes; deterministic."""
        _ = self._counting  # an empty space is reported as such
        for changes in (1, 2):
            subsets = combinations(range(len(here)), changes)
            near = (move for subset in subsets for move in self._moves(here, subset))
            best = min(near, key=lambda point: (self._distance(here, point), point), default=None)
            if best is not None:
                return best
        # For each parameter in turn, the nearest value that can still be completed.
        fixed: list[tuple[int, ...]] = [tuple(range(len(p.values))) for p in self.parameters]
        for at, index in enumerate(here):
            ranks = self._ranks[at]
            for choice in sorted(fixed[at], key=lambda c: (abs(ranks[c] - ranks[index]), c)):
                fixed[at] = (choice,)
                if self._within(fixed).total:
                    break
        return tuple(choices[0] for choices in fixed)

    def _around(self, here: Point, at: int, freed: Sequence[int]) -> list[tuple[int, ...]]:
        """Allowed values: any other one for `at`, any for the freed parameters, else unchanged."""
        spread: list[tuple[int, ...]] = [(index,) for index in here]
        for other in freed:
            spread[other] = tuple(range(len(self.parameters[other].values)))
        size = len(self.parameters[at].values)
        spread[at] = tuple(index for index in range(size) if index != here[at])
        return spread

    def _within(self, allowed: Sequence[tuple[int, ...]]) -> Counting:
        domains = {
            p.name: tuple(p.values[index] for index in indices)
            for p, indices in zip(self.parameters, allowed, strict=True)
        }
        return Counting(domains, self.constraints)

    def _draw_within(
        self, allowed: Sequence[tuple[int, ...]], rng: np.random.Generator
    ) -> Point | None:
        counting = self._within(allowed)
        if not counting.total:
            return None
        return tuple(
            indices[index] for index, indices in zip(counting.draw(rng), allowed, strict=True)
        )

    def _moves(self, here: Point, changed: tuple[int, ...]) -> Iterator[Point]:
        """Legal points that differ in exactly these parameters, nearest values first."""
        spread: list[tuple[int, ...]] = [(index,) for index in here]
        for at in changed:
            ranks = self._ranks[at]
            others = (index for index in range(len(ranks)) if index != here[at])
            spread[at] = tuple(sorted(others, key=lambda i: abs(ranks[i] - ranks[here[at]])))
        for point in self._within(spread).points():
            yield tuple(spread[at][index] for at, index in enumerate(point))

    def _distance(self, here: Point, there: Point) -> int:
        """Sum of the differences in rank; different strings, which have no order, count 1."""
        return sum(
            min(1, abs(a - b)) if isinstance(p.values[0], str) else abs(ranks[a] - ranks[b])
            for p, ranks, a, b in zip(self.parameters, self._ranks, here, there, strict=True)
        )

    def _point(self, config: Config) -> Point:
        try:
            return tuple(
                index[config[p.name]]
                for index, p in zip(self._indices, self.parameters, strict=True)
            )
        except KeyError:
            raise SpaceError(f"config {config} is not in this space") from None

    def _config(self, point: Point) -> Config:
        return Config(
            {p.name: p.values[index] for p, index in zip(self.parameters, point, strict=True)}
        )


def _explain(core: Sequence[Constraint]) -> str:
    texts = [f"`{constraint.text}`" for constraint in core]
    if len(texts) == 1:
        return f"no legal config: {texts[0]} holds for no combination of values"
    return f"no legal config: {', '.join(texts[:-1])} and {texts[-1]} exclude each other"

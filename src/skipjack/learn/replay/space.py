"""A search space whose configs were all measured before, with the result of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import combinations

import numpy as np

from skipjack.core import Config, Parameter, Space, Trial, Value
from skipjack.errors import SpaceError

_LOOKED_UP = 256
"""Up to so many mixtures of two configs are looked up one by one; for more, all are compared."""


class RecordedSpace:
    """The configs of a recording as a `Space`, which also answers with their recorded trials.

    Its parameters and their values are those of the recorded configs; only recorded configs are
    legal, whatever the constraint that left others out. It is a `Space`, `Countable`, `Recombining`
    and `Pinnable`, but not `Promising`: no order of its configs is known before they are measured,
    so a replay tests a searcher alone. The default is the first recorded config, unless
    `starting_at` gives another.

    Args:
        trials: one for each config; all have the same parameters.
        name: what was recorded, for tables.
        unit: the unit of the values.
    """

    def __init__(self, trials: Sequence[Trial], name: str = "recording", unit: str = "") -> None:
        if not trials:
            raise SpaceError(f"the recording {name} has no trials")
        self.name, self.unit = name, unit
        trials = _of_one_type(trials, name)
        self.parameters = tuple(_parameters(trials))
        self.trials = tuple(trials)
        self._configs = [trial.config for trial in trials]
        self._default = self._configs[0]
        self._at = {config.key: at for at, config in enumerate(self._configs)}
        if len(self._at) < len(trials):
            raise SpaceError(f"the recording {name} has a config twice")
        # A point is the rank of each value: neighbours in rank are neighbours in the space.
        self._values = [_in_order(parameter) for parameter in self.parameters]
        ranks = [{value: rank for rank, value in enumerate(values)} for values in self._values]
        named = list(zip(self.parameters, ranks, strict=True))
        points = [tuple(rank[config[p.name]] for p, rank in named) for config in self._configs]
        self._points = np.array(points, dtype=np.int32).reshape(len(points), len(self.parameters))
        self._point_at = {point: at for at, point in enumerate(points)}
        self._varying = [at for at, values in enumerate(self._values) if len(values) > 1]

    # Methods of every space

    def default(self) -> Config:
        """The first config of the recording, or the one given to `starting_at`."""
        return self._default

    def contains(self, config: Config) -> bool:
        """Whether this config was recorded."""
        return config.key in self._at

    def sample(self, rng: np.random.Generator) -> Config:
        """A recorded config, drawn uniformly."""
        return self._configs[int(rng.integers(len(self._configs)))]

    def neighbours(self, config: Config) -> Sequence[Config]:
        """Configs with one other value, adjacent values first; if there are none, the nearest."""
        here = self._index(config)
        point = self._point(here)
        near = [move for p in self._varying for move in self._moves(point, p)]
        if not near:
            return [self._configs[at] for at in self._nearest(here)]
        near.sort(key=lambda move: move[0] > 1)
        return [self._configs[at] for _, at in near]

    def key(self, config: Config) -> str:
        return config.key

    def features(self, config: Config) -> tuple[float, ...]:
        """Sizes as logarithms and other numbers as they are; constant parameters are left out."""
        return tuple(
            self.parameters[p].feature(config[self.parameters[p].name]) for p in self._varying
        )

    # Capabilities: Countable, Recombining, Pinnable

    def count(self) -> int:
        """The number of recorded configs."""
        return len(self._configs)

    def enumerate(self) -> Iterator[Config]:
        """The configs in the order of the recording."""
        return iter(self._configs)

    def recombine(self, first: Config, second: Config, rng: np.random.Generator) -> Config:
        """A recorded mixture of the parents' values, drawn uniformly."""
        a, b = self._index(first), self._index(second)
        found = self._mixtures(self._point(a), self._point(b))
        return self._configs[found[int(rng.integers(len(found)))]]

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """A random parameter changed, and as few others as possible."""
        here = self._index(config)
        point = self._point(here)
        for place in rng.permutation(len(self._varying)).tolist():
            p = self._varying[place]
            moves = [at for _, at in self._moves(point, p)] or self._nearest(here, p)
            if moves:
                return self._configs[moves[int(rng.integers(len(moves)))]]
        return config

    def choices(self) -> Mapping[str, Sequence[Value]]:
        """The recorded values of every parameter."""
        return {parameter.name: parameter.values for parameter in self.parameters}

    def pinned(self, settings: Mapping[str, Value]) -> Space:
        """The recorded configs with these settings."""
        kept = [
            trial
            for trial in self.trials
            if all(trial.config.get(name) == value for name, value in settings.items())
        ]
        if not kept:
            said = " ".join(f"{name}={value}" for name, value in settings.items())
            raise SpaceError(f"no recorded config has {said}")
        return RecordedSpace(kept, self.name, self.unit)

    def starting_at(self, config: Config) -> RecordedSpace:
        """The same space with another default."""
        other = copy(self)
        other._default = self._configs[self._index(config)]
        return other

    # Results

    def trial(self, config: Config) -> Trial:
        """The recorded trial of a config."""
        return self.trials[self._index(config)]

    def index(self, config: Config) -> int:
        """The place of a config in the recording."""
        return self._index(config)

    @cached_property
    def costs(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The values in the order of the recording; infinite for failures."""
        values = [trial.value if trial.ok else None for trial in self.trials]
        return np.array([np.inf if value is None else value for value in values], dtype=float)

    @property
    def optimum(self) -> float:
        """The lowest value; infinite if everything failed."""
        return float(self.costs.min())

    def usable_prior(self, trials: Iterable[Trial]) -> list[Trial]:
        """Trials of another recording whose configs have this space's parameters and values.

        Values of a parameter that is constant here do not count: they become the one of this space.
        """
        constant = {p.name: p.values[0] for p in self.parameters if len(p.values) == 1}
        varying = [self.parameters[p] for p in self._varying]
        names = {parameter.name for parameter in self.parameters}
        return [
            replace(trial, config=trial.config.replace(**constant))
            for trial in trials
            if set(trial.config) == names and all(p.accepts(trial.config[p.name]) for p in varying)
        ]

    # Implementation

    def _index(self, config: Config) -> int:
        found = self._at.get(config.key)
        if found is None:
            raise SpaceError(f"config {config} was not recorded")
        return found

    def _point(self, at: int) -> tuple[int, ...]:
        return tuple(self._points[at].tolist())

    def _moves(self, point: tuple[int, ...], p: int) -> list[tuple[int, int]]:
        """Configs that differ from a point in this parameter only, nearest values first.

        Each comes with the difference in rank, which is 1 for texts, as they have no order.
        """
        before, after = point[:p], point[p + 1 :]
        found = [
            (abs(rank - point[p]), at)
            for rank in range(len(self._values[p]))
            if rank != point[p] and (at := self._point_at.get((*before, rank, *after))) is not None
        ]
        found.sort(key=lambda move: move[0])
        if isinstance(self._values[p][0], str):
            return [(1, at) for _, at in found]
        return found

    def _nearest(self, here: int, p: int | None = None) -> list[int]:
        """The configs that differ in the fewest parameters, in `p` among others if given."""
        differ = self._points != self._points[here]
        counts = differ.sum(axis=1)
        counts[here] = len(self.parameters) + 1
        if p is not None:
            counts[~differ[:, p]] = len(self.parameters) + 1
        least = int(counts.min())
        if least > len(self.parameters):
            return []
        found: list[int] = np.flatnonzero(counts == least).tolist()
        return found

    def _mixtures(self, a: tuple[int, ...], b: tuple[int, ...]) -> list[int]:
        unlike = [at for at, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
        if 2 ** len(unlike) <= _LOOKED_UP:
            subsets = (c for size in range(len(unlike) + 1) for c in combinations(unlike, size))
            points = (
                tuple(b[at] if at in chosen else a[at] for at in range(len(a)))
                for chosen in map(frozenset, subsets)
            )
            looked_up = (self._point_at.get(point) for point in points)
            return [at for at in looked_up if at is not None]
        of_either = (self._points == np.array(a)) | (self._points == np.array(b))
        found: list[int] = np.flatnonzero(of_either.all(axis=1)).tolist()
        return found


def _parameters(trials: Sequence[Trial]) -> Iterator[Parameter]:
    names = list(trials[0].config)
    for name in names:
        values = list(dict.fromkeys(trial.config[name] for trial in trials))
        if not isinstance(values[0], str):
            values.sort()
        yield Parameter(name, tuple(values), default=trials[0].config[name])


def _of_one_type(trials: Sequence[Trial], name: str) -> Sequence[Trial]:
    """The trials if all configs have the same parameters, each with values of one type.

    A parameter with whole and other numbers gets floats.
    """
    names = set(trials[0].config)
    mixed = []
    for trial in trials:
        if set(trial.config) != names:
            raise SpaceError(
                f"the configs of the recording {name} have different parameters: "
                f"{', '.join(sorted(names))}, and {', '.join(sorted(trial.config))}"
            )
    for parameter in trials[0].config:
        kinds = {type(trial.config[parameter]) for trial in trials}
        if kinds == {int, float}:
            mixed.append(parameter)
        elif len(kinds) > 1:
            found = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise SpaceError(
                f"the parameter {parameter} of the recording {name} has values of the types {found}"
            )
    if len(names) == 1 and isinstance(next(iter(trials[0].config.values())), str):
        raise SpaceError(
            f"the configs of the recording {name} are texts, such as schedules of loop nests; "
            "only configs with parameters can be replayed"
        )
    if not mixed:
        return trials
    return [
        replace(trial, config=trial.config.replace(**{n: float(trial.config[n]) for n in mixed}))
        for trial in trials
    ]


def _in_order(parameter: Parameter) -> list[Value]:
    ranks = parameter.ranks()
    return [parameter.values[at] for at in sorted(range(len(ranks)), key=ranks.__getitem__)]

"""A trained heuristic: a good config of a problem that was never measured, in microseconds.

It ranks the configs of a portfolio, which together are near the best for all kinds of problems, by
trees over features of the problem alone. The trees imitate a ranker, which is too slow for that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Device, Problem
from skipjack.errors import MalformedError
from skipjack.models.features import (
    FEATURES_VERSION,
    device_facts,
    dtype_facts,
    operation_group,
    problem_feature_names,
    problem_features,
)
from skipjack.models.files import model_identity, read_model, write_model
from skipjack.models.ranker import device_key
from skipjack.models.symmetric import SymmetricTrees
from skipjack.models.trees import Floats

HEURISTIC_FORMAT = "skipjack-heuristic-1"
SURE = 0.75
"""The confidence from which a heuristic answers."""
TRIED = 12
"""Members that are tried for a problem before a heuristic has no answer."""
_BEYOND = 1.0
"""Sizes up to one doubling outside of what it was trained on are as good as inside."""
_ROWS = np.array([3, 4, 5, 6, 7, 8, 10, 11, 12, 14, 16], np.float32)
_VECTORS = np.array([1, 2, 3, 4, 5, 6], np.float32)
_SIDES = np.array([16, 32, 64, 128, 256], np.float32)
_PAIRS = ((64, 64), (64, 128), (128, 128), (128, 256), (256, 128))


@functools.cache
def _product_places(operation: str) -> tuple[int, ...] | None:
    """Where rows, columns and depth of the equal product are among the features."""
    names = problem_feature_names(operation)
    for wanted in (("m", "n", "k", "batch"), ("gemm_m", "gemm_n", "gemm_k", "groups", "result_w")):
        if set(wanted) <= set(names):
            return tuple(map(names.index, wanted))
    return None


def tiling_features(problem: Problem, device: Device, features: Sequence[float]) -> Floats:
    """What tiles of usual sizes make of a problem: shares of padding, rounds of tiles."""
    places = _product_places(problem.operation)
    if places is None:
        return np.zeros(0, np.float32)
    sizes = [round(2 ** features[at]) for at in places]
    m, n, batch = sizes[0], sizes[1], sizes[3]
    if device.kind == "cpu":
        lanes = max(1, device_facts(device).vector_bytes // dtype_facts(problem.dtype)[0])
        found = [_padded(m, _ROWS), _padded(n, _ROWS)]
        found += [_padded(m, _VECTORS * lanes), _padded(n, _VECTORS * lanes)]
        if len(sizes) > 4:
            found.append(_padded(sizes[4], _ROWS))
        return np.concatenate(found)
    rounds = [-(-m // high) * -(-n // wide) * batch / max(1, device.units) for high, wide in _PAIRS]
    waves = np.array(rounds, np.float32)
    return np.concatenate(
        [_padded(m, _SIDES), _padded(n, _SIDES), np.log2(waves), np.ceil(waves) / waves]
    )


def _padded(size: int, sides: Floats) -> Floats:
    found: Floats = np.ceil(size / sides) * sides / np.float32(size)
    return found


def heuristic_features(problem: Problem, device: Device) -> Floats:
    """The features of a problem that heuristics use: `problem_features` and `tiling_features`."""
    plain = problem_features(problem, device)
    return np.concatenate([np.array(plain, np.float32), tiling_features(problem, device, plain)])


@dataclass(frozen=True, slots=True)
class PortfolioMember:
    """A solver, and a config that is adapted to each problem."""

    solver: str
    config: Config
    """Empty for a library, and with a place."""
    place: int | None = None
    """Stands for the config at this place in the order in which the solver's space proposes them,
    which is another one for each problem."""

    @property
    def is_library(self) -> bool:
        """Whether there is nothing to build."""
        return not self.config and self.place is None


@dataclass(frozen=True, slots=True)
class RankedMember:
    """A member of the portfolio for a problem."""

    member: PortfolioMember
    behind: float
    """The expected logarithm of its time over that of the best."""


@dataclass(frozen=True, slots=True)
class RankedConfig:
    """A config that a problem can use, and what is expected of it."""

    solver: str
    config: Config
    """Empty for a library."""
    behind: float
    """The expected logarithm of its time over that of the best."""


@dataclass(frozen=True, slots=True)
class ConfigHeuristic:
    """The portfolio and its trees."""

    group: str
    device: str
    """The devices, as `device_key` names them."""
    members: tuple[PortfolioMember, ...]
    trees: SymmetricTrees
    kinds: frozenset[tuple[str, ...]]
    """The dtypes, layouts, directions and attributes it was trained for, see `kind_of`."""
    low: Floats
    """The least value of each feature of problems in training."""
    high: Floats
    """The largest."""
    calibration: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    """Rows of an expected logarithm, rising, and the share of held-out problems with one up to it
    whose config was within 10 % of the best."""
    card: Mapping[str, Any] = field(default_factory=dict)

    def applies(self, problem: Problem, device: Device) -> bool:
        """Whether it was trained for problems of this kind on such devices."""
        of = operation_group(problem.operation), device_key(device)
        return of == (self.group, self.device) and kind_of(problem, device) in self.kinds

    def rank(
        self,
        problem: Problem,
        device: Device,
        features: Floats | None = None,
        most: int | None = None,
    ) -> list[RankedMember]:
        """The portfolio, the fastest first. Not all of it need be legal for the problem.

        `features` are those of the problem, if they are known; `most` is how many are wanted.
        """
        if features is None:
            features = heuristic_features(problem, device)
        behind = self.trees.predict(features)
        order = np.argsort(behind, kind="stable")[:most].tolist()
        values = behind.tolist()
        return [RankedMember(self.members[at], values[at]) for at in order]

    def propose(
        self,
        problem: Problem,
        device: Device,
        usable: Callable[[PortfolioMember], Config | None],
        *,
        wanted: int,
        tried: int | None = TRIED,
        features: Floats | None = None,
    ) -> list[RankedConfig]:
        """Different configs that a problem can use, the fastest first.

        Args:
            usable: a member's config for the problem; None if the problem cannot use it.
            wanted: the number of configs after which no more are looked for.
            tried: how many members are tried; None for all.
            features: those of the problem, if they are known.
        """
        found: dict[tuple[str, Config], float] = {}
        for ranked in self.rank(problem, device, features, tried):
            config = usable(ranked.member)
            if config is not None:
                found.setdefault((ranked.member.solver, config), ranked.behind)
            if len(found) == wanted:
                break
        return [RankedConfig(*pick, behind) for pick, behind in found.items()]

    def confidence(self, features: Floats, expected: float) -> float:
        """The probability that a config that is expected so far behind is within 10 %.

        It is 0 for problems whose features are far from those in training.
        """
        beyond = np.maximum(self.low - features, features - self.high).max(initial=0.0)
        if beyond > _BEYOND:
            return 0.0
        if not len(self.calibration):
            return 1.0
        return float(np.interp(expected, self.calibration[:, 0], self.calibration[:, 1]))

    def save(self, path: Path) -> None:
        """Write it to a file."""
        about = {
            "format": HEURISTIC_FORMAT,
            "features": FEATURES_VERSION,
            "group": self.group,
            "device": self.device,
            "members": [[one.solver, one.config.key, one.place] for one in self.members],
            "kinds": sorted(map(list, self.kinds)),
            "card": dict(self.card),
        }
        arrays = self.trees.arrays()
        arrays |= {"low": self.low, "high": self.high, "calibration": self.calibration}
        write_model(path, about, arrays)

    @classmethod
    def read(cls, data: bytes, where: str) -> ConfigHeuristic:
        """A heuristic from the bytes of a file.

        Raises `MalformedError` if the file is damaged or has another format version.
        """
        about, arrays = read_model(data, where)
        group, of, card = model_identity(about, where, "heuristic", HEURISTIC_FORMAT)
        try:
            members = tuple(
                PortfolioMember(str(solver), Config.from_key(key), _place(place))
                for solver, key, place in about["members"]
            )
            kinds = frozenset(tuple(map(str, kind)) for kind in about["kinds"])
            low, high = (arrays[name].astype(np.float32) for name in ("low", "high"))
            calibration = arrays["calibration"].astype(np.float64).reshape(-1, 2)
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedError(f"{where} is damaged: {error}") from None
        trees = SymmetricTrees.of(arrays, where, len(low))
        if low.shape != high.shape or trees.base.size != len(members):
            raise MalformedError(f"{where} is damaged: its arrays do not fit each other")
        return cls(group, of, members, trees, kinds, low, high, calibration, card)


def _place(value: object) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    raise ValueError(f"{value!r} is no place of a config")


def kind_of(problem: Problem, device: Device) -> tuple[str, ...]:
    """What problems must have in common so that one may be judged by the others.

    Of attributes only those that change the arrays: a bias or an activation costs all alike.
    """
    given = dict(problem.attributes)
    turned = given.get("ta", ""), given.get("tb", "")
    units = str(device.units) if device.kind == "cpu" else ""
    return problem.operation, problem.dtype, problem.layout, problem.direction, *turned, units

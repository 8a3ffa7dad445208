"""A ranker: the time of any candidate of a group of operations, relative to the problem's best.

It scores pairs of problem and config by their features, never a fixed list of known configs, so
that configs which were never measured are ranked, too. ``skipjack learn ranker`` fits it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skipjack.core import Config, Device, Problem, Space
from skipjack.errors import MalformedError
from skipjack.models.boosting import probabilities
from skipjack.models.candidates import CandidateFeatures, Rows, arranged
from skipjack.models.features import FEATURES_VERSION, operation_group
from skipjack.models.files import model_identity, read_model, write_model
from skipjack.models.trees import Doubles, TreeEnsemble

RANKER_FORMAT = "skipjack-ranker-1"
FAILURE = 2.0
"""What a certain failure adds to a score: as if it took e squared times as long."""
_SOLVER = "solver."


def device_key(device: Device) -> str:
    """The devices that share models: CPUs by the width of vectors, GPUs by architecture."""
    return f"cpu-{8 * device.vector_bytes}" if device.kind == "cpu" else device.arch


@dataclass(frozen=True, slots=True)
class Ranker:
    """Trees for the logarithm of a candidate's time over that of the best of its problem."""

    group: str
    """The operations, as `operation_group` names them."""
    device: str
    """The devices, as `device_key` names them."""
    names: tuple[str, ...]
    """The features in order; those of solvers are 1 for candidates of the solver."""
    times: TreeEnsemble
    validity: TreeEnsemble | None = None
    """The log-odds of a failure; None if nothing failed."""
    card: Mapping[str, Any] = field(default_factory=dict)
    """What it was fitted to, and how good it is."""

    def applies(self, problem: Problem, device: Device) -> bool:
        """Whether it was fitted for problems of this kind on such devices."""
        of = operation_group(problem.operation), device_key(device)
        return of == (self.group, self.device)

    def rows(self, features: CandidateFeatures, solver: str, configs: Sequence[Config]) -> Rows:
        """The features of candidates in the order of the model."""
        return self.arranged(features.rows(configs), features.names, solver)

    def arranged(self, rows: Rows, names: Sequence[str], solver: str) -> Rows:
        """Rows of features of a solver's candidates in the order of the model."""
        rows = arranged(rows, names, self.names)
        for at, name in enumerate(self.names):
            if name.startswith(_SOLVER):
                rows[:, at] = name == _SOLVER + solver
        return rows

    def scores(self, rows: Rows) -> Doubles:
        """Estimates for rows of features; lower is better."""
        found = self.times.sums(rows)
        if self.validity is not None:
            found = found + FAILURE * probabilities(self.validity.sums(rows))
        return found

    def save(self, path: Path) -> None:
        """Write it to a file."""
        about = {
            "format": RANKER_FORMAT,
            "features": FEATURES_VERSION,
            "group": self.group,
            "device": self.device,
            "names": list(self.names),
            "card": dict(self.card),
        }
        arrays = self.times.arrays("times.")
        if self.validity is not None:
            arrays |= self.validity.arrays("validity.")
        write_model(path, about, arrays)

    @classmethod
    def read(cls, data: bytes, where: str) -> Ranker:
        """A ranker from the bytes of a file.

        Raises `MalformedError` if the file is damaged or has another format version.
        """
        about, arrays = read_model(data, where)
        group, of, card = model_identity(about, where, "ranker", RANKER_FORMAT)
        validity = None
        if any(name.startswith("validity.") for name in arrays):
            validity = TreeEnsemble.of(arrays, where, "validity.")
        try:
            names = tuple(map(str, about["names"]))
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedError(f"{where} is damaged: {error}") from None
        times = TreeEnsemble.of(arrays, where, "times.")
        for trees in (times, validity):
            if trees is not None and trees.features.max() >= len(names):
                raise MalformedError(f"{where} is damaged: its trees compare unknown features")
        return cls(group, of, names, times, validity, card)


def solver_features(solvers: Sequence[str]) -> tuple[str, ...]:
    """The names of the features that say which solver a candidate is of."""
    return tuple(_SOLVER + solver for solver in solvers)


class CandidateScore:
    """A ranker's score of the configs of one solver of one problem, for `SearchContext.score`."""

    def __init__(
        self, ranker: Ranker, problem: Problem, device: Device, solver: str, space: Space
    ) -> None:
        self._ranker, self._solver = ranker, solver
        self._features = CandidateFeatures(problem, device, space)

    def __call__(self, config: Config) -> float:
        return self.many([config])[0]

    def many(self, configs: Sequence[Config]) -> list[float]:
        """The scores of many configs at once."""
        rows = self._ranker.rows(self._features, self._solver, configs)
        return [float(one) for one in self._ranker.scores(rows)]

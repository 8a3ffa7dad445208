"""What was found on other classes of devices and on near problems: winners, and trials for models.

A search on a device that was never tuned starts from the winners of its relatives, which is better
than from nothing: what is good on a CPU is mostly good on one with the same vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf, log2
from typing import TYPE_CHECKING

from skipjack.bank import distance
from skipjack.core import Config, Device, Problem, Space, Study, Trial, adapted
from skipjack.errors import ProblemError
from skipjack.ledger import BankedConfig, Ledger, RelatedStudy
from skipjack.operations import parse

if TYPE_CHECKING:
    from skipjack.tuning.study.context import TuningContext

_OTHER_MODEL = 1.0
"""The distance between two models of one kind of devices; it compares with doublings of sizes."""
_OTHER_CACHES = 0.5
"""The same for models with the device's name, but other caches or numbers of units."""
_OTHER_VECTORS = 2.0
"""The same for each doubling of the width of vectors."""
_UNITS = 0.25
"""The same for each doubling of the number of units."""
_NEAR = 8.0
"""Problems and devices farther apart than this are not related."""


class DeviceDistances:
    """How unlike other classes of devices are to one, in doublings of sizes."""

    def __init__(self, device: Device, known: Iterable[Device]) -> None:
        self._device = device
        self._known = {one.class_key: one for one in known}

    def to(self, other: str) -> float:
        """The distance to a class; infinite for another kind.

        A class of which no device is known is compared by its name.
        """
        device = self._device
        if other == device.class_key:
            return 0.0
        kind, _, name = name_and_kind(other)
        if kind != device.kind:
            return inf
        arch, _, units = name.partition("/")
        far = _OTHER_CACHES if arch == device.name.partition("/")[0] else _OTHER_MODEL
        if units.isdecimal():
            far += _UNITS * abs(log2(max(1, int(units)) / max(1, device.units)))
        known = self._known.get(other)
        if known is not None:
            widths = max(1, known.vector_bytes), max(1, device.vector_bytes)
            far += _OTHER_VECTORS * abs(log2(widths[0] / widths[1]))
        return far


def name_and_kind(class_key: str) -> tuple[str, str, str]:
    """A class as ``kind``, a colon, and ``arch/units``."""
    kind, colon, rest = class_key.partition(":")
    return kind, colon, rest.partition(":")[0]


def relatives_winners(
    problem: Problem,
    solver: str,
    device: Device,
    banked: Iterable[tuple[str, BankedConfig]],
    known: Iterable[Device],
) -> list[Config]:
    """The configs that won on other classes of devices, those of the nearest first.

    Args:
        problem: what is tuned.
        solver: whose configs are wanted.
        device: what it is tuned for.
        banked: winners, each with the class of its device.
        known: devices that are known.
    """
    distances, ranked = DeviceDistances(device, known), []
    for place, (other, winner) in enumerate(banked):
        # An operation may not be known anymore.
        with suppress(ProblemError):
            if winner.solver != solver or other == device.class_key:
                continue
            far = distance(problem, parse(winner.problem)) + distances.to(other)
            if far <= _NEAR:
                ranked.append((far, place, winner.config))
    return [config for _, _, config in sorted(ranked, key=lambda one: one[:2])]


def relatives_of(context: TuningContext, problem: Problem, solver: str) -> list[Config]:
    """Winners of a solver on other classes of devices, by the ledger and the banks in use."""
    device = context.device
    banked = [
        (entry.device, BankedConfig(entry.problem, entry.solver, Config(entry.config)))
        for entry in context.known_elsewhere(problem)
    ]
    banked += context.ledger.banked_elsewhere(problem.operation, device.class_key)
    return relatives_winners(problem, solver, device, banked, context.ledger.devices())


def prior_trials(
    ledger: Ledger,
    problem: Problem,
    study: Study,
    solver_version: int,
    space: Space,
    device: Device,
    most: int,
) -> tuple[Trial, ...]:
    """Trials of near problems, and of this one on other devices, for models; the nearest first.

    Values are relative to the best of their study. Configs that the space does not have are
    adapted, as a smaller problem has other blocks.

    Args:
        ledger: where trials are.
        problem: what is tuned.
        study: the study to be searched, whose own trials are not among them.
        solver_version: trials of other versions say nothing.
        space: the space of the study.
        device: what it is tuned for.
        most: the most trials.
    """
    found: list[Trial] = []
    operation, objective = problem.operation, study.objective.text
    related = ledger.related_studies(operation, study.solver, solver_version, objective)
    others = [one for one in related if one.id != study.id]
    for one in _nearest_studies(others, problem, device, ledger.devices()):
        if len(found) >= most:
            break
        found += _relative(ledger.trials(one.id), space)[: most - len(found)]
    return tuple(found)


def _nearest_studies(
    related: Iterable[RelatedStudy], problem: Problem, device: Device, known: Iterable[Device]
) -> list[RelatedStudy]:
    distances, ranked = DeviceDistances(device, known), []
    for place, study in enumerate(related):
        with suppress(ProblemError):
            far = distance(problem, parse(study.problem)) + distances.to(study.device)
            if far <= _NEAR:
                ranked.append((far, place, study))
    return [study for _, _, study in sorted(ranked, key=lambda one: one[:2])]


def _relative(trials: Sequence[Trial], space: Space) -> list[Trial]:
    """The trials of a study as those of a prior."""
    values = [trial.value for trial in trials if trial.ok and trial.value is not None]
    least = min(values, default=inf)
    if not 0 < least < inf:
        return []  # rates, which are negative, have other ratios
    found = []
    for trial in trials:
        config = adapted(space, trial.config)
        if config is not None:
            value = None if trial.value is None else trial.value / least
            found.append(replace(trial, config=config, value=value, metrics={}))
    return found

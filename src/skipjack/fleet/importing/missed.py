"""Problems that programs missed as plans of jobs, the most valuable first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skipjack.bank import layers_of
from skipjack.core.device import Device
from skipjack.errors import ProblemError, StorageError
from skipjack.fleet.records import Plan
from skipjack.fleet.store import NewProblem
from skipjack.operations import parse
from skipjack.runtime.misses import MissedProblem, MissFile
from skipjack.settings import Settings

TAG = "misses"
"""Of the problems in the store; also the label of jobs that programs make themselves."""


@dataclass(frozen=True, slots=True)
class Misses:
    """What there is to be tuned, and what was left out."""

    problems: tuple[NewProblem, ...] = ()
    plans: tuple[Plan, ...] = ()
    """The most valuable first."""
    taken: tuple[MissedProblem, ...] = ()
    """Those that the plans are of."""
    known: int = 0
    """A bank has them by now."""
    elsewhere: int = 0
    """Of another device than the one of this machine that has its name."""
    unread: int = 0
    """Of operations that are not known here."""


def misses_of(settings: Settings, here: Sequence[Device], *, unsent: bool = False) -> Misses:
    """What programs missed that still no bank knows; those that one knows are forgotten."""
    file = MissFile(settings.user_dir)
    banks = layers_of(settings.user_dir, settings.banks, settings.system_dir)

    def is_known(one: MissedProblem) -> bool:
        return any(bank.ranked(one.problem, one.device_class) for bank in banks)

    try:
        known = file.drop(is_known)
    except StorageError:  # a directory that cannot be written to is read
        known = 0
    missed = [one for one in file.missed() if not (unsent and one.sent)]
    names, classes = {one.name for one in here}, {one.class_key for one in here}
    mine = [one for one in missed if one.device not in names or one.device_class in classes]
    found = Misses(known=known, elsewhere=len(missed) - len(mine))
    for one in mine:
        try:
            problem = parse(one.problem)
        except ProblemError:
            found = replace(found, unread=found.unread + 1)
            continue
        new = NewProblem(problem.key, problem.operation, problem.direction, problem.dtype)
        found = replace(
            found,
            problems=(*found.problems, new),
            plans=(*found.plans, Plan(problem.key, one.device)),
            taken=(*found.taken, one),
        )
    return found

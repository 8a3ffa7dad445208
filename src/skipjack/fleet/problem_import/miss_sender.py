"""Problems that programs missed, as plans of jobs, and a program that adds them to the store.

``python -m skipjack.fleet.problem_import.miss_sender USER_DIR``
"""

from __future__ import annotations

import getpass
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skipjack import plugins
from skipjack.bank import layers_of
from skipjack.core import Device
from skipjack.errors import ProblemError, SkipjackError, StorageError
from skipjack.fleet.host import detect_host
from skipjack.fleet.labels import PlanOptions, ProblemSelection, plan_jobs
from skipjack.fleet.model import JobPlan, Label
from skipjack.fleet.store import NewProblem, open_store
from skipjack.operations import parse
from skipjack.runtime import MissedProblem, MissFile
from skipjack.settings import Settings, load_settings

# Problems that programs missed, as plans of jobs, the most valuable first.

TAG = "misses"
"""The tag of missed problems, and the label of jobs that programs create."""


@dataclass(frozen=True, slots=True)
class Misses:
    """Missed problems to tune, and counts of those left out."""

    problems: tuple[NewProblem, ...] = ()
    plans: tuple[JobPlan, ...] = ()
    """Plans of jobs, the most valuable first."""
    taken: tuple[MissedProblem, ...] = ()
    """The missed problems of the plans."""
    known: int = 0
    """Number of problems that are in a bank by now."""
    elsewhere: int = 0
    """Number of problems of other devices with the name of a device of this machine."""
    unread: int = 0
    """Number of problems whose operations are unknown here."""

    @property
    def calls(self) -> dict[str, float]:
        """The calls of each problem on all devices; a lookup counts as one."""
        counts: Counter[str] = Counter()
        for plan, one in zip(self.plans, self.taken, strict=True):
            counts[plan.problem] += max(1, one.calls)
        return {problem: float(count) for problem, count in counts.items()}


def misses_of(settings: Settings, here: Sequence[Device], *, unsent: bool = False) -> Misses:
    """Missed problems that are in no bank; those that are in a bank are removed from the file."""
    file = MissFile(settings.user_dir)
    banks = layers_of(settings.user_dir, settings.banks, settings.system_dir)

    def is_known(one: MissedProblem) -> bool:
        return any(bank.ranked(one.problem, one.device_class) for bank in banks)

    try:
        known = file.drop(is_known)
    except StorageError:  # a read-only directory
        known = 0
    missed = [one for one in file.missed() if not (unsent and one.sent)]
    names, classes = {one.name for one in here}, {one.class_key for one in here}
    usable = [one for one in missed if one.device not in names or one.device_class in classes]
    found = Misses(known=known, elsewhere=len(missed) - len(usable))
    for one in usable:
        try:
            problem = parse(one.problem)
        except ProblemError:
            found = replace(found, unread=found.unread + 1)
            continue
        new = NewProblem(problem.key, problem.operation, problem.direction, problem.dtype)
        found = replace(
            found,
            problems=(*found.problems, new),
            plans=(*found.plans, JobPlan(problem.key, one.device)),
            taken=(*found.taken, one),
        )
    return found


# ``python -m skipjack.fleet.problem_import.miss_sender USER_DIR`` adds missed problems to the
# store.
#
# Programs start it if ``SKIPJACK_ON_MISS`` is ``fleet``. An error is reported in one sentence.


def send(settings: Settings) -> int:
    """Create jobs for problems that were not sent yet; returns the number of new jobs."""
    plugins.load(settings.plugins)
    here = detect_host().devices
    found = misses_of(settings, here, unsent=True)
    if not found.plans:
        return 0
    with open_store(settings=settings) as store:
        store.problems.add(found.problems, TAG)
        store.problems.set_calls(found.calls, TAG)
        selection = ProblemSelection(tag=TAG, missed=found.plans)
        planned = plan_jobs(store, selection, PlanOptions(label=TAG, here=tuple(here)))
        label = Label(TAG, getpass.getuser())
        added = store.jobs.add(label, planned.plans, chosen=planned.chosen, tag=TAG)
    MissFile(settings.user_dir).add(
        MissedProblem(one.problem, one.device, one.device_class, sent=True) for one in found.taken
    )
    return added.added


def main() -> None:
    """Send the missed problems of one user directory."""
    try:
        send(load_settings(user_dir=sys.argv[1]))
    except SkipjackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

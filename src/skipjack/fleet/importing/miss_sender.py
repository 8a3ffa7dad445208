"""``python -m skipjack.fleet.importing.miss_sender USER_DIR``: missed problems into the store.

Programs start it where ``SKIPJACK_ON_MISS`` is ``fleet``. A failure is one sentence.
"""

from __future__ import annotations

import getpass
import sys

from skipjack import plugins
from skipjack.errors import SkipjackError
from skipjack.fleet.host import detect_host
from skipjack.fleet.importing.missed import TAG, misses_of
from skipjack.fleet.loading import Selection, Terms, plan_jobs
from skipjack.fleet.records import Label
from skipjack.fleet.store import open_store
from skipjack.runtime.misses import MissedProblem, MissFile
from skipjack.settings import Settings, load_settings


def send(settings: Settings) -> int:
    """Make jobs of what was not sent yet; gives how many are new to the store."""
    plugins.load(settings.plugins)
    here = detect_host().devices
    found = misses_of(settings, here, unsent=True)
    if not found.plans:
        return 0
    with open_store(settings=settings) as store:
        store.problems.add(found.problems, TAG)
        selection = Selection(tag=TAG, missed=found.plans)
        planned = plan_jobs(store, selection, Terms(label=TAG, here=tuple(here)))
        label = Label(TAG, getpass.getuser())
        added = store.jobs.add(label, planned.plans, chosen=planned.chosen)
    MissFile(settings.user_dir).add(
        MissedProblem(one.problem, one.device, one.device_class, sent=True) for one in found.taken
    )
    return added.added


def main() -> None:
    """Send those of one user directory."""
    try:
        send(load_settings(user_dir=sys.argv[1]))
    except SkipjackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

"""The repository that pages and reports read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skipjack.fleet.store.browsing import (
    errors,
    job_rows,
    problem_rows,
    searches,
    totals,
    use,
)
from skipjack.fleet.store.browsing.progress import StateHistory
from skipjack.fleet.store.browsing.row_page import RowPage
from skipjack.fleet.store.catalog.labels import id_of
from skipjack.fleet.store.sql.transactions import StoreDatabase

if TYPE_CHECKING:
    from skipjack.fleet.store.browsing.errors import ErrorGroup
    from skipjack.fleet.store.browsing.job_rows import JobSummary
    from skipjack.fleet.store.browsing.problem_rows import ProblemSummary
    from skipjack.fleet.store.browsing.progress import ProgressView, Throughput
    from skipjack.fleet.store.browsing.searches import StoredBlock, StoredSearch, StoredTrial
    from skipjack.fleet.store.browsing.totals import LabelTotals
    from skipjack.fleet.store.browsing.use import DeviceUse, MachineUse

_MOST_HISTORIES = 64
"""Labels whose history is kept in memory."""


class Browsing:
    """Tables page by page, and summaries of all jobs. Several threads may use it."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database
        self._histories: OrderedDict[int | None, StateHistory] = OrderedDict()
        self._lock = threading.Lock()

    def jobs(self, page: RowPage) -> tuple[list[JobSummary], int]:
        """A page of the table of jobs, and how many match."""
        return self._database.read(job_rows.page, page)

    def job_ids(self, page: RowPage) -> list[int]:
        """The ids of the jobs of a page."""
        return self._database.read(job_rows.ids, page)

    def jobs_of(self, ids: Sequence[int]) -> list[JobSummary]:
        """The jobs with these ids that are still there, in this order."""
        return self._database.read(job_rows.rows_of, ids)

    def job(self, id: int) -> JobSummary | None:
        """A job as a row; None if there is none."""
        possible = 0 < id < 2**63  # drivers refuse larger numbers
        found = self._database.read(job_rows.rows_of, [id] if possible else [])
        return found[0] if found else None

    def running(self, machine: str) -> list[JobSummary]:
        """The jobs that the workers of a machine have now."""
        return self._database.read(job_rows.running, machine)

    def jobs_of_problem(self, key: str, limit: int = 100) -> list[JobSummary]:
        """The newest jobs of a problem."""
        return self._database.read(job_rows.of_problem, key, limit)

    def problems(self, page: RowPage) -> tuple[list[ProblemSummary], int]:
        """A page of the table of problems, and how many match."""
        return self._database.read(problem_rows.page, page)

    def problem_ids(self, page: RowPage) -> list[int]:
        """The ids of the problems of a page."""
        return self._database.read(problem_rows.ids, page)

    def problems_of(self, ids: Sequence[int]) -> list[ProblemSummary]:
        """The problems with these ids that are still there, in this order."""
        return self._database.read(problem_rows.rows_of, ids)

    def problem(self, key: str) -> ProblemSummary | None:
        """A problem by its key; None if the store does not have it."""
        return self._database.read(problem_rows.problem, key)

    def errors(self, label: str | None = None, limit: int = 20) -> list[ErrorGroup]:
        """Jobs in state error by reason, the most frequent first."""
        return self._database.read(errors.groups, self._id(label), limit)

    def progress(self, label: str | None = None, periods: int = 60) -> ProgressView:
        """The states of jobs over time and how fast they end, of a label or of all jobs."""
        history = self._history(self._id(label))
        return self._database.read(history.progress, periods)

    def throughput(self, label: str | None = None) -> Throughput:
        """How fast jobs end now, of a label or of all jobs."""
        return self.progress(label).throughput

    def machines(self) -> list[MachineUse]:
        """What machines do now."""
        return self._database.read(use.machines)

    def devices(self) -> list[DeviceUse]:
        """The jobs of devices."""
        return self._database.read(use.devices)

    def searches_of_problem(self, key: str) -> list[StoredSearch]:
        """The studies of a problem's jobs, the newest first."""
        return self._database.read(searches.of_problem, key)

    def searches_of_job(self, id: int) -> list[StoredSearch]:
        """The studies of a job."""
        return self._database.read(searches.of_job, id)

    def trials(self, job: int, study: str, limit: int) -> list[StoredTrial]:
        """The last trials of a study of a job in order, after the best of the earlier ones."""
        return self._database.read(searches.trials, job, study, limit)

    def trials_mark(self, job: int, study: str) -> str:
        """A text that changes with the trials of a study of a job."""
        return self._database.read(searches.trials_mark, job, study)

    def blocks(self, jobs: Sequence[int]) -> list[StoredBlock]:
        """The blocks of timings of jobs."""
        return self._database.read(searches.blocks, jobs)

    def label_totals(self) -> list[LabelTotals]:
        """Device time and trials of each label with jobs."""
        return self._database.read(totals.label_totals)

    def _id(self, label: str | None) -> int | None:
        return None if label is None else self._database.read(id_of, label)

    def _history(self, label: int | None) -> StateHistory:
        with self._lock:
            found = self._histories.pop(label, None) or StateHistory(label)
            self._histories[label] = found
            while len(self._histories) > _MOST_HISTORIES:
                self._histories.popitem(last=False)
            return found

"""All pages, in one table: their addresses, and what they show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skipjack.app.views import Workspace
from skipjack.web.content import PageCall, PageContent
from skipjack.web.pages import banks, jobs, machines, overview, problems, programs, sweeps, training
from skipjack.web.pages.curves import CurveData, search_curve, training_curve
from skipjack.web.pages.overview import ACTION_COLUMNS
from skipjack.web.pages.training import episode_number


@dataclass(frozen=True, slots=True)
class PageRoute:
    """An address, and the function that reads what its page shows."""

    path: str
    read: Callable[[Workspace, PageCall], PageContent]


PAGES: tuple[PageRoute, ...] = (
    PageRoute("/", overview.overview),
    PageRoute("/labels/{name:path}", overview.label),
    PageRoute("/jobs", jobs.jobs),
    PageRoute("/jobs/{id}", jobs.job),
    PageRoute("/machines", machines.machines),
    PageRoute("/machines/{name:path}", machines.machine),
    PageRoute("/problems", problems.problems),
    PageRoute("/problems/{key:path}", problems.problem),
    PageRoute("/sweeps", sweeps.sweeps),
    PageRoute("/sweeps/{key:path}", sweeps.sweep),
    PageRoute("/training", training.runs),
    PageRoute("/training/{name}/episodes/{iteration}/{episode}", training.episode),
    PageRoute("/training/{name}", training.run),
    PageRoute("/bank", banks.bank),
    PageRoute("/bank-difference", banks.difference),
    PageRoute("/bank/{layer}", banks.bank),
    PageRoute("/bank/{layer}/{problem:path}", banks.entry),
    PageRoute("/programs", programs.programs),
    PageRoute("/programs/{name}", programs.program),
)

__all__ = [
    "ACTION_COLUMNS",
    "PAGES",
    "CurveData",
    "PageRoute",
    "episode_number",
    "search_curve",
    "training_curve",
]

"""The first page: what there is, how the fleet's jobs are, and what the ledger and banks hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skipjack.app.views.bank_pages import BankSize, bank_sizes
from skipjack.app.views.fleet_pages import FleetPage, fleet_page
from skipjack.app.views.tables import TableRequest
from skipjack.app.views.workspace import Workspace, WorkspaceSource
from skipjack.ledger import FailedBuilds, LedgerBrowser, LedgerCounts, LedgerProblem

_NEWEST = 10


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """What the ledger holds."""

    path: Path
    counts: LedgerCounts
    newest: Sequence[LedgerProblem]
    """Problems with the newest searches."""
    failed_builds: Sequence[FailedBuilds]


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """What there is. Parts that are not there are None; `sources` says how to get them."""

    sources: Sequence[WorkspaceSource]
    fleet: FleetPage | None
    ledger: LedgerPage | None
    banks: Sequence[BankSize]


def overview_page(workspace: Workspace, request: TableRequest | None = None) -> OverviewPage:
    """The first page; `request` is that of the table of labels."""
    sources = workspace.sources()
    present = {one.name for one in sources if one.present}
    return OverviewPage(
        sources,
        fleet_page(workspace, request) if "store" in present else None,
        ledger_page(workspace) if "ledger" in present else None,
        bank_sizes(workspace),
    )


def ledger_page(workspace: Workspace) -> LedgerPage:
    """What the ledger holds."""
    browser = LedgerBrowser(workspace.ledger)
    newest, _ = browser.problems(limit=_NEWEST)
    return LedgerPage(workspace.ledger.path, browser.counts(), newest, browser.failed_builds())

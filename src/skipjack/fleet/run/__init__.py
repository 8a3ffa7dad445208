"""A run of a label: the coordinator that brings jobs and workers together."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.run.coordinator import Coordinator
    from skipjack.fleet.run.device_budget import BudgetedCoordinator
    from skipjack.fleet.run.requests import LEASE_S, LINGER_S, RunProgress, RunRequest, RunSummary

__all__ = [
    "LEASE_S",
    "LINGER_S",
    "BudgetedCoordinator",
    "Coordinator",
    "RunProgress",
    "RunRequest",
    "RunSummary",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "coordinator": "Coordinator",
        "device_budget": "BudgetedCoordinator",
        "requests": "LEASE_S LINGER_S RunProgress RunRequest RunSummary",
    },
)

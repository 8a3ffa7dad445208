"""How jobs reach workers and results come back: leases, claims, bundles."""

__all__ = [
    "coordinator_leases",
    "leases",
    "prior_results",
    "task_inputs",
]

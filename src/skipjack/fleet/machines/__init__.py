"""The machines of a fleet: their checks, commands over ssh, and Ray clusters on them."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.machines.checks import (
        CHECKS,
        MachineCondition,
        check_machines,
        requirements,
    )
    from skipjack.fleet.machines.cluster import ClusterState
    from skipjack.fleet.machines.cluster_record import ClusterFile
    from skipjack.fleet.machines.remote import select_machines
    from skipjack.fleet.machines.remote_images import ImageCommandResult, PresentImage
    from skipjack.fleet.machines.ssh import OutputLine, SshResult, run_everywhere

__all__ = [
    "CHECKS",
    "ClusterFile",
    "ClusterState",
    "ImageCommandResult",
    "MachineCondition",
    "OutputLine",
    "PresentImage",
    "SshResult",
    "check_machines",
    "cluster",
    "remote_images",
    "requirements",
    "run_everywhere",
    "select_machines",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "checks": "CHECKS MachineCondition check_machines requirements",
        "cluster": "ClusterState",
        "cluster_record": "ClusterFile",
        "remote": "select_machines",
        "remote_images": "ImageCommandResult PresentImage",
        "ssh": "OutputLine SshResult run_everywhere",
    },
)

"""Runs of a label on a Slurm cluster: a batch job that starts Ray on its nodes."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.slurm.batch_job import SlurmRequest, Submitted, batch_script, submit

__all__ = [
    "SlurmRequest",
    "Submitted",
    "batch_script",
    "submit",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "batch_job": "SlurmRequest Submitted batch_script submit",
    },
)

"""A label on a Slurm cluster: one batch job that starts Ray on its nodes and runs it there."""

from skipjack.fleet.slurm.options import SlurmRequest
from skipjack.fleet.slurm.script import batch_script
from skipjack.fleet.slurm.submit import Submitted, submit

__all__ = ["SlurmRequest", "Submitted", "batch_script", "submit"]

"""Hands a request to sbatch."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.slurm.options import SlurmRequest
from skipjack.fleet.slurm.script import batch_script

PATIENCE_S = 120.0
"""A busy controller answers late; one that does not answer at all is reported."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job in Slurm's queue."""

    job: int
    cluster: str = ""
    """Named by sites that have several."""


def submit(request: SlurmRequest, *, skipjack: Sequence[str] = ()) -> Submitted:
    """Put a request into Slurm's queue, with this process's environment and directory.

    The options stand in the script for people and are given to sbatch as well: there they are
    stronger than variables such as SBATCH_PARTITION, which would override the script.
    """
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise UsageError(
            "sbatch is not on the PATH: run this on a machine of the Slurm cluster, "
            "or take the script of --dry-run there"
        )
    command = [sbatch, "--parsable", "--export=ALL", *request.options()]
    script = batch_script(request, skipjack=skipjack)
    try:
        done = subprocess.run(
            command, input=script, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SkipjackError(
            f"sbatch did not answer within {PATIENCE_S:.0f} s; see with squeue whether the job "
            f"{request.job_name} is there before you try again"
        ) from None
    if done.returncode != 0:
        raise _refusal(done.stderr)
    return _parse(done.stdout)


def _refusal(stderr: str) -> SkipjackError:
    """What sbatch said, in its own words, without its name before every line."""
    lines = [re.sub(r"^sbatch: (error|fatal): ", "", line) for line in stderr.splitlines()]
    said = "; ".join(line.strip() for line in lines if line.strip())
    refused = any(line.startswith("Batch job submission failed") for line in lines)
    kind = UsageError if refused or "nvalid" in said else SkipjackError
    return kind(f"sbatch refused the job: {said or 'it gave no reason'}")


def _parse(stdout: str) -> Submitted:
    job, _, cluster = stdout.strip().partition(";")
    if not job.isdigit():
        raise SkipjackError(f"sbatch answered {stdout.strip()!r} instead of a job's number")
    return Submitted(int(job), cluster)

"""The batch script: options and values of one request, then the same text for all."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from importlib import resources

from skipjack.children import python_command
from skipjack.fleet.slurm.options import SlurmRequest

BODY = "allocation.sh"


def batch_script(request: SlurmRequest, *, skipjack: Sequence[str] = ()) -> str:
    """The script for sbatch. It holds nothing of the environment but the path of Python.

    ``skipjack`` is the command that is run with ``run ...`` or what the request says instead;
    without it, this Python's own.
    """
    body = resources.files("skipjack.fleet.slurm").joinpath(BODY).read_text(encoding="utf-8")
    directives = [f"#SBATCH {option}" for option in request.options()]
    return "\n".join(["#!/bin/bash", *directives, "", *_values(request, skipjack), "", body])


def _values(request: SlurmRequest, skipjack: Sequence[str]) -> list[str]:
    run = ("run", "-l", request.label, "--engine", "ray", *request.run_arguments)
    words = [*(skipjack or python_command("skipjack")), *(request.command or run)]
    return [
        f"python={shlex.quote(sys.executable)}",
        f"coordinator=({shlex.join(words)})",
        f"gpus_per_node={request.gpus_per_node}",
        f"gather_s={request.gather_s}",
        f"margin_s={request.margin_s}",
        f"most_restarts={request.most_restarts if request.until_done else 0}",
    ]

"""A node of Ray on a node of Slurm: ``python -m skipjack.fleet.slurm.ray_node start ...``.

Ray starts modules of its own by name, which are looked for in the current directory first. That is
where the job was submitted, so Ray is started elsewhere; this process becomes it.
"""

from __future__ import annotations

import os
import sys

from skipjack.children import SAFE_DIRECTORY, environment_for, python_command


def main() -> None:
    """Become ``ray`` with these words."""
    command = python_command("ray.scripts.scripts", *sys.argv[1:])
    environment = environment_for(SAFE_DIRECTORY, os.environ)
    os.chdir(SAFE_DIRECTORY)
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main()

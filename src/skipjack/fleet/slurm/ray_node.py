"""A Ray node on a Slurm node: ``python -m skipjack.fleet.slurm.ray_node start ...``.

Ray starts its modules by name, and the current directory is searched first. That is the directory
where the job was submitted, so this process changes to another one and becomes Ray.
"""

from __future__ import annotations

import os
import sys

from skipjack.processes import SAFE_DIRECTORY, environment_for, python_command


def main() -> None:
    """Replace this process by ``ray`` with these arguments."""
    command = python_command("ray.scripts.scripts", *sys.argv[1:])
    environment = environment_for(SAFE_DIRECTORY, os.environ)
    os.chdir(SAFE_DIRECTORY)
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main()

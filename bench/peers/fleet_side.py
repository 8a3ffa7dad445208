"""One side of `bench/fleet_before.py`: the flow of the checkout that PYTHONPATH names, on a store.

``fleet_side.py URL USER_DIR``, then a line ``JOBS BATCH`` on its input for each flow. It says
``ready`` once a first flow is through, and then how many seconds each one took.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fleet_flow import Fleet
from fleet_stand_in import make_empty
from skipjack.fleet.engines import LocalEngine
from skipjack.settings import Settings


def main() -> None:
    """Do what is asked for, one line after the other."""
    url, user_dir = sys.argv[1:]
    settings = Settings(Path(user_dir))
    with LocalEngine(settings, 0, 1, make_worker=make_empty) as engine:
        fleet = Fleet(url, engine, settings)
        fleet.flow(64, 32)  # workers are there, statements are known
        print("ready", flush=True)
        while line := sys.stdin.readline():
            jobs, batch = map(int, line.split())
            print(fleet.flow(jobs, batch).seconds, flush=True)
        fleet.close()


if __name__ == "__main__":
    main()

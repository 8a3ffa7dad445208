"""Stands in for ``skipjack run``: does the jobs of a list one by one, and gives back on SIGTERM."""

import json
import os
import signal
import sys
import time
from pathlib import Path

PLACE = Path(os.environ["STAND_IN_PLACE"])


def give_back(*_):
    """What a coordinator does when it is asked to end, by Slurm and perhaps by our script too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with (PLACE / "story").open("a") as history:
        history.write("gave back\n")
    sys.exit(143)


deaf = os.environ.get("STAND_IN_DEAF")
signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else give_back)
(PLACE / "argv").write_text(json.dumps(sys.argv[1:]))
with (PLACE / "story").open("a") as history:
    history.write("started\n")
todo = PLACE / "jobs"
while jobs := todo.read_text().splitlines():
    if jobs[0] == "wait":  # until it is removed from the list
        time.sleep(0.05)
        continue
    with (PLACE / "story").open("a") as history:
        history.write(f"did {jobs[0]}\n")
    todo.write_text("\n".join(jobs[1:]))
if os.environ.get("STAND_IN_FAILS"):
    sys.exit(7)

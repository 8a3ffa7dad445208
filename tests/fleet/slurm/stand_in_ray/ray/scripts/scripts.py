"""``ray start --block`` of the stand-in: the head listens, the others only stay."""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from ray import PLACE


def start(arguments):
    """Run one node until SIGTERM."""
    name = os.environ["SLURMD_NODENAME"]
    if name in os.environ.get("STAND_IN_BROKEN", "").split(","):
        sys.exit("this node is broken")
    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    told = {
        "arguments": arguments,
        "mode": os.environ["RAY_AUTH_MODE"],
        "inherited": os.environ.get("RAY_AUTH_TOKEN"),
        "token": token.read_text(),
        "token_bits": token.stat().st_mode & 0o777,
        "place_bits": token.parent.stat().st_mode & 0o777,
    }
    asked = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    options = dict(word.partition("=")[::2] for word in arguments)
    with socket.socket() as listener:
        if "--head" in arguments:
            listener.bind((options["--node-ip-address"], int(options["--port"])))
            listener.listen()
        here = PLACE / f"node-{name}"
        (PLACE / f"told-{name}").write_text(json.dumps(told))
        here.touch()
        while not asked:
            time.sleep(0.02)
        here.unlink()


if __name__ == "__main__":
    start(sys.argv[2:])

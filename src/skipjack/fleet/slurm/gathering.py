"""Wait until the nodes of an allocation have joined Ray; the batch script runs it on the head.

``python -m skipjack.fleet.slurm.gathering ADDRESS NODES SECONDS`` exits with 0 when all have
joined, and with 3 after the time limit if some are missing.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)

MISSING = 3
PAUSE_S = 0.5


def gather(address: str, nodes: int, within_s: float) -> int:
    """Number of nodes that are alive, when all are or after the time limit."""
    import ray

    nodes_of_ray: Callable[[], list[dict[str, Any]]] = ray.nodes
    deadline = time.monotonic() + within_s
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        while True:
            alive = sum(1 for node in nodes_of_ray() if node["Alive"])
            if alive >= nodes or time.monotonic() > deadline:
                return alive
            time.sleep(PAUSE_S)
    finally:
        ray.shutdown()


def main(arguments: list[str]) -> int:
    """Run the command; its arguments come from our own script."""
    address, nodes, within_s = arguments[0], int(arguments[1]), float(arguments[2])
    alive = gather(address, nodes, within_s)
    if alive >= nodes:
        log.info("all %d nodes have joined", nodes)
        return 0
    log.warning("%d of %d nodes have joined within %.0f s", alive, nodes, within_s)
    return MISSING


if __name__ == "__main__":
    logging.basicConfig(format="skipjack: %(message)s", level=logging.INFO)
    sys.exit(main(sys.argv[1:]))

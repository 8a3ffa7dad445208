"""Stands in for ``skipjack run`` on a real Ray: counts the nodes that tasks ran on."""

import json
import sys
from pathlib import Path

import ray

ray.init(address=sys.argv[sys.argv.index("--address") + 1], logging_level="ERROR")


@ray.remote(num_cpus=1)
def where() -> str:
    """The node that this runs on."""
    return ray.get_runtime_context().get_node_id()


seen: set[str] = set()
for node in ray.nodes():
    there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        node["NodeID"], soft=False
    )
    seen.add(ray.get(where.options(scheduling_strategy=there).remote()))
told = {"nodes": len(seen), "cpus": ray.cluster_resources()["CPU"]}
Path("told.json").write_text(json.dumps(told))

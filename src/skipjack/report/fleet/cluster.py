"""A Ray cluster of the fleet: its address and its nodes."""

from __future__ import annotations

from json import dumps
from pathlib import Path

from skipjack.fleet.machines.cluster import ClusterState

FORMAT = 1


def cluster_state(state: ClusterState, token: Path, json: bool) -> None:
    """A line for each node."""
    record = state.record
    if json:
        nodes = [
            {
                **{"machine": node.machine, "up": node.up, "head": node.head, "text": node.text},
                **({"warning": node.warning} if node.warning else {}),
            }
            for node in state.nodes
        ]
        address = record.client_address if record and record.ip else None
        content = {"address": address, "token_path": str(token), "nodes": nodes}
        print(dumps({"format": FORMAT, **content}))
        return
    if record is None:
        print("no cluster is up; skipjack fleet up starts one")
        return
    width = max((len(node.machine) for node in state.nodes), default=0)
    for node in state.nodes:
        head = "  head" if node.head else ""
        print(f"{node.machine:<{width}}  {node.text}{head}")

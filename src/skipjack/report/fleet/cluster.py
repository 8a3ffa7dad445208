"""A Ray cluster of the fleet: its address and its nodes."""

from __future__ import annotations

from pathlib import Path

from skipjack.fleet.machines.cluster import ClusterState
from skipjack.report.render import print_json
from skipjack.report.screen import print_fields


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
        print_json("fleet status", content)
        return
    if record is None:
        print("no cluster is up; skipjack fleet up starts one")
        return
    print_fields(
        [(node.machine, f"{node.text}{'  head' if node.head else ''}") for node in state.nodes]
    )

"""Jobs on a Ray cluster whose actors, nodes and head are killed: every job ends, exactly once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chaos import Chaos, Strike, Undo, kill, outage, stop
from coordinators import Coordinators
from database_outages import stopped_server
from fleet_under_fire import LABEL, Battle, Report, plans
from process_tree import Process, below
from ray_cluster import RayCluster
from servers import PostgreSQL

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("user_dir", "rogue_everywhere")]

SEED = int(os.environ.get("SKIPJACK_TEST_SEED", "1"))
JOBS = int(os.environ.get("SKIPJACK_TEST_JOBS", "500"))
LONGEST_S = 3600.0
HEAD, NODE = "head", "node"


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    """A head and a node, both of which work."""
    ray = RayCluster()
    try:
        start(ray)
        yield ray
    finally:
        ray.close()


def start(ray: RayCluster) -> None:
    ray.start_head(HEAD, cpus=4)
    ray.add(NODE, cpus=4)


def strikes_at_ray(ray: RayCluster, crew: Coordinators) -> list[Strike]:
    def inside(word: str) -> Callable[[], list[Process]]:
        def find() -> list[Process]:
            family = below(*(node.process.pid for node in ray.nodes.values()))
            return [one for one in family if word in one.words]

        return find

    def without_raylet() -> Undo:
        """Its node ends without a kill."""
        for pid in ray.nodes[NODE].pids("raylet/raylet"):
            os.kill(pid, signal.SIGKILL)
        return with_node

    def without_node() -> Undo:
        ray.nodes[NODE].kill()
        return with_node

    def with_node() -> None:
        ray.nodes[NODE].kill()
        if HEAD in ray.nodes:
            ray.add(NODE, cpus=4)

    def without_head() -> Undo:
        ray.nodes.pop(HEAD).kill()
        return with_head

    def with_head() -> None:
        ray.nodes[NODE].kill()  # without the kill it would end much later
        start(ray)

    return [
        kill("an actor", 4.0, inside("ray::WorkerActor")),
        kill("a build worker or run session", 3.0, inside("skipjack.execute.pool.worker_main")),
        kill("a driver", 0.5, lambda: crew.below("ray_driver")),
        kill("a coordinator", 0.7, crew.alone),
        stop("a coordinator", 0.5, crew.alone, (3.0, 8.0)),
        stop("an actor", 0.5, inside("ray::WorkerActor"), (0.5, 4.0)),
        outage("a node is away: raylet killed", 0.3, without_raylet, (2.0, 6.0)),
        outage("a node is away", 0.3, without_node, (2.0, 6.0)),
        outage("the head is away", 0.2, without_head, (2.0, 6.0)),
    ]


def test_hundreds_of_jobs_survive_kills_on_ray(
    cluster: RayCluster,
    postgresql: PostgreSQL,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    say: Callable[[Report], None],
) -> None:
    url = postgresql.fresh()
    monkeypatch.setenv("SKIPJACK_DB", url)
    words = ["--engine", "ray", "--address", cluster.address, "--builders", "1"]
    crew = Coordinators(LABEL, tmp_path, 2, words, environment=cluster.variables)
    strikes = [*strikes_at_ray(cluster, crew), *stopped_server(postgresql)]
    chaos = Chaos(strikes, SEED, most=JOBS, pause_s=(1.0, 6.0))
    try:
        jobs = plans(JOBS, hanging=1 + JOBS // 100)
        report = Battle(url, tmp_path, jobs, crew, chaos, LONGEST_S).fight()
    finally:
        postgresql.start()
    say(report)
    assert not report.complaints

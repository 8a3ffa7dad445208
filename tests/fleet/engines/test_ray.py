"""Workers on a real Ray cluster: each submitted task is reported once, whichever process dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from ray_cluster import RayCluster

from processes import PATIENCE_S, alive, gone
from skipjack.core import Device
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.engines import RayEngine
from skipjack.fleet.engines import ray_cluster as cluster_view
from skipjack.fleet.engines.ray_cluster import (
    NodeReport,
    RayNode,
    RayUnreachableError,
    WorkerPlacement,
    worker_placements,
)
from skipjack.fleet.model import Done, Engine, Host, JobPlan, JobStage, Task
from skipjack.native import cpu
from skipjack.settings import load_settings
from skipjack.testing.fleet.engines import EngineConformance
from skipjack.testing.fleet.workers import make_none, make_stand_in

STALL_S = 3.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """One node, and a driver that has the cluster's token."""
    ray = RayCluster()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ray.variables.items():
            patch.setenv(name, value)
        try:
            ray.start_head("one", cpus=8)  # so that a second engine has room too
            yield ray
        finally:
            ray.close()


@pytest.fixture(scope="module")
def engine(cluster: RayCluster) -> Iterator[RayEngine]:
    """A builder and an evaluator on each node."""
    with start(cluster.address) as engine:
        until(lambda: len(engine.slots()) == 2, engine)
        yield engine


def start(address: str, **options: object) -> RayEngine:
    given = {"make_worker": make_stand_in, "stall_s": STALL_S, "builders": 1, **options}
    return RayEngine(address, load_settings(), **given)  # type: ignore[arg-type]


def task(job: int, problem: str = "nothing", **fields: object) -> Task:
    device = cpu.detect()
    return Task(job, JobStage.BUILD, JobPlan(problem, device.name), device, **fields)  # type: ignore[arg-type]


def collect(engine: RayEngine, count: int, within_s: float = PATIENCE_S) -> list[Done]:
    found: list[Done] = []
    deadline = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < deadline:
        found += engine.poll(0.1)
    assert len(found) == count, (found, engine.notes())
    return found


def until(condition: Callable[[], bool], engine: RayEngine, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, engine.notes()
        assert not engine.poll(0.05)


def slot_of(engine: RayEngine, stage: JobStage = JobStage.BUILD, host: str = "one") -> str:
    return next(s.name for s in engine.slots() if s.stage is stage and s.host == host)


def perform(engine: RayEngine, problem: str, slot: str) -> str:
    """Do one task; gives its facts."""
    engine.submit(slot, [task(99, problem)])
    (done,) = collect(engine, 1)
    assert done.outcome, done.lost
    return done.outcome.facts


class TestConformance(EngineConformance):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: RayCluster, engine: RayEngine) -> None:
        self.address, self.engine = cluster.address, engine

    def start(self) -> RayEngine:
        return start(self.address)

    def shared(self) -> AbstractContextManager[Engine]:
        return nullcontext(self.engine)


def test_a_node_is_detected_and_gets_workers(engine: RayEngine) -> None:
    (host,) = engine.hosts()
    assert (host.name, host.cores) == ("one", len(cpu.usable_cores()))
    assert cpu.detect().name in {device.name for device in host.devices}
    evaluator = next(slot for slot in engine.slots() if slot.stage is JobStage.EVALUATE)
    assert evaluator.devices == host.devices
    assert evaluator.gpu == f"cpu{cpu.usable_cores()[0]}"


def test_nodes_look_for_no_module_in_the_coordinators_directory(engine: RayEngine) -> None:
    searched = perform(engine, "path", slot_of(engine)).split(os.pathsep)
    assert searched
    assert not {"", str(Path.cwd())} & set(searched)


def test_a_driver_that_dies_costs_tasks_and_another_joins(engine: RayEngine) -> None:
    slot = slot_of(engine)
    before = set(engine.pids.values())
    engine.submit(slot, [task(1, "sleep:600"), task(2)])
    assert not engine.poll(0.2)
    assert engine.driver_pid
    os.kill(engine.driver_pid, signal.SIGKILL)
    assert all("the Ray cluster was lost" in one.lost for one in collect(engine, 2))
    assert not engine.slots()
    until(lambda: len(engine.slots()) == 2, engine)
    assert perform(engine, "where", slot_of(engine))
    assert gone(before)


@pytest.mark.long
def test_nodes_come_and_go(engine: RayEngine, cluster: RayCluster) -> None:
    node = cluster.add("two")
    until(lambda: len(engine.slots()) == 4, engine)
    slot = slot_of(engine, host="two")
    assert perform(engine, "where", slot)
    engine.submit(slot, [task(1, "sleep:600"), task(2)])
    assert not engine.poll(0.2)
    node.kill()
    done = collect(engine, 2)
    assert all(slot in one.lost for one in done), done
    until(lambda: {slot.host for slot in engine.slots()} == {"one"}, engine)
    until(lambda: [host.name for host in engine.hosts()] == ["one"], engine)
    engine.submit(slot, [task(3)])
    assert collect(engine, 1)[0].lost


@pytest.mark.long
def test_a_worker_that_cannot_be_made_is_noted(engine: RayEngine, cluster: RayCluster) -> None:
    with start(cluster.address, make_worker=make_none, evaluators=0, builders=3) as other:
        assert not other.slots()
        assert "no accelerator here" in other.notes()[0]


def test_an_address_where_nothing_is_fails_at_once(cluster: RayCluster) -> None:
    for address in ("ray://127.0.0.1:1", "127.0.0.1:1"):
        with pytest.raises(RayUnreachableError, match=f"no Ray cluster answers at {address}"):
            start(address).start()
    with pytest.raises(UsageError, match="not the address of a Ray cluster"):
        start("head").start()


def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_view.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"pip install 'skipjack\[ray\]'"):
        RayEngine(None, load_settings())


@pytest.mark.long
def test_a_client_anywhere_can_drive_the_cluster(cluster: RayCluster) -> None:
    with start(cluster.client_address) as engine:
        until(lambda: len(engine.slots()) == 2, engine)
        slot = slot_of(engine)
        engine.submit(slot, [task(1), task(2, "end:SIGKILL"), task(3)])
        assert sorted(one.job for one in collect(engine, 3) if one.outcome) == [1, 3]
        pids = set(engine.pids.values())
    assert gone(pids)


@pytest.mark.long
@pytest.mark.parametrize("client", [False, True])
def test_nothing_outlives_a_killed_coordinator(cluster: RayCluster, client: bool) -> None:
    address = cluster.client_address if client else cluster.address
    script = (
        "import time; from test_ray import *\n"
        f"with start({address!r}) as engine:\n"
        "    until(lambda: len(engine.slots()) == 2, engine)\n"
        "    child = perform(engine, 'family', slot_of(engine))\n"
        "    print(*engine.pids.values(), engine.driver_pid, child, flush=True)\n"
        "    time.sleep(600)\n"
    )
    here = Path(__file__).parent
    paths = os.pathsep.join(map(str, (here, here.parent, here.parents[1])))
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True
    ) as coordinator:
        assert coordinator.stdout
        pids = set(map(int, coordinator.stdout.readline().split()))
        assert len(pids) == 4 and all(map(alive, pids))
        coordinator.kill()
    assert gone(pids, within_s=PATIENCE_S)


@pytest.mark.long
def test_a_real_round_is_built_and_evaluated(cluster: RayCluster) -> None:
    device = cpu.detect()
    plan = JobPlan("matmul:16x16x16", device.name, budget=2, round=2)
    with start(cluster.address, make_worker=None, stall_s=60.0) as engine:
        until(lambda: len(engine.slots()) == 2, engine)
        engine.submit(slot_of(engine), [Task(1, JobStage.BUILD, plan, device)])
        (built,) = collect(engine, 1, within_s=PATIENCE_S)
        assert built.outcome and built.outcome.digests, built
        round_built = Task(
            1,
            JobStage.EVALUATE,
            plan,
            device,
            facts=(built.outcome.facts,),
            artifacts=built.outcome.artifacts,
        )
        engine.submit(slot_of(engine, JobStage.EVALUATE), [round_built])
        (told,) = collect(engine, 1, within_s=PATIENCE_S)
        assert told.outcome and not told.outcome.failed, told
        assert told.outcome.trials == 2 and told.outcome.finished


@pytest.mark.long
def test_a_wrong_token_is_named(cluster: RayCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    for address in (cluster.address, cluster.client_address):
        with pytest.raises(RayUnreachableError, match="RAY_AUTH_TOKEN"):
            start(address).start()


@pytest.mark.long
def test_a_lost_head_loses_all_and_is_given_up_in_the_end() -> None:
    ray = RayCluster()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ray.variables.items():
            patch.setenv(name, value)
        try:
            ray.start_head("head")
            with start(ray.address, patience_s=8.0) as engine:
                until(lambda: len(engine.slots()) == 2, engine)
                slot = slot_of(engine, host="head")
                engine.submit(slot, [task(1, "sleep:600"), task(2)])
                assert not engine.poll(0.2)
                (gcs,) = ray.nodes["head"].pids("gcs_server")
                os.kill(gcs, signal.SIGKILL)
                assert all(one.lost for one in collect(engine, 2))
                with pytest.raises(SkipjackError, match="was lost and could not be joined again"):
                    collect(engine, 1, within_s=PATIENCE_S)
        finally:
            ray.close()


# Which workers a node gets


def report(*devices: Device, usable: int = 4) -> NodeReport:
    host = Host("gpu7", usable, 0, devices)
    return NodeReport(host, "0", tuple(range(usable)))


ONE, TWO = Device("cpu", "znver4", 1), Device("cpu", "znver4", 2)
GPU = Device("gpu", "sm_90", 132)


def test_by_default_a_node_has_one_evaluator_and_builders_beside_it() -> None:
    found = worker_placements(RayNode("abcdef12", "", {"CPU": 4.0}), report(ONE, TWO), None, None)
    stages = [place.slot.stage for place in found]
    assert (stages.count(JobStage.BUILD), stages.count(JobStage.EVALUATE)) == (3, 1)
    assert sum(place.cpus for place in found) == 4
    assert len({place.slot.name for place in found}) == 4


def test_a_single_cpu_serves_both_kinds() -> None:
    found = worker_placements(
        RayNode("abcdef12", "", {"CPU": 1.0}), report(ONE, usable=1), None, None
    )
    assert {place.slot.stage for place in found} == set(JobStage)
    assert sum(place.cpus for place in found) == 1


def _names(place: WorkerPlacement) -> tuple[str, ...]:
    return tuple(device.name for device in place.slot.devices)


def test_evaluators_of_a_host_share_no_core() -> None:
    found = worker_placements(RayNode("abcdef12", "", {"CPU": 4.0}), report(ONE, TWO), 0, 2)
    assert [place.cores for place in found] == [(0, 1), (2, 3)]
    assert [place.slot.gpu for place in found] == ["cpu0", "cpu2"]
    most = worker_placements(RayNode("abcdef12", "", {"CPU": 9.0}), report(ONE, TWO), 0, 9)
    assert [place.cores for place in most] == [(0,), (1,), (2,), (3,)]
    assert {_names(place) for place in most} == {("znver4/1",)}


def test_each_gpu_has_an_evaluator_that_reserves_it() -> None:
    node = RayNode("abcdef12", "", {"CPU": 4.0, "GPU": 2.0})
    found = worker_placements(node, report(ONE, GPU, GPU), 0, None)
    assert [place.gpus for place in found] == [1, 1]
    assert {_names(place) for place in found} == {("sm_90/132",)}


def test_a_node_measures_on_what_it_declares() -> None:
    node = RayNode("abcdef12", "", {"CPU": 4.0, "znver4/1": 2.0, "node:10.0.0.1": 1.0})
    found = worker_placements(node, report(ONE, TWO), 0, None)
    assert [_names(place) for place in found] == [("znver4/1",)] * 2
    assert [place.resources for place in found] == [("znver4/1",)] * 2
    other = RayNode("abcdef12", "", {"CPU": 4.0, "znver5/1": 1.0})
    assert worker_placements(other, report(ONE, TWO), 0, None) == []


def test_a_node_with_another_version_is_refused_by_name() -> None:
    assert "gpu7 gets no work: it has Skipjack 0," in cluster_view.refusal(report(ONE))

"""A cluster over a real sshd, with a stand-in for Ray: starts, ends, and other processes."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from loopback_ssh import Sshd

from processes import alive, gone
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.machines import ClusterFile, ClusterState, cluster, node
from skipjack.fleet.machines.cluster import ClusterOptions
from skipjack.fleet.machines.node_start import NodeRequest, marked, not_started
from skipjack.fleet.model import Registration
from skipjack.settings import load_settings
from skipjack.testing.servers import free_port


@pytest.fixture
def file(user_dir: Path, two: list[Sshd]) -> Iterator[ClusterFile]:
    """Of this test's own; nothing is left running."""
    made = ClusterFile(load_settings())
    yield made
    cluster.down(made)
    assert made.read() is None


@pytest.fixture
def options() -> ClusterOptions:
    return ClusterOptions(port=free_port())


def node_of(server: Sshd) -> dict[str, object]:
    """The record of the node on that machine."""
    path = server.user_dir / "ray-nodes" / server.name / "node.json"
    return dict(json.loads(path.read_text()))


def processes(server: Sshd) -> list[int]:
    return marked(str(node_of(server)["id"]))


def ups(state: ClusterState) -> list[tuple[str, bool]]:
    return [(node.machine, node.up) for node in state.nodes]


def words_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_up_starts_what_is_missing_and_down_ends_that_and_nothing_else(
    two: list[Sshd], file: ClusterFile, options: ClusterOptions
) -> None:
    machines = [two[0].registration(device="gfx908/120", gpus=8), two[1].registration()]
    state = cluster.up(file, machines, options)
    assert ups(state) == [("m1", True), ("m2", True)] and state.nodes[0].head
    assert state.record and state.record.client_address == "ray://127.0.0.1:10001"
    # Ray got more GPUs than the machine has.
    assert "m1 has 0 GPUs of gfx908/120, 8 are registered" in state.nodes[0].warning
    assert not state.nodes[1].warning
    first = node_of(two[0])["pid"]
    head = words_of(int(str(first)))
    assert "--node-name=m1" in head and '--num-gpus=8 --resources={"gfx908/120": 8}' in head
    assert f"--address=127.0.0.1:{options.port}" in words_of(int(str(node_of(two[1])["pid"])))

    # Half of a node dies, and comes back; the other is left as it is.
    os.kill(int(str(node_of(two[1])["pid"])), signal.SIGKILL)
    orphan = processes(two[1])
    assert ups(cluster.status(file, machines)) == [("m1", True), ("m2", False)]
    assert ups(cluster.up(file, machines, ClusterOptions())) == [("m1", True), ("m2", True)]
    assert node_of(two[0])["pid"] == first and gone(set(orphan))

    # Another Ray on the same machine.
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)", "ray", "start"])
    ours = {*processes(two[0]), *processes(two[1])}
    assert len(ours) == 4
    assert ups(cluster.down(file)) == [("m2", True), ("m1", True)]
    assert not any(map(alive, ours)) and other.poll() is None
    other.kill()
    other.wait()
    assert cluster.down(file).record is None and cluster.status(file, machines).record is None


def test_the_token_is_in_files_of_their_owner_and_on_no_command_line(
    two: list[Sshd], file: ClusterFile, options: ClusterOptions
) -> None:
    cluster.up(file, [two[0].registration()], options)
    token = file.token_path.read_text().strip()
    there = two[0].user_dir / "ray-nodes" / "m1" / "token"
    assert len(token) == 64 and there.read_text() == token
    for path in (file.token_path, there):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for pid in processes(two[0]):
        environment = Path(f"/proc/{pid}/environ").read_text()
        assert token not in words_of(pid) and token not in environment
        assert f"RAY_AUTH_TOKEN_PATH={there}" in environment
    kept = [path.read_text() for path in there.parent.iterdir() if path != there]
    assert not any(token in text for text in kept)
    cluster.down(file)
    assert not there.exists() and file.token_path.read_text().strip() == token


def test_a_machine_that_fails_is_named_and_the_others_stay_up(
    two: list[Sshd], file: ClusterFile, options: ClusterOptions
) -> None:
    closed = Registration("closed", "127.0.0.1", 1)
    machines = [*(server.registration() for server in two), closed]
    state = cluster.up(file, machines, replace(options, ray_options=("--fail-on=m2",)))
    assert ups(state) == [("m1", True), ("m2", False), ("closed", False)]
    assert "m2: Ray did not start: ConnectionError: Ray is trying" in state.nodes[1].text
    assert "refuses connections" in state.nodes[2].text
    # Where ssh never got in, nothing has to be ended.
    record = file.read()
    assert record is not None and list(record.nodes) == ["m1", "m2"]
    assert ups(cluster.down(file)) == [("m2", True), ("m1", True)]


def test_a_node_that_cannot_be_ended_is_kept_until_it_is_back_or_given_up(
    two: list[Sshd], file: ClusterFile, options: ClusterOptions
) -> None:
    m1 = two[0].registration()
    cluster.up(file, [m1], options)
    begun = file.read()
    assert begun is not None
    # It is reached as it is registered now.
    away, broken = replace(m1, port=1), replace(m1, python="/no/python")
    for wrong, sentence in ((away, "refuses connections"), (broken, "has no /no/python")):
        (state,) = cluster.down(file, [wrong]).nodes
        assert not state.up and sentence in state.text and file.read() is not None
    with pytest.raises(UsageError, match="m9 cannot be forgotten; the nodes of the cluster are m1"):
        cluster.down(file, [m1], forget=["m9"])
    (state,) = cluster.down(file, [away], forget=["m1"]).nodes
    assert state.up and state.text.startswith("forgotten, though it may still run: m1")
    assert file.read() is None
    file.write(begun.as_registered([away]))
    assert ups(cluster.status(file, [m1])) == [("m1", True)]
    assert ups(cluster.down(file, [m1])) == [("m1", True)]


def test_where_nothing_can_have_begun_nothing_is_remembered(
    two: list[Sshd], file: ClusterFile
) -> None:
    for lost in (Registration("m1", "127.0.0.1", 1), two[0].registration(python="/no/python")):
        state = cluster.up(file, [lost, two[1].registration()], ClusterOptions(head="m1"))
        assert ups(state) == [("m1", False), ("m2", False)]
        assert state.nodes[1].text == cluster.NOT_TRIED
        assert file.read() is None


def test_a_port_that_another_ray_has_is_said_so() -> None:
    said = "AssertionError: Session name session_1 does not match persisted value session_2."
    assert "another Ray uses the head's port here" in str(not_started(said))
    said = "If the error is `Address already in use`, try running sudo lsof -i :6379 to check."
    assert "another program uses port 6379 here" in str(not_started(said))


def test_a_token_that_others_can_read_becomes_its_owners(user_dir: Path) -> None:
    file = ClusterFile(load_settings())
    token = file.token()
    file.token_path.chmod(0o644)
    assert file.token() == token
    assert stat.S_IMODE(file.token_path.stat().st_mode) == 0o600


def test_a_head_that_does_not_start_keeps_nothing_running(
    two: list[Sshd], file: ClusterFile, options: ClusterOptions
) -> None:
    machines = [server.registration() for server in two]
    failing = replace(options, head="m2", ray_options=("--fail-on=m2",))
    assert ups(cluster.up(file, machines, failing)) == [("m2", False), ("m1", False)]
    record = file.read()
    assert record is not None and list(record.nodes) == ["m2"]
    assert not (two[1].user_dir / "ray-nodes" / "m2" / "node.json").exists()
    with pytest.raises(UsageError, match="is already running, with head m2"):
        cluster.up(file, machines, replace(options, head="m1"))
    with pytest.raises(UsageError, match="head m3 is not among the machines m1, m2"):
        cluster.up(file, machines, replace(options, head="m3"))


def test_a_node_of_another_cluster_is_left_alone(
    servers: list[Sshd], ssh_folder: Path, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ssh_folder / "stand_in"))
    ours = {**asdict(NodeRequest("m1", "ours", "t", port=free_port())), "do": "start"}
    assert not node.answer(ours)["already"] and node.answer(ours)["already"]
    with pytest.raises(SkipjackError, match=r"another cluster already \(.*; end it with skipjack"):
        node.answer({**ours, "cluster": "theirs"})
    assert node.answer({**ours, "cluster": "theirs", "do": "stop"}) == {"ended": False}
    assert node.answer({**ours, "do": "status"})["up"]
    assert node.answer({**ours, "do": "stop"}) == {"ended": True}

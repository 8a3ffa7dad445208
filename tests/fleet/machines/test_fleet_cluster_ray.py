"""The same with a real Ray: two nodes on loopback, and a label that is run on them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loopback_ssh import Sshd, client_settings

from needs import need_ray
from skipjack.native import cpu
from skipjack.testing.servers import free_port

Run = Callable[..., subprocess.CompletedProcess[str]]
SMALL = ["--object-store-memory=80000000", "--num-cpus=1", "--min-worker-port=0"]
"""Two nodes of a small machine."""


@pytest.fixture
def real(
    ssh_folder: Path, tmp_path: Path, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Sshd]]:
    """Two machines whose Ray is Ray."""
    need_ray()
    variables = {"SKIPJACK_LOCK_DIR": str(tmp_path), "SKIPJACK_BUILD_WORKERS": "1"}
    names = ("r1", "r2")
    started = [Sshd(tmp_path / name, name, ssh_folder / "id", variables) for name in names]
    known = tmp_path / "known_hosts"
    known.write_text("".join(server.public_key() for server in started))
    monkeypatch.setenv("SKIPJACK_SSH_CONFIG", str(client_settings(ssh_folder, known)))
    yield started
    for server in started:
        server.close()


@pytest.mark.long
def test_a_label_runs_on_the_cluster_that_fleet_up_started(
    real: list[Sshd], skipjack: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def done(*words: str) -> str:
        result = skipjack(*words)
        assert result.returncode == 0, (result.stdout, result.stderr)
        return str(result.stdout)

    device = cpu.detect(1).name
    for server in real:
        done("machine", "add", *server.options, "--device", device)
    options = [
        word for option in [*SMALL, "--max-worker-port=0"] for word in ("--ray-option", option)
    ]
    ports = ["--port", str(free_port()), "--client-port", str(free_port())]
    try:
        started = json.loads(done("fleet", "up", *ports, *options, "--json"))
        assert [node["up"] for node in started["nodes"]] == [True, True]
        again = done("fleet", "up")
        assert again.count("was up, process") == 2
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", started["token_path"])
        (tmp_path / "problems.txt").write_text("matmul:32x32x32\nmatmul:48x48x48\n")
        done("import", "-f", str(tmp_path / "problems.txt"), "-t", "two")
        done("load", "-t", "two", "-l", "L", "--budget", "2")
        done("run", "-l", "L", "--engine", "ray", "--address", started["address"])
        counts = json.loads(done("status", "-l", "L", "--json"))["states"]
        assert counts == {"evaluated": 2}
        seen = [json.loads(line) for line in done("machine", "list", "--json").splitlines()]
        assert {one["name"] for one in seen if one["engine"] == "ray"} == {"r1", "r2"}
    finally:
        ended = done("fleet", "down")
    assert ended.count("ended") == 2

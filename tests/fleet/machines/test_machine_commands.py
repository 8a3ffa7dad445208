"""``skipjack machine`` and ``skipjack fleet`` as users type them."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from loopback_ssh import Sshd
from typer.testing import CliRunner, Result

from processes import command, gone
from skipjack.cli.main import app
from skipjack.errors import SkipjackError, UsageError
from skipjack.testing.servers import free_port

ADD = ["machine", "add", "gpu7", "--host", "10.0.0.7", "--device", "gfx908/120", "--gpus", "8"]


def call(*words: str) -> Result:
    """In this process, which spares half a second each time."""
    return CliRunner().invoke(app, list(words))


def good(*words: str) -> str:
    result = call(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def bad(*words: str) -> tuple[SkipjackError, str]:
    result = call(*words)
    assert isinstance(result.exception, SkipjackError), (result.output, result.exception)
    return result.exception, result.stdout


def lines(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all(one["format"] == 1 for one in found)
    return found


def test_machines_are_added_listed_disabled_and_removed(user_dir: Path) -> None:
    assert "gpu7 (10.0.0.7) is registered" in good(*ADD, "--remarks", "by the door")
    error, _ = bad(*ADD)
    assert isinstance(error, UsageError) and "add --replace" in str(error)
    assert "registered again" in good(*ADD, "--port", "2222", "--replace")
    good("machine", "add", "cpu1", "--host", "c", "-a", "znver4", "-n", "1")
    assert good("machine", "disable", "gpu7", "--reason", "new fans") == "gpu7 is disabled\n"
    shown = good("machine", "list", "-a", "gfx908", "-n", "120")
    assert "2222" in shown and "gfx908/120" in shown and "never seen" in shown
    assert "new" in shown and "fans" in shown
    assert "cpu1" not in shown
    listed = {one["name"]: one for one in lines(good("machine", "list", "--json"))}
    assert (listed["gpu7"]["enabled"], listed["cpu1"]["enabled"]) == (False, True)
    assert listed["gpu7"]["disabled_why"].endswith(": new fans")
    assert listed["gpu7"]["idle"] == listed["gpu7"]["disabled_why"]
    details = good("machine", "show", "gpu7")
    assert "gfx908/120" in details and "no, disabled by " in details and ": new fans" in details
    error, _ = bad("machine", "exec", "true", "--machine", "gpu7")
    assert str(error) == "gpu7 is disabled; run skipjack machine enable gpu7 first"
    error, _ = bad("machine", "show", "gpu77")
    assert "did you mean gpu7?" in str(error)
    assert good("machine", "enable", "gpu7") == "gpu7 is enabled\n"
    assert good("machine", "remove", "gpu7", "cpu1") == "cpu1, gpu7 are removed\n"
    assert "no machine is registered yet" in str(bad("machine", "exec", "true")[0])


def test_there_is_no_place_for_a_password(user_dir: Path) -> None:
    error, _ = bad("machine", "add", "gpu7", "--host", "me:geheim@10.0.0.7")
    assert "stores none" in str(error) and "geheim" not in str(error)
    assert "password" not in call("machine", "add", "--help").stdout.replace("no password", "")


def test_exec_says_what_each_says_and_names_those_that_fail(
    two: list[Sshd], user_dir: Path
) -> None:
    for server in two:
        good("machine", "add", *server.options)
    text = good("machine", "exec", "echo hello; echo oops >&2", "--machine", "m2")
    assert text.startswith("m2: hello\nm2  exit code 0 after")
    good("machine", "add", "closed", "--host", "127.0.0.1", "--port", str(free_port()))
    fails_on_one = f"test $SKIPJACK_USER_DB_PATH = {two[0].user_dir} && exit 4; true"
    error, text = bad("machine", "exec", fails_on_one, "--json")
    answers = {one["machine"]: one for one in lines(text)}
    assert [answers[name]["exit_code"] for name in ("m1", "m2", "closed")] == [4, 0, 255]
    assert "failed on 2 of 3 machines: closed (127.0.0.1" in str(error)
    assert "m1 exited with 4" in str(error) and "m2" not in str(error)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_whoever_ends_an_exec_end_its_ssh(
    number: int, two: list[Sshd], user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good("machine", "add", *two[0].options)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = command(["machine", "exec", "echo begun; sleep 100", "--timeout", "600"])
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        assert one.stdout and one.stderr
        assert one.stdout.readline() == "m1: begun\n"
        assert len(list(tmp_path.glob("skipjack-ssh-*"))) == 1
        threads = Path(f"/proc/{one.pid}/task").glob("*/children")
        children = {int(pid) for path in threads for pid in path.read_text().split()}
        one.send_signal(number)
        assert "interrupted" in one.stderr.read() and one.wait() == 130
    assert len(children) == 1 and gone(children)
    assert not list(tmp_path.glob("skipjack-ssh-*"))


def test_a_head_that_is_not_reached_leaves_nothing_to_end(user_dir: Path) -> None:
    for name in ("a", "b"):
        good("machine", "add", name, "--host", "127.0.0.1", "--port", "1")
    error, text = bad("fleet", "up")
    assert str(error).startswith("a, the head, did not start: a (127.0.0.1 port 1) refuses")
    assert "no other machine was tried" in str(error) and "stay up" not in str(error)
    assert "b  was not tried: the head is not up" in text
    assert "no cluster is up" in good("fleet", "down")


def test_ctrl_c_of_up_says_what_runs_on(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("skipjack.fleet.machines.cluster.up", interrupted)
    good("machine", "add", "a", "--host", "h")
    assert "keep running; skipjack fleet down stops them" in call("fleet", "up").output


def test_check_and_fleet_go_over_ssh(
    two: list[Sshd], user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good("machine", "add", *two[0].options)
    good("machine", "add", "gpu7", "--host", "127.0.0.1", "--port", "1")
    error, text = bad("machine", "check", "m1", "gpu7")
    assert str(error) == "1 of 2 machines is not ready: gpu7"
    assert "gpu7: reachable: gpu7 (127.0.0.1 port 1) refuses connections" in text
    good("machine", "disable", "gpu7")
    port, file = str(free_port()), tmp_path / "address"
    text = good("fleet", "up", "--port", port, "--address-file", str(file))
    assert "skipjack run -l LABEL --engine ray --address ray://127.0.0.1:10001" in text
    assert f"RAY_AUTH_TOKEN_PATH={user_dir / 'ray-token'}" in text
    assert file.read_text() == "ray://127.0.0.1:10001\n"
    (status,) = lines(good("fleet", "status", "--json"))
    assert [(node["machine"], node["up"]) for node in status["nodes"]] == [("m1", True)]
    assert "m1  ended" in good("fleet", "down")
    assert "no cluster is up" in good("fleet", "down")

"""Commands over real sshd: answers, and a sentence for each way to fail."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from loopback_ssh import Sshd, make_key

from skipjack.errors import UsageError
from skipjack.fleet.machines import OutputLine, SshResult, run_everywhere, ssh
from skipjack.fleet.machines.ssh import run_on
from skipjack.fleet.machines.ssh_client import command_line
from skipjack.fleet.model import Registration
from skipjack.interrupt import signals_as_interrupt
from skipjack.testing.servers import free_port


def test_an_answer_has_both_outputs_the_exit_code_and_what_was_sent(two: list[Sshd]) -> None:
    answer = run_on(two[0].registration(), "cat; echo oops >&2; exit 3", stdin=b"x" * 200_000)
    assert (answer.machine, answer.exit_code, answer.failure) == ("m1", 3, "")
    assert (answer.stdout, answer.stderr) == ("x" * 200_000, "oops\n")
    assert not answer.ok


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_would_end_us_is_ctrl_c_unless_somebody_handles_it(number: int) -> None:
    with signals_as_interrupt(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is signal.SIG_DFL
    signal.signal(number, signal.SIG_IGN)
    try:
        with signals_as_interrupt():
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, signal.SIG_DFL)


def test_machines_answer_at_once_and_in_order_and_say_lines_as_they_come(two: list[Sshd]) -> None:
    running_logs: list[OutputLine] = []
    # Each waits for the other one's file: one after the other they would never end.
    command = (
        "touch $SKIPJACK_LOCK_DIR/@${SSH_CONNECTION##* }; "
        "until [ $(ls $SKIPJACK_LOCK_DIR/@* | wc -l) = 2 ]; do sleep 0.01; done; echo a; printf b"
    )
    machines = [server.registration() for server in two]
    answers = run_everywhere(machines, command, timeout_s=20, observer=running_logs.append)
    assert [(one.machine, one.stdout) for one in answers] == [("m1", "a\nb"), ("m2", "a\nb")]
    assert [line for line in running_logs if line.machine == "m2"] == [
        OutputLine("m2", "stdout", "a"),
        OutputLine("m2", "stdout", "b"),
    ]


def test_what_is_no_text_and_what_is_too_long_does_no_harm(
    two: list[Sshd], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "KEPT_BYTES", 2000)
    command = "printf '\\377first'; head -c 300000 /dev/zero | tr '\\0' x; printf last"
    running_logs: list[OutputLine] = []
    answer = run_on(two[0].registration(), command, observer=running_logs.append)
    assert answer.stdout.startswith("\ufffdfirst") and answer.stdout.endswith("last")
    assert "298010 bytes were left out" in answer.stdout and len(answer.stdout) < 2100
    assert sum(len(line.text) for line in running_logs) == 300010


def test_a_command_that_begins_with_a_dash_is_no_option_of_ssh(
    two: list[Sshd], tmp_path: Path
) -> None:
    answer = run_on(two[0].registration(), f"-oProxyCommand=touch {tmp_path / 'pwned'}")
    assert answer.exit_code != 0 and not (tmp_path / "pwned").exists()
    with pytest.raises(UsageError, match="empty"):
        run_on(two[0].registration(), " ")


def why(machine: Registration, timeout_s: float = 30) -> str:
    """Why ssh fails there."""
    answer = run_on(machine, "true", timeout_s=timeout_s)
    assert (answer.exit_code, answer.stdout) == (255, "")
    return answer.failure


def test_an_alias_of_the_configuration_may_have_a_port_of_its_own(
    two: list[Sshd], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = Path(os.environ["SKIPJACK_SSH_CONFIG"]).read_text()
    alias = f"Host far\n  HostName 127.0.0.1\n  Port {two[0].port}\n"
    (tmp_path / "config").write_text(alias + kept)
    monkeypatch.setenv("SKIPJACK_SSH_CONFIG", str(tmp_path / "config"))
    assert run_on(Registration("m", "far"), "true").ok
    # An explicit port is used even if it is the default one.
    said = Registration("m", "far", 22)
    assert (said.place, Registration("m", "far").place) == ("m (far port 22)", "m (far)")
    line = command_line(said, "true", log=tmp_path / "log", connect_s=1)
    assert line[line.index("-p") + 1] == "22"


def test_a_port_that_nobody_listens_on(two: list[Sshd]) -> None:
    sentence = why(Registration("gpu7", "127.0.0.1", free_port()))
    assert "gpu7 (127.0.0.1 port " in sentence and "refuses connections" in sentence


def test_a_host_that_accepts_and_says_nothing(two: list[Sshd]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        machine = Registration("gpu7", "127.0.0.1", silent.getsockname()[1])
        assert "did not answer within 1 s" in why(machine, timeout_s=2)


def test_a_name_that_nobody_knows(two: list[Sshd]) -> None:
    assert "the host gpu7.invalid is unknown" in why(Registration("gpu7", "gpu7.invalid"))


def test_a_configuration_that_ssh_does_not_take(
    two: list[Sshd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong").write_text("Host *\n  Nonsense yes\n")
    monkeypatch.setenv("SKIPJACK_SSH_CONFIG", str(tmp_path / "wrong"))
    assert "line 2: Bad configuration option: nonsense" in why(two[0].registration())


def test_a_key_that_is_not_authorized(two: list[Sshd]) -> None:
    keys = two[0].folder / "authorized_keys"
    kept = keys.read_text()
    keys.write_text("")
    try:
        assert "accepts none of your keys" in why(two[0].registration())
    finally:
        keys.write_text(kept)


def test_a_machine_that_is_not_known_yet_is_trusted_only_on_request(
    two: list[Sshd], known_hosts: Path
) -> None:
    known_hosts.write_text("")
    machine = two[0].registration()
    assert "skipjack machine check m1 --accept-new-keys" in why(machine)
    assert run_on(machine, "true", accept_new=True).ok
    assert run_on(machine, "true").ok


def test_a_host_key_that_changed_is_refused_always_and_can_be_repaired(
    two: list[Sshd], known_hosts: Path, tmp_path: Path
) -> None:
    make_key(tmp_path / "another")
    kind, key, *_ = (tmp_path / "another.pub").read_text().split()
    entry = f"[127.0.0.1]:{two[0].port}"
    known_hosts.write_text(f"{entry} {kind} {key}\n")
    answer = run_on(two[0].registration(), "true", accept_new=True)
    assert "host key" in answer.failure and "has changed (now ED25519 SHA256:" in answer.failure
    assert f"not that of line 1 of {known_hosts}" in answer.failure
    repair = f"ssh-keygen -f {known_hosts} -R '{entry}'"
    assert repair in answer.failure
    subprocess.run(["ssh-keygen", "-f", str(known_hosts), "-R", entry], check=True)
    assert run_on(two[0].registration(), "true", accept_new=True).ok


def test_a_command_that_takes_too_long_loses_its_ssh(two: list[Sshd]) -> None:
    answer = run_on(two[0].registration(), "echo begun; sleep 7", timeout_s=2)
    assert answer.stdout == "begun\n" and "did not finish within 2 s" in answer.failure
    assert not _clients()


def test_an_interruption_ends_all(two: list[Sshd]) -> None:
    def press_ctrl_c(line: OutputLine) -> None:
        raise KeyboardInterrupt

    machines = [server.registration() for server in two]
    with pytest.raises(KeyboardInterrupt):
        run_everywhere(machines, "echo begun; sleep 60", timeout_s=600, observer=press_ctrl_c)
    assert not _clients()


def test_a_command_may_exit_with_what_ssh_fails_with(two: list[Sshd]) -> None:
    answer: SshResult = run_on(two[0].registration(), "echo said; exit 255")
    assert answer.stdout == "said\n" and "or the command itself exited with 255" in answer.failure


def test_no_machine_is_no_answer() -> None:
    assert run_everywhere([], "true") == []


def _clients() -> Sequence[int]:
    """Processes of ssh that this one started."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())], capture_output=True, text=True
    )
    words = [line.split() for line in listed.stdout.splitlines()]
    return [int(pid) for pid, program, *_ in words if program == "ssh"]

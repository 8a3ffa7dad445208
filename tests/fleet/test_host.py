"""What the fleet knows of this machine."""

import socket
from pathlib import Path

import pytest

from skipjack.errors import UsageError
from skipjack.fleet import detect_host, machine_name
from skipjack.fleet.host import disk_shortage
from skipjack.native import cpu


def test_a_host_lists_its_cpu_with_every_number_of_threads() -> None:
    host = detect_host("gpu7")
    cores = len(cpu.usable_cores())
    assert (host.name, host.cores) == ("gpu7", cores)
    assert [device.units for device in host.devices] == list(range(1, cores + 1))
    assert host.devices[0] == cpu.detect()
    assert host.memory_bytes > 0


def test_without_llvm_it_has_its_gpus_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "detectable", lambda: False)
    host = detect_host()
    assert host.devices == () and host.cores and host.memory_bytes
    cpu.detect.cache_clear()
    with pytest.raises(UsageError, match="pip install llvmlite"):
        cpu.detect()


def test_its_name_is_given_set_or_that_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKIPJACK_MACHINE", raising=False)
    assert machine_name() == socket.gethostname()
    monkeypatch.setenv("SKIPJACK_MACHINE", "rack 3")
    assert machine_name() == "rack 3"
    assert machine_name("other") == "other"


@pytest.mark.parametrize("name", ["x" * 65, "a\nb", "  "])
def test_names_that_break_tables_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="SKIPJACK_MACHINE"):
        machine_name(name)


def test_a_disk_that_is_nearly_full_is_named(tmp_path: Path) -> None:
    not_yet_made = tmp_path / "user" / "skipjack"
    assert disk_shortage(not_yet_made, least_bytes=1) == ""
    reason = disk_shortage(not_yet_made, least_bytes=1 << 60)
    assert "disk nearly full" in reason
    assert str(not_yet_made) in reason


def test_a_machine_is_not_called_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPJACK_MACHINE", "-oProxyCommand")
    with pytest.raises(UsageError, match="does not begin with a dash"):
        machine_name()

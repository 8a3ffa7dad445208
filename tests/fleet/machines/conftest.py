"""Two machines that are this one, reached by two real sshd."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from loopback_ssh import Sshd, client_settings, make_key, sshd_program
from stand_in_ray import write_stand_in
from typer.main import get_command

_PARSER = cache(get_command)


@pytest.fixture(autouse=True)
def one_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all commands, made once: that takes longer than most of them do."""
    monkeypatch.setattr("typer.testing._get_command", _PARSER)


@pytest.fixture(scope="session")
def ssh_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's key, and all that belongs to the servers."""
    sshd_program()
    folder = tmp_path_factory.mktemp("ssh")
    make_key(folder / "id")
    return folder


@pytest.fixture(scope="session")
def servers(ssh_folder: Path) -> Iterator[list[Sshd]]:
    """Two machines whose Ray is a stand-in, unless a test replaces it."""
    stand_in = write_stand_in(ssh_folder / "stand_in")
    variables = {"PYTHONPATH": str(stand_in), "SKIPJACK_LOCK_DIR": str(ssh_folder)}
    started = [Sshd(ssh_folder / name, name, ssh_folder / "id", variables) for name in ("m1", "m2")]
    yield started
    for server in started:
        server.close()


@pytest.fixture
def two(
    servers: list[Sshd], ssh_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Sshd]:
    """Both, and ssh knows them."""
    known = tmp_path / "known_hosts"
    known.write_text("".join(server.public_key() for server in servers))
    monkeypatch.setenv("SKIPJACK_SSH_CONFIG", str(client_settings(ssh_folder, known)))
    return servers


@pytest.fixture
def known_hosts(two: list[Sshd], tmp_path: Path) -> Path:
    """The file with the host keys that ssh knows."""
    return tmp_path / "known_hosts"

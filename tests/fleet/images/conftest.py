"""Stand-ins for docker, podman and ssh."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from image_stand_ins import ID, Install, StandIn, script


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a stand-in for an engine with this name first on the PATH."""
    programs, place = tmp_path / "programs", tmp_path / "engine"
    for folder in (programs, place):
        folder.mkdir()
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("STAND_IN_DIR", str(place))
    monkeypatch.delenv("SKIPJACK_CONTAINER_ENGINE", raising=False)

    def put(name: str) -> StandIn:
        program = script(programs / name, "stand_in_engine.py")
        monkeypatch.setenv("SKIPJACK_CONTAINER_ENGINE", name)
        return StandIn(place, program)

    return put


@pytest.fixture
def docker(install: Install) -> StandIn:
    """A docker that has the image ``my_img``."""
    engine = install("docker")
    engine.have(my_img=ID)
    return engine


@pytest.fixture
def ssh(install: Install, tmp_path: Path) -> None:
    """An ssh whose machines are directories of the stand-in."""
    script(tmp_path / "programs" / "ssh", "stand_in_ssh.py")

"""The interface of the stand-ins for docker, podman and ssh."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ID = "sha256:" + "a" * 64


@dataclass(frozen=True)
class StandIn:
    """The stand-in engine: the commands that it got, and its images."""

    place: Path
    program: str

    def calls(self, file: str = "calls.jsonl", machine: str = "") -> list[dict[str, Any]]:
        path = self.place / machine / file
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def asked(self, machine: str = "") -> list[list[str]]:
        """Command lines, without those that only ask how things are."""
        argvs = [call["argv"] for call in self.calls(machine=machine)]
        return [argv for argv in argvs if argv[:2] != ["image", "inspect"] and argv[0] != "info"]

    def have(self, **images: str) -> None:
        (self.place / "images.json").write_text(json.dumps(images))

    def containers(self) -> dict[str, int]:
        """Process ids of those that run, by name."""
        return {path.stem: int(path.read_text()) for path in self.place.glob("*.pid")}

    def variables(self) -> list[dict[str, str]]:
        """What containers were given."""
        return [json.loads(path.read_text()) for path in self.place.glob("*.env")]


Install = Callable[[str], StandIn]


def script(path: Path, source: str) -> str:
    """Make a program of a file in this directory."""
    path.write_text(f"#!{sys.executable} -IS\n{(HERE / source).read_text()}")
    path.chmod(0o755)
    return str(path)

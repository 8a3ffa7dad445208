"""Programs on PATH that print what the real ones print."""

import os
import sys
from pathlib import Path

NVIDIA = "35, 0x0000000000000001, 95.43\n"
"""As an idle H200 says it, driver 580."""


def stand_in(directory: Path, name: str, body: str) -> None:
    """A program of this name, in Python; nothing else is on PATH with it."""
    path = directory / name
    path.write_text(
        f"#!{sys.executable}\nimport sys, time\nasked = ' '.join(sys.argv[1:])\n{body}\n"
    )
    path.chmod(0o755)


def printing(directory: Path, name: str, text: str, code: int = 0) -> None:
    """A program that prints and ends."""
    stand_in(directory, name, f"sys.stdout.write({text!r})\nsys.exit({code})")


def sensor_files(root: Path, **files: str) -> None:
    """Files below a root, named with double underscores for slashes."""
    for name, text in files.items():
        path = root / name.replace("__", os.sep)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

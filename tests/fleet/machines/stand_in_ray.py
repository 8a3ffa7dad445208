"""A stand-in for ``ray start``: it prints Ray's output, listens like a head, and has a child."""

from __future__ import annotations

from pathlib import Path

_SCRIPT = """
import os, socket, subprocess, sys, time
options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
if "fail-on" in options and options["fail-on"] == options["node-name"]:
    sys.exit("ConnectionError: Ray is trying to start at that port, but is already running")
if "head" in options:
    listener = socket.create_server(("127.0.0.1", int(options["port"])))
child = subprocess.Popen(["sleep", "1000"])
print("Local node IP: 127.0.0.1")
print("Ray runtime started.", flush=True)
while True:
    time.sleep(1)
"""


def write_stand_in(folder: Path) -> Path:
    """A folder for PYTHONPATH in which ``ray`` is the stand-in."""
    place = folder / "ray" / "scripts"
    place.mkdir(parents=True)
    for package in (place, place.parent):
        (package / "__init__.py").touch()
    (place / "scripts.py").write_text(_SCRIPT)
    return folder

"""What Skipjack itself is, as far as it decides what comes out of a build."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from skipjack.core.device import Device
from skipjack.core.digest import digest_of
from skipjack.native import cpu

_GENERATORS = ("core", "gpu", "integrations", "native", "operations", "solvers")
"""Packages of ours that decide it."""


@functools.cache
def own_code() -> str:
    """The digest of the text of our code generators; every process that looks up computes it."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for name in sorted(name for folder in _GENERATORS for name in _files(str(root), folder)):
        digest.update(f"\0{name}\0".encode())
        digest.update(_read(f"{root}/{name}"))
    return digest.hexdigest()


def _files(root: str, folder: str) -> list[str]:
    """Python files in a folder and below, relative to the root."""
    found = []
    with os.scandir(f"{root}/{folder}") as entries:
        for entry in entries:
            name = f"{folder}/{entry.name}"
            if name.endswith(".py"):
                found.append(name)
            elif entry.name != "__pycache__" and entry.is_dir():
                found += _files(root, name)
    return found


def _read(path: str) -> bytes:
    """Several times as fast as a `Path` does it."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        parts = []
        while part := os.read(file, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def own_identity(problem_key: str, solver: str, device: Device) -> str:
    """Of all builds by a solver of an operation's problem for a device, both of which are ours.

    Their names say it together with our text, so that neither is needed here.
    """
    return digest_of([own_code(), problem_key, solver, *target_identity(device)])


def target_identity(device: Device) -> list[str]:
    """What a build is for."""
    target = cpu.target_of(device) if device.kind == "cpu" else device.arch
    return [device.class_key, device.compat_key, target]

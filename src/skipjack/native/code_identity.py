"""The identity of Skipjack's own code, as far as it affects builds."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from skipjack.core import Device, digest_of
from skipjack.native import cpu

_GENERATORS = ("core", "gpu", "integrations", "native", "operations", "solvers")
"""Packages whose code affects builds."""


@functools.cache
def own_code() -> str:
    """The digest of the text of our code generators; every process with lookups computes it."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for name in sorted(name for folder in _GENERATORS for name in _files(str(root), folder)):
        digest.update(f"\0{name}\0".encode())
        digest.update(_read(f"{root}/{name}"))
    return digest.hexdigest()


def _files(root: str, folder: str) -> list[str]:
    """Python files in a folder and its sub-folders, relative to the root."""
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
    """Read a file, several times as fast as with `Path`."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        parts = []
        while part := os.read(file, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def own_build_identity(problem_key: str, solver: str, device: Device) -> str:
    """The identity of builds whose solver and operation both come with Skipjack.

    Their names and the digest of our code identify them, so that neither object is needed here.
    """
    return digest_of([own_code(), problem_key, solver, *target_identity(device)])


def target_identity(device: Device) -> list[str]:
    """The identity of the target of a build."""
    target = cpu.target_of(device) if device.kind == "cpu" else device.arch
    return [device.class_key, device.compat_key, target]

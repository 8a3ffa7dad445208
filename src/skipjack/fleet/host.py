"""This machine: its name, its devices, and its free disk space."""

from __future__ import annotations

import shutil
from pathlib import Path

from skipjack.fleet.model import Host
from skipjack.gpu import find_gpus
from skipjack.native import cpu
from skipjack.settings import machine_name

LEAST_FREE_BYTES = 200 << 20
"""Free space in the user directory below which no task begins."""


def detect_host(name: str | None = None) -> Host:
    """This machine and its devices: the CPU with each possible number of threads, and every GPU.
    Without LLVM, the CPU is left out.
    """
    gpus = [device for _, _, device in find_gpus()]
    cores = len(cpu.usable_cores())
    return Host(machine_name(name), cores, cpu.memory_bytes(), (*cpu.detect_all(), *gpus))


def disk_shortage(directory: Path, least_bytes: int = LEAST_FREE_BYTES) -> str:
    """Why no task that writes to `directory` can begin; empty if there is enough space."""
    place = directory
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return f"the user directory {directory} cannot be used: {error.strerror}"
    if free >= least_bytes:
        return ""
    return (
        f"disk nearly full: {free >> 20} MB are free in {directory}, {least_bytes >> 20} MB are "
        "needed; free some space or set SKIPJACK_USER_DB_PATH to another disk"
    )

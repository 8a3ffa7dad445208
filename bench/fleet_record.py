"""What the results of the fleet's benchmarks have in common: spreads, versions, where they lie."""

from __future__ import annotations

import importlib.metadata
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import machine
from skipjack.native import cpu

Record = dict[str, Any]

_PACKAGES = ("sqlalchemy", "psycopg", "pymysql", "ray", "celery", "redis")
_PROGRAMS = {"postgres": "PostgreSQL", "mariadbd": "MariaDB", "redis-server": "Redis"}


def spread(values: Sequence[float], digits: int = 3) -> Record:
    """The median, and the least and the most there was."""
    names = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, digits) for name, value in names.items()} | {"runs": len(values)}


def in_words(found: Record) -> str:
    """As ``1.05 (0.99 to 1.10)``."""
    return f"{found['median']:g} ({found['min']:g} to {found['max']:g})"


def write(name: str, found: Record) -> None:
    """Keep a result with the machine and the versions it was found with."""
    device = cpu.detect(1)
    header = machine.header(name, device, cpu.usable_cores())
    header["versions"] |= {package: _package(package) for package in _PACKAGES}
    header["versions"] |= {text: _program(program) for program, text in _PROGRAMS.items()}
    machine.write_result(machine.RESULTS / f"{name}_{device.arch}.json", header | found)


def _package(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _program(name: str) -> str | None:
    places = [str(place) for place in sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    found = shutil.which(name) or shutil.which(name, path=":".join(["/usr/sbin", *places]))
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return said.stdout.strip().removeprefix(found).strip()[:60]

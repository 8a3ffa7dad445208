"""What each entry point loads: commands and workers import what they use, and no solver unasked.

Imports are most of the time that short commands take. What an entry point may load is what it
loaded when its line was written, and a few modules more: one that grew beyond that imports for
nothing, or has a reason to raise its number here.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ALWAYS = ("alembic", "torch", "triton", "ray", "yaml")
"""Nobody loads these without being asked for what needs them."""
GENERATORS = tuple(
    f"skipjack.solvers.{folder}"
    for folder in ("convolution", "cpu", "gpu", "loops", "miopen", "vendor")
)
"""Solvers, and the code generators that they are made of."""
PARENTS = ("skipjack.execute.session", "skipjack.execute.pool.builds", "skipjack.tuning")
"""The side that workers do not need."""


@dataclass(frozen=True)
class EntryPoint:
    """Where a process of ours begins, and what it must not load."""

    name: str
    code: str
    most: int
    """Modules of ours."""
    without: tuple[str, ...] = ()
    runs: int = 1
    """The last one counts: the first command on a fresh machine makes the fleet's store."""


def command(*arguments: str) -> str:
    """The code that runs a command."""
    return (
        "import skipjack.cli.main as main\n"
        f"sys.argv = ['skipjack', *{arguments!r}]\n"
        "try: main.run()\n"
        "except SystemExit as end: assert not end.code"
    )


ENTRY_POINTS = [
    EntryPoint("help", command("--help"), 62, ("numpy", "sqlalchemy", "rich", "pydantic")),
    EntryPoint(
        "bank list",
        command("bank", "list"),
        92,
        ("numpy", "sqlalchemy", "rich.progress", "pydantic"),
    ),
    EntryPoint(
        "status",
        command("status"),
        132,
        (
            *("numpy", "llvmlite", "rich.progress", "pydantic", "sqlalchemy.orm"),
            *("sqlalchemy.dialects.mysql", "sqlalchemy.dialects.postgresql"),
            *("skipjack.bank", "skipjack.devices", "skipjack.fleet.bundle", "skipjack.ledger"),
        ),
        runs=2,
    ),
    EntryPoint(
        "run worker",
        "import skipjack.execute.cpu.worker",
        85,
        (*GENERATORS, *PARENTS, "llvmlite", "skipjack.ledger"),
    ),
    EntryPoint(
        "build worker",
        "import skipjack.execute.pool.worker_main",
        90,
        (*GENERATORS, *PARENTS, "llvmlite", "skipjack.execute.verification"),
    ),
    EntryPoint(
        "GPU worker", "import skipjack.execute.gpu.worker", 115, (*GENERATORS[:-1], *PARENTS)
    ),
    EntryPoint("tuner", "import skipjack.tuning.tuner", 195, GENERATORS),
]


@pytest.mark.parametrize("entry", ENTRY_POINTS, ids=lambda entry: entry.name)
def test_an_entry_point_loads_what_it_uses(entry: EntryPoint, tmp_path: Path) -> None:
    listing = f"import sys\n{entry.code}\nprint(*sys.modules)"
    for _ in range(entry.runs):
        done = subprocess.run(
            [sys.executable, "-c", listing],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "SKIPJACK_USER_DB_PATH": str(tmp_path)},
        )
    loaded = done.stdout.splitlines()[-1].split()
    below = {name: f"{name}." for name in (*ALWAYS, *entry.without)}
    none_applicable = [
        one for one in loaded if any(one == name or one.startswith(below[name]) for name in below)
    ]
    assert none_applicable == []
    ours = sorted(one for one in loaded if one.split(".")[0] == "skipjack")
    assert len(ours) <= entry.most, ours


def test_a_command_ends_without_a_search_for_garbage() -> None:
    code = f"import atexit, gc, sys\n{command('--version')}\natexit._run_exitfuncs()"
    code += "\nprint(gc.get_freeze_count() > 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"

"""Pythons that ``skipjack exec`` may meet: with Skipjack, without it, with an older PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import skipjack

SOURCE = Path(skipjack.__file__).parents[1]
COMMAND = "import sys\nfrom skipjack.cli import run\nrun()"


def install(folder: Path, name: str, version: str, entry_points: str = "") -> None:
    """Metadata as an installer leaves them; what is on ``PYTHONPATH`` counts before the rest."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)


def site(folder: Path, *, torch: str = "2.13.0") -> Path:
    """A directory that makes a Python one with Skipjack and this version of PyTorch."""
    install(folder, "skipjack", "0.1.0", "[torch.backends]\nskipjack = skipjack.autoload:start\n")
    install(folder, "torch", torch)
    return folder


def environment(site: Path | None, user_dir: Path, **more: str) -> dict[str, str]:
    """What a shell has; the site comes first."""
    paths = [str(site)] if site else []
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    path = os.pathsep.join([*paths, str(SOURCE)])
    return {**kept, "PYTHONPATH": path, "SKIPJACK_USER_DB_PATH": str(user_dir), **more}


def run_exec(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """``skipjack exec`` with these words."""
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "exec", *words],
        env=env,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )

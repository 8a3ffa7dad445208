"""The code that a benchmark is made of: when it changes, results of before are not served.

What counts are files that look like code, or like a network or data that builds read, and that were
there when the benchmark was first swept. Files that are added later, as another sweep file, cost
nothing that was measured; what builds and runs were seen to write does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path, PurePath

from skipjack.errors import MalformedError
from skipjack.reading import read_json
from skipjack.storage import atomic_write
from skipjack.sweep.commands.in_place import snapshot
from skipjack.sweep.commands.sources import WRITTEN, is_source
from skipjack.sweep.commands.watch_memory import WatchMemory
from skipjack.sweep.workload import content_digest

_FILE = "code.json"
_MOST_FILES = 5000
_DATA = frozenset(
    (
        *(".onnx", ".pt", ".pth", ".safetensors", ".pb", ".tflite", ".h5", ".npy", ".npz"),
        *(".yaml", ".yml", ".in"),
    )
)


def code_digest(workdir: Path, state_dir: Path, exclude: Iterable[Path] = ()) -> str:
    """Of the content of all code files that count; empty if there are too many to look at."""
    names = _remembered(state_dir)
    if names is None:
        names = _code_files(workdir, state_dir, exclude)
    if names is None:
        return ""
    written = WatchMemory.read(state_dir / WRITTEN).written
    digest = hashlib.sha256()
    for name in names:
        if name not in written:
            content = content_digest(workdir / name) or "gone"
            digest.update(f"{name}\0{content}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def remember_code(workdir: Path, state_dir: Path, exclude: Iterable[Path] = ()) -> None:
    """From now on the code files that are there now are those that count."""
    if _remembered(state_dir) is None:
        names = _code_files(workdir, state_dir, exclude)
        if names is not None:
            atomic_write(state_dir / _FILE, json.dumps(names).encode())


def _remembered(state_dir: Path) -> list[str] | None:
    try:
        names = read_json((state_dir / _FILE).read_bytes(), surrogates=True)
        return [name.text() for name in names.elements()]
    except (OSError, MalformedError):
        return None


def _code_files(workdir: Path, state_dir: Path, exclude: Iterable[Path]) -> list[str] | None:
    found = snapshot(workdir, (state_dir, *exclude), without_environments=True)
    if found is None:
        return None
    left_out = {path.resolve() for path in exclude}
    names = sorted(
        name
        for name in found
        if (is_source(name) or PurePath(name).suffix.lower() in _DATA)
        and (workdir / name).resolve() not in left_out
    )
    return names if len(names) <= _MOST_FILES else None

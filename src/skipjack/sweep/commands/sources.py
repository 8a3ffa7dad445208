"""What a build is made from: a digest of the source files in the working directory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import PurePath

from skipjack.sweep.commands.in_place import Snapshot

_SUFFIXES = frozenset(
    (
        *(".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hip", ".s", ".inc"),
        *(".py", ".pyx", ".sh", ".bash", ".pl", ".rs", ".go", ".java", ".kt", ".f90", ".f", ".jl"),
        *(".mk", ".cmake", ".toml", ".cfg", ".proto", ".onnx", ".ll", ".mlir", ".cl", ".metal"),
    )
)
_NAMES = frozenset(("Makefile", "makefile", "GNUmakefile", "CMakeLists.txt", "BUILD", "WORKSPACE"))


def sources_digest(files: Snapshot, products: Iterable[str]) -> str:
    """Changes when a source file does. `products` are files that builds make: they are none."""
    made = set(products)
    lines = sorted(
        f"{name}\0{stamp[0]}\0{stamp[2]}"
        for name, stamp in files.stamps.items()
        if is_source(name) and name not in made
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def is_source(name: str) -> bool:
    """Whether a file is one that people edit, by its name."""
    path = PurePath(name)
    return path.name in _NAMES or path.suffix.lower() in _SUFFIXES

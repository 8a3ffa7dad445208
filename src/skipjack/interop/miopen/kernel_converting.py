"""Kernel-dbs into kernel-dbs, packed as they are, or into a listing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from skipjack.interop.miopen.json_format import FORMAT
from skipjack.interop.miopen.kernel_db import PackedKernel, code_bytes, packed_kernels, write_packed
from skipjack.reading import numbered
from skipjack.storage.atomic import atomic_write


def copy_kernels(source: Path, target: Path) -> tuple[int, tuple[str, ...]]:
    """How many there are, each checked, and what is lost."""
    seen: list[int] = []

    def checked() -> Iterator[PackedKernel]:
        for packed in packed_kernels(source):
            code_bytes(packed, source)
            seen.append(packed.row)
            yield packed

    written = write_packed(target, checked())
    again = len(seen) - written
    lost = f"{numbered(again, 'kernel')} whose name and arguments stand before already"
    return written, (lost,) if again else ()


def list_kernels(source: Path, target: Path) -> tuple[int, tuple[str, ...]]:
    """As JSON lines without their code."""
    lines = list(_listing(source))
    atomic_write(target, "".join(lines).encode())
    lost = f"the code of {numbered(len(lines), 'kernel')}: a listing has names and sizes"
    return len(lines), (lost,) if lines else ()


def _listing(source: Path) -> Iterator[str]:
    for packed in packed_kernels(source):
        line = {
            "format": FORMAT,
            "kind": "kernel",
            "name": packed.name,
            "args": packed.args,
            "md5": packed.md5,
            "bytes": code_bytes(packed, source),
            "packed_bytes": len(packed.blob),
        }
        yield json.dumps(line) + "\n"

"""A bank that others read and nobody writes: entries with short evidence and digests, kernels.

Beside the bank's file lie its index, since readers may not be able to make one, the machine code
that entries for GPUs name, and a manifest with the SHA-256 of every file. The same entries and
kernels give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from skipjack.bank.bank import FILE_NAME
from skipjack.bank.content import laid_out
from skipjack.bank.entry import BankEntry
from skipjack.bank.entry_evidence import BASELINE, REPLACED, KnownGain
from skipjack.bank.evidence import SEAL, merge_entries, seal_of
from skipjack.bank.index import tail_digest, write_index
from skipjack.bank.views import INDEXED_BYTES, index_path
from skipjack.errors import UsageError
from skipjack.storage import atomic_write

MANIFEST = "manifest.json"
KERNELS = "artifacts"
"""The folder of machine code, laid out as an artifact store."""
FORMAT = 1
SOURCE = "source"
"""The field of the evidence with the digest of what a kernel for a GPU was compiled from."""

_FACTS = (
    *("samples", "set_aside", "spread", "alpha", "min_effect", "outcome"),
    *("model", "vector_bytes", "driver"),
)


def short_entry(entry: BankEntry, more: Mapping[str, Any]) -> BankEntry:
    """An entry as it is shipped: how sure it is, and not how that was found, with its digest.

    `more` is added to the evidence. The strength of the evidence stays what it was.
    """
    told = entry.evidence
    evidence: dict[str, Any] = {name: told[name] for name in _FACTS if told.get(name) is not None}
    if told.baseline:
        evidence[BASELINE] = {"name": told.baseline.over, **told.baseline.record()}
    if told.as_called:
        evidence["as_called"] = told.as_called.record()
    if told.replaced:
        known = {name: getattr(told.replaced, name) for name in ("grade", "score", "generation")}
        evidence[REPLACED] = {name: value for name, value in known.items() if value is not None}
    gains = {name: KnownGain.read(gain) for name, gain in entry.speedup.items()}
    speedup = {name: gain.record() for name, gain in gains.items() if gain}
    short = replace(entry, evidence={**evidence, **more}, speedup=speedup)  # type: ignore[arg-type]
    return replace(short, evidence={**short.evidence, SEAL: seal_of(short)})  # type: ignore[arg-type]


def write_shipped(
    directory: Path, entries: Iterable[BankEntry], kernels: Mapping[str, bytes]
) -> int:
    """Write a bank of these entries with these kernels, by digest; gives the bytes of all files.

    What an earlier one left in `directory` goes. A directory with anything else is refused.
    """
    _clear(directory)
    data, content = laid_out(merge_entries(entries), ())
    files = {FILE_NAME: data}
    files |= {f"{KERNELS}/{name[:2]}/{name}": code for name, code in sorted(kernels.items())}
    for name, written in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)  # others read it, too
        atomic_write(directory / name, written)
    if len(data) >= INDEXED_BYTES:
        index = index_path(directory / FILE_NAME)
        # Of no file that there is: readers know a copy by the digest of its content.
        nowhere = 0, 0, len(data)
        summary = content.summary(nowhere, tail_digest(data), hashlib.sha256(data).digest())
        write_index(index, summary, content.pairs())
        files[index.name] = index.read_bytes()
    manifest = json.dumps(_manifest(files, content.lines, len(kernels)), indent=1, sort_keys=True)
    atomic_write(directory / MANIFEST, f"{manifest}\n".encode())
    return sum(map(len, files.values())) + len(manifest) + 1


def _manifest(files: Mapping[str, bytes], entries: int, kernels: int) -> dict[str, Any]:
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return {"format": FORMAT, "entries": entries, "kernels": kernels, "sha256": digests}


def _clear(directory: Path) -> None:
    """Remove an earlier bank that was shipped to a directory; `UsageError` if there is more."""
    ours = {FILE_NAME, index_path(Path(FILE_NAME)).name, MANIFEST, KERNELS}
    found = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    others = [name for name in found if name not in ours]
    if others or (found and MANIFEST not in found):
        raise UsageError(
            f"{directory} holds other files than those of a shipped bank, as "
            f"{(others or found)[0]}; name a new directory"
        )
    for name in found:
        path = directory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

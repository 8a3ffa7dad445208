"""Entries for others: files of other banks, a bank that is shipped, JSON for machines."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skipjack.bank.bank import FILE_NAME
from skipjack.bank.content import laid_out, read_content, refuse_newer, unreadable_warning
from skipjack.bank.entry import BankEntry, Key
from skipjack.bank.evidence import BASELINE, REPLACED, KnownGain
from skipjack.bank.file import INDEXED_BYTES, index_path
from skipjack.bank.index import tail_digest, write_index
from skipjack.bank.strength import CHECKSUM, checksum_of, merge_entries, ranked
from skipjack.core import protocol_record
from skipjack.errors import CorruptFileError, MissingFileError, StorageError, UsageError
from skipjack.json_formats import FORMATS
from skipjack.reading import read_plain
from skipjack.storage import atomic_write

# Files of other banks: reading them, and writing the union of several to a file.

Entries = Mapping[Key, tuple[BankEntry, ...]]
"""Entries by key, the strongest first."""

_MEND = "its other lines are merged; for these, get a new copy of the file from its owner"

log = logging.getLogger(__name__)


def read_bank(place: Path) -> Entries:
    """The entries of a bank, which is not changed; warns of lines that cannot be read.

    `place` is a file, or a directory with a bank.
    """
    path = place / FILE_NAME if place.is_dir() else place
    try:
        content = read_content(read_plain(path))
    except FileNotFoundError:
        raise MissingFileError(f"there is no bank at {path}") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    if content.bad and not content.placed:
        refuse_newer(content.bad, path)
        raise CorruptFileError(
            f"{path} is not a bank: {content.bad[0]}; it was not changed and nothing was merged"
        )
    if content.bad:
        log.warning("%s", unreadable_warning(path, content.bad, len(content.bad), _MEND))
    return content.entries()


def union(first: Entries, second: Entries) -> Entries:
    """The entries of both that a bank keeps: see `skipjack.bank.strength`."""
    both = {key: ranked([*first[key], *second[key]]) for key in first.keys() & second.keys()}
    return {**first, **second, **both}


def on_device(entries: Entries, device: str, path: Path) -> Entries:
    """The entries for one class of devices, by its name or class key; `UsageError` if none."""
    classes = {
        one.device: one.device_name
        for known in entries.values()
        for one in known
        if device in (one.device, one.device_name)
    }
    if not classes:
        have = ", ".join(_names(entries)) or "nothing"
        raise UsageError(f"{path} has no entry for {device}; it has {have}")
    if len(classes) > 1:
        raise UsageError(
            f"{path} has {len(classes)} classes named {device}; give one of "
            f"{' or '.join(sorted(classes))}"
        )
    return {key: known for key, known in entries.items() if key[1] in classes}


def merged(banks: Mapping[Path, Entries]) -> Entries:
    """The union of banks; `UsageError` if one shares no class of devices with another."""
    classes = {path: {key[1] for key in entries} for path, entries in banks.items()}
    for path, own in classes.items():
        others = [other for other in classes if other != path]
        if others and own and not any(own & classes[other] for other in others):
            raise UsageError(
                f"{path} ({', '.join(_names(banks[path]))}) shares no class of devices with "
                f"{_listed(others, banks)}; merge banks of one class, or select one with --device"
            )
    found: Entries = {}
    for entries in banks.values():
        found = union(found, entries)
    return found


def check_processors(banks: Mapping[Path, Entries], own: Collection[str]) -> None:
    """Raise `UsageError` for a bank without entries for the processors of these classes.

    A processor is the kind and the architecture of a class of devices, without its units.
    """
    here = {_processor(one) for one in own}
    for path, entries in banks.items():
        theirs = {_processor(key[1]) for key in entries}
        if theirs and here and not theirs & here:
            names = sorted({name.rpartition("/")[0] or name for name in _names(entries)})
            mine = sorted(one.partition(":")[2] or one for one in here)
            raise UsageError(
                f"{path} is for another processor ({', '.join(names)}) than this machine and its "
                f"bank ({', '.join(mine)}); nothing was merged. To merge it into a file, use -o; "
                f"to merge it nevertheless, use --device {_names(entries)[0]}"
            )


def _processor(device: str) -> str:
    return device.partition("/")[0]


def write_bank(path: Path, entries: Entries) -> None:
    """Write these entries to a file in its canonical form; `StorageError`.

    An existing file is only replaced if every line of it is an entry; else `UsageError`.
    """
    # A program that only looks things up does not load the module that writes files.
    from skipjack.storage import atomic_write

    if path.is_file():
        try:
            content = read_content(path.read_bytes())
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
        if content.bad:
            raise UsageError(
                f"{path} exists and is not a bank ({content.bad[0]}); it was not changed, so name "
                "another file"
            )
    atomic_write(path, laid_out(entries, ())[0])


def _names(entries: Entries) -> list[str]:
    return sorted({known[0].device_name for known in entries.values()})


def _listed(paths: Sequence[Path], banks: Mapping[Path, Entries]) -> str:
    return " or ".join(f"{path} ({', '.join(_names(banks[path]))})" for path in paths)


# A bank that is shipped, and only read: entries with short evidence and digests, and kernels.
#
# Next to the bank's file are its index, since readers may not be able to write one, the machine
# code of entries for GPUs, and a manifest with the SHA-256 of every file. The same entries and
# kernels give the same bytes.

MANIFEST = "manifest.json"
KERNELS = "artifacts"
"""The folder of machine code, laid out as an artifact store."""
FORMAT = 1
SOURCE = "source"
"""The field of the evidence with the digest of the source of a kernel for a GPU."""

_FACTS = (
    *("samples", "set_aside", "spread", "alpha", "min_effect", "outcome"),
    *("model", "vector_bytes", "driver"),
)


def short_entry(entry: BankEntry, more: Mapping[str, Any]) -> BankEntry:
    """An entry as it is shipped: with the facts that its strength depends on, and its digest.

    `more` is added to the evidence. The strength of the evidence does not change.
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
    return replace(short, evidence={**short.evidence, CHECKSUM: checksum_of(short)})  # type: ignore[arg-type]


def write_shipped(
    directory: Path, entries: Iterable[BankEntry], kernels: Mapping[str, bytes]
) -> int:
    """Write a bank of these entries and kernels, by digest; returns the bytes of all files.

    A bank that was shipped to `directory` before is removed; other files are a `UsageError`.
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
        # The state of no existing file: readers recognize a copy by the digest of its content.
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
    """Remove a bank that was shipped to a directory; `UsageError` if it has other files."""
    ours = {FILE_NAME, index_path(Path(FILE_NAME)).name, MANIFEST, KERNELS}
    found = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    others = [name for name in found if name not in ours]
    if others or (found and MANIFEST not in found):
        raise UsageError(
            f"{directory} has files that are not of a shipped bank, as {(others or found)[0]}; "
            "name a new directory"
        )
    for name in found:
        path = directory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


# An entry as `--json` prints it, with the field names of `tune`. No I/O.
#
# `docs/json.md` lists the fields. The line of a bank's file has another form: see
# `BankEntry.line`.

_DEFAULT = "default"
_MOVED = (BASELINE, "as_called")
"""Facts of the evidence that are fields of the record, as in the output of `tune`."""


def printed_entry(entry: BankEntry) -> dict[str, Any]:
    """The JSON record of an entry."""
    baseline, speedups = _gains(entry)
    return {
        "format": FORMATS["bank list"],
        "kind": entry.kind,
        "problem": entry.problem,
        "device": entry.device_name,
        "device_class": entry.device,
        "deployed": entry.deployed,
        "solver": entry.solver,
        "solver_version": entry.solver_version,
        "config": dict(entry.config),
        "time_ns": entry.time_ns,
        "default_ns": entry.default_ns,
        "vendor": entry.vendor,
        "vendor_ns": entry.vendor_ns,
        "baseline": baseline,
        "speedup": speedups[baseline]["ratio"] if baseline else None,
        "speedups": speedups,
        "as_called": entry.evidence.get("as_called"),
        "evidence": {name: told for name, told in entry.evidence.items() if name not in _MOVED},
        "protocol": protocol_record(entry.protocol),
        "toolchain": entry.toolchain,
        "output": entry.output,
        "origin": entry.origin.record(),
        "launch": entry.launch.record() if entry.launch else None,
        "created": entry.created,
    }


def _gains(entry: BankEntry) -> tuple[str, dict[str, Any]]:
    """The baseline of the main gain, empty if none is known, and all gains by name."""
    named = {entry.vendor if name == "vendor" else name: g for name, g in entry.speedup.items()}
    told = entry.evidence.get(BASELINE)
    if told:
        gain = {name: value for name, value in told.items() if name != "name"}
        return str(told["name"]), {**named, str(told["name"]): gain}
    known = [name for name in (entry.vendor, _DEFAULT) if name in named]
    return (known[0] if known else ""), named

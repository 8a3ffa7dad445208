"""Files of other banks: what they hold, and the union of several as a file of its own."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from skipjack.bank.bank import FILE_NAME
from skipjack.bank.content import complaint, laid_out, read_content, refuse_newer
from skipjack.bank.entry import BankEntry, Key
from skipjack.bank.evidence import ranked
from skipjack.errors import CorruptFileError, MissingFileError, StorageError, UsageError
from skipjack.reading import read_plain

Entries = Mapping[Key, tuple[BankEntry, ...]]
"""By key, the strongest first."""

_MEND = "its other lines are merged; for these, ask whoever made the file for a new one"

log = logging.getLogger(__name__)


def read_bank(place: Path) -> Entries:
    """The entries of a bank, which is only read; lines that cannot be read are told.

    It is a file, or a directory with a bank.
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
            f"{path} is not a bank: {content.bad[0]}; it was left as it is and nothing was merged"
        )
    if content.bad:
        log.warning("%s", complaint(path, content.bad, len(content.bad), _MEND))
    return content.entries()


def union(first: Entries, second: Entries) -> Entries:
    """What a bank keeps of both: see `skipjack.bank.evidence`."""
    both = {key: ranked([*first[key], *second[key]]) for key in first.keys() & second.keys()}
    return {**first, **second, **both}


def on_device(entries: Entries, device: str, path: Path) -> Entries:
    """Those of one class of devices, by its name or its class key; `UsageError` if none is."""
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
            f"{path} has {len(classes)} classes of the name {device}; give one of "
            f"{' or '.join(sorted(classes))}"
        )
    return {key: known for key, known in entries.items() if key[1] in classes}


def merged(banks: Mapping[Path, Entries]) -> Entries:
    """The union of banks, each of which shares a class of devices with another; `UsageError`."""
    classes = {path: {key[1] for key in entries} for path, entries in banks.items()}
    for path, own in classes.items():
        others = [other for other in classes if other != path]
        if others and own and not any(own & classes[other] for other in others):
            raise UsageError(
                f"{path} ({', '.join(_names(banks[path]))}) shares no class of devices with "
                f"{_listed(others, banks)}; merge those of one class, or take one with --device"
            )
    found: Entries = {}
    for entries in banks.values():
        found = union(found, entries)
    return found


def check_processors(banks: Mapping[Path, Entries], own: Collection[str]) -> None:
    """`UsageError` for a bank that has nothing for any of these classes' processors.

    A processor is the kind and the architecture of a class of devices; its units do not count.
    """
    here = {_processor(one) for one in own}
    for path, entries in banks.items():
        theirs = {_processor(key[1]) for key in entries}
        if theirs and here and not theirs & here:
            names = sorted({name.rpartition("/")[0] or name for name in _names(entries)})
            mine = sorted(one.partition(":")[2] or one for one in here)
            raise UsageError(
                f"{path} is of another processor ({', '.join(names)}) than this machine and its "
                f"bank ({', '.join(mine)}); nothing was merged. With -o it is merged into a file, "
                f"with --device {_names(entries)[0]} it is taken all the same"
            )


def _processor(device: str) -> str:
    return device.partition("/")[0]


def write_bank(path: Path, entries: Entries) -> None:
    """A file of these entries in its canonical form; `StorageError`.

    A file that is there is replaced if every line of it is an entry of a bank; else `UsageError`.
    """
    # A program that only looks things up loads nothing that writes.
    from skipjack.storage import atomic_write

    if path.is_file():
        try:
            content = read_content(path.read_bytes())
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
        if content.bad:
            raise UsageError(
                f"{path} is there and is not a bank ({content.bad[0]}); it was left as it is, so "
                "name another file"
            )
    atomic_write(path, laid_out(entries, ())[0])


def _names(entries: Entries) -> list[str]:
    return sorted({known[0].device_name for known in entries.values()})


def _listed(paths: Sequence[Path], banks: Mapping[Path, Entries]) -> str:
    return " or ".join(f"{path} ({', '.join(_names(banks[path]))})" for path in paths)

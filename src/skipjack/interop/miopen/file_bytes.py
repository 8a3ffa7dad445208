"""The content of a database file, unpacked where it is compressed."""

from __future__ import annotations

import bz2
from pathlib import Path

from skipjack.errors import CorruptFileError, StorageError

BZIP2 = b"BZh"
SQLITE = b"SQLite format 3\0"
LARGEST = 1 << 31
"""Bytes of a database that is unpacked into memory; shipped ones have up to 60 MB."""
_POINTER = b"version https://git-lfs"


def file_bytes(path: Path) -> bytes:
    """What is in a file; ``.bz2`` is unpacked. One sentence if it cannot be read."""
    data = _read(path)
    if data.startswith(_POINTER):
        raise StorageError(
            f"{path} is only a Git LFS pointer to the database; fetch the file itself with "
            "git lfs pull"
        )
    if data.startswith(BZIP2):
        try:
            return unpacked(data, LARGEST)
        except (OSError, EOFError, ValueError) as error:
            raise CorruptFileError(
                f"{path} cannot be unpacked: {error}; fetch or pack it again"
            ) from None
    return data


def unpacked(data: bytes, most: int) -> bytes:
    """What bzip2 packed; `ValueError` or `EOFError` if that is more than `most`, or cut off."""
    parts: list[bytes] = []
    left = most
    while data:
        stream = bz2.BZ2Decompressor()
        part = stream.decompress(data, left + 1)
        left -= len(part)
        if left < 0:
            raise ValueError(f"it has more than {most:,} bytes when unpacked")
        if not stream.eof:
            raise EOFError("it is cut off")
        parts.append(part)
        data = stream.unused_data
        if not data.startswith(BZIP2):
            break  # padding, as the library has it
    return b"".join(parts)


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise StorageError(f"{path} is a directory; name a file in it")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise StorageError(f"there is no file {path}") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from None

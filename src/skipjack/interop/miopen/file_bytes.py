"""The content of a database file, unpacked where it is compressed."""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from pathlib import Path

from skipjack.errors import CorruptFileError, StorageError

BZIP2 = b"BZh"
LARGEST = 1 << 28
"""Bytes of a database that is unpacked into memory; shipped ones have up to 60 MB."""
ALWAYS = 1 << 24
"""Bytes that may come out of however few."""
MOST_TIMES = 100
"""How many times its packed size something larger may have; shipped ones have up to 20."""
_STEP = 1 << 20
_GIVEN = 1 << 14
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
    """What bzip2 packed; `ValueError` or `EOFError` if that is too much, or cut off."""
    return b"".join(unpacked_parts(data, most))


def unpacked_parts(data: bytes, most: int) -> Iterator[bytes]:
    """As `unpacked`, part by part, of all streams that follow each other."""
    bound = _Bound(len(data), most)
    stream, at = bz2.BZ2Decompressor(), 0
    while at < len(data) or not stream.needs_input:
        # Little by little: what a stream leaves is copied, and there may be very many.
        given = data[at : at + _GIVEN] if stream.needs_input else b""
        at += len(given)
        yield bound.checked(stream.decompress(given, _STEP))
        if stream.eof:
            at -= len(stream.unused_data)
            if not data.startswith(BZIP2, at):
                return  # padding, as the library has it
            stream = bz2.BZ2Decompressor()
    if data:
        raise EOFError("it is cut off")


class _Bound:
    """How much may come out of so many packed bytes."""

    def __init__(self, packed_bytes: int, most: int) -> None:
        self._packed = packed_bytes
        self._most = most
        self._so_far = 0

    def checked(self, part: bytes) -> bytes:
        """The part, if it is not too much."""
        self._so_far += len(part)
        if self._so_far > self._most:
            raise ValueError(f"it has more than {self._most:,} bytes when unpacked")
        if self._so_far > max(ALWAYS, MOST_TIMES * self._packed):
            raise ValueError(
                f"it has more than {MOST_TIMES} times its {self._packed:,} bytes when unpacked, "
                f"and more than {ALWAYS:,}"
            )
        return part


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise StorageError(f"{path} is a directory; name a file in it")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise StorageError(f"there is no file {path}") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from None

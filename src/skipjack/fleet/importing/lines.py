"""Lines of a file that may hold anything: in blocks, decoded, none of them too long to hold.

UTF-8 is expected, with or without a mark at its beginning; UTF-16 is recognised by its mark. A
line that is no UTF-8 is read as Latin-1. Lines end with a line feed; a carriage return before it
is a blank to those who read the line.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

LONGEST = 64 << 10
"""Characters of a line; of a longer one a little more is kept, so that it can be told."""
_BLOCK = 1 << 20
_KEPT = 4 * LONGEST + 1
"""Bytes of a line that goes on; more than `LONGEST` characters, however many bytes one has."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def line_blocks(file: BinaryIO) -> Iterator[tuple[list[str], int]]:
    """Lists of lines without their ends, and the bytes that were read so far."""
    rest, read = b"", 0
    for block in _utf8_blocks(file):
        read += block[1]
        *whole, last = block[0].split(b"\n")
        if whole:
            whole[0] = rest + whole[0]
            rest = b""
            yield _decoded(whole), read
        rest = (rest + last)[:_KEPT]
    if rest:
        yield _decoded([rest]), read


def _utf8_blocks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Blocks in UTF-8, each with the bytes that it took."""
    first = file.read(_BLOCK)
    if first.startswith(_UTF16):
        decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        block = first
        while block:
            yield decoder.decode(block).encode(errors="replace"), len(block)
            block = file.read(_BLOCK)
        return
    yield first.removeprefix(codecs.BOM_UTF8), len(first)
    while block := file.read(_BLOCK):
        yield block, len(block)


def _decoded(lines: list[bytes]) -> list[str]:
    try:
        texts = b"\n".join(lines).decode().split("\n")
    except UnicodeDecodeError:
        texts = [_decode(line) for line in lines]
    return [text if len(text) <= LONGEST else text[: LONGEST + 1] for text in texts]


def _decode(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")

"""How a parent and its workers talk: JSON with byte strings beside it, over pipes.

A frame is a length (8 bytes), JSON text, then the blobs whose lengths the JSON lists. Nothing that
arrives is ever unpickled or evaluated.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<Q")
_MOST = 1 << 34

Read = Callable[[int], bytes]
"""Gives some bytes, at most so many; none at the end of the stream."""


@dataclass(frozen=True, slots=True)
class Message:
    """A JSON object and byte strings."""

    body: dict[str, Any]
    blobs: tuple[bytes, ...] = field(default=())


def encode(body: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """One frame."""
    text = json.dumps({"body": body, "blobs": [len(blob) for blob in blobs]}).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *blobs])


def send(stream: BinaryIO, body: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Write one frame and flush it."""
    stream.write(encode(body, blobs))
    stream.flush()


def receive(read: Read) -> Message | None:
    """Read one frame; None at the end of the stream, also in the middle of a frame."""
    head = _exactly(read, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > _MOST:
        raise ValueError("a frame is longer than any message of ours")
    text = _exactly(read, length)
    if text is None:
        return None
    frame = json.loads(text)
    blobs = []
    for size in frame["blobs"]:
        blob = _exactly(read, int(size))
        if blob is None:
            return None
        blobs.append(blob)
    return Message(frame["body"], tuple(blobs))


def _exactly(read: Read, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = read(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)

"""How a parent and its workers talk: JSON with byte strings beside it, over pipes.

A frame is a length (8 bytes), JSON text, then the blobs whose lengths the JSON lists. Nothing that
arrives is ever unpickled or evaluated; what is no frame is a `MalformedError`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from skipjack.errors import MalformedError
from skipjack.reading import read_json

_LENGTH = struct.Struct("<Q")
_MOST = 1 << 34
_MOST_TEXT = 1 << 30

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
    frame = _frame()
    need = next(frame)
    while (part := _exactly(read, need)) is not None:
        try:
            need = frame.send(part)
        except StopIteration as end:
            message: Message = end.value
            return message
    return None


class Decoder:
    """Frames out of bytes that arrive in pieces, for who cannot wait for the rest of a frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._frame = _frame()
        self._need = next(self._frame)

    def feed(self, data: bytes) -> list[Message]:
        """The frames that these bytes complete."""
        self._buffer += data
        found = []
        while len(self._buffer) >= self._need:
            part = bytes(self._buffer[: self._need])
            del self._buffer[: self._need]
            try:
                self._need = self._frame.send(part)
            except StopIteration as end:
                found.append(end.value)
                self._frame = _frame()
                self._need = next(self._frame)
        return found


def _frame() -> Generator[int, bytes, Message]:
    """Says how many bytes it needs next, is sent them, and returns the message."""
    (length,) = _LENGTH.unpack((yield _LENGTH.size))
    if length > _MOST_TEXT:
        raise MalformedError("a worker's message is longer than any of ours")
    text = yield length
    frame = read_json(text, "a worker's message", most=_MOST_TEXT, finite=False, surrogates=True)
    body = frame["body"].mapping()
    blobs = []
    for size in frame["blobs"].elements():
        blobs.append((yield size.integer(0, _MOST)))
    return Message(body, tuple(blobs))


def _exactly(read: Read, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = read(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)

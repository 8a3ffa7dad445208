"""How a parent and its workers talk.

Frames of JSON and byte strings go over pipes, a loop answers requests, and a shared page names the
kernel that is running, for when the worker dies.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from skipjack.errors import MalformedError, SkipjackError
from skipjack.reading import read_json

# Messages between a parent and its workers: JSON and byte strings over pipes.
#
# A frame is a length (8 bytes), JSON text, then the blobs whose lengths the JSON lists. Received
# data is never unpickled or evaluated; an invalid frame is a `MalformedError`.

_LENGTH = struct.Struct("<Q")
_MOST = 1 << 34
_MOST_TEXT = 1 << 30

Read = Callable[[int], bytes]
"""Returns at most this many bytes; none at the end of the stream."""


@dataclass(frozen=True, slots=True)
class Message:
    """A JSON object and byte strings."""

    body: dict[str, Any]
    blobs: tuple[bytes, ...] = field(default=())


def encode(body: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """The bytes of one frame."""
    text = json.dumps({"body": body, "blobs": [len(blob) for blob in blobs]}).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *blobs])


def send(stream: BinaryIO, body: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Write one frame and flush it."""
    stream.write(encode(body, blobs))
    stream.flush()


def receive(read: Read) -> Message | None:
    """Read one frame; None at the end of the stream, even in the middle of a frame."""
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
    """Decodes frames from bytes that arrive in parts, for callers that must not block."""

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
    """A generator that yields how many bytes it needs, is sent them, and returns the message."""
    (length,) = _LENGTH.unpack((yield _LENGTH.size))
    if length > _MOST_TEXT:
        raise MalformedError(f"a worker's message is {length:,} bytes long, above {_MOST_TEXT:,}")
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


# A shared page in which a run worker announces the kernel that it launches next.
#
# The page holds the kernel's number and a count that grows with every launch, so that the parent
# can distinguish a slow worker from one that hangs.

_MARKER = struct.Struct("<qq")
NO_KERNEL = -1
"""The number in the page while no kernel runs."""


class CrashMarker:
    """One side's view of the page, whose file has no name, so that nothing is left behind."""

    def __init__(self, descriptor: int | None = None) -> None:
        """The parent creates the page; a worker passes the descriptor that it inherited."""
        if descriptor is None:
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())
            os.pwrite(self.descriptor, _MARKER.pack(NO_KERNEL, 0), 0)
        else:
            self.descriptor = descriptor
        self._marker = mmap.mmap(self.descriptor, _MARKER.size)

    def announce(self, kernel: int) -> None:
        """Announce the kernel that is about to run."""
        _MARKER.pack_into(self._marker, 0, kernel, self.count + 1)

    @property
    def kernel(self) -> int:
        """The kernel that was announced last."""
        return int(_MARKER.unpack_from(self._marker)[0])

    @property
    def count(self) -> int:
        """How often anything was announced."""
        return int(_MARKER.unpack_from(self._marker)[1])

    def close(self) -> None:
        """Unmap the page and close its file."""
        self._marker.close()
        os.close(self.descriptor)


# The request loop of run workers, of CPUs and GPUs.

Answer = dict[str, Any]


class RunWorker(Protocol):
    """Holds kernels of one problem; every method answers a request."""

    def prepare(self, message: Message) -> Answer:
        """Make the arrays and the reference of a problem."""
        ...

    def load(self, message: Message) -> Answer:
        """Load machine code after checking its digest."""
        ...

    def load_vendor(self, message: Message) -> Answer:
        """Bind a library's function."""
        ...

    def verify(self, message: Message) -> Answer:
        """Run once on guarded arrays and check the result."""
        ...

    def output(self, message: Message) -> Answer:
        """The digest of a kernel's output."""
        ...

    def time(self, message: Message) -> Answer:
        """Time kernels in interleaved blocks."""
        ...

    def unload(self, message: Message) -> Answer:
        """Free a kernel."""
        ...

    def peaks(self, message: Message) -> Answer:
        """The peaks of the device."""
        ...


def plain_error(error: Exception, kernel: int) -> Answer:
    """The answer with an error and the kernel that it is about."""
    said = str(error) if isinstance(error, SkipjackError) else f"{type(error).__name__}: {error}"
    return {"error": said[:500], "kernel": kernel}


def _import(message: Message) -> Answer:
    """Import a library's package, which takes long, before the library is needed."""
    importlib.import_module(message.body["module"])
    return {}


def answer_all(
    requests: BinaryIO,
    answers: BinaryIO,
    marker: CrashMarker,
    worker: RunWorker,
    refusal: Callable[[Exception, int], Answer] = plain_error,
) -> Iterator[Answer]:
    """Report that the worker is ready, then answer until the pipe closes; yields each answer."""
    send(answers, {"ready": True})
    verbs: dict[str, Callable[[Message], Answer]] = {
        "prepare": worker.prepare,
        "load": worker.load,
        "load_vendor": worker.load_vendor,
        "verify": worker.verify,
        "output": worker.output,
        "time": worker.time,
        "unload": worker.unload,
        "peaks": worker.peaks,
        "import": _import,
    }
    while (message := receive(requests.read)) is not None:
        try:
            answer = verbs[message.body["verb"]](message)
        except Exception as error:
            # An error is the answer to this request; the session continues.
            answer = refusal(error, marker.kernel)
        marker.announce(NO_KERNEL)
        send(answers, answer)
        yield answer

"""What run workers have in common, whatever they run on: requests in, answers out."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol

from skipjack.errors import SkipjackError
from skipjack.execute import wire
from skipjack.execute.announcement import NOTHING, Announcement

Answer = dict[str, Any]


class RunWorker(Protocol):
    """Holds kernels of one problem; every verb takes a request and gives an answer."""

    def prepare(self, message: wire.Message) -> Answer:
        """Make arrays and the reference of a problem."""
        ...

    def load(self, message: wire.Message) -> Answer:
        """Load machine code whose digest was promised."""
        ...

    def load_vendor(self, message: wire.Message) -> Answer:
        """Bind a library's function."""
        ...

    def verify(self, message: wire.Message) -> Answer:
        """Run once on guarded arrays and judge the result."""
        ...

    def output(self, message: wire.Message) -> Answer:
        """The digest of what a kernel writes."""
        ...

    def time(self, message: wire.Message) -> Answer:
        """Time kernels in interleaved blocks."""
        ...

    def unload(self, message: wire.Message) -> Answer:
        """Free a kernel."""
        ...

    def peaks(self, message: wire.Message) -> Answer:
        """What the device can do at most."""
        ...


def plain_refusal(error: Exception, kernel: int) -> Answer:
    """What went wrong, and which kernel it was about."""
    said = str(error) if isinstance(error, SkipjackError) else f"{type(error).__name__}: {error}"
    return {"error": said[:500], "kernel": kernel}


def _import(message: wire.Message) -> Answer:
    """Have a library's package, which takes long, before anybody waits for the library."""
    importlib.import_module(message.body["module"])
    return {}


def answer_all(
    requests: BinaryIO,
    answers: BinaryIO,
    page: Announcement,
    worker: RunWorker,
    refusal: Callable[[Exception, int], Answer] = plain_refusal,
) -> Iterator[Answer]:
    """Say that the worker is ready, then answer until the pipe closes; gives each answer sent."""
    wire.send(answers, {"ready": True})
    verbs: dict[str, Callable[[wire.Message], Answer]] = {
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
    while (message := wire.receive(requests.read)) is not None:
        try:
            answer = verbs[message.body["verb"]](message)
        except Exception as error:
            # Whatever goes wrong is the answer to this request; the session goes on.
            answer = refusal(error, page.kernel)
        page.announce(NOTHING)
        wire.send(answers, answer)
        yield answer

"""Several messages in one: small tasks travel together, for a frame costs more than a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skipjack.execute.wire import Message


def pack(messages: Sequence[Message], **more: Any) -> Message:
    """One message that holds all of these, in order, and `more` beside them."""
    body = {
        **more,
        "bodies": [message.body for message in messages],
        "counts": [len(message.blobs) for message in messages],
    }
    return Message(body, tuple(blob for message in messages for blob in message.blobs))


def unpack(parcel: Message) -> list[Message]:
    """What `pack` was given."""
    blobs = iter(parcel.blobs)
    return [
        Message(body, tuple(next(blobs) for _ in range(count)))
        for body, count in zip(parcel.body["bodies"], parcel.body["counts"], strict=True)
    ]

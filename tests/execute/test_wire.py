"""Frames can be cut anywhere."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.execute import wire

MESSAGES = st.lists(
    st.tuples(
        st.dictionaries(st.text(), st.integers() | st.text()), st.lists(st.binary(), max_size=3)
    ),
    max_size=4,
)


@given(MESSAGES, st.integers(1, 50))
def test_pieces_of_any_size_give_the_same_messages(
    messages: list[tuple[dict[str, int | str], list[bytes]]], size: int
) -> None:
    stream = b"".join(wire.encode(body, blobs) for body, blobs in messages)
    decoder = wire.Decoder()
    found = [
        message
        for at in range(0, len(stream), size)
        for message in decoder.feed(stream[at : at + size])
    ]
    assert found == [wire.Message(body, tuple(blobs)) for body, blobs in messages]
    whole = io.BytesIO(stream)
    assert [wire.receive(whole.read) for _ in found] == found
    assert wire.receive(whole.read) is None


def test_half_a_frame_is_the_end_of_the_stream() -> None:
    assert wire.receive(io.BytesIO(wire.encode({"a": 1}, [b"blob"])[:-1]).read) is None


def test_what_is_no_frame_is_refused_before_it_is_read() -> None:
    with pytest.raises(ValueError, match="bytes long, above"):
        wire.Decoder().feed(b"\xff" * 8)

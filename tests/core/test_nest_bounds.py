"""A nest whose loops lead out of its arrays is refused before anything is compiled."""

import pytest

from skipjack.core import Access, Affine, Load, Nest, Tensor, index


def _copied(size: int, at: Affine) -> Nest:
    read = Access(Tensor("x", (size,)), (at,))
    written = Access(Tensor("out", (8,)), (index("i"),))
    return Nest((("i", 8),), (read,), written, Load(0))


def test_loops_may_reach_the_last_element() -> None:
    assert _copied(15, index("i", 2)).extent("i") == 8
    assert _copied(8, Affine((("i", -1),), 7)).extent("i") == 8


@pytest.mark.parametrize(
    ("size", "at", "reached"),
    [
        (7, index("i"), "from 0 to 7 along axis 0, but it has the elements 0 to 6"),
        (14, index("i", 2), "from 0 to 14"),
        (8, Affine((("i", 1),), 1), "from 1 to 8"),
        (8, Affine((("i", -1),), 6), "from -1 to 6"),
    ],
)
def test_loops_that_leave_an_array_are_refused(size: int, at: Affine, reached: str) -> None:
    with pytest.raises(ValueError, match=f"the loops access x {reached}"):
        _copied(size, at)

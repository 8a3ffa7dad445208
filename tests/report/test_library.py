"""Tables name the library that they compare with."""

import pytest

from skipjack.report.numbers import library_cell, library_column


@pytest.mark.parametrize(
    ("vendors", "heading"),
    [
        ([], "NumPy"),
        (["numpy", "", "numpy"], "NumPy"),
        (["onednn", "onednn", ""], "onednn"),
        (["numpy", "onednn"], "library"),
    ],
)
def test_the_heading_is_the_library_if_there_is_one(vendors: list[str], heading: str) -> None:
    assert library_column(vendors) == heading


def test_a_cell_names_it_where_the_heading_does_not() -> None:
    assert library_cell("2 ms", "onednn", "onednn") == "2 ms"
    assert library_cell("2 ms", "onednn", "library") == "2 ms onednn"
    assert library_cell("2 ms", "numpy", "library") == "2 ms NumPy"
    assert library_cell("-", "", "library") == "-"

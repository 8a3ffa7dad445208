"""Digests of values: they are stored, and must be the same on every machine and version."""

from skipjack.core import digest_of


def test_a_digest_is_of_the_values_and_their_order() -> None:
    known = "d6843b3b365092e8e6c29f441c0853144496d1287e354ae664d81d16fbdc8f25"
    assert digest_of(["add:4", 1, None]) == known
    assert digest_of(("add:4", 1, None)) == known
    assert digest_of([1, "add:4", None]) != known

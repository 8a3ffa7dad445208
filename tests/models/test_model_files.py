"""Files of models: what is damaged is named, and of another version, too."""

from pathlib import Path

import numpy as np
import pytest

from skipjack.errors import MalformedError
from skipjack.learn.costs import read_model as read_cost_model
from skipjack.learn.costs import shipped_model
from skipjack.models import ConfigHeuristic, Ranker, read_model, write_model

ENTRY = b"PK\x01\x02"
"""Begins each entry of a zip file's directory."""
FLAGS, METHOD = 8, 10
"""Where an entry says that it is encrypted, and how it is compressed."""


def with_header(data: bytes, place: int, value: int) -> bytes:
    """The bytes of a zip file in which a field of all entries is set."""
    found = bytearray(data)
    at = data.find(ENTRY)
    while at >= 0:
        found[at + place] = value
        at = data.find(ENTRY, at + 1)
    return bytes(found)


@pytest.mark.parametrize(("place", "value"), [(FLAGS, 1), (METHOD, 99)])
def test_a_damaged_header_is_named(tmp_path: Path, place: int, value: int) -> None:
    path = tmp_path / "model.npz"
    write_model(path, {"format": "a"}, {"values": np.zeros(3)})
    assert read_model(path.read_bytes(), "it")[0] == {"format": "a"}
    with pytest.raises(MalformedError, match="that file is not"):
        read_model(with_header(path.read_bytes(), place, value), "that file")
    shipped_model().save(path)
    with pytest.raises(MalformedError, match="that file is not"):
        read_cost_model(with_header(path.read_bytes(), place, value), "that file")


@pytest.mark.parametrize(("kind", "what"), [(ConfigHeuristic, "heuristic"), (Ranker, "ranker")])
def test_a_file_of_another_version_says_how_to_make_it_anew(
    tmp_path: Path, kind: type[ConfigHeuristic] | type[Ranker], what: str
) -> None:
    path = tmp_path / "model.npz"
    write_model(path, {"format": f"skipjack-{what}-0", "features": 1}, {})
    with pytest.raises(MalformedError, match=f"skipjack-{what}-0.*skipjack learn {what}"):
        kind.read(path.read_bytes(), "that file")

"""Whatever a reader is given, it gives a value or one of our errors, and it ends.

A reader is a line in the tables of `fuzz.readers`. An input that once raised something else
belongs into a test of the reader's own.
"""

from __future__ import annotations

import faulthandler
import logging
import random
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from reader import Reader
from readers import READERS

from skipjack.errors import SkipjackError

HANG_S = 300.0
"""For `TOGETHER` inputs of some kilobytes, on a busy machine too: one of them does not end."""
TOGETHER = 50
LONG = 100_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Readers warn of what they pass over, thousands of times here."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_seeds_are_understood(reader: Reader, tmp_path: Path) -> None:
    for seed in reader.seeds():
        reader.read(seed, tmp_path)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_only_our_errors_come_out(reader: Reader, tmp_path: Path) -> None:
    _fuzz(reader, tmp_path, reader.inputs)


@pytest.mark.long
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_only_our_errors_come_out_of_many_inputs(reader: Reader, tmp_path: Path) -> None:
    # Readers of whole ledgers take a hundred times as long as those of a line.
    _fuzz(reader, tmp_path, min(LONG, 200 * reader.inputs))


def _fuzz(reader: Reader, directory: Path, inputs: int) -> None:
    source, seeds = random.Random(reader.name), reader.seeds()
    found: dict[str, str] = {}
    try:
        for number in range(inputs):
            if number % TOGETHER == 0:
                faulthandler.dump_traceback_later(HANG_S, exit=True)
            data = reader.mutate(source, seeds)
            try:
                reader.read(data, directory)
            except SkipjackError:
                pass
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                kind = f"{type(error).__name__} at {where.filename}:{where.lineno}"
                if kind not in found or len(data) < len(found[kind]):
                    found[kind] = f"{error}: {data[:400]!r}"
    finally:
        faulthandler.cancel_dump_traceback_later()
    assert not found, "\n".join(f"{kind}: {what}" for kind, what in found.items())

"""Processes wait for each other; a tuning inside of a tuning waits for nobody."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from skipjack.errors import StorageError
from skipjack.execute import slot_lock
from skipjack.runtime.online import TurnTimeoutError, one_at_a_time, tuning_lock


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Locks that are held now."""
    units: list[int] = []

    @contextmanager
    def lock(kind: str, wanted: Sequence[int], *_: object) -> Iterator[None]:
        units.extend(wanted)
        try:
            yield
        finally:
            for unit in wanted:
                units.remove(unit)

    monkeypatch.setattr(tuning_lock, "slot_lock", lock)
    return units


def test_a_tuning_holds_one_lock_and_those_inside_of_it_none(held: list[int]) -> None:
    with one_at_a_time("outer"):
        assert len(held) == 1
        for inner in ("outer", "inner", "another"):
            with one_at_a_time(inner):
                assert len(held) == 1
    assert not held
    with one_at_a_time("inner"):
        assert len(held) == 1


def test_a_tuning_that_fails_lets_the_next_one_lock(held: list[int]) -> None:
    with pytest.raises(ValueError, match="no"), one_at_a_time("a"):
        raise ValueError("no")
    with one_at_a_time("a"):
        assert len(held) == 1


def test_another_thread_takes_a_lock_of_its_own(held: list[int]) -> None:
    seen: list[int] = []

    def tune() -> None:
        with one_at_a_time("other"):
            seen.append(len(held))

    with one_at_a_time("a"):
        thread = threading.Thread(target=tune)
        thread.start()
        thread.join(10)
    assert seen == [2]


def test_without_a_place_for_locks_tuning_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(tuning_lock, "slot_lock", refuse)
    with one_at_a_time("a"):
        assert "without a lock: the disk is full" in caplog.text


def test_who_cannot_wait_any_longer_is_told_so(scratch: Path) -> None:
    with (
        slot_lock("autotune", range(64)),
        pytest.raises(TurnTimeoutError, match="was still held by"),
        one_at_a_time("a", timeout_s=0.01),
    ):
        pytest.fail("two have the same turn")
    with one_at_a_time("a", timeout_s=0.01):
        pass

"""Real file systems that are full or read-only: one clear sentence, nothing half-written."""

import os
from pathlib import Path

import pytest

from skipjack.bank import Bank
from skipjack.core import Config
from skipjack.errors import StorageError
from skipjack.ledger import CandidateKey, Ledger, MeasurementRecord, MetricSamples
from skipjack.settings import Settings
from skipjack.storage import ArtifactStore, KernelStore, artifacts, atomic_write, user_directory
from small_disks import disk, fill, make_read_only

__all__ = ["disk"]

CANDIDATE = CandidateKey("matmul:8x8x8:f32", "loops", 1, Config().key)


def block(number: int, samples: int) -> MeasurementRecord:
    times = MetricSamples("ns", tuple(map(float, range(samples))))
    return MeasurementRecord(CANDIDATE, None, "i", "c", "{}", "s", number, {"time_ns": times})


def test_a_file_that_does_not_fit_leaves_the_old_one(disk: Path) -> None:
    atomic_write(disk / "file", b"old")
    with pytest.raises(StorageError, match="disk full"):
        atomic_write(disk / "file", b"x" * 2**21)
    assert (disk / "file").read_bytes() == b"old"
    assert [path.name for path in disk.iterdir()] == ["file"]


def test_an_artifact_that_does_not_fit_is_not_there(disk: Path) -> None:
    with pytest.raises(StorageError, match="disk full"):
        ArtifactStore(disk / "artifacts").put(b"x" * 2**21)
    assert not [path for path in disk.rglob("*") if path.is_file()]


def test_a_kernel_cache_on_a_full_or_read_only_disk_is_done_without(
    disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "_warned", set())
    store = KernelStore(Settings(tmp_path, cache_dir=disk / "cache"))
    digest = store.put(b"small")
    assert store.put(b"x" * 2**21) not in store
    assert "kernels are not kept: disk full" in caplog.text
    os.utime(store.path(digest), (0, 0))
    make_read_only(disk)
    assert store.put(b"another") not in store
    assert store.get(digest) == b"small"  # its date stays as it was
    assert caplog.text.count("kernels are not kept") == 1


def test_a_ledger_on_a_disk_that_fills_keeps_what_was_committed(disk: Path) -> None:
    written = 0
    with Ledger.open(disk) as ledger:
        with pytest.raises(StorageError, match="disk full"):
            for number in range(1000):
                ledger.add_measurements([block(number, 500), block(number + 10**6, 500)])
                written += 1
        assert written > 0
        assert len(ledger.measurements(CANDIDATE.problem)) == 2 * written
    with Ledger.open(disk) as ledger:
        assert len(ledger.measurements(CANDIDATE.problem)) == 2 * written


def test_a_ledger_can_go_on_when_there_is_room_again(disk: Path) -> None:
    with Ledger.open(disk) as ledger:
        fill(disk)
        with pytest.raises(StorageError, match="disk full"):
            ledger.add_measurements([block(number, 100) for number in range(500)])
        (disk / "ballast").unlink()
        ledger.add_measurements([block(0, 100)])
        assert ledger.summary().measurements == 1


def test_a_ledger_cannot_begin_on_a_full_disk(disk: Path) -> None:
    fill(disk)
    with pytest.raises(StorageError):
        Ledger.open(disk)


def test_a_merge_that_does_not_fit_changes_nothing(disk: Path, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "large") as large:
        large.add_measurements([block(number, 500) for number in range(500)])
    with Ledger.open(disk) as ledger:
        with pytest.raises(StorageError, match="disk full"):
            ledger.merge(large.path)
        assert ledger.summary().measurements == 0
    assert not list(disk.glob(".merge-*"))


def test_a_read_only_disk_is_named(disk: Path) -> None:
    make_read_only(disk)
    assert Bank.open(disk).entries() == []  # reading a bank needs no right to write
    for open_it in (Ledger.open, lambda path: user_directory(Settings(path))):
        with pytest.raises(StorageError, match=rf"{disk}.*Read-only.*SKIPJACK_USER_DB_PATH"):
            open_it(disk)


def test_a_bundle_on_a_read_only_disk_is_merged(disk: Path, tmp_path: Path) -> None:
    with Ledger.open(disk) as bundle:
        bundle.add_measurements([block(0, 1)])
    make_read_only(disk)
    with Ledger.open(tmp_path / "here") as ledger:
        ledger.merge(bundle.path)
        assert ledger.summary().measurements == 1

"""Artifacts are read exactly as they were stored, or not at all."""

import hashlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from skipjack.errors import CorruptFileError, StorageError
from skipjack.storage import ArtifactStore


def test_the_digest_is_the_name(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    digest = store.put(b"code")
    assert digest == hashlib.sha256(b"code").hexdigest()
    assert store.path(digest) == tmp_path / "artifacts" / digest[:2] / digest
    assert store.get(digest) == b"code"
    assert digest in store


def test_putting_twice_keeps_the_file(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    path = store.path(store.put(b"code"))
    inode = path.stat().st_ino
    store.put(b"code")
    assert path.stat().st_ino == inode


def test_damage_is_found_on_reading_and_set_aside(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    digest = store.put(b"code")
    store.path(digest).write_bytes(b"cod\0")
    with pytest.raises(CorruptFileError, match=r"renamed to \w+\.corrupt-"):
        store.get(digest)
    assert digest not in store
    assert [path.read_bytes() for path in store.path(digest).parent.iterdir()] == [b"cod\0"]


def test_putting_heals_damage(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    digest = store.put(b"code")
    store.path(digest).write_bytes(b"")
    store.put(b"code")
    assert store.get(digest) == b"code"


def test_a_missing_artifact_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=f"no artifact {'0' * 64}"):
        ArtifactStore(tmp_path).get("0" * 64)


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "0" * 63])
def test_only_digests_are_looked_up(tmp_path: Path, digest: str) -> None:
    with pytest.raises(StorageError, match="not an artifact's digest"):
        ArtifactStore(tmp_path).path(digest)


def put_and_get(directory: Path) -> list[bytes]:
    store = ArtifactStore(directory)
    return [store.get(store.put(bytes([number]) * 1000)) for number in range(20)]


def test_many_processes_put_the_same(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3) as pool:
        answers = list(pool.map(put_and_get, [tmp_path] * 3))
    assert answers == [[bytes([number]) * 1000 for number in range(20)]] * 3
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 20

"""Building for a named CPU: every config has a status, object files are kept."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from skipjack.core import Promising, Status
from skipjack.errors import StorageError, UsageError
from skipjack.native import describe
from skipjack.operations import parse
from skipjack.settings import ARTIFACTS
from skipjack.solvers import solver_for
from skipjack.storage import ArtifactStore
from skipjack.tuning import Builder, BuildOptions, BuildResult, build, object_files, write_objects
from skipjack.tuning.build_only import promising_configs
from skipjack.tuning.study import TuneProgress

MATMUL = "matmul:600x600x600"
CONFIGS = 14
AVX2 = describe("x86-64-v3/1")
X86_64 = 62


@pytest.fixture(scope="module")
def builder(home: Path) -> Iterator[Builder]:
    with Builder(AVX2) as made:
        yield made


@pytest.fixture(scope="module")
def packed(builder: Builder) -> BuildResult:
    """Configs of which some differ in run-time settings alone."""
    return builder.build(MATMUL, BuildOptions(configs=CONFIGS, solver="packed"))


def test_the_most_promising_configs_are_built_in_their_order(packed: BuildResult) -> None:
    problem = parse(MATMUL)
    space = solver_for(problem, AVX2, "packed").space(problem, AVX2)
    assert isinstance(space, Promising)
    built = [entry.config for entry in packed.builds]
    assert built == list(space.promising(CONFIGS))
    assert [entry.number for entry in packed.builds] == list(range(CONFIGS))
    assert packed.built == CONFIGS


def test_what_was_built_lies_in_the_artifact_store_under_its_digest(
    packed: BuildResult, home: Path
) -> None:
    store = ArtifactStore(home / ARTIFACTS)
    for entry in packed.builds:
        assert entry.status is Status.OK
        assert store.get(entry.digest) == entry.data
        assert entry.path == store.path(entry.digest)
        assert struct.unpack_from("<H", entry.data, 18) == (X86_64,)
        assert 0 < entry.text_bytes < len(entry.data)
        assert entry.vector_spills is not None


def test_configs_that_differ_in_run_time_settings_share_a_build(packed: BuildResult) -> None:
    fresh = [entry for entry in packed.builds if not entry.cached]
    assert len(fresh) == len({entry.digest for entry in packed.builds}) < len(packed.builds)
    assert len({entry.slots for entry in packed.builds}) > len(fresh)


def test_a_second_builder_finds_everything_built(packed: BuildResult, home: Path) -> None:
    with Builder(AVX2) as other:
        again = other.build(MATMUL, BuildOptions(configs=CONFIGS, solver="packed"))
    assert all(entry.cached and entry.seconds == 0 for entry in again.builds)
    facts = [(e.config, e.digest, e.slots, e.text_bytes, e.vector_spills) for e in again.builds]
    assert facts == [
        (e.config, e.digest, e.slots, e.text_bytes, e.vector_spills) for e in packed.builds
    ]


def test_another_cpu_has_other_code(packed: BuildResult, home: Path) -> None:
    other = build(MATMUL, "neoverse-n1/1", configs=2, solver="packed")
    assert other.target["triple"].startswith("aarch64")
    assert not {e.digest for e in other.builds} & {e.digest for e in packed.builds}
    assert not other.builds[0].cached


def test_the_observer_sees_it_grow(builder: Builder) -> None:
    seen: list[TuneProgress] = []
    builder.build("add:77", BuildOptions(configs=5, observer=seen.append))
    assert {summary.phase for summary in seen} == {"build"}
    assert seen[-1].trials == seen[-1].budget.trials == 5


def test_a_failing_build_is_a_status_and_the_others_go_on(
    rogue_everywhere: Path, home: Path
) -> None:
    with Builder(AVX2) as made:
        made.pool.timeout_s = 1.0
        result = made.build("rogue:60", BuildOptions(configs=100, solver="rogue"))
    fates = {str(entry.config["behaviour"]): entry for entry in result.builds}
    assert fates["bad_ir"].status is fates["refuse"].status is Status.BUILD_ERROR
    assert fates["exit"].status is Status.BUILD_CRASH
    assert fates["hang"].status is Status.BUILD_TIMEOUT
    assert fates["right"].ok and fates["segfault"].ok
    for entry in result.builds:
        assert entry.ok == bool(entry.data) == bool(entry.digest) == (not entry.reason)
        assert ("error" in entry.to_json()) != entry.ok


def test_configs_are_filled_up_with_random_ones_that_the_seed_decides() -> None:
    problem = parse("sum:64x64/axis=1")
    space = solver_for(problem, AVX2).space(problem, AVX2)
    one, same, other = (promising_configs(space, 200, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert len(set(one)) == len(one)
    assert all(space.contains(config) for config in one)


def test_none_to_build_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        BuildOptions(configs=0)


def test_written_objects_have_a_manifest_that_says_how_to_call_them(
    packed: BuildResult, tmp_path: Path
) -> None:
    place = tmp_path / "new" / "objects"
    written = write_objects(packed, place)
    manifest = json.loads((place / "matmul-600x600x600-f32.packed.x86-64-v3-1.json").read_text())
    assert (manifest["problem"], manifest["outputs"]) == (packed.problem.key, ["out"])
    assert [array["name"] for array in manifest["arrays"]] == ["a", "b", "out"]
    assert len(manifest["builds"]) == len(packed.builds)
    for entry, known in zip(manifest["builds"], written.builds, strict=True):
        data = (place / entry["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["digest"] == known.digest
        assert known.path == place / entry["file"]
        assert (entry["symbol"], entry["abi"], entry["needs"]) == ("kernel", "slots-1", [])
        assert entry["slots"] == list(known.slots)
        assert entry["config"] == dict(known.config)
    objects = {path.name for path in place.iterdir() if path.suffix == ".o"}
    assert objects == {entry["file"] for entry in manifest["builds"]}
    assert {path.suffix for path in place.iterdir()} == {".o", ".json"}


def test_two_problems_share_a_directory(builder: Builder, tmp_path: Path) -> None:
    for key in ("scale:8x8", "bias:8x8", "bias:8x8:f64"):
        write_objects(builder.build(key, BuildOptions(configs=1)), tmp_path)
    assert len(list(tmp_path.glob("*.o"))) == len(list(tmp_path.glob("*.json"))) == 3


def test_a_directory_that_cannot_be_is_one_sentence(packed: BuildResult, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        write_objects(packed, tmp_path / "file")


def test_a_disk_that_is_full_in_the_middle_leaves_nothing_new(
    packed: BuildResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.o").write_text("")

    def full(path: Path, data: bytes) -> None:
        if path.suffix == ".json":
            raise StorageError(f"disk full: no room to write {path}, nothing was changed")
        path.write_bytes(data)

    monkeypatch.setattr(object_files, "atomic_write", full)
    with pytest.raises(StorageError, match="disk full"):
        write_objects(packed, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.o"]


def test_objects_run_as_their_manifest_says(home: Path, tmp_path: Path) -> None:
    """A program that knows nothing but the files computes with them."""
    import ctypes

    from skipjack.native import cpu, llvm

    write_objects(build("matmul:9x17x5", f"{cpu.detect().arch}/1", configs=1), tmp_path)
    manifest = json.loads(next(tmp_path.glob("*.json")).read_text())
    entry = manifest["builds"][0]
    rng = np.random.default_rng(0)
    arrays = {a["name"]: rng.random(a["shape"], dtype=np.float32) for a in manifest["arrays"]}
    slots = [s if isinstance(s, int) else arrays[s].ctypes.data for s in entry["slots"]]
    loader = llvm.Loader()
    address = loader.load((tmp_path / entry["file"]).read_bytes(), entry["symbol"])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)((ctypes.c_int64 * len(slots))(*slots))
    np.testing.assert_allclose(arrays["out"], arrays["a"] @ arrays["b"], rtol=1e-5)

"""A worker's folders and variables are its own."""

import os
from pathlib import Path

import pytest

from skipjack.errors import StorageError
from skipjack.operations import parse
from skipjack.solvers.miopen import Mode, worker_folders
from skipjack.solvers.miopen.environment import variables, visible
from skipjack.solvers.miopen.solver import driver_arguments, refusal_of_problem, timing_arguments


def test_two_workers_share_no_folder(tmp_path: Path) -> None:
    roots = {
        worker_folders(tmp_path, *who).root for who in (("a", "hip:0"), ("a", "hip:1"), ("b", ""))
    }
    assert len(roots) == 3
    assert all(root.parent == tmp_path / "miopen" for root in roots)


def test_results_of_a_run_before_are_gone_and_its_kernels_are_kept(tmp_path: Path) -> None:
    place = worker_folders(tmp_path, "a", "hip:0")
    for mode in Mode:
        place.prepare(mode)
    old = [place.user_db / "old", place.winning_kernels / "old", place.cache / "old"]
    for path in old:
        path.write_text("")
    place.prepare(Mode.SEARCH)
    assert [path.exists() for path in old] == [False, True, True]
    place.prepare(Mode.KERNELS)
    assert [path.exists() for path in old] == [False, False, True]


def test_what_cannot_be_removed_is_said_and_not_taken_for_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = worker_folders(tmp_path, "a", "hip:0")
    place.prepare(Mode.FIND)
    (place.user_db / "old").write_text("")

    def refused(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", "old")

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(StorageError, match=r"cannot empty .*user-db: .*Permission denied"):
        place.prepare(Mode.FIND)


@pytest.mark.parametrize(
    ("mode", "find_mode", "enforce"),
    [(Mode.SEARCH, "1", "4"), (Mode.FIND, "1", None), (Mode.KERNELS, "3", None)],
)
def test_only_a_search_is_enforced(
    tmp_path: Path, mode: Mode, find_mode: str, enforce: str | None
) -> None:
    base = {"HOME": "/home", "MIOPEN_FIND_ENFORCE": "5", "MIOPEN_DEBUG_FIND_ONLY_SOLVER": "16"}
    place = worker_folders(tmp_path, "a", "hip:0")
    found = variables(place, mode, "hip:2", base=base)
    assert found["MIOPEN_FIND_MODE"] == find_mode
    assert found.get("MIOPEN_FIND_ENFORCE") == enforce
    assert "MIOPEN_DEBUG_FIND_ONLY_SOLVER" not in found, "a filtered find is no find"
    assert found["MIOPEN_USER_DB_PATH"].startswith(str(place.root))
    assert found["MIOPEN_CUSTOM_CACHE_DIR"].startswith(str(place.root))
    assert (found["HOME"], found["HIP_VISIBLE_DEVICES"]) == ("/home", "2")


def test_the_number_of_a_gpu_is_a_place_in_the_list_that_a_scheduler_leaves() -> None:
    assert visible("hip:1") == "1"
    assert visible("hip:1", "4,6") == "6"
    assert visible("hip:0", "GPU-8f3a") == "GPU-8f3a"


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("direction", ["fwd", "bwd", "wrw"])
def test_convolutions_of_all_directions_layouts_and_types_have_a_command(
    dtype: str, direction: str
) -> None:
    base = {"f32": "conv", "f16": "convfp16", "bf16": "convbfp16"}[dtype]
    bit = {"fwd": "1", "bwd": "2", "wrw": "4"}[direction]
    for layout in ("NCHW", "NHWC"):
        problem = parse("conv2d:n2c8h9w9k8y3x3", dtype, layout=layout, direction=direction)
        words = list(driver_arguments(problem, Mode.SEARCH))
        assert not refusal_of_problem(problem) and words[0] == base
        assert words[words.index("-F") + 1] == bit
        assert ("NHWC" in words) == (layout == "NHWC")
        assert words[-6:] == ["-s", "1", "-V", "1", "-i", "10"]
    assert "-s" not in driver_arguments(problem, Mode.FIND)
    assert list(driver_arguments(problem, Mode.KERNELS))[-4:] == ["-V", "0", "-i", "1"]
    assert list(timing_arguments(problem, "Gemm", 5))[-6:] == ["-S", "Gemm", "-V", "1", "-i", "5"]


def test_other_operations_are_refused_with_a_reason() -> None:
    assert "convolutions only" in refusal_of_problem(parse("matmul:64x64x64"))
    assert "f64" in refusal_of_problem(parse("conv2d:n1c8h9w9k8y3x3", "f64"))

"""Datasets of problems: what is in them, how they are split, and how they are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from skipjack.errors import MalformedError, StorageError, UsageError
from skipjack.learn.loops import (
    DatasetRequest,
    LoopDataset,
    dataset_names,
    find_problems,
    make_dataset,
    read_dataset,
    write_dataset,
)

LOOPTUNE = DatasetRequest("mm", "64:256:16,64:256:16", "64:256:16,64:256:16")


@pytest.fixture(autouse=True)
def own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)


def test_the_dataset_of_the_paper_has_its_problems_and_its_split() -> None:
    dataset = make_dataset("mm64_256_16", LOOPTUNE)
    assert len(dataset.keys()) == 2197
    assert (len(dataset.train), len(dataset.test)) == (1977, 220)
    assert not set(dataset.train) & set(dataset.test)
    assert "matmul:112x208x256:f32" in dataset.keys("all")


def test_the_seed_alone_decides_the_split() -> None:
    first, again = (make_dataset("a", LOOPTUNE) for _ in range(2))
    other = make_dataset("a", DatasetRequest(**{**_fields(LOOPTUNE), "seed": 1}))
    assert first == again
    assert set(first.keys()) == set(other.keys())
    assert first.test != other.test


def _fields(request: DatasetRequest) -> dict[str, object]:
    return {name: getattr(request, name) for name in DatasetRequest.__slots__}


@pytest.mark.parametrize(
    ("request_", "count", "one"),
    [
        (DatasetRequest("conv", "1:2:1,32,14,14", "32:64:32,3,3"), 4, "conv2d:n1c32h14w14k64"),
        (DatasetRequest("elementwise", "64:128:64,100"), 8, "tanh:64x100:f32"),
        (DatasetRequest("broadcast", "64,100", dtype="f64"), 2, "bias:64x100:f64"),
        (DatasetRequest("reduce", "64,100"), 8, "sum:64x100/axis=0:f32"),
        (DatasetRequest("reduce", "64,100", operations=("prod",)), 2, "prod:64x100/axis=1:f32"),
        (DatasetRequest("mm", "64,32:64:16", "48:96:16,7", dtype="f64"), 2, "matmul:64x7x48:f64"),
        (DatasetRequest("mm", "64:256:16,64", "64,64:256:16", limit=5), 5, "matmul"),
    ],
)
def test_every_kind_has_problems(request_: DatasetRequest, count: int, one: str) -> None:
    keys = make_dataset("some", request_).keys()
    assert len(keys) == count
    assert any(key.startswith(one) for key in keys)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (DatasetRequest("mm", "64:32:16,64", "64,64"), "the range 64:32:16 is empty"),
        (DatasetRequest("mm", "a,64", "64,64"), "'a' is not a range"),
        (DatasetRequest("mm", "64", "64,64"), "--dim-a takes 2 ranges"),
        (DatasetRequest("mm", "64,64", "32,64"), "A must have as many columns as B has rows"),
        (DatasetRequest("reduce", "64,64", "64,64"), "have no --dim-b"),
        (DatasetRequest("gemm", "64,64", "64,64"), "choose from mm, conv"),
        (DatasetRequest("mm", "1:999,1:999", "1:999,1:999"), "at most 100000 are possible"),
        (DatasetRequest("elementwise", "64,64", operations=("ad",)), "unknown operation 'ad'"),
        (DatasetRequest("elementwise", "64,64", train_share=2.0), "it must be from 0 to 1"),
        (DatasetRequest("elementwise", "64,64", limit=0), "it must be at least 1"),
        (DatasetRequest("elementwise", "64,64", operations=("softmax",)), "not a single loop nest"),
        (DatasetRequest("elementwise", "64,64", dtype="bf16"), "in f32 and f64, not in bf16"),
        (DatasetRequest("elementwise", "64,64", dtype="f99"), "unknown dtype 'f99'"),
    ],
)
def test_a_bad_request_is_refused_with_what_to_do(request_: DatasetRequest, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_dataset("some", request_)


@pytest.mark.parametrize(
    ("kind", "dim_a", "dim_b"),
    [
        ("mm", "1:999999999,64", "64,64"),
        ("mm", "1:100000,1:100000", "1:100000,64"),
        ("conv", "1:999999999,1:999999999,1:999999999,3", "64,3,3"),
    ],
)
def test_endless_ranges_are_counted_and_not_walked_through(
    kind: str, dim_a: str, dim_b: str
) -> None:
    with pytest.raises(UsageError, match="at most 100000 are possible"):
        make_dataset("some", DatasetRequest(kind, dim_a, dim_b))


def test_no_problem_is_in_a_dataset_twice() -> None:
    request = DatasetRequest("elementwise", "64:128:64,64", operations=("add", "mul", "add"))
    assert len(make_dataset("some", request).keys()) == 4


@pytest.mark.parametrize("name", ["", "a/b", "matmul", "a b"])
def test_a_name_must_be_one(name: str) -> None:
    with pytest.raises(UsageError, match="name"):
        make_dataset(name, LOOPTUNE)


def small(name: str = "small") -> LoopDataset:
    return make_dataset(name, DatasetRequest("mm", "64:96:16,64", "64,64:96:16"))


def test_a_dataset_is_read_as_it_was_written_by_name_and_by_path(tmp_path: Path) -> None:
    dataset = small()
    paths = write_dataset(dataset, tmp_path / "elsewhere" / "small.json")
    assert len(paths) == 2
    for text in ("small", "elsewhere/small", "elsewhere/small.json"):
        assert read_dataset(text) == dataset
    assert dataset_names() == ["small"]


def test_an_unknown_dataset_is_refused_with_those_there_are() -> None:
    write_dataset(small())
    with pytest.raises(UsageError, match=r"unknown dataset 'smal' \(known datasets: small\)"):
        read_dataset("smal")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "is not a dataset"),
        ("[", "broken.json"),
        ('{"format": "skipjack-loop-dataset", "version": 9}', "another version"),
        (
            '{"format": "skipjack-loop-dataset", "version": 1, "name": "x", "kind": "mm", '
            '"seed": 0, "train": ["matmul:4"], "test": []}',
            "matmul:4",
        ),
        (
            '{"format": "skipjack-loop-dataset", "version": 1, "name": "x", "kind": "mm", '
            '"seed": 0, "train": ["matmul:4x4x4:f32"], "test": ["matmul:4x4x4:f32"]}',
            "matmul:4x4x4:f32 is in both splits, train and test",
        ),
    ],
)
def test_a_damaged_dataset_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(MalformedError, match=message):
        read_dataset("broken")


def test_a_text_names_a_dataset_one_of_its_problems_or_a_problem() -> None:
    dataset = small()
    write_dataset(dataset)
    assert len(find_problems("small")) == 9
    assert [each.key for each in find_problems("small", "test")] == list(dataset.test)
    wanted = ["matmul:64x96x64:f32"]
    spellings = (
        *("small:64x96x64", "small:64_96_64", "small:matmul:64x96x64", "matmul:64x96x64"),
        *("small:mm64_96_64", "small/mm64_96_64.txt", "small/mm64_96_64"),
    )
    for text in spellings:
        assert [each.key for each in find_problems(text)] == wanted
    with pytest.raises(UsageError, match="dataset small has no problem 1x2x3; its 9 problems"):
        find_problems("small:1x2x3")
    with pytest.raises(UsageError, match="unknown split 'dev'"):
        find_problems("small", "dev")
    with pytest.raises(
        UsageError, match=r"unknown dataset 'smal'.*; there is no operation of this name either"
    ):
        find_problems("smal:1x2x3")


def test_a_shape_of_several_operations_is_asked_back() -> None:
    write_dataset(make_dataset("rows", DatasetRequest("reduce", "8,9", operations=("sum", "max"))))
    (found,) = find_problems("rows:max:8x9/axis=1")
    assert found.key == "max:8x9/axis=1:f32"
    with pytest.raises(
        UsageError, match=r"has 2 problems 8x9/axis=1; choose one, such as rows:\w+:8x9"
    ):
        find_problems("rows:8x9/axis=1")


def test_an_empty_part_of_a_dataset_is_named() -> None:
    request = DatasetRequest("elementwise", "64,64", operations=("add",))
    write_dataset(make_dataset("one", request))
    with pytest.raises(UsageError, match="dataset one has no problems in the split train"):
        find_problems("one", "train")


def test_a_dataset_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = small()
    (path,) = write_dataset(before)

    def full(descriptor: int, *_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="disk full"):
        write_dataset(make_dataset("small", DatasetRequest("elementwise", "64,64")))
    assert read_dataset("small") == before
    assert [each.name for each in path.parent.iterdir()] == ["small.json"]

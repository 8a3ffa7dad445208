"""Kernels out of a file: none at all, or none for this machine, are two answers."""

import hashlib
import sqlite3
from pathlib import Path

import pytest

import skipjack
from skipjack.bank import KernelRecord, write_kernel_db
from skipjack.errors import CorruptFileError
from skipjack.gpu.discovery import only_drivers
from skipjack.native import cpu

CODE = b"machine code"


def write(path: Path, device: str, compat: str) -> Path:
    digest = hashlib.sha256(CODE).hexdigest()
    how = ("triton_matmul", 1, {}, digest, "gpu", "gpu-1", ())
    write_kernel_db(path, [(KernelRecord("add:8:f32", device, compat, *how), CODE)])
    return path


def test_a_problem_that_the_file_lacks_is_none(tmp_path: Path) -> None:
    file = write(tmp_path / "x.skk", "sm_90/132", "cuda:sm_90:x")
    with only_drivers(), skipjack.kernels(file) as kernels:
        assert kernels.find("add:9") is None
        assert kernels.record("add:9:f32") is None


def test_a_problem_that_it_has_for_others_alone_is_none_and_one_can_ask_for_whom(
    tmp_path: Path,
) -> None:
    file = write(tmp_path / "x.skk", "sm_90/132", "cuda:sm_90:x")
    with only_drivers(), skipjack.kernels(file) as kernels:
        assert kernels.find("add:8:f32") is None and kernels.record("add:8:f32") is None
        assert kernels.devices("add:8:f32") == kernels.devices("add:8") == ["sm_90/132"]
        assert kernels.devices("add:9:f32") == []


def test_code_for_a_level_that_this_cpu_lacks_is_refused_in_a_sentence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "x.skk", "later/1", "cpu:x86-64-v9")
    with only_drivers(), skipjack.kernels(file) as kernels:
        assert kernels.find("add:8") is None
    (sentence,) = caplog.messages
    assert "no kernel of add:8:f32 in" in sentence
    runs = cpu.detect().compat_key
    assert f"it has code for cpu:x86-64-v9, and this machine runs {runs}" in sentence


def test_why_none_will_do_is_said_once_for_a_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    digest = hashlib.sha256(CODE).hexdigest()
    how = ("later/1", "cpu:x86-64-v9", "nest", 1, {}, digest, "k", "a", ())
    records = [KernelRecord(f"add:{size}:f32", *how) for size in (8, 9)]
    for name in ("x.skk", "y.skk"):
        write_kernel_db(tmp_path / name, [(record, CODE) for record in records])
        for _ in range(2):
            with only_drivers(), skipjack.kernels(tmp_path / name) as kernels:
                assert [kernels.find(key) for key in ("add:8", "add:9", "add:8")] == [None] * 3
    assert len(caplog.messages) == 2


def test_a_record_that_cannot_be_read_is_no_missing_one(tmp_path: Path) -> None:
    this = cpu.detect()
    file = write(tmp_path / "x.skk", this.name, this.compat_key)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE kernels SET record = '{'")
    with skipjack.kernels(file) as kernels, pytest.raises(CorruptFileError, match="damaged"):
        kernels.find("add:8")

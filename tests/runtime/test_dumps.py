"""A dump: one folder a problem, written by many processes, whole at any moment."""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from numpy_entry import entry

from skipjack.bank import Bank
from skipjack.core import ABI
from skipjack.errors import MalformedError, NewerFormatError, UsageError
from skipjack.interop import parse_driver
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime.dumps import (
    Dump,
    DumpedProblem,
    PassedCalls,
    dump_folder,
    folder_name,
    is_tuned,
    most_valuable_first,
    read_dump,
    read_dumped,
    read_passed,
)
from skipjack.runtime.dumps import dump as dump_module
from skipjack.runtime.dumps.worth import USUAL_GAIN
from skipjack.runtime.process import program
from skipjack.settings import Settings, load_settings
from small_disks import disk, fill

__all__ = ["disk"]
MATMUL, CONV = "matmul:16x24x32:f32", "conv2d:n1c8h8w8k8y3x3p1q1:f32:NCHW:fwd"


@pytest.fixture
def settings(user_dir: Path) -> Settings:
    return load_settings()


@pytest.fixture
def dump(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Dump:
    monkeypatch.setattr(program, "_said", set())
    return Dump(tmp_path / "dump", settings, torch="2.13.0")


def add(
    dump: Dump, key: str, calls: int = 1, ns: float | None = None, op: str = "aten::mm"
) -> None:
    dump.add(parse(key), cpu.detect(1), calls, ns, op)


def held(dump: Dump, key: str) -> DumpedProblem:
    return read_dumped(dump.folder / folder_name(key, cpu.detect(1).class_key))


def test_a_folder_says_what_was_called_how_often_and_what_ran(dump: Dump) -> None:
    add(dump, MATMUL, 3, 500.0)
    assert dump.flush()
    one = held(dump, MATMUL)
    assert (one.problem, one.calls, one.default_ns, one.ops) == (MATMUL, 3, 500.0, ("aten::mm",))
    assert (one.device, one.device_class) == (cpu.detect(1).name, cpu.detect(1).class_key)
    assert (one.torch, one.driver) == ("2.13.0", "")
    default = one.default
    assert default is not None and default.source == "proposal" and not default.reason
    assert default.abi == ABI and default.symbol and default.slots and default.compiler
    folder = dump.folder / folder_name(*one.key)
    for name, digest in default.files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert list(default.files) == ["default.o"]


def test_a_convolution_has_its_driver_line(dump: Dump) -> None:
    add(dump, CONV)
    dump.flush()
    assert list(parse_driver(held(dump, CONV).driver)) == [parse(CONV)]


def test_a_library_that_a_bank_names_is_the_default(dump: Dump, user_dir: Path) -> None:
    Bank.open(user_dir).put(entry(MATMUL))
    add(dump, MATMUL)
    dump.flush()
    default = held(dump, MATMUL).default
    assert default is not None
    assert (default.source, default.solver, default.files) == ("user", "numpy", {})
    assert default.library.startswith("numpy ")


def test_counts_add_up_and_times_are_weighted_by_calls(dump: Dump, settings: Settings) -> None:
    other = Dump(dump.folder, settings, torch="2.13.0")
    for one, calls, ns, op in ((dump, 30, 100.0, "aten::mm"), (other, 10, 500.0, "aten::addmm")):
        add(one, MATMUL, calls, ns, op)
        one.flush()
    add(dump, MATMUL, 5)
    dump.flush()
    found = held(dump, MATMUL)
    assert (found.calls, found.timed_calls, found.default_ns) == (45, 40, 200.0)
    assert found.ops == ("aten::addmm", "aten::mm")
    assert found.default is not None


def _many(folder: Path, settings: Settings, number: int) -> None:
    one = Dump(folder, settings)
    for turn in range(20):
        add(one, MATMUL, 1, 100.0)
        add(one, f"add:{64 + number}:f32", 2)
        one.pass_through(PassedCalls("aten::cumsum", "f32[4]", "x/1", "", 3))
        if turn % 3 == 0:
            one.flush(seconds=0.0)
    while not one.flush():
        pass


def test_many_processes_write_one_dump(tmp_path: Path, settings: Settings) -> None:
    folder = tmp_path / "dump"
    start = multiprocessing.get_context("fork").Process
    started = [start(target=_many, args=(folder, settings, number)) for number in range(4)]
    for one in started:
        one.start()
    seen = 0
    while any(one.is_alive() for one in started):
        for path in folder.glob("*/problem.json"):  # whole at any moment
            read_dumped(path.parent)
            seen += 1
    for one in started:
        one.join()
        assert one.exitcode == 0
    contents = read_dump(folder)
    assert seen and not contents.damaged
    calls = {dumped.problem: dumped.calls for _, dumped, _ in contents.problems}
    assert calls == {MATMUL: 80, **{f"add:{64 + number}:f32": 40 for number in range(4)}}
    assert all(dumped.default for _, dumped, _ in contents.problems)
    (passed,) = read_passed(folder / "passed_through.json")
    assert (passed.op, passed.calls) == ("aten::cumsum", 240)


def test_calls_without_an_operation_are_listed_by_what_they_took(
    dump: Dump, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_module, "_MOST_PASSED", 2)
    for calls, op, ns in ((1, "aten::a", 0), (5, "aten::b", 0), (3, "aten::c", 9)):
        dump.pass_through(PassedCalls(op, "f32[2]", "x/1", "no operation of ours", calls, ns))
        dump.flush()
    found = read_passed(dump.folder / "passed_through.json")
    assert [(one.op, one.calls) for one in found] == [("aten::c", 3), ("aten::b", 5)]


def test_a_full_disk_costs_one_warning_and_no_counts(
    disk: Path,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "_said", set())
    fill(disk)
    one = Dump(disk / "dump", settings)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            add(one, MATMUL, 2, 10.0)
            assert not one.flush()
    assert len(caplog.records) == 1 and "not dumped" in caplog.text
    (disk / "ballast").unlink()
    assert one.flush()
    assert held(one, MATMUL).calls == 6


def test_a_place_that_is_no_folder_costs_one_warning(
    tmp_path: Path, dump: Dump, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    one = Dump(tmp_path / "file", settings)
    add(one, MATMUL)
    assert not one.flush() and not one.flush()
    assert len(caplog.records) == 1 and "not a directory" in caplog.text


def test_a_damaged_file_is_written_anew(dump: Dump) -> None:
    add(dump, MATMUL)
    dump.flush()
    path = next(dump.folder.glob("*/problem.json"))
    path.write_text("{")
    add(dump, MATMUL, 4)
    dump.flush()
    assert held(dump, MATMUL).calls == 4


def test_names_of_folders_are_safe_and_tell_keys_apart() -> None:
    long = "sum:" + "x".join(["2"] * 30) + "/axis=1:f32"
    names = {folder_name(key, "c") for key in (MATMUL, CONV, long, f"{long[:-3]}f64", "../x:y")}
    assert len(names) == 5
    for name in names:
        assert len(name) < 100 and "/" not in name and not name.startswith(".")
    assert folder_name(MATMUL, "c") != folder_name(MATMUL, "d")


def test_variables_say_whether_and_where_to_dump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert dump_folder({}) is None and dump_folder({"ENABLE_TUNE_DUMP": "False"}) is None
    assert dump_folder({"ENABLE_TUNE_DUMP": "tRUE"}) == tmp_path / "tune_dump"
    there = {"ENABLE_TUNE_DUMP": "true", "TUNE_DUMP_PATH": "x/y"}
    assert dump_folder(there) == tmp_path / "x/y"
    with pytest.raises(UsageError, match="ENABLE_TUNE_DUMP is 1; write True or False"):
        dump_folder({"ENABLE_TUNE_DUMP": "1"})


def test_what_cannot_be_read_is_named_and_the_rest_is_read(dump: Dump) -> None:
    add(dump, MATMUL)
    dump.flush()
    good = next(dump.folder.glob("*/problem.json")).read_text()
    record = json.loads(good)
    for name, text in {
        "cut": good[:40],
        "newer": json.dumps({**record, "format": 9}),
        "unknown": json.dumps({**record, "problem": "frobnicate:4"}),
        "negative": json.dumps({**record, "calls": -1}),
        "endless": json.dumps({**record, "calls": 3, "default_ns": 1e308}),
        "odd": json.dumps({**record, "device": "a b"}),
    }.items():
        (dump.folder / name).mkdir()
        (dump.folder / name / "problem.json").write_text(text)
    (dump.folder / "empty").mkdir()  # somebody is about to write it
    (dump.folder / "other").mkdir()
    (dump.folder / "other" / "default.o").touch()
    contents = read_dump(dump.folder)
    assert [one.problem for _, one, _ in contents.problems] == [MATMUL]
    names = ["cut", "endless", "negative", "newer", "odd", "other", "unknown"]
    assert len(contents.damaged) == len(names)
    for name, sentence in zip(names, contents.damaged, strict=True):
        assert sentence.startswith(str(dump.folder / name)) and "\n" not in sentence
    with pytest.raises(NewerFormatError):
        read_dumped(dump.folder / "newer")
    with pytest.raises(MalformedError):
        read_dumped(dump.folder / "negative")


def test_a_folder_of_a_problem_is_a_dump_of_one(dump: Dump) -> None:
    add(dump, MATMUL)
    dump.flush()
    folder = dump.folder / folder_name(*held(dump, MATMUL).key)
    assert len(read_dump(folder).problems) == 1
    with pytest.raises(UsageError, match="No such file"):
        read_dump(dump.folder / "absent")


def test_an_empty_directory_is_no_dump(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a dump: no folder in it has a"):
        read_dump(tmp_path)


def test_calls_times_time_times_gain_decide_the_order(
    dump: Dump, settings: Settings, user_dir: Path
) -> None:
    add(dump, "add:4096:f32", 1000, 1000.0)
    add(dump, MATMUL, 10, 1e5)
    add(dump, CONV, 1, 1e9)
    add(dump, "relu:64:f32", 10**9)  # not timed: guessed from what it moves
    dump.flush(seconds=0.0)
    order = most_valuable_first(read_dump(dump.folder), settings)
    keys = [one.problem.key for one in order]
    assert keys == ["relu:64:f32", CONV, "add:4096:f32", MATMUL]
    assert {one.gain for one in order} == {USUAL_GAIN}
    known = entry("matmul:16x24x64")
    tenfold = replace(known, solver="nest", config={"a": 1}, time_ns=10.0, vendor_ns=100.0)
    Bank.open(user_dir).put(tenfold)
    again = most_valuable_first(read_dump(dump.folder), settings)
    gains = {one.problem.key: one.gain for one in again}
    assert gains[MATMUL] == pytest.approx(10.0) and gains[CONV] == USUAL_GAIN
    assert [one.problem.key for one in again][2] == MATMUL


def test_what_a_bank_has_is_tuned(settings: Settings, user_dir: Path) -> None:
    problem, device = parse(MATMUL), cpu.detect(1)
    assert not is_tuned(problem, device, settings, "native/hot")
    Bank.open(user_dir).put(entry(MATMUL))
    assert is_tuned(problem, device, settings, "native/hot")
    assert not is_tuned(problem, device, settings, "eager/cold")
    assert not is_tuned(problem, cpu.detect(2), settings, "native/hot")

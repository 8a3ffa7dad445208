"""Importing: every good line is kept, every bad one is named, and the numbers add up."""

import io
import json
import os
import subprocess
import sys
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from processes import PATIENCE_S
from skipjack.errors import UsageError
from skipjack.fleet.problem_import import (
    ImportOptions,
    ImportProgress,
    ImportReport,
    import_file,
    import_lines,
    importer,
    parse_batches,
)
from skipjack.fleet.problem_import.line_reader import LONGEST, line_blocks
from skipjack.fleet.store import AddedProblems, NewProblem, Problems, Store, open_store

CONV = "MIOpenDriver conv -n 8 -c 64 -H 28 -W 28 -k 96 -y 3 -x 3 -p 1 -q 1"
KEY = "conv2d:n8c64h28w28k96y3x3p1q1:f32:NCHW"
FIND_DB = "64-28-28-3x3-96-28-28-8-1x1-1x1-1x1-0-NCHW-FP32-F=Solver:0.5,0,algorithm"
TAG = ImportOptions(tag="t")

_BESIDE = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/fleet.sqlite") as opened:
        yield opened


class Memory(Problems):
    """A store's problems for those tests that are about lines."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    @property
    def problems(self) -> Self:
        return self

    def add(
        self,
        problems: Iterable[NewProblem],
        tag: str,
        *,
        recurrent: bool = False,
        source: str = "",
        model: str = "",
        tag_only: bool = False,
        in_order: bool = False,
    ) -> AddedProblems:
        assert not (recurrent or source or model or tag_only or in_order)
        found = {problem.key for problem in problems}
        new = found - self.keys
        self.keys |= new
        return AddedProblems(len(new), len(found) - len(new), len(new) if tag else 0)


@pytest.fixture
def memory() -> Memory:
    return Memory()


def keys(store: Store, tag: str | None = "t") -> list[str]:
    return [row.key for row in store.problems.find(tag=tag)]


def take(store: Store | Memory, text: str | bytes, options: ImportOptions = TAG) -> ImportReport:
    report = import_lines(
        store.problems, io.BytesIO(text if isinstance(text, bytes) else text.encode()), options
    )
    adds_up(report)
    return report


def adds_up(report: ImportReport) -> None:
    assert report.lines == (
        report.understood + report.blank + report.not_applicable + report.rejected
    )
    assert report.problems == (report.imported + report.tagged + report.duplicates + report.unknown)
    numbers = [value for value in asdict(report).values() if isinstance(value, int)]
    assert min(numbers) >= 0


@pytest.mark.parametrize(
    "line",
    [
        f"{CONV} -F 1",
        f"2026-11-15 12:00:01,123 [#7] worker#3: MIOpen(HIP): Command [Log] ./bin/{CONV} -F 1 -t 1",
        f"miopenConvolutionForward: './bin/{CONV} -F 1'",
        f'"{CONV} -F 1",',
        f"\ufeff{CONV} -F 1\r",
        f"\0\0\0{CONV}\t-F 1   # as logged",
        f"{CONV} -F 1 // as logged",
        "-n 8 -c 64 -H 28 -W 28 -k 96 -y 3 -x 3 -p 1 -q 1 -F 1",
        f"{KEY}:fwd",
        f'  "{KEY}:fwd",',
        "conv2d:n8c64h28w28k96y3x3p1q1",
        FIND_DB,
        f"gfx900_56.fdb.txt:{FIND_DB}",
    ],
)
def test_one_problem_has_many_forms(memory: Memory, line: str) -> None:
    assert take(memory, line).imported == 1
    assert memory.keys == {f"{KEY}:fwd"}


@pytest.mark.parametrize(
    "line",
    ["", "   ", "\t\r", "# a list", "  // a list", f"# {CONV} -F 1", f"// {CONV} -F 1", "\0"],
)
def test_blank_lines_and_comments_are_counted_apart(memory: Memory, line: str) -> None:
    assert take(memory, f"{line}\n").blank == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hello world", "neither the key of a problem"),
        (f"{CONV} -F 9", "from 0 to 7"),
        (f"{CONV} -F 1 -n 1\0002", "is where a flag should be"),
        (f"{CONV} -g 5", "do not divide"),
        ("MIOpenDriver", "no base"),
        ("relu:0", "at least 1"),
        ("x" * (LONGEST + 1), "longer than"),
        (FIND_DB.replace("96-28", "96-27"), "is inconsistent"),
        ("2x10x1x1x1x1x1x1x26x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xB=S:2", "perf-db"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_kept(
    memory: Memory, line: str, reason: str
) -> None:
    report = take(memory, f"relu:64\n{line}\nrelu:65\n")
    assert (report.imported, report.rejected) == (2, 1)
    (bad,) = report.bad
    assert bad.number == 2
    assert reason in bad.reason
    assert len(bad.text) < 200


def test_all_bad_lines_are_counted_and_the_first_are_shown(memory: Memory, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    text = "".join(f"bad {number}\n" for number in range(50))
    report = take(
        memory, text + f"{CONV.replace('conv', 'convint8')}\n", ImportOptions(report=file)
    )
    assert (report.rejected, len(report.bad)) == (50, 20)
    written = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["line"] for line in written] == list(range(1, 52))
    assert [line["status"] for line in written[-2:]] == ["rejected", "not_applicable"]


def test_bytes_of_another_encoding_do_not_matter(memory: Memory) -> None:
    latin = "Größe: ".encode("latin-1") + f"{CONV} -F 1\nrelu:64".encode()
    assert take(memory, latin).imported == 2
    assert take(memory, f"{CONV} -F 1\nrelu:64".encode("utf-16")).duplicates == 2


def test_a_command_without_direction_means_all_and_is_counted(memory: Memory) -> None:
    report = take(memory, f"{CONV}\n{CONV} -F 0\n{CONV} -F 2\n")
    assert (report.imported, report.duplicates, report.without_direction) == (3, 4, 2)


def test_an_output_layout_alone_is_that_of_all_arrays_and_is_counted(memory: Memory) -> None:
    lone = "--out_layout NHWC -F 1"
    lines = [
        f"{CONV} {lone}",
        f"{CONV} {lone} --pad_mode default -V -1",  # not read quickly
        f"{CONV} --out_layout NCHW -F 1",
        f"{CONV} -F 2",
    ]
    report = take(memory, "\n".join(lines))
    assert memory.keys == {
        f"{KEY.replace('NCHW', 'NHWC')}:fwd",
        f"{KEY}:fwd",
        f"{KEY}:bwd",
    }
    assert (report.lone_layout, report.rejected, report.not_applicable) == (2, 0, 0)


@pytest.mark.parametrize("line", [f"  {CONV}", f"{CONV} --pad_mode default -V -1", KEY])
@pytest.mark.parametrize(
    ("direction", "ends"), [("wrw", ["wrw"]), ("all", ["fwd", "bwd", "wrw"]), (None, None)]
)
def test_a_direction_fills_in_the_missing_one(
    memory: Memory, line: str, direction: str | None, ends: list[str] | None
) -> None:
    report = take(memory, f"{line}\n", ImportOptions(tag="t", direction=direction))
    usual = ["fwd"] if line == KEY else ["fwd", "bwd", "wrw"]
    assert sorted(memory.keys) == sorted(f"{KEY}:{end}" for end in ends or usual)
    assert report.without_direction == 1


def test_what_a_line_says_goes_before_what_was_asked_for(memory: Memory) -> None:
    options = ImportOptions(tag="t", direction="wrw", dtype="f64", layout="NHWC")
    layouts = "--in_layout NCHW --fil_layout NCHW --out_layout NCHW"
    take(memory, f"{CONV} -F 1 {layouts}\n{KEY}:bwd\nrelu:64:f32\nrelu:64\n{CONV}", options)
    assert memory.keys == {
        f"{KEY}:fwd",
        f"{KEY}:bwd",
        "relu:64:f32",
        "relu:64:f64",
        f"{KEY.replace('NCHW', 'NHWC')}:wrw",
    }


def test_batch_sizes_replace_those_of_the_lines(memory: Memory) -> None:
    text = f"{CONV} -F 1\nbatchnorm:n2c8h4w4\nmatmul:8x8x8\n{KEY.replace('n8', 'n64')}:fwd\n"
    report = take(memory, text, ImportOptions(tag="t", batches=parse_batches("32, 64,32")))
    assert sorted(memory.keys) == [
        *(f"batchnorm:n{n}c8h4w4/eps=1e-05/mode=train:f32" for n in (32, 64)),
        *(f"{KEY.replace('n8', f'n{n}')}:fwd" for n in (32, 64)),
        "matmul:8x8x8:f32",
    ]
    assert (report.problems, report.duplicates, report.without_batch) == (7, 2, 1)


@pytest.mark.parametrize("text", ["", "0", "32,", "-1", "a", "1.5", "²", "9" * 30])
def test_bad_batch_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a batch size"):
        parse_batches(text)


FOREIGN = [
    CONV.replace("conv ", "convint8 "),
    *(f"{KEY[:-9]}:{dtype}:NCHW:fwd" for dtype in ("i8", "f8e4m3")),
]


@pytest.mark.parametrize("base", ["convfp16", "convbfp16"])
def test_half_precision_is_imported(memory: Memory, base: str) -> None:
    line = CONV.replace("conv ", f"{base} ")
    dtype = {"convfp16": "f16", "convbfp16": "bf16"}[base]
    report = take(memory, f"{line} -F 1\n{KEY[:-9]}:{dtype}:NCHW:fwd\n")
    assert (report.imported, report.duplicates) == (1, 1)


@pytest.mark.parametrize("line", FOREIGN)
def test_a_dtype_that_nothing_computes_is_no_mistake(memory: Memory, line: str) -> None:
    report = take(memory, f"{line}\n{line.replace('-c 64', '-c 0').replace('c64', 'c0')}\n")
    assert (report.not_applicable, report.rejected) == (1, 1)
    assert list(report.not_applicable_reasons.values()) == [1]


def test_a_problem_with_another_tag_is_tagged_and_not_imported_again(store: Store) -> None:
    take(store, "relu:64\nrelu:65\n")
    report = take(store, "relu:64\nrelu:66\nrelu:64\n", ImportOptions(tag="u"))
    assert (report.imported, report.tagged, report.duplicates) == (1, 1, 1)


def test_tagging_only_adds_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "CHUNK", 1)
    take(store, "relu:64\n")
    report = take(store, "relu:64\nrelu:65\nrelu:65\n", ImportOptions(tag="u", tag_only=True))
    assert (report.imported, report.tagged, report.unknown, report.duplicates) == (0, 1, 1, 1)
    assert keys(store, "u") == ["relu:64:f32"]
    assert keys(store, None) == ["relu:64:f32"]


def test_recurrent_problems_can_be_asked_for(store: Store) -> None:
    options = ImportOptions(tag="x", recurrent=True, source="customer A", model="resnet50")
    take(store, "relu:64\n")
    take(store, "relu:65\n", options)
    assert [row.key for row in store.problems.find(recurrent=True)] == ["relu:65:f32"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"direction": "forward"},
        {"dtype": "f7"},
        {"layout": "ABCD"},
        {"tag": "x" * 300},
        {"tag": " x"},
        {"source": "a\nb"},
        {"tag_only": True},
        {"batches": (0,)},
    ],
)
def test_wrong_options_are_refused_at_once(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ImportOptions(**wrong)  # type: ignore[arg-type]


def test_a_file_that_cannot_be_read_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*nowhere\.txt: No such file"):
        import_file(store.problems, tmp_path / "nowhere.txt", TAG)
    with pytest.raises(UsageError, match=r"cannot read .*: Is a directory"):
        import_file(store.problems, tmp_path, TAG)
    with pytest.raises(UsageError, match="cannot write"):
        take(store, "relu:64", ImportOptions(report=tmp_path / "no" / "report"))


def test_progress_reaches_the_end(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    path.write_text("relu:64\nrelu:65")
    said: list[ImportProgress] = []
    import_file(store.problems, path, TAG, progress=said.append)
    assert said[-1] == ImportProgress(2, 2, path.stat().st_size, path.stat().st_size)


def test_an_interrupted_import_leaves_whole_chunks_and_can_be_run_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "CHUNK", 3)
    text = "".join(f"relu:{number}\n" for number in range(1, 11)).encode()

    calls = count(1)

    def add(*given: Any, **more: Any) -> object:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return real(*given, **more)

    real = store.problems.add
    with monkeypatch.context() as patched:
        patched.setattr(store.problems, "add", add)
        with pytest.raises(KeyboardInterrupt):
            import_lines(store.problems, io.BytesIO(text), TAG)
    assert len(keys(store)) == 6
    report = take(store, text)
    assert (report.imported, report.duplicates) == (4, 6)


_PIECES = st.sampled_from(
    [
        *(f"{CONV} -F {mask}" for mask in range(9)),
        *(CONV, KEY, f"{KEY}:bwd", FIND_DB, "relu:64", "matmul:8x8x8", "", "# x", "bad", '"'),
        *("\0", "é", "\r", "MIOpenDriver bnorm -n 2 -c 3 -H 4 -W 4 -m 1 -F 1", f'"{CONV}"'),
        *(f"{CONV} -m trans", f"{CONV} -_ 3 -! 4 -@ 1", "MIOpenDriver pool -n 1", "a#b "),
    ]
)
_LINES = st.lists(_PIECES, min_size=1, max_size=2).map(" ".join) | st.text(max_size=20)


@given(
    st.lists(_LINES, max_size=8),
    st.sampled_from([(), (16,), (8, 32)]),
    st.sampled_from([None, "fwd", "all"]),
    st.booleans(),
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
def test_numbers_add_up_whatever_the_lines(
    store: Store, lines: list[str], batches: tuple[int, ...], direction: str | None, only: bool
) -> None:
    text = "\n".join(lines).encode(errors="replace").removeprefix(BOM_UTF8)
    before = len(keys(store, None))
    options = ImportOptions(tag="t", batches=batches, direction=direction, tag_only=only)
    report = take(store, text, options)
    assert report.lines == len(text.split(b"\n")) - (text.endswith(b"\n") or not text)
    assert len(keys(store, None)) == before + report.imported
    again = take(store, text, options)
    assert (again.imported, again.tagged) == (0, 0)
    assert again.problems == report.problems


@given(st.binary(max_size=300))
def test_any_bytes_are_lines(data: bytes) -> None:
    if data.startswith((BOM_UTF8, BOM_UTF16_LE, BOM_UTF16_BE)):
        return
    lines = [line for block, _ in line_blocks(io.BytesIO(data)) for line in block]
    assert len(lines) == len(data.split(b"\n")) - (data.endswith(b"\n") or not data)


def test_a_line_without_end_is_not_held_in_memory() -> None:
    data = "é".encode() * (3 << 20) + b"\nrelu:64"
    lines = [line for block, _ in line_blocks(io.BytesIO(data)) for line in block]
    assert [len(line) for line in lines] == [LONGEST + 1, 7]


def test_two_imports_at_once_are_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/fleet.sqlite"
    open_store(url).close()
    path = tmp_path / "all.txt"
    path.write_text("".join(f"relu:{number}\n" for number in range(1, 3001)))
    script = (
        "import json, sys\n"
        "from dataclasses import asdict\n"
        "from skipjack.fleet.problem_import import ImportOptions, import_file, importer\n"
        "from skipjack.fleet.store import open_store\n"
        "importer.CHUNK = 500\n"
        "with open_store(sys.argv[1]) as store:\n"
        "    report = import_file(store.problems, sys.argv[2], ImportOptions(tag='t'))\n"
        "print(json.dumps(asdict(report)))\n"
    )
    command = [sys.executable, "-c", script, url, str(path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    reports = [json.loads(process.communicate(timeout=PATIENCE_S)[0]) for process in both]
    assert sum(report["imported"] for report in reports) == 3000
    assert sum(report["duplicates"] for report in reports) == 3000
    with open_store(url) as store:
        assert len(keys(store)) == 3000


@pytest.mark.skipif(not _BESIDE.is_dir() or "DRIVER_LISTS" in os.environ, reason="no real lists")
def test_nothing_of_real_lists_is_rejected(store: Store) -> None:
    paths = [*_BESIDE.glob("driver/[!L]*.txt"), *_BESIDE.glob("miopen/*.fdb.txt")]
    assert paths
    for path in paths:
        report = import_file(store.problems, path, TAG)
        adds_up(report)
        assert not report.bad, path
        assert report.understood + report.not_applicable

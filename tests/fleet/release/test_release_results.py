"""Rankings are the same wherever they lie: in jobs, a bank, a find-db, or our own lines."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import CONV, CONV_KEY, CPU, MATMUL, Verdicts, add_job, row, verdict

from skipjack.bank import FIND, Bank, BankEntry
from skipjack.errors import CorruptFileError, NewerFormatError, UsageError
from skipjack.fleet.model import JobKind, JobPlan
from skipjack.fleet.release.results import found_in_bank, found_in_file, found_in_label, write_lines
from skipjack.fleet.store import JobVerdict, Store
from skipjack.interop.miopen import convert

FOUND = {"solvers": [row("winograd4", 900.0, config={"tile": 4}), row("direct", 1000.0)]}
DATA = Path("/work/shared/data/miopen")


def test_a_labels_finds_are_rankings(shelf: Store) -> None:
    add_job(shelf, JobPlan(CONV, CPU, kind=JobKind.FIND), FOUND)
    add_job(shelf, JobPlan(CONV, CPU, "auto"), {"solver": "direct", "time_ns": 1.0, "config": {}})
    add_job(shelf, JobPlan(CONV, "gfx900/56", kind=JobKind.FIND), {"solvers": [row("direct", 3.0)]})
    add_job(
        shelf,
        JobPlan(MATMUL, CPU, kind=JobKind.FIND),
        {"solvers": [row("mkl", 2.0), row("nest", None)]},
    )
    on_gpu, conv, matmul = sorted(
        found_in_label(shelf.results, "L"), key=lambda one: one.device + one.problem
    )
    assert (conv.problem, conv.find_key, conv.device) == (CONV, CONV_KEY, CPU)
    assert [(entry.solver, entry.time_ns) for entry in conv.ranking] == [
        ("winograd4", 900.0),
        ("direct", 1000.0),
    ]
    assert conv.ranking[0].algorithm == "miopenConvolutionFwdAlgoWinograd"
    assert conv.ranking[0].config == {"tile": 4} and conv.toolchain == "tools 1"
    assert matmul.find_key is None and [one.solver for one in matmul.ranking] == ["mkl"]
    assert [one.device for one in found_in_label(shelf.results, "L", "gfx900/56")] == [
        on_gpu.device
    ]
    with pytest.raises(UsageError, match="unknown label 'M'"):
        list(found_in_label(shelf.results, "M"))


def test_many_pages_of_jobs_come_once_each(shelf: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skipjack.fleet.store.jobs.jobs._PAGE", 2)
    keys = [f"matmul:{size}x8x8:f32" for size in range(1, 8)]
    for key in keys:
        add_job(shelf, JobPlan(key, CPU, kind=JobKind.FIND), FOUND)
        add_job(shelf, JobPlan(key, "gfx900/56", kind=JobKind.FIND), FOUND)
    assert [one.problem for one in found_in_label(shelf.results, "L")] == [
        key for key in keys for _ in "ab"
    ]


def test_what_miopen_and_a_find_say_is_one_ranking() -> None:
    line = f"{CONV_KEY}=ConvAsm3x3U:0.0005,0,miopenConvolutionFwdAlgoDirect"
    miopen = {
        "solvers": [row("ConvAsm3x3U", 500.0, config={"params": "1,8"}, algorithm="X")],
        "miopen": {"find_db": [line]},
    }
    jobs = [
        verdict(JobPlan(CONV, CPU, kind=JobKind.FIND), FOUND),
        verdict(JobPlan(CONV, CPU, "miopen", driver="miopen"), miopen, 2),
    ]
    (found,) = found_in_label(Verdicts(*jobs), "L")
    assert [one.solver for one in found.ranking] == ["ConvAsm3x3U", "winograd4", "direct"]
    assert found.miopen == (line,) and found.ranking[0].algorithm == "X"
    again = verdict(
        JobPlan(CONV, CPU, kind=JobKind.FIND), {"miopen": {"find_db": [line.replace("5", "6")]}}, 3
    )
    (found,) = found_in_label(Verdicts(*jobs, again), "L")
    assert found.miopen == (line.replace("5", "6"),)


def test_of_two_jobs_that_which_ended_later_counts() -> None:
    def job(id: int, updated: str, time_ns: float) -> JobVerdict:
        ours, theirs = JobPlan(CONV, CPU, kind=JobKind.FIND), JobPlan(CONV, CPU, driver="miopen")
        plan = ours if id == 1 else theirs
        lines = [f"{CONV_KEY}=direct:{time_ns:g},0,x"]
        result = {"solvers": [row("direct", time_ns)], "miopen": {"find_db": lines}}
        return replace(verdict(plan, result, id), updated=updated)

    (found,) = found_in_label(Verdicts(job(1, "2026-11-16", 5.0), job(2, "2026-11-15", 9.0)), "L")
    assert [one.time_ns for one in found.ranking] == [5.0]
    assert found.miopen == (f"{CONV_KEY}=direct:5,0,x",) and found.updated == "2026-11-16"


def test_the_bank_has_rankings_too(tmp_path: Path) -> None:
    fixed = {"solver_version": 1, "config": {}, "default_ns": 1.0, "vendor_ns": None, "vendor": ""}
    bank = Bank.open(tmp_path)
    for device, created, rows in (("a", "2026", FOUND["solvers"]), ("b", "2025", [row("x", 1.0)])):
        evidence = {"ranking": rows}
        bank.put(
            BankEntry(
                CONV,
                device,
                CPU,
                "x",
                time_ns=1.0,
                speedup={},
                evidence=evidence,
                created=created,
                kind=FIND,
                **fixed,
            )
        )
    (found,) = found_in_bank(bank)
    assert [one.solver for one in found.ranking] == ["x"] and found.find_key == CONV_KEY
    assert not list(found_in_bank(bank, "gfx900/56"))


def test_our_lines_come_back_whole(tmp_path: Path) -> None:
    jobs = [verdict(JobPlan(key, CPU, kind=JobKind.FIND), FOUND) for key in (CONV, MATMUL)]
    found = list(found_in_label(Verdicts(*jobs), "L"))
    path = tmp_path / "znver4_1.find.jsonl"
    write_lines(path, CPU, found)
    assert list(found_in_file(path)) == found


def test_converted_lines_have_the_fields_of_exported_ones(tmp_path: Path) -> None:
    text, lines = tmp_path / "gfx90878.HIP.fdb.txt", tmp_path / "gfx90878.find.jsonl"
    text.write_text(f"{CONV_KEY}=direct:0.001,0,miopenConvolutionFwdAlgoDirect\n")
    convert(text, lines)
    (exported,) = found_in_label(
        Verdicts(verdict(JobPlan(CONV, CPU, kind=JobKind.FIND), FOUND)), "L"
    )
    assert json.loads(lines.read_text()).keys() == exported.record().keys()
    (found,) = found_in_file(lines)
    assert found.ranking[0].time_ns == 1000.0 and found.device == "gfx908/120"


def test_keys_that_are_not_computed_here_stay_as_they_are(tmp_path: Path) -> None:
    odd = "16-14-14-3x3-16-14-14-4-1x1-1x1-1x1-0-NCHW-INT8-F"
    path = tmp_path / "gfx90878.HIP.fdb.txt"
    path.write_text(f"{odd}=A:2,0,x;B:0,0,x\nnonsense=A:1,0,x\n{odd}=A:9,0,x\n")
    first, second = found_in_file(path)
    assert (first.problem, first.find_key, first.device) == (odd, odd, "gfx908/120")
    assert [(one.solver, one.time_ns, one.possible) for one in first.ranking] == [
        ("B", 0.0, False),
        ("A", 2e6, True),
    ]
    assert second.problem == "nonsense"


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("SQLite format 3\0", UsageError, "has no rankings"),
        ('{"format":2,"kind":"find"}\n', NewerFormatError, "x.txt:1 has format 2"),
        ('{"format":1,"kind":"perf"}\n', CorruptFileError, "its kind is 'perf'"),
        ('{"format":1,"kind":"find","ranking":[{"time_ns":"x"}]}', CorruptFileError, "x.txt:1"),
        ('{"format":1,"kind"', CorruptFileError, "x.txt:1"),
        ("half a line", CorruptFileError, ":1"),
        ("2x8=direct:rows~6", CorruptFileError, "x.txt is not a find-db: 'direct:rows~6'"),
    ],
)
def test_other_files_are_refused_in_a_sentence(
    tmp_path: Path, text: str, kind: type[Exception], says: str
) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    with pytest.raises(kind, match=says):
        list(found_in_file(path))


@pytest.mark.skipif(not DATA.is_dir(), reason="no files of MIOpen here")
def test_real_files_are_read() -> None:
    found = list(found_in_file(DATA / "gfx900_56.OpenCL.fdb.txt"))
    assert {one.device for one in found} == {"gfx900/56"} and len(found) > 1000
    assert sum(one.problem != one.find_key for one in found) > 0.95 * len(found)

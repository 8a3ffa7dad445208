"""Winners ship with their code; MIOpen's own kernels as they were harvested."""

from pathlib import Path
from typing import Any

import pytest
from made_up import CONV, CPU, MATMUL, Verdicts, digest, verdict

from skipjack.bank import KernelDb
from skipjack.errors import StorageError
from skipjack.fleet.model import JobKind, JobPlan
from skipjack.fleet.release.formats import MIOPEN, SKIPJACK, Contents, get
from skipjack.fleet.release.formats.miopen_format import kernel_name
from skipjack.fleet.release.results import config_of, fetching, kernels_in_label
from skipjack.fleet.store import JobVerdict
from skipjack.interop.miopen import KernelRow, read_kernel_db

SLOW, FAST, PACKED = b"slow code" * 50, b"fast code" * 50, b"packed code"


def tuned(
    problem: str, kind: JobKind, code: bytes, time_ns: float, job: int = 1, /, **more: Any
) -> JobVerdict:
    result: dict[str, Any] = {
        "problem": problem,
        "solver": "packed",
        "solver_version": 1,
        "config": {"rows": 6},
        "time_ns": time_ns,
        "vendor": "",
        "vendor_ns": None,
        "code": {"digest": digest(code), "symbol": "kernel", "abi": "slots-1", "slots": ["a"]},
        **more,
    }
    plan = JobPlan(problem, CPU, "auto" if kind is JobKind.KERNELS else "packed", kind=kind)
    return verdict(plan, result, job)


STORE = Verdicts(
    tuned(CONV, JobKind.TUNE, SLOW, 20.0),
    tuned(CONV, JobKind.TUNE, FAST, 10.0),
    tuned(MATMUL, JobKind.TUNE, FAST, 10.0),
    tuned(MATMUL, JobKind.KERNELS, PACKED, 11.0),
    code=(SLOW, FAST, PACKED),
)


def contents_of(store: Verdicts, form: str) -> Contents:
    return get(form).kernel(kernels_in_label(store, "L"), fetching(store, "L"))


def test_the_fastest_ships_and_what_was_packed_before_it(tmp_path: Path) -> None:
    (file,) = contents_of(STORE, SKIPJACK).files
    assert file.name(CPU) == "znver4_1.skk" and file.counts == {"kernels": 2}
    file.write(tmp_path / "x.skk", CPU)
    with KernelDb.open(tmp_path / "x.skk") as kernels:
        found = {record.problem: kernels.code(record) for record in kernels.records()}
    assert found == {CONV: FAST, MATMUL: PACKED}


def shipped(store: Verdicts, folder: Path) -> dict[str, bytes]:
    (file,) = contents_of(store, SKIPJACK).files
    file.write(folder / "x.skk", CPU)
    with KernelDb.open(folder / "x.skk") as kernels:
        return {record.problem: kernels.code(record) for record in kernels.records()}


def test_times_of_several_sessions_are_judged_beside_the_library(tmp_path: Path) -> None:
    calm = tuned(CONV, JobKind.TUNE, SLOW, 20.0, vendor="mkl", vendor_ns=40.0, config={"rows": 1})
    quick = tuned(CONV, JobKind.TUNE, FAST, 10.0, vendor="mkl", vendor_ns=11.0, config={"rows": 2})
    assert shipped(Verdicts(calm, quick, code=(SLOW, FAST)), tmp_path) == {CONV: SLOW}


def test_a_packed_kernel_that_wins_no_more_gives_way_and_is_named(tmp_path: Path) -> None:
    packed = tuned(CONV, JobKind.KERNELS, PACKED, 9.0, config={"rows": 1})
    better = tuned(CONV, JobKind.TUNE, FAST, 10.0, config={"rows": 2})
    store = Verdicts(packed, better, code=(PACKED, FAST))
    assert shipped(store, tmp_path) == {CONV: FAST}
    (remark,) = contents_of(store, SKIPJACK).remarks
    assert remark.startswith("1 packed kernel not used") and CONV in remark
    assert not contents_of(STORE, SKIPJACK).remarks


def test_miopens_file_says_the_config_and_the_processor(tmp_path: Path) -> None:
    (file,) = contents_of(STORE, MIOPEN).files
    assert file.name(CPU) == "znver4_1.kdb"
    file.write(tmp_path / "x.kdb", CPU)
    rows = {row.name: row for row in read_kernel_db(tmp_path / "x.kdb")}
    row = rows[kernel_name("packed", CONV)]
    assert row.code == FAST and len(rows) == 2
    params, _, arch = row.args.partition(" -mcpu=")
    assert dict(config_of(params)) == {"rows": 6} and arch == "znver4"


def test_kernels_of_miopen_are_for_its_own_files(tmp_path: Path) -> None:
    kernel = {"name": "conv.s.o", "args": "-Wa -mcpu=gfx908", "digest": digest(FAST)}
    job = verdict(
        JobPlan(CONV, "gfx908/120", "miopen", driver="miopen"),
        {"miopen": {"kernels": [kernel, kernel]}},
    )
    store = Verdicts(job, code=(FAST,))
    (file,) = contents_of(store, MIOPEN).files
    file.write(tmp_path / file.name(file.device), file.device)
    assert list(read_kernel_db(tmp_path / "gfx90878.kdb")) == [
        KernelRow("conv.s.o", "-Wa -mcpu=gfx908", FAST)
    ]
    contents = contents_of(store, SKIPJACK)
    assert contents.files == () and "1 kernel of MIOpen left out" in contents.remarks[0]


def test_lost_code_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    store = Verdicts(tuned(CONV, JobKind.TUNE, FAST, 10.0))
    (file,) = contents_of(store, SKIPJACK).files
    with pytest.raises(StorageError, match=r"is gone; skipjack reset -l L"):
        file.write(tmp_path / "x.skk", CPU)
    assert not list(tmp_path.iterdir())

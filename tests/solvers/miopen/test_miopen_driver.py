"""A problem in MIOpen's hands, without a process: the stand-in prints and writes as it would."""

import io
import re
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from skipjack.interop.miopen import (
    DatabaseRecord,
    RecordItem,
    find_key,
    perf_key,
    write_perf_sqlite,
)
from skipjack.operations import parse
from skipjack.solvers.miopen import (
    DriverResult,
    DriverSetup,
    Finished,
    Invocation,
    Mode,
    ProblemRecords,
    drive,
    probe,
)
from skipjack.solvers.miopen.driver import DriverError
from skipjack.solvers.miopen.environment import WorkerFolders
from skipjack.solvers.miopen.results import take_records
from skipjack.testing import miopen_driver

PROBLEM = parse("conv2d:n2c8h9w9k8y3x3p1q1", direction="bwd")


@dataclass
class StandIn:
    """Runs the stand-in in this process, and remembers with which words."""

    how: str = ""
    device: str = "gfx908/120"
    ran: list[str] = field(default_factory=list)

    def __call__(self, invocation: Invocation) -> Finished:
        self.ran.append(" ".join(invocation.argv[1:]))
        mine = {miopen_driver.VARIABLE: self.how, miopen_driver.DEVICE_VARIABLE: self.device}
        printed = io.StringIO()
        code: object = 0
        with redirect_stdout(printed):
            try:
                miopen_driver.main(invocation.argv[1:], {**invocation.environment, **mine})
            except SystemExit as end:
                code = end.code
        return Finished(printed.getvalue(), f"ended with exit code {code}" if code else "")


def bench_of(folder: Path, stand_in: StandIn) -> DriverSetup:
    return DriverSetup(
        folder / "MIOpenDriver",
        WorkerFolders(folder / "place"),
        "hip:0",
        "gfx908/120",
        stand_in,
        60.0,
    )


def driven(
    folder: Path, stand_in: StandIn, mode: Mode, known: ProblemRecords | None = None
) -> DriverResult:
    bench = bench_of(folder, stand_in)
    return drive(bench, PROBLEM, mode, probe(bench), known or ProblemRecords())


def test_a_search_leaves_the_records_of_the_problem_and_a_ranking(tmp_path: Path) -> None:
    stand_in = StandIn()
    found = driven(tmp_path, stand_in, Mode.SEARCH)
    assert "-s 1" in stand_in.ran[-1] and found.runs == 1
    assert found.installation.version == "3_2_0_a1b2c3d"
    assert found.problem_records.find and found.problem_records.find.key == find_key(PROBLEM)
    assert found.problem_records.perf and found.problem_records.perf.key == perf_key(PROBLEM)
    times = [entry.time_ms or 0.0 for entry in found.entries]
    assert times == sorted(times) and len(times) == 5
    assert [entry.verified for entry in found.entries] == [True, False, False, False, False]
    params = {entry.solver: entry.params for entry in found.entries}
    assert params["ConvAsm1x1U"] == "0,8,16,16" and params["GemmBwdRest"] == ""
    assert all("BwdData" in entry.algorithm for entry in found.entries)


def test_a_find_times_what_a_search_elsewhere_has_tuned(tmp_path: Path) -> None:
    searched = driven(tmp_path / "here", StandIn(), Mode.SEARCH)
    plain = driven(tmp_path / "there", StandIn(), Mode.FIND)
    told = driven(tmp_path / "there", StandIn(), Mode.FIND, searched.problem_records)
    times = [
        {entry.solver: entry.time_ms for entry in found.entries}
        for found in (searched, plain, told)
    ]
    assert times[2] == times[0] != times[1]


def test_kernels_are_those_of_the_winner_alone(tmp_path: Path) -> None:
    ranked = driven(tmp_path, StandIn(), Mode.FIND)
    stand_in = StandIn()
    packed = driven(tmp_path, stand_in, Mode.KERNELS, ranked.problem_records)
    (kernel,) = packed.problem_records.kernels
    assert kernel.name == f"{ranked.entries[0].solver}.s.o" and "-mcpu=gfx908" in kernel.args
    assert set(packed.code) == {kernel.digest}
    assert len(stand_in.ran) == 2, "the probe, and one run"


def test_kernels_of_a_problem_that_nobody_has_ranked_are_found_first(tmp_path: Path) -> None:
    stand_in = StandIn()
    packed = driven(tmp_path, stand_in, Mode.KERNELS)
    assert len(packed.problem_records.kernels) == 1 and packed.runs == 2
    assert packed.problem_records.find is not None


def test_a_time_that_cannot_be_does_not_make_a_winner(tmp_path: Path) -> None:
    ranked = driven(tmp_path, StandIn("hopeless"), Mode.FIND)
    packed = driven(tmp_path, StandIn(), Mode.KERNELS, ranked.problem_records)
    assert ranked.problem_records.find and ":-1.2," in ranked.problem_records.find.line
    (kernel,) = packed.problem_records.kernels
    assert kernel.name == f"{ranked.entries[0].solver}.s.o"


def test_times_that_cannot_be_are_taken_again_in_the_immediate_mode(tmp_path: Path) -> None:
    stand_in = StandIn("zero")
    found = driven(tmp_path, stand_in, Mode.SEARCH)
    assert found.invalid_times == 2 and found.runs == 3
    assert {words.split("-S ")[1].split()[0] for words in stand_in.ran[2:]} == {
        "GemmBwdRest",
        "ConvBinWinogradRxSf2x3g1",
    }
    again = [entry for entry in found.entries if "immediate mode" in entry.remark]
    assert len(again) == 2 and all(entry.time_ms and entry.verified for entry in again)


def test_what_cannot_be_timed_again_has_no_time_and_comes_last(tmp_path: Path) -> None:
    found = driven(tmp_path, StandIn("hopeless"), Mode.SEARCH)
    untimed = [entry for entry in found.entries if entry.time_ms is None]
    assert len(untimed) == found.invalid_times == 2
    assert found.entries[-2:] == tuple(untimed)
    assert all("MIOpen stored a time of" in entry.remark for entry in untimed)


def test_a_wrong_result_costs_its_solver_the_place_and_no_other(tmp_path: Path) -> None:
    sound, found = (driven(tmp_path, StandIn(how), Mode.SEARCH) for how in ("", "wrong"))
    *others, last = found.entries
    assert (last.solver, last.time_ms) == (sound.entries[0].solver, None)
    assert "result is wrong: Backward Convolution Data FAILED: 0.03" in last.remark
    assert tuple(others) == sound.entries[1:]
    assert found.invalid_times == 0 and found.runs == 1
    for record in (found.problem_records.find, found.problem_records.perf):
        assert record and last.solver not in {item.id for item in record.items}, "nor is it shipped"
    packed = driven(tmp_path, StandIn(), Mode.KERNELS, found.problem_records)
    assert packed.entries[0].solver == others[0].solver


def test_a_wrong_result_of_nobody_knows_whom_is_no_search(tmp_path: Path) -> None:
    stand_in = StandIn("wrong")
    bench = bench_of(tmp_path, stand_in)

    def terse(invocation: Invocation) -> Finished:
        said = stand_in(invocation)
        return replace(said, text=re.sub(r", Solution: \S+", "", said.text))

    installation = probe(bench)
    with pytest.raises(DriverError, match="result is wrong: Backward Convolution Data FAILED"):
        drive(replace(bench, run=terse), PROBLEM, Mode.SEARCH, installation)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("unknown-flag", "cannot be used: it does not know the flag s"),
        ("silent", "wrote no find-db record of 8-9-9-3x3"),
        ("garbage", "wrote no find-db record of 8-9-9-3x3.* and it printed no time"),
        ("failing", "exit code 7 .RunForwardGPU failed with 0x7"),
    ],
)
def test_every_failure_has_its_reason(tmp_path: Path, how: str, reason: str) -> None:
    with pytest.raises(DriverError, match=reason):
        driven(tmp_path, StandIn(how), Mode.SEARCH)


def test_a_record_of_an_earlier_run_is_not_taken_for_this_one(tmp_path: Path) -> None:
    stand_in = StandIn()
    driven(tmp_path, stand_in, Mode.SEARCH)
    stand_in.how = "silent"
    with pytest.raises(DriverError, match="wrote no find-db record"):
        driven(tmp_path, stand_in, Mode.SEARCH)


def test_a_perf_db_in_sqlite_is_read_too(tmp_path: Path) -> None:
    place = WorkerFolders(tmp_path)
    place.prepare(Mode.SEARCH)
    tuned = DatabaseRecord(perf_key(PROBLEM), [RecordItem("ConvAsm1x1U", "1,8,2,64")])
    write_perf_sqlite(place.user_db / "gfx90878_1.1.0.udb", [tuned])
    problem_records, others = take_records(place, find_key(PROBLEM), perf_key(PROBLEM))
    assert problem_records == ProblemRecords(None, tuned) and others == 0


def test_another_gpu_is_told_before_anything_is_searched(tmp_path: Path) -> None:
    stand_in = StandIn(device="gfx90a/104")
    with pytest.raises(DriverError, match="runs on gfx90a/104 as GPU hip:0, not on gfx908/120"):
        driven(tmp_path, stand_in, Mode.SEARCH)
    assert len(stand_in.ran) == 1


def test_a_gpu_that_changes_under_way_is_told_too(tmp_path: Path) -> None:
    stand_in = StandIn()
    bench = bench_of(tmp_path, stand_in)
    installation = probe(bench)
    elsewhere = replace(bench, run=StandIn(device="gfx906/60"))
    with pytest.raises(DriverError, match="ran on gfx906/60, not on gfx908/120"):
        drive(elsewhere, PROBLEM, Mode.SEARCH, installation)

"""A find-db holds every ranking once, sorted, without times that cannot be."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from made_up import CONV, CONV_KEY, CPU, MATMUL, Verdicts, row, verdict

from skipjack.fleet.model import JobKind, JobPlan
from skipjack.fleet.release.formats import MIOPEN, SKIPJACK, Contents, FindOptions, get
from skipjack.fleet.release.formats.miopen_records import find_records
from skipjack.fleet.release.results import (
    FoundProblem,
    RankedEntry,
    found_in_file,
    found_in_label,
    ranked,
)
from skipjack.interop.miopen import find_results
from skipjack.solvers import only_solvers
from skipjack.testing.fake_tuning import FakeLibrary

TIMES = st.floats(1e-3, 1e15)
RANKINGS = st.dictionaries(st.sampled_from(["direct", "im2col", "winograd2", "packed"]), TIMES)


def find_files(found: Iterable[FoundProblem], form: str, **options: Any) -> Contents:
    return get(form).find(found, FindOptions(**options))


def exported(*rows: dict[str, Any], form: str = MIOPEN, **options: Any) -> Contents:
    job = verdict(JobPlan(CONV, CPU, kind=JobKind.FIND), {"solvers": rows})
    return find_files(found_in_label(Verdicts(job), "L"), form, **options)


def text_of(contents: Contents, folder: Path) -> str:
    (file,) = contents.files
    path = folder / file.name(file.device)
    file.write(path, file.device)
    return path.read_text()


def test_a_line_is_as_miopen_writes_it(tmp_path: Path) -> None:
    contents = exported(
        row("winograd4", 1234567.89, workspace_bytes=4096),
        row("direct", 37760.0),
        row("im2col", 37760.0001),
    )
    assert contents.files[0].name("gfx942/304") == "gfx942130.HIP.fdb.txt"
    algorithm = "miopenConvolutionFwdAlgo"
    assert text_of(contents, tmp_path) == (
        f"{CONV_KEY}=direct:0.03776,0,{algorithm}Direct;im2col:0.03776,0,{algorithm}GEMM;"
        f"winograd4:1.23457,4096,{algorithm}Winograd\n"
    )
    assert contents.files[0].counts == {"problems": 1, "entries": 3}


def test_a_solver_of_a_plug_in_is_exported_with_the_algorithm_it_declares(tmp_path: Path) -> None:
    class Spectral(FakeLibrary):
        algorithm = "FFT"

    found = row("spectral", 37760.0)
    with only_solvers(Spectral("spectral")):
        assert "spectral:0.03776,0,miopenConvolutionFwdAlgoFFT" in text_of(
            exported(found), tmp_path
        )
    unknown = "spectral:0.03776,0,miopenConvolutionFwdAlgoDirect"
    assert unknown in text_of(exported(found), tmp_path)  # the plug-in is not loaded here


def test_the_best_few_can_be_all(tmp_path: Path) -> None:
    rows = [row(name, time) for name, time in (("a", 3.0), ("b", 1.0), ("c", 2.0))]
    for form in (MIOPEN, SKIPJACK):
        text = text_of(exported(*rows, form=form, top=2), tmp_path)
        assert "b" in text and '"a"' not in text and "a:" not in text.partition("=")[2]


def test_impossible_times_never_get_out(tmp_path: Path) -> None:
    bad = [row("b", 0.0), row("c", -1.0), row("d", math.nan), row("e", math.inf)]
    for form in (MIOPEN, SKIPJACK):
        contents = exported(row("a", 1000.0), *bad, form=form)
        assert (
            contents.counts["impossible_times"] == 4 and "4 impossible times" in contents.remarks[0]
        )
        (found,) = found_in_file(_written(contents, tmp_path))
        assert [one.solver for one in found.ranking] == ["a"]
    assert exported(*bad).files == () and exported(*bad).counts["without_a_time"] == 1


def test_what_miopen_has_no_keys_for_is_counted(tmp_path: Path) -> None:
    jobs = [
        verdict(JobPlan(key, CPU, kind=JobKind.FIND), {"solvers": [row("direct", 5.0)]})
        for key in (CONV, MATMUL)
    ]
    found = list(found_in_label(Verdicts(*jobs), "L"))
    contents = find_files(found, MIOPEN)
    assert contents.counts["not_in_this_format"] == 1 and "1 matmul" in contents.remarks[0]
    assert text_of(contents, tmp_path).count("\n") == 1
    assert text_of(find_files(found, SKIPJACK), tmp_path).count("\n") == 2


def test_lines_of_miopen_pass_through(tmp_path: Path) -> None:
    line = f"{CONV_KEY}=ConvB<3-6>:0.50,0,Y;ConvA:0.4000,7,X"
    other = f"{CONV_KEY}_g2=ConvA:1e-1,0,X;ConvZ:0,0,X"
    mine = {
        "solvers": [row("ConvB<3-6>", 500000.0), row("ConvA", 400000.0)],
        "miopen": {"find_db": [line, other, "half a li"]},
    }
    job = verdict(JobPlan(CONV, CPU, "miopen", driver="miopen"), mine)
    contents = find_files(found_in_label(Verdicts(job), "L"), MIOPEN)
    assert text_of(contents, tmp_path) == f"{line}\n{CONV_KEY}_g2=ConvA:1e-1,0,X\n"
    assert contents.counts["impossible_times"] == 1
    # Beside solvers of ours its items stay as they are, each in its place.
    find = verdict(JobPlan(CONV, CPU, kind=JobKind.FIND), {"solvers": [row("direct", 450000.0)]})
    contents = find_files(found_in_label(Verdicts(job, find), "L"), MIOPEN)
    items = text_of(contents, tmp_path).splitlines()[0].partition("=")[2].split(";")
    assert items[0] == "ConvA:0.4000,7,X" and items[2] == "ConvB<3-6>:0.50,0,Y"
    assert items[1].startswith("direct:0.45,")


@given(RANKINGS.filter(bool))
def test_a_ranking_comes_back_from_its_record(times: dict[str, float]) -> None:
    found = FoundProblem(
        CONV, CONV_KEY, CPU, ranked(RankedEntry(name, time, 0, "X") for name, time in times.items())
    )
    (record,) = find_records(found)
    lines = find_results(record)
    back = [(line.time_ms, line.solver) for line in lines]
    assert back == sorted(back)
    for time_ms, name in back:
        assert math.isclose(time_ms * 1e6, times[name], rel_tol=1e-5)
    assert {name for _, name in back} == times.keys()


def test_a_transposed_convolution_and_the_plain_one_share_a_record(tmp_path: Path) -> None:
    plain = FoundProblem(CONV, CONV_KEY, CPU, (RankedEntry("direct", 2e6, 0, "X"),))
    other = FoundProblem("other", CONV_KEY, CPU, (RankedEntry("direct", 1e6, 0, "X"),))
    for order in ([plain, other], [other, plain]):
        contents = find_files(order, MIOPEN)
        assert text_of(contents, tmp_path) == f"{CONV_KEY}=direct:1,0,X\n"
        assert contents.counts["shared_keys"] == 1


def _written(contents: Contents, folder: Path) -> Path:
    text_of(contents, folder)
    return folder / contents.files[0].name(CPU)

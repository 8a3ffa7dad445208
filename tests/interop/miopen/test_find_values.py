"""Find results in both formats, whatever solvers and algorithms there will be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.errors import UsageError
from skipjack.interop.miopen import (
    DatabaseRecord,
    FindResultLine,
    RecordItem,
    algorithm_name,
    current_of,
    find_item,
    find_results,
    find_text,
    legacy_item,
)
from skipjack.interop.miopen.find_values import algorithm_parts, legacy_of

FWD = "miopenConvolutionFwdAlgo"
LEGACY = [
    (
        f"{FWD}StaticCompiledGEMM:ConvSCGemmFwd<SCGemmOpFGemm>,1.49952,802816,"
        f"{FWD}StaticCompiledGEMM,128x28x28,with,commas",
        FindResultLine("ConvSCGemmFwd<SCGemmOpFGemm>", 1.49952, 802816, f"{FWD}StaticCompiledGEMM"),
    ),
    (
        f"{FWD}FFT:fft,7.43408,856195072,{FWD}FFT,FFT_x_in_h_27",
        FindResultLine("fft", 7.43408, 856195072, f"{FWD}FFT"),
    ),
    (
        "miopenTransposeBwdDataAlgoGEMM:gemm,220,14450688,MIOpenGEMM,0_1_3136_36",
        FindResultLine("gemm", 220.0, 14450688, "miopenTransposeBwdDataAlgoGEMM"),
    ),
    (
        f"{FWD}Winograd:ConvWinograd3x3MultipassWrW<3, 6>,1e-05,0,{FWD}Winograd,not used",
        FindResultLine("ConvWinograd3x3MultipassWrW<3, 6>", 1e-05, 0, f"{FWD}Winograd"),
    ),
]


def record(*texts: str) -> DatabaseRecord:
    return DatabaseRecord("key", [RecordItem(*text.split(":", 1)) for text in texts])


@pytest.mark.parametrize(("text", "result"), LEGACY)
def test_legacy_values_are_told_by_their_form(text: str, result: FindResultLine) -> None:
    assert find_results(record(text)) == (result,)


def test_current_values_and_legacy_ones_may_stand_together() -> None:
    mixed = record(f"ConvAsm1x1U:0.0371,0,{FWD}Direct", LEGACY[1][0])
    assert [line.solver for line in find_results(mixed)] == ["ConvAsm1x1U", "fft"]


@pytest.mark.parametrize("time", ["3", "-1.2", "1e-05", "1E+03", ".5", "inf", "0"])
def test_times_are_numbers_however_they_are_written(time: str) -> None:
    assert find_results(record(f"S:{time},0,a"))[0].time_ms == float(time)


def test_no_number_is_a_time_too() -> None:
    assert all(
        math.isnan(find_results(record(f"S:{time},0,a"))[0].time_ms) for time in ("nan", "-nan")
    )


@pytest.mark.parametrize("text", ["S:1,0", "S:1", "S:", "S:x,0,a", "S:1,0x10,a", f"{FWD}GEMM:S,1"])
def test_what_is_no_result_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(UsageError, match="is not a find result"):
        find_results(record(text))


LINES = st.builds(
    FindResultLine,
    st.from_regex(r"[A-Z][A-Za-z0-9]{1,8}(<\d(, \d)?>)?", fullmatch=True),
    st.floats(0, 1e6).map(lambda time: float(f"{time:.6g}")),
    st.integers(0, 2**62),
    st.sampled_from([algorithm_name("F", "GEMM"), algorithm_name("wrw", "Winograd")]),
)


@given(LINES)
def test_an_item_of_either_format_gives_the_result_again(line: FindResultLine) -> None:
    for item in (find_item(line), legacy_item(line), legacy_item(line, "MIOpenGEMM", "0_1,2")):
        assert find_results(DatabaseRecord("key", [item])) == (line,)


@pytest.mark.parametrize("text", [text for text, _ in LEGACY])
def test_values_of_the_other_format_keep_the_text_of_their_numbers(text: str) -> None:
    fields = find_text(record(text).items[0])
    assert fields is not None
    current = current_of(fields)
    again = find_text(current)
    assert again is not None
    assert (again.time, again.workspace) == (fields.time, fields.workspace)
    assert legacy_of(fields).text == text


def test_algorithms_are_named_by_direction_and_family() -> None:
    assert algorithm_name("bwd", "ImplicitGEMM") == "miopenConvolutionBwdDataAlgoImplicitGEMM"
    assert algorithm_name("W", "FFT") == "miopenConvolutionBwdWeightsAlgoFFT"
    assert algorithm_parts("miopenTransposeBwdDataAlgoGEMM") == ("bwd", "GEMM")
    assert algorithm_parts("ours") is None
    with pytest.raises(UsageError, match="unknown family"):
        algorithm_name("fwd", "Magic")
    with pytest.raises(UsageError, match="unknown direction"):
        algorithm_name("up", "GEMM")

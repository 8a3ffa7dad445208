"""What MIOpenDriver prints, in the shapes of several versions; sizes and times are made up."""

import pytest

from skipjack.solvers.miopen.results import DriverOutput, believable, read_output

NEW = """MIOpenDriver convfp16 -n 8 -c 16 -H 32 -W 32 -k 24 -y 3 -x 3 -p 1 -q 1 -F 1 -t 1
PRNG seed: 12345678
Timestamp: 2025-01-02 03:04:05 UTC; Host Name: box; ROCm: 7.1; MIOpen Driver: 3.5.1; RAM Size: 9 GB
MIOpen Forward Conv. Algorithm: 5, Solution: 137/ConvHipImplicitGemmGroupFwdXdlops
GPU Kernel Time Forward Conv. Elapsed: 0.012380 ms (average)
stats: name, n, c, ho, wo, y, x, k, flopCnt, bytesRead, bytesWritten, GFLOPs, GB/s, timeMs
stats: fwd-conv3x3u1, 8, 16, 32, 32, 3, 3, 24, 56623104, 262144, 393216, 4573, 52, 0.012380
Forward Convolution Verifies OK on GPU reference (0.00037644 < 0.0082)
"""
OLD = """MIOpenDriver: conv -n 8 -c 16 -H 32 -W 32 -k 24 -F 0 -t 1 -w 1
Wall-clock Time Forward Conv. Elapsed: 0.250000 ms
MIOpen Forward Conv. Algorithm: 1
GPU Kernel Time Forward Conv. Elapsed: 0.019243 ms (average)
Forward Convolution Verifies on CPU and GPU (2.77169e-08)
MIOpen Backward Data Conv. Algorithm: 1
GPU Kernel Time Backward Data Conv. Elapsed: 0.023737 ms (average)
MIOpen Backward Weights Conv. Algorithm: 3, Solution: 71/ConvWinograd3x3MultipassWrW<3-5>
GPU Kernel Time Backward Weights Conv. Elapsed: 6.782609 ms (average)
Backward Convolution Data Verifies on CPU and GPU (1e-08)
Backward Convolution Weights Failed: 0.032568 > 0.01
"""


def test_a_run_of_today_says_solver_time_and_check() -> None:
    check = "Forward Convolution Verifies OK on GPU reference (0.00037644 < 0.0082)"
    solver = "ConvHipImplicitGemmGroupFwdXdlops"
    expected = DriverOutput(solver, 0.01238, checked=True, check=check)
    assert read_output(NEW, "fwd") == expected


def test_a_solver_may_be_followed_by_the_kernel_that_it_chose() -> None:
    said = read_output(NEW.replace("Xdlops\n", "Xdlops: Device<256, 128>\n"), "fwd")
    assert said.solver == "ConvHipImplicitGemmGroupFwdXdlops"


def test_each_direction_has_words_of_its_own_and_old_versions_name_no_solver() -> None:
    fwd, bwd, wrw = (read_output(OLD, direction) for direction in ("fwd", "bwd", "wrw"))
    assert (fwd.solver, fwd.time_ms, fwd.checked) == ("", 0.019243, True)
    assert (bwd.solver, bwd.time_ms, bwd.checked) == ("", 0.023737, True)
    assert wrw.solver == "ConvWinograd3x3MultipassWrW<3-5>"
    assert (wrw.time_ms, wrw.checked) == (6.782609, False)
    assert wrw.check == "Backward Convolution Weights Failed: 0.032568 > 0.01"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("MIOpenDriver conv -s 1\nInput Flag: s Not Found !", "the flag s"),
        ("Long Name: search Not Found !", "the flag search"),
        ("Illegal input flag\nMIOpen Driver Input Flags: \n", "rejects a flag"),
        ("FAILED: Invalid Base Input Argument\nUsage: ./driver", "the command"),
        ("Incorrect BaseArg\n", "the command"),
    ],
)
def test_what_it_does_not_know_is_told_by_its_words_for_its_status_is_0(
    text: str, complaint: str
) -> None:
    assert complaint in read_output(text, "fwd").refused
    assert read_output(NEW + OLD, "fwd").refused == ""


def test_a_step_that_fails_is_not_taken_for_a_candidate_that_fails() -> None:
    error = "MIOpen(HIP): Error [GenericSearch] a candidate did not compile\n"
    said = read_output(error + NEW, "fwd")
    assert said.failed == "" and said.error.endswith("a candidate did not compile")
    failed = read_output(error + "RunForwardGPU() FAILED, rc = 0x7\n", "fwd").failed
    assert failed == "RunForwardGPU failed with 0x7"


def test_nonsense_says_nothing() -> None:
    assert read_output("\x00\x1b[31m?? Conv. Elapsed: soon ms\n", "fwd") == DriverOutput()
    assert read_output("", "wrw") == DriverOutput()


def test_times_that_cannot_be_are_not_believed() -> None:
    unbelievable = (0.0, -1.2, float("nan"), float("inf"), None)
    assert not any(map(believable, unbelievable))
    assert believable(1e-6)

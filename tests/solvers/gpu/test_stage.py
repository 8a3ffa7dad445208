"""A stage is compiled and launched as it says, and Triton compiles in one place."""

from collections.abc import Sequence

from skipjack.core import Config, Device, Problem
from skipjack.gpu import Argument, Number, launch
from skipjack.operations import parse
from skipjack.solvers.gpu.triton import KernelStage, StagedGpuSolver, array, integer
from skipjack.solvers.gpu.triton.solver import dependent_stages

HOPPER = Device("cuda", "sm_90", 132)
PROBLEM = parse("relu:64:f32")


def adding(name: str = "add", programs: int = 4) -> KernelStage:
    given = {"x": array("fp32", "x"), "y": None, "n": integer(48)}
    return KernelStage(name, "elementwise", "flat", (programs,), given, {"BLOCK": 64})


def test_what_is_absent_is_a_constant_and_not_an_argument() -> None:
    stage = adding()
    assert stage.spec.arguments == {"x": Argument("*fp32", 16), "n": Argument("i32", 16)}
    assert stage.spec.constants == {"y": None, "BLOCK": 64}
    assert stage.step == launch("add", (4,), ["x", 48])


def test_sizes_have_64_bits_where_they_need_them_or_are_asked_to() -> None:
    for given in (integer(2**31), integer(24, long=True)):
        assert given.type.type == "i64"
        assert isinstance(given.value, Number) and given.value.type == "i64"
    assert integer(24).type == Argument("i32", 8)


def test_only_stages_that_follow_are_launched_early() -> None:
    first, second = dependent_stages([adding("first"), adding("second")], early=True)
    assert (first.constants["FOLLOWS"], first.constants["FOLLOWED"]) == (False, True)
    assert (second.constants["FOLLOWS"], second.constants["FOLLOWED"]) == (True, False)
    assert not first.options and second.options == {"launch_pdl": True}


class Twice(StagedGpuSolver):
    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        return [adding(programs=4), adding(programs=2)]


def test_a_kernel_that_is_launched_twice_is_compiled_once() -> None:
    config = Config({})
    assert [spec.name for spec in Twice().kernels(PROBLEM, HOPPER, config)] == ["add"]
    assert len(Twice().plan(PROBLEM, HOPPER, config)) == 2

"""A stage is compiled and launched as it says, and Triton compiles in one place."""

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.gpu.artifact import Argument
from skipjack.gpu.plan import Number, launch
from skipjack.operations import parse
from skipjack.solvers.gpu.stage import Stage, StagedGpuSolver, array, chained, size

HOPPER = Device("cuda", "sm_90", 132)
PROBLEM = parse("relu:64:f32")


def adding(name: str = "add", programs: int = 4) -> Stage:
    given = {"x": array("fp32", "x"), "y": None, "n": size(48)}
    return Stage(name, "elementwise", "flat", (programs,), given, {"BLOCK": 64})


def test_what_is_absent_is_a_constant_and_not_an_argument() -> None:
    stage = adding()
    assert stage.spec.arguments == {"x": Argument("*fp32", 16), "n": Argument("i32", 16)}
    assert stage.spec.constants == {"y": None, "BLOCK": 64}
    assert stage.step == launch("add", (4,), ["x", 48])


def test_sizes_have_64_bits_where_they_need_them_or_are_asked_to() -> None:
    for given in (size(2**31), size(24, long=True)):
        assert given.type.type == "i64"
        assert isinstance(given.value, Number) and given.value.type == "i64"
    assert size(24).type == Argument("i32", 8)


def test_only_stages_that_follow_are_launched_early() -> None:
    first, second = chained([adding("first"), adding("second")], early=True)
    assert (first.constants["FOLLOWS"], first.constants["FOLLOWED"]) == (False, True)
    assert (second.constants["FOLLOWS"], second.constants["FOLLOWED"]) == (True, False)
    assert not first.options and second.options == {"launch_pdl": True}


class Twice(StagedGpuSolver):
    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        return [adding(programs=4), adding(programs=2)]


def test_a_kernel_that_is_launched_twice_is_compiled_once() -> None:
    config = Config({})
    assert [spec.name for spec in Twice().kernels(PROBLEM, HOPPER, config)] == ["add"]
    assert len(Twice().plan(PROBLEM, HOPPER, config)) == 2

"""Solvers keep to the kit that ships for users' own; the kit tells what is wrong with others."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from skipjack.core import Arrays, Config, Device, Parameter, ParameterSpace, Problem, Space
from skipjack.gpu import describe_gpu
from skipjack.solvers import Blob, BuildingSolver, Slot, Solver, Source, find_solver
from skipjack.testing.solvers import SolverConformance, SolverDeclarations

_PRODUCTS = ("matmul:5x7x3:f32", "matmul:16x16x16/bias=1:f64")
_CONVOLUTION = "conv2d:n1c4h6w5k4y3x3p1q1:f32:NHWC"


class _Ours(SolverConformance):
    name: str
    refused = ("batchnorm:n2c3h4w4",)
    drawn = 1

    def create(self) -> Solver:
        return find_solver(self.name)


class TestNest(_Ours):
    name = "nest"
    problems = (*_PRODUCTS, "add:7x9:f32", "sum:6x10/axis=1:f64")


class TestMicrokernel(_Ours):
    name, problems = (
        "microkernel",
        (
            "matmul:64x64x64:f32",
            "matmul:96x64x32:f64",
        ),
    )


class TestPacked(_Ours):
    name, problems = "packed", _PRODUCTS


class TestThin(_Ours):
    name, problems = "thin", ("matmul:1x64x64:f32", "matmul:2x33x48:f32")


class TestRows(_Ours):
    name, problems = "rows", ("softmax:3x17:f32", "layernorm:2x8:f64")
    refused = ("matmul:5x7x3",)


class TestDirect(_Ours):
    name, problems = "direct", (_CONVOLUTION,)


class TestIm2col(_Ours):
    name, problems = "im2col", (_CONVOLUTION,)


class TestImplicitGemm(_Ours):
    name, problems = "implicit_gemm", (_CONVOLUTION,)


class TestWinograd(_Ours):
    name, problems = "winograd2", (_CONVOLUTION,)


class TestNumpy(_Ours):
    name, problems, refused = "numpy", (*_PRODUCTS, "softmax:3x17:f32", "add:7x9:f32"), ()


class _OnGpus(SolverDeclarations):
    name: str
    refused = ("conv3d:n1c2d3h3w3k2z1y1x1",)
    drawn = 1

    def create(self) -> Solver:
        return find_solver(self.name)

    def device(self) -> Device:
        return describe_gpu("sm_90/132")


class TestTritonMatmul(_OnGpus):
    name, problems = "triton_matmul", ("matmul:256x256x64:f16",)


class TestTritonAddresses(_OnGpus):
    name, problems = "triton_addresses", ("matmul:65x70x33:f16",)


class TestTritonRows(_OnGpus):
    name, problems = "triton_rows", ("softmax:64x100:f16", "layernorm:8x4096:f32")
    refused = ("layernorm_backward:8x64",)


class TestTritonElementwise(_OnGpus):
    name, problems = "triton_elementwise", ("add:1000:f32",)


class TestTritonReduce(_OnGpus):
    name, problems = "triton_reduce", ("sum:64x100/axis=1:f32",)


class TestTritonBatchNorm(_OnGpus):
    name, problems = "triton_batchnorm", ("batchnorm:n2c3h4w4:f32",)


class _Wrapping(Solver):
    """Ours, for a subclass to break in one place."""

    name, version = "broken", 1

    def __init__(self) -> None:
        found = find_solver("nest")
        assert isinstance(found, BuildingSolver)
        self.ours = found

    def refuses(self, problem: Problem, device: Device) -> str:
        return self.ours.refuses(problem, device)

    def space(self, problem: Problem, device: Device) -> Space:
        return self.ours.space(problem, device)

    def compiler(self) -> str:
        return self.ours.compiler()

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        return self.ours.lower(problem, device, config)

    def compile(self, source: Source) -> Blob:
        return self.ours.compile(source)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        return self.ours.slots(problem, device, config)


class _ForNobody(_Wrapping):
    dtypes = ("f33",)


class _Unwilling(_Wrapping):
    def refuses(self, problem: Problem, device: Device) -> str:
        return "it is Sunday"


class _Willing(_Wrapping):
    def refuses(self, problem: Problem, device: Device) -> str:
        return ""


class _Speechless(_Wrapping):
    def refuses(self, problem: Problem, device: Device) -> str:
        return None  # type: ignore[return-value]


class _Restless(_Wrapping):
    made = 0

    def space(self, problem: Problem, device: Device) -> Space:
        _Restless.made += 1
        return ParameterSpace([Parameter("tile", tuple(range(self.made, self.made + 5)))])


class _Pairs(ParameterSpace):
    """Its values are tuples, which JSON gives back as lists."""

    def default(self) -> Config:
        return Config.of({"tile": (1, 2)})

    def sample(self, rng: np.random.Generator) -> Config:
        return self.default()

    def contains(self, config: Config) -> bool:
        return isinstance(config["tile"], tuple)


class _Forgetful(_Wrapping):
    def space(self, problem: Problem, device: Device) -> Space:
        return _Pairs([Parameter("tile", (1, 2))])


class _Wavering(_Wrapping):
    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        source = self.ours.lower(problem, device, config)
        return replace(source, text=f"{source.text}\n; {id(self)}")


class _Stamping(_Wrapping):
    count = 0

    def compile(self, source: Source) -> Blob:
        self.count += 1
        blob = self.ours.compile(source)
        return replace(blob, data=blob.data + bytes([self.count]))


class _Swapping(_Wrapping):
    """Computes y - x where x - y is wanted."""

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        names: dict[Slot, Slot] = {"x": "y", "y": "x"}
        return [names.get(slot, slot) for slot in self.ours.slots(problem, device, config)]


class _Library(Solver):
    name, version = "broken_library", 1

    def refuses(self, problem: Problem, device: Device) -> str:
        return "" if problem.operation == "sub" else "it subtracts"

    def space(self, problem: Problem, device: Device) -> Space:
        return ParameterSpace([])

    def bind(self, problem: Problem, arrays: Arrays):  # type: ignore[no-untyped-def]
        return lambda: arrays["out"].fill(0)


@pytest.mark.parametrize(
    ("broken", "test", "said"),
    [
        (_ForNobody, "its_declarations_are_valid", "dtypes has 'f33'"),
        (_Unwilling, "accepts_the_problems_that_it_is_for", "refuses sub.*it is Sunday"),
        (_Willing, "refuses_other_problems_with_a_reason", "does not refuse batchnorm"),
        (_Speechless, "answers_about_every_operation", "refuses returned None"),
        (_Restless, "its_spaces_are_the_same_each_time", "returned different configs"),
        (
            _Forgetful,
            "configs_come_back_from_the_bank",
            "becomes .* in the bank|no longer in the space",
        ),
        (_Wavering, "one_config_gives_one_source", "has two sources"),
        (_Stamping, "one_source_gives_one_build", "two builds of one source differ"),
        (_Swapping, "its_results_are_right", "sub:7x9"),
        (_Library, "its_results_are_right", "sub:7x9"),
    ],
)
def test_the_kit_tells_what_is_wrong(broken: type[Solver], test: str, said: str) -> None:
    class Kit(SolverConformance):
        problems = ("sub:7x9:f32",)
        refused = ("batchnorm:n2c3h4w4:f32",)
        drawn = 1

        def create(self) -> Solver:
            return broken()

    with pytest.raises(AssertionError, match=said):
        getattr(Kit(), f"test_{test}")()

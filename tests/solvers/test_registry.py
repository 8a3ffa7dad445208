"""Which solver is taken for a problem, and what is said when none can be."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator

import pytest

from cpus import SKYLAKE_AVX512
from skipjack.core import Arrays, Device, ParameterSpace, Problem
from skipjack.errors import UsageError
from skipjack.gpu import describe_gpu
from skipjack.operations import get, parse
from skipjack.operations import names as operations
from skipjack.solvers import (
    BuildingSolver,
    DrivingSolver,
    GpuVendorSolver,
    NativeVendorSolver,
    VendorSolver,
    building_solvers,
    find_solver,
    refusal,
    register,
    registry,
    solver_for,
    solvers_for,
    supports_device,
    vendors_for,
)
from skipjack.solvers.cpu.nest_code.solver import NestSolver

CPU = SKYLAKE_AVX512
GPU = Device("gpu", "sm_90", 132)
MATMUL = parse("matmul:64x64x64")


@pytest.fixture
def restored() -> Iterator[None]:
    """The known solvers, put back afterwards."""
    before = dict(registry._known)
    yield
    registry._known.clear()
    registry._known.update(before)


@pytest.mark.parametrize("name", registry.names())
def test_every_solver_is_of_one_kind_and_answers_to_its_name(name: str) -> None:
    solver = find_solver(name)
    assert solver.name == name
    kinds = (BuildingSolver, VendorSolver, NativeVendorSolver, GpuVendorSolver, DrivingSolver)
    assert sum(isinstance(solver, kind) for kind in kinds) == 1


@pytest.mark.parametrize("name", operations())
def test_every_operation_can_be_built_and_compared_on_a_cpu(name: str) -> None:
    problem = parse(get(name).example)
    assert building_solvers(problem, CPU)
    known = [vendor.name for vendor in vendors_for(problem, CPU)]
    if name.startswith("conv"):
        torch = importlib.util.find_spec("torch") is not None
        assert known == (["onednn"] if torch else [])  # NumPy has no convolutions
    else:
        assert known[0] == "numpy"


def test_a_named_solver_is_taken_and_without_a_name_the_preferred_one() -> None:
    assert solver_for(MATMUL, CPU, "microkernel").name == "microkernel"
    assert solver_for(MATMUL, CPU).name == building_solvers(MATMUL, CPU)[0].name


def test_a_misspelt_solver_gets_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean microkernel"):
        find_solver("mikrokernel")
    with pytest.raises(UsageError, match="known are"):
        find_solver("qqqq")


def test_a_solver_that_refuses_says_why() -> None:
    with pytest.raises(UsageError, match="it only supports the plain matmul"):
        solver_for(parse("add:4"), CPU, "microkernel")
    with pytest.raises(UsageError, match="nothing to tune"):
        solver_for(MATMUL, CPU, "numpy")
    with pytest.raises(UsageError, match="no solver can build"):
        solver_for(MATMUL, GPU)


HALF = parse("matmul:64x64x64:f16")


def test_solvers_are_for_cpus_in_f32_and_f64_unless_they_say_otherwise() -> None:
    nest, numpy = find_solver("nest"), find_solver("numpy")
    assert refusal(nest, MATMUL, GPU) == "it builds for CPUs, not for sm_90/132"
    assert refusal(numpy, MATMUL, GPU) == "it is for CPUs, not for sm_90/132"
    assert refusal(nest, HALF, CPU) == "it computes in f32 and f64, not in f16"
    assert not refusal(nest, MATMUL, CPU)
    assert not building_solvers(HALF, CPU)
    assert not vendors_for(HALF, CPU)


def test_a_solver_is_asked_for_what_it_says_it_is_for(restored: None) -> None:
    class Half(NestSolver):
        name = "half"
        kinds = ("cuda", "hip")
        dtypes = ("f16",)

        def refuses(self, problem: Problem, device: Device) -> str:
            return "" if problem.operation == "matmul" else "it is choosy"

    registry._known.clear()
    register(Half())
    hopper = Device("cuda", "sm_90", 132)
    assert solver_for(HALF, hopper).name == "half"
    assert refusal(find_solver("half"), HALF, CPU) == "it builds for GPUs, not for skylake-avx512/1"
    assert refusal(find_solver("half"), parse("add:4:f16"), hopper) == "it is choosy"
    assert supports_device(find_solver("half"), hopper) and not supports_device(
        find_solver("half"), CPU
    )
    with pytest.raises(UsageError, match="no solver computes matmul in f32 on sm_90/132; choose"):
        solver_for(MATMUL, hopper)


def test_a_dtype_for_gpus_alone_is_refused_on_a_cpu_in_one_sentence() -> None:
    said = "no solver computes matmul in f16 on a CPU; choose f32 or f64, or a GPU"
    with pytest.raises(UsageError) as caught:
        solver_for(HALF, CPU)
    assert str(caught.value) == said
    with pytest.raises(UsageError, match=r"cannot do matmul.*: it computes in f32 and f64"):
        solver_for(HALF, CPU, "nest")


def test_a_solver_that_was_added_is_taken_by_name_or_where_no_other_can(restored: None) -> None:
    class Mine(NestSolver):
        name = "mine"
        kinds = ("cpu", "gpu")

        def refuses(self, problem: Problem, device: Device) -> str:
            return ""

    register(Mine())
    assert solver_for(MATMUL, CPU).name == "nest"
    assert solver_for(MATMUL, CPU, "mine").name == "mine"
    assert solver_for(MATMUL, GPU).name == "mine"


def test_a_preferred_solver_goes_ahead_of_ours_where_it_can(restored: None) -> None:
    class Preferred(NestSolver):
        name = "favourite"
        preferred = True

        def refuses(self, problem: Problem, device: Device) -> str:
            return "" if problem.operation == "matmul" else "it knows matmul alone"

    register(Preferred())
    assert building_solvers(MATMUL, CPU)[0].name == "favourite"
    found = [solver.name for solver in solvers_for(MATMUL, CPU)]
    assert found[0] == "favourite"
    assert "nest" in found  # the default of ours still races beside it
    assert solver_for(parse("add:64"), CPU).name == "nest"


class Undeclared:
    """A library of a class of its own, which does not derive from `Solver`."""

    name = "undeclared"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        return ""

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        return ParameterSpace([])

    def bind(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        return lambda: None


def test_what_a_solver_does_not_declare_has_the_default_of_the_protocol(restored: None) -> None:
    register(Undeclared())  # type: ignore[arg-type]
    solver = find_solver("undeclared")
    assert isinstance(solver, VendorSolver)
    assert (tuple(solver.kinds), tuple(solver.dtypes)) == (("cpu",), ("f32", "f64"))
    assert (solver.compared, solver.algorithm, solver.preferred) == (False, "Direct", False)
    assert "undeclared" not in [vendor.name for vendor in vendors_for(MATMUL, CPU)]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"kinds": "cuda"}, "kinds is 'cuda'; write a tuple of cpu, cuda or hip"),
        ({"kinds": ()}, r"kinds is \(\); write a tuple"),
        ({"dtypes": "f16"}, "dtypes is 'f16'; write a tuple of f32"),
        ({"dtypes": ("half",)}, r"dtypes is \('half',\); write a tuple of f32"),
        ({"algorithm": "Magic"}, "algorithm is 'Magic'; choose GEMM, Direct, FFT, .* or Implicit"),
    ],
)
def test_declarations_that_match_nothing_are_refused(
    restored: None, members: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        register(type("Odd", (Undeclared,), members)())


def test_a_method_that_is_only_inherited_from_the_protocol_is_missing(restored: None) -> None:
    class Forgetful(BuildingSolver):
        name = "forgetful"
        version = 1

        def space(self, problem: Problem, device: Device) -> ParameterSpace:
            return ParameterSpace([])

    with pytest.raises(UsageError, match="has no refuses: write def refuses"):
        register(Forgetful())  # type: ignore[abstract]


def test_what_nobody_builds_is_refused_with_what_helps() -> None:
    solid = parse("conv3d:n1c8d8h8w8k8z3y3x3:f16")
    with pytest.raises(
        UsageError,
        match=r"no solver can build conv3d.* for sm_90/132; "
        r"no solver for NVIDIA's GPUs knows conv3d",
    ):
        solver_for(solid, describe_gpu("sm_90/132"))


def test_of_those_that_refuse_who_knows_the_operation_is_heard(restored: None) -> None:
    class Choosy(NestSolver):
        name = "choosy"

        def refuses(self, problem: Problem, device: Device) -> str:
            example = parse(get(problem.operation).example)
            return "" if problem.shape == example.shape else "its sizes are odd"

    class Ignorant(NestSolver):
        def __init__(self, name: str) -> None:
            self.name = name

        def refuses(self, problem: Problem, device: Device) -> str:
            return "it knows convolutions alone"

    registry._known.clear()
    for solver in (Choosy(), Ignorant("one"), Ignorant("two")):
        register(solver)
    with pytest.raises(UsageError, match="the solvers of add say: its sizes are odd"):
        solver_for(parse("add:7"), CPU)

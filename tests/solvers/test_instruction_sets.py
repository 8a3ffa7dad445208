"""Every solver on AVX2, AVX-512 and NEON: built for a named CPU, run here where this CPU can."""

from __future__ import annotations

import ctypes
import functools
import re
import struct
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import arm_emulator
from cpus import NEHALEM, skip_unless_it_runs_here
from skipjack.core import Config, Device, Problem, Promising
from skipjack.execute import Checker
from skipjack.native import Slots, describe, llvm, undefined_symbols
from skipjack.operations import parse
from skipjack.solvers import BuildingSolver, building_solvers, find_solver, tolerance_factor_of

KEYS = (
    "matmul:37x50x29",
    "matmul:64x64x64:f64",
    "matmul:21x35x18/ta=1/tb=1/alpha=0.5/beta=2/bias=1/act=gelu",
    "bmm:3x17x33x19",
    "add:1003",
    "maximum:7x33:f64",
    "exp:515",
    "gelu:260:f64",
    "bias:9x67",
    "sum:33x65/axis=1",
    "max:33x65/axis=0:f64",
    "mean:5x6x37/axis=0,2",
    "softmax:7x131",
    "logsoftmax:6x64:f64",
    "layernorm:5x96",
    "rmsnorm:5x61:f64",
    "batchnorm:n3c5h7w7",
    "batchnorm:n2c4h4w8/mode=infer",
    "batchnorm:n3c4h5w5/mode=backward:f64",
    "conv2d:n2c10h9w11k20y3x3p1q1:NHWC:fwd",
    "conv2d:n2c10h9w11k20y3x3p1q1:f64:NCHW:bwd",
    "conv2d:n2c10h9w11k20y3x3p1q1:NCHW:wrw",
    "conv2d:n2c18h9w11k20y1x1u2v2:NHWC:bwd",
    "conv2d:n2c19h9w11k19y3x3p1q1g19:NHWC:wrw",
    "conv2d:n2c19h9w21k19y3x3p1q1g19:f64:NCHW:fwd",
)
"""Every family of operations, with sizes that leave tails."""
CONVOLUTIONS = ("direct", "im2col", "implicit_gemm", "winograd2", "winograd4")
SOLVERS = ("nest", "microkernel", "packed", "thin", "rows", *CONVOLUTIONS, "gemm1x1", "depthwise")
X86 = {"haswell": ("ymm", "zmm"), "skylake-avx512": ("zmm", "")}
"""Registers that the code must use, and those that it must not."""
TYPICAL = {
    "nest": "matmul:37x50x29",
    "microkernel": "matmul:37x50x29",
    "packed": "matmul:37x50x29",
    "thin": "matmul:7x50x29",
    "rows": "softmax:7x131",
    **dict.fromkeys(CONVOLUTIONS, "conv2d:n2c10h9w11k20y3x3p1q1:NHWC"),
    "gemm1x1": "conv2d:n2c18h9w11k20y1x1:NHWC",
    "depthwise": "conv2d:n2c19h9w11k19y3x3p1q1g19:NHWC",
}
NEON = re.compile(r"\bf(?:mla|add|mul|max|sub)\s+v\d+\.(?:4s|2d)")
AARCH64 = 183


@functools.cache
def loader() -> llvm.Loader:
    """One for all tests."""
    return llvm.Loader()


def device_here(name: str) -> Device:
    """The CPU of this name, if this one can run its code."""
    device = describe(name)
    skip_unless_it_runs_here(device)
    return device


def some_configs(
    solver: BuildingSolver, problem: Problem, device: Device, each: int = 2
) -> Iterator[Config]:
    """The default, and as many of each that promise well and that come from anywhere."""
    space = solver.space(problem, device)
    yield space.default()
    if isinstance(space, Promising):
        yield from space.promising(each)
    rng = np.random.default_rng(1)
    yield from (space.sample(rng) for _ in range(each))


def assert_right(
    solver: BuildingSolver, problem: Problem, device: Device, config: Config, checker: Checker
) -> None:
    """Built for the device and run in this process, it gives the reference's result."""
    blob = solver.compile(solver.lower(problem, device, config))
    address = loader().load(blob.data, blob.symbol)
    checker.prepare()
    slots = Slots(solver.slots(problem, device, config), checker.arrays)
    llvm.c_function(address, ctypes.c_void_p)(slots.address)
    loader().unload(address)
    verdict = checker.verdict(tolerance_factor_of(solver, problem))
    assert verdict.right, f"{device.name} {solver.name} {problem.key} {config}: {verdict.reason}"


@pytest.mark.parametrize("each", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("arch", X86)
def test_every_solver_is_right_on_every_operation(arch: str, key: str, each: int) -> None:
    device, problem = device_here(f"{arch}/1"), parse(key)
    solvers = [s for s in building_solvers(problem, device) if s.name in SOLVERS]
    assert solvers
    checker = Checker(problem)
    for solver in solvers:
        for config in dict.fromkeys(some_configs(solver, problem, device, each)):
            assert_right(solver, problem, device, config, checker)


@pytest.mark.parametrize("key", ["matmul:37x50x29", "add:1003", "softmax:7x131"])
@pytest.mark.parametrize("arch", X86)
def test_threads_share_the_work_on_every_instruction_set(arch: str, key: str) -> None:
    device, problem = device_here(f"{arch}/2"), parse(key)
    checker = Checker(problem)
    shared = 0
    for solver in building_solvers(problem, device):
        for config in dict.fromkeys(some_configs(solver, problem, device)):
            shared += any("@parallel" in str(s) for s in solver.slots(problem, device, config))
            assert_right(solver, problem, device, config, checker)
    assert shared


def test_the_keys_reach_every_solver() -> None:
    device = describe("haswell/1")
    reached = {s.name for key in KEYS for s in building_solvers(parse(key), device)}
    assert set(SOLVERS) <= reached


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("arch", X86)
def test_code_uses_the_registers_of_its_instruction_set(arch: str, name: str) -> None:
    device, problem = describe(f"{arch}/1"), parse(TYPICAL[name])
    listing = best_listing(name, problem, device)
    wanted, unwanted = X86[arch]
    assert re.search(rf"vfmadd\w+p[sd]\s.*%{wanted}", listing)
    assert not unwanted or unwanted not in listing


@pytest.mark.parametrize("name", ["nest", "packed", "rows"])
def test_the_name_of_a_cpu_decides_the_order_of_instructions(name: str) -> None:
    problem, haswell = parse(TYPICAL[name]), describe("haswell/1")
    listings = {
        best_listing(name, problem, replace(haswell, arch=a)) for a in ("haswell", "znver4")
    }
    assert len(listings) == 2


EMULATED = [
    key if at % 2 == 0 else pytest.param(key, marks=pytest.mark.long) for at, key in enumerate(KEYS)
]
"""An emulator takes its time: every second one is for `make test-long`."""


@pytest.mark.parametrize("arch", ["neoverse-n1", pytest.param("aarch64", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_builds_neon_code_for_arm(name: str, arch: str) -> None:
    device, problem = describe(f"{arch}/1"), parse(TYPICAL[name])
    solver = find_solver(name)
    assert isinstance(solver, BuildingSolver)
    for config in some_configs(solver, problem, device):
        data = solver.compile(solver.lower(problem, device, config)).data
        assert data[:4] == b"\x7fELF"
        assert struct.unpack_from("<H", data, 18) == (AARCH64,)
    assert NEON.search(best_listing(name, problem, device))


@pytest.mark.parametrize("key", EMULATED)
def test_every_solver_is_right_on_arm_in_an_emulator(key: str) -> None:
    pytest.importorskip("unicorn", reason="the emulator Unicorn is not installed")
    device, problem = describe("aarch64/1"), parse(key)
    checker = Checker(problem)
    for solver in building_solvers(problem, device):
        for config in dict.fromkeys(some_configs(solver, problem, device)):
            blob = solver.compile(solver.lower(problem, device, config))
            checker.prepare()
            slots = solver.slots(problem, device, config)
            arm_emulator.run(blob.data, blob.symbol, slots, checker.arrays)
            verdict = checker.verdict(tolerance_factor_of(solver, problem))
            assert verdict.right, f"{solver.name} {config}: {verdict.reason}"


def best_listing(name: str, problem: Problem, device: Device) -> str:
    """Assembly text of the most promising config."""
    solver = find_solver(name)
    assert isinstance(solver, BuildingSolver)
    space = solver.space(problem, device)
    assert isinstance(space, Promising)
    source = solver.lower(problem, device, space.promising(1)[0])
    return llvm.assembly(source.text, source.target)


@pytest.mark.parametrize("key", sorted(set(TYPICAL.values()) - {TYPICAL["rows"]}))
def test_products_call_no_function_where_there_is_no_fused_multiply_add(key: str) -> None:
    problem = parse(key)
    for solver in building_solvers(problem, NEHALEM):
        config = solver.space(problem, NEHALEM).default()
        needs = undefined_symbols(solver.compile(solver.lower(problem, NEHALEM, config)).data)
        assert not [name for name in needs or () if "fma" in name], solver.name

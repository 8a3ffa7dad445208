"""The table of our solvers: what it declares is true, and solvers are loaded when used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from skipjack.core import Device, Problem
from skipjack.gpu import describe_gpu
from skipjack.native import describe
from skipjack.operations import CONVOLUTIONS, Convolution, comes_with_skipjack, get, parse, registry
from skipjack.operations import names as operations
from skipjack.solvers import (
    BuildingSolver,
    building_for,
    building_solvers,
    find_solver,
    refusal,
    supports_device,
    vendors_for,
)
from skipjack.solvers.built_in import BUILT_IN, BuiltIn, Use
from skipjack.testing.solver_sweep import DEVICES, random_problem

OURS = {declared.name for declared in BUILT_IN}
"""Other tests of this process may have registered more."""
CPUS = [describe(name) for name in (DEVICES[0], DEVICES[-1])]
GPUS = [describe_gpu(name) for name in ("sm_90/132", "sm_80/108", "gfx942/304")]
LAYERS = [
    "n2c64h14w14k64y1x1",  # pointwise
    "n2c64h16w16k64y1x1",  # of planes that need no turn
    "n2c64h14w14k64y3x3p1q1",  # Winograd
    "n2c64h14w14k64y3x3p1q1g64",  # depthwise
    "n2c3h32w32k64y3x3p1q1",  # few channels
]


def problems() -> Iterator[Problem]:
    """Every operation's example in every type, layers of many kinds, and random problems."""
    for name in filter(comes_with_skipjack, operations()):
        example = parse(get(name).example)
        yield from (replace(example, dtype=dtype) for dtype in get(name).dtypes)
    for shape, layout, direction in product(LAYERS, ("NHWC", "NCHW"), ("fwd", "bwd", "wrw")):
        yield from (
            parse(f"conv2d:{shape}:{dtype}:{layout}:{direction}") for dtype in ("f32", "f16")
        )
    rng = np.random.default_rng(7)
    for problem in (random_problem(rng) for _ in range(50)):
        yield from (replace(problem, dtype=dtype) for dtype in (problem.dtype, "f16"))


@pytest.mark.parametrize("declared", BUILT_IN, ids=lambda declared: declared.name)
def test_what_is_declared_of_a_solver_is_what_it_says_itself(declared: BuiltIn) -> None:
    solver = find_solver(declared.name)
    assert solver.name == declared.name
    assert tuple(solver.kinds) == declared.kinds
    builds = isinstance(solver, BuildingSolver)
    assert builds == (declared.use is Use.BUILT) or declared.use is Use.NAMED
    assert solver.compared == (declared.use is Use.COMPARED)


@pytest.mark.parametrize("device", [*CPUS, *GPUS], ids=lambda device: device.name)
def test_no_solver_that_can_do_a_problem_is_left_out_nor_changes_its_place(device: Device) -> None:
    everyone = [find_solver(declared.name) for declared in BUILT_IN]
    taken = set()
    for problem in problems():
        able = [solver.name for solver in everyone if not refusal(solver, problem, device)]
        built = [solver.name for solver in building_solvers(problem, device)]
        built = [name for name in built if name in OURS]
        compared = [solver.name for solver in vendors_for(problem, device)]
        compared = [name for name in compared if name in OURS]
        uses = {declared.name: declared.use for declared in BUILT_IN}
        assert built == [name for name in able if uses[name] is Use.BUILT], problem.key
        assert compared == [name for name in able if uses[name] is Use.COMPARED], problem.key
        taken.update(built)
    of_kind = [one for one in BUILT_IN if device.kind in one.kinds and one.use is Use.BUILT]
    if device in (GPUS[0], *CPUS):  # the others lack a copy engine
        assert taken == {declared.name for declared in of_kind}


@pytest.mark.parametrize("device", [CPUS[0], *GPUS], ids=lambda device: device.name)
def test_those_that_build_for_a_kind_of_device_are_all_that_do(device: Device) -> None:
    names = sorted(declared.name for declared in BUILT_IN if declared.use is not Use.NAMED)
    everyone = [find_solver(name) for name in names]
    able = [
        one for one in everyone if isinstance(one, BuildingSolver) and supports_device(one, device)
    ]
    assert [one for one in building_for(device) if one.name in OURS] == able


def test_an_operation_of_a_plug_in_that_is_a_convolution_gets_solvers_for_convolutions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Mine(Convolution):
        @property
        def name(self) -> str:
            return "mine"

    like = CONVOLUTIONS[0]
    mine = Mine(like.spatial, like.transposed)
    monkeypatch.setattr(registry, "_known", {**registry._known, "mine": mine})
    problem = parse(like.example)
    same = [solver.name for solver in building_solvers(problem, CPUS[0])]
    found = building_solvers(replace(problem, operation="mine"), CPUS[0])
    assert [solver.name for solver in found] == same


def test_an_operation_that_cannot_be_asked_what_it_is_has_no_solver() -> None:
    unknown = replace(parse("add:4"), operation="nowhere")
    assert building_solvers(unknown, CPUS[0]) == []
    assert vendors_for(unknown, CPUS[0]) == []


def loaded_by(code: str) -> set[str]:
    """Folders of solvers that have modules in a fresh interpreter, after some code."""
    listing = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    names = [name.split(".") for name in done.stdout.splitlines()[-1].split()]
    return {name[2] for name in names if name[:2] == ["skipjack", "solvers"] and len(name) > 3}


@pytest.mark.parametrize(
    ("code", "folders"),
    [
        ("solvers.names(); solvers.find_solver('numpy')", {"vendor"}),
        ("solvers.find_solver('nest')", {"cpu"}),
        (
            "problem, device = parse('add:8'), describe_gpu('sm_90/132')\n"
            "solvers.solvers_for(problem, device); solvers.vendors_for(problem, device)",
            {"gpu", "vendor"},
        ),
        ("solvers.building_for(describe_gpu('gfx942/304'))", {"gpu"}),
    ],
)
def test_solvers_are_loaded_when_used(code: str, folders: set[str]) -> None:
    doors = (
        "from skipjack import solvers",
        "from skipjack.gpu import describe_gpu",
        "from skipjack.operations import parse",
    )
    assert loaded_by("\n".join((*doors, code))) == folders

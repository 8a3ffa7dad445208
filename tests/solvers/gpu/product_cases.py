"""Small matrix products that the interpreter computes as plans say: one process for all of them.

Run as a program; prints one line for each case that is wrong.
"""

import numpy as np

from skipjack import operations
from skipjack.core import Config, Device, numpy_dtype
from skipjack.solvers import find_solver
from skipjack.testing.interpreted import run_interpreted

HOPPER = Device("cuda", "sm_90", 3, caches=(("shared", 227 << 10), ("L2", 50 << 20)))
TILE = {"tile_m": 32, "tile_n": 32, "tile_k": 32, "warps": 4, "stages": 2, "group": 2, "splits": 1}
BLOCK = {**TILE, "walk": "once", "swap": False, "pieces": 1}
THIN = {"tile_n": 32, "tile_k": 32, "warps": 1, "stages": 2, "splits": 1}
ALL = "/alpha=0.5/beta=2/bias=1"
CASES: tuple[tuple[str, str, dict[str, int | str | bool]], ...] = (
    ("triton_matmul", "matmul:72x80x96", BLOCK),
    ("triton_matmul", "matmul:71x83x97", BLOCK),
    ("triton_matmul", "matmul:40x56x33/ta=1", {**BLOCK, "splits": 2}),
    ("triton_matmul", f"matmul:33x48x64{ALL}/act=gelu", {**BLOCK, "pieces": 2}),
    ("triton_matmul", f"matmul:33x48x64{ALL}/act=tanh", {**BLOCK, "splits": 2}),
    ("triton_matmul", "matmul:72x80x96/ta=1/tb=1", {**BLOCK, "walk": "flat"}),
    ("triton_matmul", "matmul:70x83x40/bias=1/act=relu", {**BLOCK, "walk": "nested"}),
    ("triton_matmul", "matmul:70x83x40/act=silu", {**BLOCK, "walk": "flat", "pieces": 2}),
    ("triton_matmul", f"matmul:70x83x97{ALL}/act=relu", {**BLOCK, "walk": "flat", "splits": 2}),
    ("triton_matmul", "matmul:33x56x97", {**BLOCK, "walk": "flat", "splits": 2, "widen": True}),
    ("triton_matmul", "matmul:9x80x96", {**BLOCK, "tile_m": 16, "tile_n": 64, "swap": True}),
    ("triton_matmul", "bmm:3x40x48x64/tb=1", BLOCK),
    ("triton_matmul", f"bmm:2x40x33x65{ALL}", {**BLOCK, "walk": "flat"}),
    ("triton_matmul", "bmm:2x40x40x65/ta=1", {**BLOCK, "splits": 2, "early": True}),
    ("triton_matmul", f"bmm:5x40x40x65{ALL}", {**BLOCK, "splits": 2, "early": True}),
    ("triton_addresses", "matmul:71x83x97", TILE),
    ("triton_addresses", "matmul:71x83x97/ta=1/act=sigmoid:f32", TILE),
    ("triton_addresses", f"bmm:3x40x48x65/tb=1{ALL}/act=gelu_tanh", {**TILE, "splits": 2}),
    ("triton_thin", "matmul:1x83x97", THIN),
    ("triton_thin", "matmul:3x64x96/tb=1/bias=1", {**THIN, "splits": 2}),
    ("triton_thin", "bmm:2x3x64x96", THIN),
    ("triton_thin", "bmm:5x1x70x33/beta=2/tb=1", {**THIN, "splits": 2, "early": True}),
)


def wrong(name: str, text: str, settings: dict[str, int | str | bool]) -> float:
    """The largest error of a case, as a multiple of what its roundings allow."""
    problem = operations.parse(text if text.endswith("f32") else f"{text}:f16")
    operation = operations.get(problem.operation)
    rng = np.random.default_rng(0)
    arrays = {
        tensor.name: rng.uniform(-1, 1, tensor.shape).astype(numpy_dtype(problem.dtype))
        for tensor in operation.inputs(problem)
    }
    want = operation.reference(problem, {at: x.astype(np.float64) for at, x in arrays.items()})
    solver = find_solver(name)
    have = run_interpreted(solver, problem, HOPPER, Config(settings), arrays)["out"]
    roundings = 2 if problem.dtype == "f16" else 16
    allowed = np.finfo(have.dtype).eps * np.maximum(np.abs(want), 1) * roundings
    error = np.abs(have.astype(np.float64) - want) / allowed
    return float(error.max()) if np.isfinite(have).all() else float("inf")


if __name__ == "__main__":
    for case in CASES:
        if (times := wrong(*case)) > 1:
            print(f"{case[0]} {case[1]} {case[2]}: {times:.1f} times what is allowed")
    print(f"{len(CASES)} cases")

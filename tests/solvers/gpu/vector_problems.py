"""Small vector problems that the interpreter computes as plans say: one process for all of them.

Run as a program; prints one line for each case that is wrong.
"""

import sys

import numpy as np

from skipjack import operations
from skipjack.core import Config, Device, ParameterSpace
from skipjack.execute import draw_inputs
from skipjack.execute.verification import make_references
from skipjack.operations import ELEMENTWISE
from skipjack.operations.activation_gradients import ACTIVATION_GRADIENTS
from skipjack.operations.layernorm import LayerNorm
from skipjack.operations.normalization import NORMALIZATIONS, ROW_GRADIENTS
from skipjack.operations.reduce import REDUCTIONS
from skipjack.solvers import building_solvers
from skipjack.solvers.gpu.triton import TritonSolver
from skipjack.testing.interpreted import run_interpreted

GPU = Device("cuda", "sm_90", 3, caches=(("shared", 227 << 10), ("L2", 50 << 20)))
BROADCASTS = (
    "add:5x9/y=9",
    "sub:5x9/y=5x1",
    "div:5x9/y=1",
    "mul:5x1/y=1x7:f16",
    "sub:1/y=6x5",
    "minimum:3x5x2x7/y=5x1x1",
    "sub:2x1x3x1x2x1x3/y=2x1x2x1x3x1:f64",
)
REDUCED = (
    "sum:37x65/axis=1",
    "sum:37x65/axis=0:bf16",
    "max:5x6x7/axis=1:f16",
    "mean:3x4x5x6/axis=0,2",
    "norm:6x5x4x3/axis=1,3:f16",
    "prod:2x3x2x3x2x3/axis=0,2,4",
    "absmax:2x3x1/axis=2",
    "sum:9000:f64",
    "sumsq:2x5000/axis=1",
)
ROWS = tuple(
    f"{operation.name}:{shape}"
    for operation in (*NORMALIZATIONS, LayerNorm(), *ROW_GRADIENTS)
    for shape in ("7x33", "2x3x40:f16", "3x1", "2x2500:bf16", "33:f64")
)
SAVED = ("layernorm:7x33/mode=train", "layernorm:3x2500/mode=train:bf16")
SUMMED = tuple(f"layernorm_backward:{shape}" for shape in ("7x33", "2x3x40:f16", "40x1", "33:f64"))
CHANNELS = tuple(
    f"batchnorm:{shape}/mode={mode}{dtype}"
    for mode in ("train", "infer", "backward")
    for shape, dtype in (("n3c5h7w3", ""), ("n2c3h9w16", ":f16"), ("n5c4h1w1", ":f64"))
)
POINTWISE = (*ELEMENTWISE, *ACTIVATION_GRADIENTS)
EVERY = (
    *(f"{operation.name}:3x41" for operation in POINTWISE),
    *(f"{operation.name}:2x64:f16" for operation in POINTWISE),
    *(f"{operation.name}:9x30/axis=1" for operation in REDUCTIONS),
    *BROADCASTS,
    *REDUCED,
    *ROWS,
    *SAVED,
    *SUMMED,
    *CHANNELS,
)


def configs(space: ParameterSpace) -> list[Config]:
    """The default, and another one that takes another way."""
    found = [space.default()]
    shortest = [c for c in space.enumerate() if c["columns"] == 1024] if _has_blocks(space) else []
    rng = np.random.default_rng(1)
    return [*found, shortest[0] if shortest else space.sample(rng)]


def _has_blocks(space: ParameterSpace) -> bool:
    return any(one.name == "columns" and 1024 in one.values for one in space.parameters)


def wrong(key: str) -> list[str]:
    """What is wrong with a problem, one line for each config."""
    problem = operations.parse(key)
    solver = next(one for one in building_solvers(problem, GPU) if isinstance(one, TritonSolver))
    arrays = draw_inputs(problem, 0)
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    references = make_references(problem, wide)
    space = solver.space(problem, GPU)
    assert isinstance(space, ParameterSpace)
    found = []
    for config in configs(space):
        outputs = run_interpreted(solver, problem, GPU, config, arrays)
        for name, reference in references.items():
            verdict = reference.compare(outputs[name])
            if not verdict.right:
                found.append(f"{key} {config}: {name}: {verdict.reason}")
    return found


if __name__ == "__main__":
    keys = sys.argv[1:] or EVERY
    for text in keys:
        for line in wrong(text):
            print(line)
    print(f"{len(keys)} cases")

"""A softmax of one's own, with what Skipjack must know to build, run and check it.

skipjack tune examples/triton/my_softmax.py::softmax --shapes 4096x1024 --dtype f16
"""

import numpy as np
import triton
import triton.language as tl

import skipjack


@triton.jit
def softmax(y_ptr, x_ptr, stride, cols, BLOCK: tl.constexpr):
    """One block of threads for each row."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < cols, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, axis=0))
    y = powers / tl.sum(powers, axis=0)
    tl.store(y_ptr + row * stride + at, y.to(y_ptr.dtype.element_ty), mask=at < cols)


def reference(x):
    """The same by NumPy, in the precision of its input."""
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


skipjack.triton_kernel(
    softmax,
    shape=("rows", "cols"),
    inputs={"x": ("rows", "cols")},
    outputs={"y": ("rows", "cols")},
    arguments={"stride": "cols"},
    constants={"BLOCK": lambda at: triton.next_power_of_2(at["cols"])},
    grid=("rows",),
    space={"num_warps": [1, 2, 4, 8, 16, 32]},
    reference=reference,
    flops="5 * rows * cols",
)

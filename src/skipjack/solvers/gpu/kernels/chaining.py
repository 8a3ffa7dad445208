"""Kernels that start before the one before them has ended, on Hopper and later.

One that FOLLOWS waits for the results of the one before; one that is FOLLOWED lets the next one
take its place on the units as soon as all programs have begun.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def begin(FOLLOWS: tl.constexpr, FOLLOWED: tl.constexpr):
    """Call it before anything is read that another kernel of the plan writes."""
    if FOLLOWED:
        gdc_launch_dependents()
    if FOLLOWS:
        gdc_wait()

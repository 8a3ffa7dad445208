"""Which taps of a filter meet a pixel, forwards and backwards."""

import triton
import triton.language as tl


@triton.jit
def first_tap(place, pad, STRIDE: tl.constexpr, BACK: tl.constexpr):
    """The first tap for a place within the stride, and the offset of the pixel that it reads."""
    if BACK:
        tap = (place + pad) % STRIDE
        offset = (place + pad - tap) // STRIDE
    else:
        tap = place * 0
        offset = place * 0 - pad
    return tap, offset


@triton.jit
def taps_of(first, SIZE: tl.constexpr, STEP: tl.constexpr):
    """How many taps there are from the first on."""
    return (SIZE - first + STEP - 1) // STEP

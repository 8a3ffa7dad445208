"""How far rounding carries a sum of products, by the type that they are computed in."""

from __future__ import annotations


def product_factor(dtype: str, length: int, own: float = 0.0) -> float:
    """In units of the type's `arithmetic_eps` and of the same sum over magnitudes.

    `own` is what a function of the sum adds, in units of the type that sums are kept in.
    """
    root: float = length**0.5
    if dtype == "tf32":
        # Operands are rounded, or cut, to 11 bits: errors of products are independent, so that
        # their sum is off by 14 / root at six sigma. Sums are kept in float32.
        return 16.0 / root + 2.0
    if dtype in ("f8e4m3", "f8e5m2"):
        # Products are exact. Tensor cores keep 14 bits of a sum and cut the rest off at every
        # step, always towards 0: that grows with the length.
        return 16.0 / root + 2.0 + root / 16.0
    return 4.0 + 2.0 * root + own

"""Tune a matrix product, then use the kernel in a small NumPy program: power iteration.

Run it as ``python examples/tuned_matmul.py``. A second run continues the same study.
"""

from __future__ import annotations

import numpy as np

import skipjack

SIZE = 96
STEPS = 50


def main() -> None:
    """Find the largest eigenvalues of a symmetric matrix with a tuned kernel."""
    result = skipjack.tune(f"matmul:{SIZE}x{SIZE}x{SIZE}", budget=24)
    gain = f"{result.speedup.baseline.ratio:.2f}x {result.baseline}"
    print(f"{result.problem}: {result.status}, {gain}")
    matmul = result.kernel()

    rng = np.random.default_rng(0)
    factor = rng.standard_normal((SIZE, SIZE), dtype=np.float32)
    matrix = np.ascontiguousarray(factor @ factor.T) / np.float32(SIZE)
    basis = np.linalg.qr(rng.standard_normal((SIZE, SIZE)))[0].astype(np.float32)
    product = np.empty_like(basis)
    for _ in range(STEPS):
        matmul(matrix, basis, out=product)
        basis = np.linalg.qr(product)[0]

    found = float(basis[:, 0] @ matrix @ basis[:, 0])
    exact = float(np.linalg.eigvalsh(matrix.astype(np.float64))[-1])
    print(f"largest eigenvalue {found:.4f}, by LAPACK {exact:.4f}")
    if abs(found - exact) > 0.02 * exact:
        raise SystemExit("the two do not agree")


if __name__ == "__main__":
    main()

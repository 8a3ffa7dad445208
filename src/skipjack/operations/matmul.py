"""``matmul:MxNxK``: C[M,N] = A[M,K] B[K,N], all row-major."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from skipjack.core.nest import Access, Call, Load, Nest, Tensor, index
from skipjack.core.operation import Array, Arrays, OperationClass, Tolerance
from skipjack.core.problem import Problem
from skipjack.operations.attributes import refuse_unknown, require_rank


class Matmul:
    """Matrix product."""

    name = "matmul"
    operation_class: OperationClass = "cube"
    example = "matmul:192x192x192"
    dtypes = ("f32", "f64")
    domain = (-1.0, 1.0)

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """Three sizes, no attributes."""
        require_rank(shape, 3, "matmul:MxNxK", where)
        refuse_unknown(attributes, (), where)
        return ()

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """A and B."""
        m, n, k = problem.shape
        return Tensor("a", (m, k)), Tensor("b", (k, n))

    def output(self, problem: Problem) -> Tensor:
        """C."""
        m, n, _ = problem.shape
        return Tensor("out", (m, n))

    def nest(self, problem: Problem) -> Nest:
        """``out[m,n] += a[m,k] * b[k,n]``."""
        m, n, k = problem.shape
        a, b = self.inputs(problem)
        return Nest(
            loops=(("m", m), ("k", k), ("n", n)),
            inputs=(
                Access(a, (index("m"), index("k"))),
                Access(b, (index("k"), index("n"))),
            ),
            output=Access(self.output(problem), (index("m"), index("n"))),
            body=Call("mul", (Load(0), Load(1))),
            reduction="sum",
        )

    def flops(self, problem: Problem) -> int:
        """A multiplication and an addition for each index triple."""
        m, n, k = problem.shape
        return 2 * m * n * k

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """NumPy's product."""
        product: Array = np.matmul(arrays["a"], arrays["b"])
        return product

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """|A| |B|, the classical bound of a dot product's rounding error."""
        product: Array = np.matmul(np.abs(arrays["a"]), np.abs(arrays["b"]))
        return product

    def tolerance(self, problem: Problem) -> Tolerance:
        """K roundings stay within K eps |A||B| in any order, and rarely pass sqrt(K)."""
        return Tolerance(4.0 + 2.0 * problem.shape[2] ** 0.5)

    def project(
        self, problem: Problem, arrays: Arrays, vector: Array
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """A (B v) costs two thin products instead of a full one."""
        exact = arrays["a"] @ (arrays["b"] @ vector)
        scale = np.abs(arrays["a"]) @ (np.abs(arrays["b"]) @ np.abs(vector))
        return exact, scale

    def sampled_rows(
        self, problem: Problem, arrays: Arrays, rows: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Some rows of the product, whole."""
        some = arrays["a"][rows]
        return some @ arrays["b"], np.abs(some) @ np.abs(arrays["b"])

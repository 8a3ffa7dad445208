"""The facts of a convolution that all its solvers for GPUs read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skipjack import operations
from skipjack.core.dtypes import DTYPES
from skipjack.core.problem import Problem
from skipjack.operations.conv_geometry import Axis, Geometry, Role
from skipjack.operations.convolution import Convolution
from skipjack.solvers.gpu.product import TRITON_TYPES

Direction = Literal["fwd", "bwd", "wrw"]
_DIRECTIONS: dict[Role, Direction] = {"result": "fwd", "image": "bwd", "filter": "wrw"}


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution in two dimensions; a transposed one has its roles exchanged already."""

    geometry: Geometry
    dtype: str

    @classmethod
    def of(cls, problem: Problem) -> Layer:
        """Of a problem that was not refused."""
        operation = operations.get(problem.operation)
        assert isinstance(operation, Convolution), "refused before"
        return cls(operation.geometry(problem), problem.dtype)

    @property
    def direction(self) -> Direction:
        """What is computed: the result, the image or the filter."""
        return _DIRECTIONS[self.geometry.wanted]

    @property
    def back(self) -> bool:
        """Whether the image is computed."""
        return self.geometry.wanted == "image"

    @property
    def high(self) -> Axis:
        """Along rows."""
        return self.geometry.axes[1]

    @property
    def wide(self) -> Axis:
        """Along columns."""
        return self.geometry.axes[2]

    @property
    def last(self) -> bool:
        """Whether channels lie behind the pixels."""
        return self.geometry.channels_last

    @property
    def c(self) -> int:
        """Channels of the image in a group."""
        return self.geometry.group_c

    @property
    def k(self) -> int:
        """Channels of the result in a group."""
        return self.geometry.group_k

    @property
    def cols(self) -> int:
        """Channels that are computed, in a group."""
        return self.c if self.back else self.k

    @property
    def depth(self) -> int:
        """Channels that are summed over, in a group."""
        return self.k if self.back else self.c

    @property
    def given(self) -> Role:
        """What is convolved with the filter."""
        return "result" if self.back else "image"

    def sizes(self, role: Role) -> tuple[int, int, int]:
        """Images, rows and columns of the image or the result."""
        high, wide = self.high, self.wide
        if role == "image":
            return self.geometry.n, high.image, wide.image
        return self.geometry.n, high.result, wide.result

    def channels(self, role: Role) -> int:
        """Of all groups."""
        return self.geometry.c if role == "image" else self.geometry.k

    def elements(self, role: Role) -> int:
        """Of an array."""
        return self.geometry.tensor(role).size

    @property
    def flat(self) -> bool:
        """Whether a pixel of the result is made of the same pixel of the image alone."""
        return self.high.trivial and self.wide.trivial

    @property
    def places(self) -> int:
        """Classes of the image's pixels by their place within the stride, where they are wanted."""
        return self.high.stride * self.wide.stride if self.back else 1

    @property
    def sparse(self) -> bool:
        """Whether, backwards, the taps that meet a pixel are irregular."""
        axes = (self.high, self.wide)
        return self.back and any(a.stride > 1 and a.dilation > 1 and a.filter > 1 for a in axes)

    @property
    def type(self) -> str:
        """Triton's name of the elements' type."""
        return TRITON_TYPES[self.dtype]

    @property
    def element_bytes(self) -> int:
        """Of every array."""
        return DTYPES[self.dtype].bytes

    @property
    def precision(self) -> int:
        """How f32 is multiplied: see `skipjack.solvers.gpu.kernels.epilogue.multiplied`."""
        return 2 if self.dtype == "f32" else 0

    @property
    def long(self) -> bool:
        """Whether 31 bits cannot count the elements of an array."""
        roles: tuple[Role, ...] = ("image", "filter", "result")
        return max(map(self.elements, roles)) >= 2**31

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.geometry.multiplications


def not_two_dimensional(problem: Problem) -> str:
    """Why a solver for two dimensions cannot do a problem; empty if it can."""
    operation = operations.get(problem.operation)
    if not isinstance(operation, Convolution):
        return f"it convolves and cannot do {problem.operation}"
    depth = operation.geometry(problem).axes[0]
    if (depth.image, depth.filter, depth.result) != (1, 1, 1):
        return "it knows two dimensions, not three"
    return ""

"""What an operation computes, as an index expression: loops, accesses, a scalar body, a reduction.

Accesses are affine in the loop indices, so ``x[h + r]`` of a convolution is one. A body is a small
tree of scalar steps over the loaded inputs. A loop whose index the output does not use is a
reduction loop. Nothing here says in which order the loops run: that is a schedule
(`skipjack.solvers.cpu.nest`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

_TRANSCENDENTAL = ("exp", "log", "tanh", "sigmoid", "silu", "erf", "gelu", "gelu_tanh")
UNARY = frozenset({"neg", "abs", "sqrt", "relu", "square", "reciprocal", "rsqrt", *_TRANSCENDENTAL})
SLOPES = frozenset(
    f"{name}_backward" for name in ("relu", "sigmoid", "tanh", "silu", "gelu", "gelu_tanh")
)
"""A gradient times the slope of a function: of its argument, or of its value for the first
three."""
BINARY = frozenset({"add", "sub", "mul", "div", "max", "min"}) | SLOPES
REDUCTIONS = frozenset({"sum", "max", "min", "prod"})


@dataclass(frozen=True, slots=True)
class Affine:
    """``sum(coefficient * index) + constant`` over loop indices."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    def coefficient(self, loop: str) -> int:
        """How far one step of the loop moves this index."""
        return sum(factor for name, factor in self.terms if name == loop)


def index(loop: str, coefficient: int = 1) -> Affine:
    """The plain index of one loop, possibly scaled."""
    return Affine(((loop, coefficient),))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A dense array in row-major order."""

    name: str
    shape: tuple[int, ...]
    dtype: str = ""
    """Of its elements; empty for the problem's."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in elements between neighbours along each axis."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))


@dataclass(frozen=True, slots=True)
class Access:
    """One element of a tensor, chosen by the loop indices."""

    tensor: Tensor
    indices: tuple[Affine, ...]

    def stride(self, loop: str) -> int:
        """How many elements one step of the loop moves this access."""
        pairs = zip(self.indices, self.tensor.strides, strict=True)
        return sum(at.coefficient(loop) * stride for at, stride in pairs)

    @property
    def offset(self) -> int:
        """Element reached when all loop indices are zero."""
        return sum(
            at.constant * stride
            for at, stride in zip(self.indices, self.tensor.strides, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Load:
    """The value of input number `operand` at this iteration."""

    operand: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A number."""

    value: float


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The reduced value; only in an epilogue. Row programs have several, told apart by name."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar step, named in `UNARY` or `BINARY`."""

    function: str
    arguments: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        known = UNARY if len(self.arguments) == 1 else BINARY
        if self.function not in known:
            raise ValueError(f"no scalar function {self.function} of {len(self.arguments)} values")


Scalar = Load | Constant | Accumulator | Call


@dataclass(frozen=True, slots=True)
class Nest:
    """``output[...] = epilogue(reduction over the missing loops of body(inputs[...]))``."""

    loops: tuple[tuple[str, int], ...]
    inputs: tuple[Access, ...]
    output: Access
    body: Scalar
    reduction: str = ""
    epilogue: Scalar = Accumulator()

    def __post_init__(self) -> None:
        if bool(self.reduction) != bool(self.reduction_loops):
            raise ValueError("a nest has a reduction exactly if its output leaves a loop out")
        if self.reduction and self.reduction not in REDUCTIONS:
            raise ValueError(f"no reduction {self.reduction}")

    def extent(self, loop: str) -> int:
        """How often a loop runs."""
        return dict(self.loops)[loop]

    @property
    def reduction_loops(self) -> tuple[str, ...]:
        """Loops whose index the output does not use."""
        used = {name for at in self.output.indices for name, factor in at.terms if factor}
        return tuple(name for name, _ in self.loops if name not in used)

"""A call of PyTorch's, read from the words of its stub, and ways to compute it with our kernels."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skipjack.core.problem import Problem
from skipjack.integrations.torch.signatures import (
    LISTS,
    SIGNATURES,
    ArgumentKind,
    Signature,
    TorchBackend,
)
from skipjack.integrations.torch.stubs import MOST_ITEMS, MOST_RANK
from skipjack.integrations.torch.table import PlanOutput, PlanPlace

DTYPES = {5: "f16", 6: "f32", 7: "f64", 15: "bf16"}
"""PyTorch's numbers of those that we compute with."""
_NAMES = {0: "u8", 1: "i8", 2: "i16", 3: "i32", 4: "i64", 11: "bool", **DTYPES}


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What a stub tells of a tensor."""

    dtype: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    rank: int

    @property
    def is_contiguous(self) -> bool:
        """In C's order, whatever the strides of axes of one element are."""
        return matches(self.sizes, self.strides, contiguous(self.sizes))

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.sizes)) if self.sizes else f"rank {self.rank}"
        name = _NAMES.get(self.dtype, f"dtype {self.dtype}")
        if self.is_contiguous:
            return f"{name}[{sizes}]"
        return f"{name}[{sizes} by {','.join(map(str, self.strides))}]"


Argument = TensorFacts | int | float | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TorchCall:
    """An operation with all that decides which kernel computes it."""

    signature: Signature
    threads: int
    arguments: tuple[Argument, ...]
    gpu: int | None = None
    """The number of the GPU that its first tensor is on; less than 0 if that is on a CPU."""

    @property
    def tensors(self) -> tuple[TensorFacts, ...]:
        """Those that are given; an optional one may be there and have no elements."""
        return tuple(
            one
            for one, kind in zip(self.arguments, self.signature.arguments, strict=True)
            if isinstance(one, TensorFacts) and (kind is ArgumentKind.TENSOR or one.sizes != (0,))
        )

    def __str__(self) -> str:
        return ", ".join(_shown(one) for one in self.arguments)


def _shown(argument: Argument) -> str:
    if isinstance(argument, tuple):
        return f"({', '.join(map(str, argument))})"
    return "none" if argument is None else str(argument)


@dataclass(frozen=True, slots=True)
class KernelPart:
    """A problem of ours within a call, and where its arrays are."""

    problem: Problem
    arrays: Mapping[str, PlanPlace]


@dataclass(frozen=True, slots=True)
class StubStep:
    """A function of the stubs' own, and its slots."""

    function: str
    slots: tuple[int | PlanPlace, ...]


@dataclass(frozen=True, slots=True)
class CallMatch:
    """One way to compute a call with kernels of ours."""

    parts: tuple[KernelPart, ...]
    outputs: tuple[PlanOutput, ...]
    left_to_torch: int = 0
    """A bit for each result that stays with PyTorch."""
    after: tuple[StubStep, ...] = ()
    """What is left to do when the problems are computed."""


@dataclass(frozen=True, slots=True)
class CallMatches:
    """All ways, or why there is none."""

    ways: tuple[CallMatch, ...] = ()
    reason: str = field(default="")
    is_valid: bool = False
    """Whether PyTorch accepts the call for sure. Where it is not, PyTorch is asked."""


def read_call(words: Sequence[int], signatures: Sequence[Signature] = SIGNATURES) -> TorchCall:
    """What a stub has written down."""
    signature = signatures[words[0]]
    at, arguments = 2, list[Argument]()
    for kind in signature.arguments:
        argument, at = _read(kind, words, at)
        arguments.append(argument)
    if signature.backend is TorchBackend.CUDA:
        return TorchCall(signature, 1, tuple(arguments), words[1])
    return TorchCall(signature, words[1] & 0xFFFFFFFF, tuple(arguments))


def _read(kind: ArgumentKind, words: Sequence[int], at: int) -> tuple[Argument, int]:
    if kind in (ArgumentKind.INT, ArgumentKind.BOOL, ArgumentKind.DTYPE):
        return words[at], at + 1
    if kind in (ArgumentKind.DOUBLE, ArgumentKind.MOMENTUM):
        return struct.unpack("d", struct.pack("q", words[at]))[0], at + 1
    count = words[at]
    if count < 0:
        return None, at + 1
    if kind in LISTS:
        end = at + 1 + (count if count <= MOST_ITEMS else 0)
        return tuple(words[at + 1 : end]), end
    first = at + 2
    rank = count if count <= MOST_RANK else 0
    sizes, strides = words[first : first + rank], words[first + rank : first + 2 * rank]
    facts = TensorFacts(words[at + 1], tuple(sizes), tuple(strides), count)
    return facts, first + 2 * rank


def contiguous(sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides in C's order."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def matches(sizes: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether elements lie as the wanted strides have them."""
    return all(
        size <= 1 or have == want for size, have, want in zip(sizes, strides, wanted, strict=True)
    )

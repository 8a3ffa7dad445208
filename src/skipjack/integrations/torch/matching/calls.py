"""A call of PyTorch, decoded from its words, and ways to compute it with our kernels."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skipjack.core import Problem
from skipjack.integrations.torch.stubs import (
    LISTS,
    MOST_ITEMS,
    MOST_RANK,
    SIGNATURES,
    ArgumentKind,
    PlanOutput,
    PlanPlace,
    Signature,
    TorchBackend,
)

DTYPES = {5: "f16", 6: "f32", 7: "f64", 15: "bf16"}
"""PyTorch's numbers of the dtypes that our kernels support."""
_NAMES = {0: "u8", 1: "i8", 2: "i16", 3: "i32", 4: "i64", 11: "bool", **DTYPES}


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """The dtype and shape of a tensor, as a stub reports them."""

    dtype: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    rank: int

    @property
    def is_contiguous(self) -> bool:
        """Whether elements are in C order; strides of axes of one element do not matter."""
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
    """An operation with everything that determines its kernel."""

    signature: Signature
    threads: int
    arguments: tuple[Argument, ...]
    gpu: int | None = None
    """The number of its first tensor's GPU; negative if the tensor is on a CPU."""

    @property
    def tensors(self) -> tuple[TensorFacts, ...]:
        """The tensors of the call, without optional ones that have no elements."""
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
    """One of our problems within a call, and the places of its arrays."""

    problem: Problem
    arrays: Mapping[str, PlanPlace]


@dataclass(frozen=True, slots=True)
class StubStep:
    """A helper function of the stubs, and its slots."""

    function: str
    slots: tuple[int | PlanPlace, ...]


@dataclass(frozen=True, slots=True)
class CallMatch:
    """One way to compute a call with our kernels."""

    parts: tuple[KernelPart, ...]
    outputs: tuple[PlanOutput, ...]
    left_to_torch: int = 0
    """A bit for each result that PyTorch computes."""
    after: tuple[StubStep, ...] = ()
    """Steps after the problems are computed."""


@dataclass(frozen=True, slots=True)
class CallMatches:
    """All ways to compute a call, or why there is none."""

    ways: tuple[CallMatch, ...] = ()
    reason: str = field(default="")
    is_valid: bool = False
    """Whether PyTorch certainly accepts the call. If not, PyTorch is asked."""


def read_call(words: Sequence[int], signatures: Sequence[Signature] = SIGNATURES) -> TorchCall:
    """Decode the words of a stub."""
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
    """Strides of C order."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def matches(sizes: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether strides match the wanted ones; axes of one element do not matter."""
    return all(
        size <= 1 or have == want for size, have, want in zip(sizes, strides, wanted, strict=True)
    )

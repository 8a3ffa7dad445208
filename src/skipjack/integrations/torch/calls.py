"""A call of PyTorch's, read from the words of its stub, and which problems of ours it is."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from skipjack.core.problem import Problem
from skipjack.errors import ProblemError
from skipjack.integrations.torch.signatures import SIGNATURES, ArgumentKind, Signature
from skipjack.integrations.torch.stubs import ARGUMENT, MOST_ITEMS, MOST_RANK, RESULT
from skipjack.integrations.torch.table import PlanOutput, PlanPlace
from skipjack.operations import parse

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

    @property
    def tensors(self) -> tuple[TensorFacts, ...]:
        """Those that are given."""
        return tuple(one for one in self.arguments if isinstance(one, TensorFacts))

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
class CallMatch:
    """One way to compute a call with kernels of ours."""

    parts: tuple[KernelPart, ...]
    outputs: tuple[PlanOutput, ...]
    left_to_torch: int = 0
    """A bit for each result that stays with PyTorch."""


@dataclass(frozen=True, slots=True)
class CallMatches:
    """All ways, or why there is none."""

    ways: tuple[CallMatch, ...] = ()
    reason: str = field(default="")


def read_call(words: Sequence[int], signatures: Sequence[Signature] = SIGNATURES) -> TorchCall:
    """What a stub has written down."""
    signature = signatures[words[0]]
    at, arguments = 2, list[Argument]()
    for kind in signature.arguments:
        argument, at = _read(kind, words, at)
        arguments.append(argument)
    return TorchCall(signature, words[1], tuple(arguments))


def _read(kind: ArgumentKind, words: Sequence[int], at: int) -> tuple[Argument, int]:
    if kind is ArgumentKind.INT:
        return words[at], at + 1
    if kind is ArgumentKind.DOUBLE:
        return struct.unpack("d", struct.pack("q", words[at]))[0], at + 1
    count = words[at]
    if count < 0:
        return None, at + 1
    if kind in (ArgumentKind.INTS, ArgumentKind.OPTIONAL_INTS):
        end = at + 1 + (count if count <= MOST_ITEMS else 0)
        return tuple(words[at + 1 : end]), end
    first = at + 2
    rank = count if count <= MOST_RANK else 0
    sizes, strides = words[first : first + rank], words[first + rank : first + 2 * rank]
    return TensorFacts(words[at + 1], tuple(sizes), tuple(strides), count), first + 2 * rank


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


def match_call(call: TorchCall) -> CallMatches:
    """The problems that a call is."""
    for tensor in call.tensors:
        if tensor.dtype not in DTYPES:
            return CallMatches(reason=f"no kernels for {tensor}")
        if tensor.rank > MOST_RANK or 0 in tensor.sizes:
            return CallMatches(reason="tensors without elements, or of too many dimensions")
    if len({tensor.dtype for tensor in call.tensors}) != 1:
        return CallMatches(reason="its tensors differ in dtype")
    try:
        return MATCHERS[call.signature.full_name](call)
    except ProblemError as error:
        return CallMatches(reason=str(error))


# Products


def _stored(facts: TensorFacts) -> bool | None:
    """Whether a matrix, or each of a batch, is stored transposed; None if neither way."""
    rows, columns = facts.sizes[-2:]
    if facts.is_contiguous:
        return False
    turned = (*contiguous((*facts.sizes[:-2], columns, rows))[:-2], 1, rows)
    return True if matches(facts.sizes, facts.strides, turned) else None


def _product(call: TorchCall) -> CallMatches:
    tensors = call.tensors
    a, b = tensors[-2:]
    ta, tb = _stored(a), _stored(b)
    if ta is None or tb is None:
        return CallMatches(reason="strides of its factors that no kernel takes")
    (m, k), n = a.sizes[-2:], b.sizes[-1]
    lead = a.sizes[:-2]
    output = (*lead, m, n)
    words = [name for name, is_so in (("ta=1", ta), ("tb=1", tb)) if is_so]
    first = len(tensors) - 2
    arrays = {"a": PlanPlace(ARGUMENT, first), "b": PlanPlace(ARGUMENT, first + 1)}
    if first:
        added = tensors[0]
        if added.is_contiguous and added.sizes == output:
            words.append("beta=1")
            arrays["c"] = PlanPlace(ARGUMENT, 0)
        elif added.is_contiguous and added.sizes == (n,):
            words.append("bias=1")
            arrays["bias"] = PlanPlace(ARGUMENT, 0)
        else:
            return CallMatches(reason="what is added is neither a row nor a whole matrix")
    arrays["out"] = PlanPlace(RESULT, 0)
    name = "bmm" if lead else "matmul"
    shape = "x".join(map(str, (*lead, m, n, k)))
    problem = parse("/".join([f"{name}:{shape}", *words]) + f":{DTYPES[a.dtype]}")
    made = PlanOutput(0, output, contiguous(output), a.dtype)
    return CallMatches((CallMatch((KernelPart(problem, arrays),), (made,)),))


MATCHERS: dict[str, Callable[[TorchCall], CallMatches]] = {
    "aten::mm": _product,
    "aten::bmm": _product,
    "skipjack::addmm": _product,
    "skipjack::baddbmm": _product,
}
"""By the operation's name."""

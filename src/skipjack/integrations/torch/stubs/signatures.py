"""The signatures of PyTorch's operations that can be hooked.

An operation's native stub is generated from its signature (`skipjack.integrations.torch.stubs`).
Operations whose arguments PyTorch's C interface cannot pass (numbers of any type: `alpha` and
`beta`) have a variant in the namespace ``skipjack`` without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from skipjack.core import did_you_mean


class TorchBackend(Enum):
    """The device type of tensors; the value is part of PyTorch's namespace, as ``at::cpu``."""

    CPU = "cpu"
    CUDA = "cuda"

    @property
    def key(self) -> str:
        """PyTorch's dispatch key."""
        return self.value.upper()


class ArgumentKind(Enum):
    TENSOR = "tensor"
    OPTIONAL_TENSOR = "optional tensor"
    INT = "int"
    BOOL = "bool"
    DTYPE = "dtype"
    DOUBLE = "double"
    MOMENTUM = "momentum"
    """A double; values with more than four decimals share one word, since the momentum of a
    cumulative average differs in every call."""
    INTS = "ints"
    OPTIONAL_INTS = "optional ints"
    THREE_BOOLS = "three bools"
    """Which of three results are requested."""


ONE_WORD = (ArgumentKind.INT, ArgumentKind.BOOL, ArgumentKind.DTYPE, ArgumentKind.DOUBLE)
"""Arguments that are a single number."""
LISTS = (ArgumentKind.INTS, ArgumentKind.OPTIONAL_INTS, ArgumentKind.THREE_BOOLS)


@dataclass(frozen=True, slots=True)
class Signature:
    """An operation of PyTorch."""

    name: str
    """The name without namespace and overload."""
    arguments: tuple[ArgumentKind, ...]
    results: int
    fallback: str
    """The function that computes it without the dispatcher, and how it is called: see `stubs`.

    For a function of the C interface, the last part of its name; for C++, the mangled name.
    """
    namespace: str = "aten"
    schema: str = ""
    """The schema of our own operation."""
    backend: TorchBackend = TorchBackend.CPU

    @property
    def full_name(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}::{self.name}"

    @property
    def is_cpp(self) -> bool:
        """Whether its fallback is a C++ function."""
        return self.fallback.startswith("_Z")

    @property
    def function(self) -> str:
        """The full name of its fallback."""
        if self.is_cpp:
            return self.fallback
        return f"aoti_torch_{self.backend.value}_{self.fallback}"

    def on(self, backend: TorchBackend) -> Signature:
        """The same operation on another backend."""
        fallback = self.fallback
        if self.is_cpp:
            own, other = (f"{len(one.value)}{one.value}" for one in (self.backend, backend))
            fallback = fallback.replace(f"_ZN2at{own}", f"_ZN2at{other}", 1)
        return replace(self, backend=backend, fallback=fallback)


_T, _O, _L = ArgumentKind.TENSOR, ArgumentKind.OPTIONAL_TENSOR, ArgumentKind.INTS
_P = ArgumentKind.OPTIONAL_INTS
_I, _B, _D, _M = ArgumentKind.INT, ArgumentKind.BOOL, ArgumentKind.DOUBLE, ArgumentKind.THREE_BOOLS
_N = ArgumentKind.MOMENTUM
_OPTIONAL = "RKSt8optionalIS1_E"
_LIST = "N3c108ArrayRefIlEE"
_MASK = "St5arrayIbLm3EE"


def _cpp(name: str, *types: str) -> str:
    """The mangled name of ``at::cpu::name``, whose first argument is a tensor."""
    return f"_ZN2at3cpu{len(name)}{name}ERKNS_6TensorE{''.join(types)}"


def _of_cpp(name: str, arguments: tuple[ArgumentKind, ...], results: int, *types: str) -> Signature:
    """A signature with a C++ fallback; `types` are the mangled types after the first."""
    return Signature(name, arguments, results, _cpp(name, *types))


_ROWS = (
    _of_cpp("_softmax", (_T, _I, _B), 1, "lb"),
    _of_cpp("_log_softmax", (_T, _I, _B), 1, "lb"),
    *(
        _of_cpp(name, (_T, _T, _I, ArgumentKind.DTYPE), 1, "S3_lN3c1010ScalarTypeE")
        for name in ("_softmax_backward_data", "_log_softmax_backward_data")
    ),
    _of_cpp("native_layer_norm", (_T, _L, _O, _O, _D), 3, _LIST, _OPTIONAL, "SA_d"),
    _of_cpp(
        *("native_layer_norm_backward", (_T, _T, _L, _T, _T, _O, _O, _M), 3),
        *("S3_", _LIST, "S3_S3_", _OPTIONAL, "SA_", _MASK),
    ),
    _of_cpp("native_batch_norm", (_T, _O, _O, _O, _O, _B, _N, _D), 3, _OPTIONAL, "S7_S7_S7_bdd"),
    _of_cpp(
        *("native_batch_norm_backward", (_T, _T, _O, _O, _O, _O, _O, _B, _D, _M), 3),
        *("S3_", _OPTIONAL, "S7_S7_S7_S7_bd", _MASK),
    ),
)

_CPU = (
    _of_cpp("mm", (_T, _T), 1, "S3_"),
    _of_cpp("bmm", (_T, _T), 1, "S3_"),
    Signature(
        *("addmm", (_T, _T, _T), 1, "addmm_out", "skipjack"),
        "addmm(Tensor bias, Tensor a, Tensor b) -> Tensor",
    ),
    Signature(
        *("baddbmm", (_T, _T, _T), 1, "baddbmm_out", "skipjack"),
        "baddbmm(Tensor added, Tensor a, Tensor b) -> Tensor",
    ),
    *_ROWS,
    Signature("convolution", (_T, _T, _O, _L, _L, _L, _B, _L, _I), 1, "convolution"),
    Signature(
        *("convolution_backward", (_T, _T, _T, _P, _L, _L, _L, _B, _L, _I, _M)),
        *(3, "convolution_backward"),
    ),
)
_ON_GPUS = (
    *("mm", "bmm", "addmm", "baddbmm", "convolution", "convolution_backward"),
    *("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"),
)
"""Without normalizations: PyTorch's statistics of narrow rows are float32, and cuDNN has its own
operations for batches."""

SIGNATURES = (*_CPU, *(one.on(TorchBackend.CUDA) for one in _CPU if one.name in _ON_GPUS))
"""The number of an operation is its index here."""


def why_unknown(name: str) -> str:
    """Why no operation of this name can be tuned under PyTorch; empty if one can."""
    from skipjack.operations import is_known, names

    hooked = sorted({one.name for one in SIGNATURES})
    if name in hooked or is_known(name):
        return ""
    hint = did_you_mean(name, sorted({*hooked, *names()}))
    return f"PyTorch has no tunable operation {name!r}; choose from {', '.join(hooked)}{hint}"

"""The operations of PyTorch that are hooked, with what their arguments are.

An operation's native stub is generated from this (`skipjack.integrations.torch.stubs`). Those
whose arguments PyTorch's C interface cannot carry (numbers of any type: `alpha` and `beta`) have a
twin in the namespace ``skipjack`` without them, which a few lines of Python call.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ArgumentKind(Enum):
    """Of an argument."""

    TENSOR = "tensor"
    OPTIONAL_TENSOR = "optional tensor"
    INT = "int"
    """Also of booleans and dtypes."""
    DOUBLE = "double"
    INTS = "ints"
    OPTIONAL_INTS = "optional ints"
    """A list of whole numbers or booleans."""


@dataclass(frozen=True, slots=True)
class Signature:
    """An operation of PyTorch."""

    name: str
    """As in ``aten::mm``, without an overload."""
    arguments: tuple[ArgumentKind, ...]
    results: int
    fallback: str
    """The function that computes it past the dispatcher, and how it is called: see `stubs`."""
    namespace: str = "aten"
    schema: str = ""
    """Of an operation of our own."""

    @property
    def full_name(self) -> str:
        """With its namespace."""
        return f"{self.namespace}::{self.name}"


_T, _O, _L = ArgumentKind.TENSOR, ArgumentKind.OPTIONAL_TENSOR, ArgumentKind.INTS

SIGNATURES = (
    Signature("mm", (_T, _T), 1, "mm_out"),
    Signature("bmm", (_T, _T), 1, "bmm_out"),
    Signature(
        *("addmm", (_T, _T, _T), 1, "addmm_out", "skipjack"),
        "addmm(Tensor bias, Tensor a, Tensor b) -> Tensor",
    ),
    Signature(
        *("baddbmm", (_T, _T, _T), 1, "baddbmm_out", "skipjack"),
        "baddbmm(Tensor added, Tensor a, Tensor b) -> Tensor",
    ),
)
"""The number of an operation is its place here."""

"""PyTorch's own kernel of each operation, for calls that are not ours."""

from __future__ import annotations

from skipjack.integrations.torch.signatures import Signature, TorchBackend
from skipjack.integrations.torch.stubs.convolutions import (
    BACKWARD,
    FORWARD,
    backward_text,
    forward_text,
)
from skipjack.integrations.torch.stubs.products import PRODUCTS, product_text
from skipjack.integrations.torch.stubs.rows import row_text

DIVISIBLE = (BACKWARD,)
"""Fallbacks with a function ``rest_torch_NUMBER(stack, marks, results, bits)`` for some results."""


def fallback_text(number: int, signature: Signature) -> str:
    """A function ``code torch_NUMBER(stack, marks, results)``, which gives 0 if it worked.

    `marks` has for each argument where its words are. It writes handles of tensors to `results`.
    """
    name, function = f"torch_{number}", signature.fallback
    if function == FORWARD:
        return forward_text(name, signature.function)
    if function == BACKWARD:
        return backward_text(name, signature.function)
    if signature.is_cpp:
        return row_text(name, signature)
    device_type = int(signature.backend is TorchBackend.CUDA)
    return product_text(name, signature.function, PRODUCTS[function], device_type)

"""Which problems of ours a call of PyTorch's is."""

from __future__ import annotations

from collections.abc import Callable

from skipjack.errors import ProblemError
from skipjack.integrations.torch.calls import DTYPES, CallMatches, TorchCall
from skipjack.integrations.torch.matching.convolutions import (
    match_convolution,
    match_convolution_backward,
)
from skipjack.integrations.torch.matching.products import match_product
from skipjack.integrations.torch.matching.rows import (
    match_batch_norm,
    match_batch_norm_backward,
    match_layer_norm,
    match_layer_norm_backward,
    match_softmax,
)
from skipjack.integrations.torch.stubs import MOST_RANK

MATCHERS: dict[str, Callable[[TorchCall], CallMatches]] = {
    "aten::mm": match_product,
    "aten::bmm": match_product,
    "aten::convolution": match_convolution,
    "aten::convolution_backward": match_convolution_backward,
    "skipjack::addmm": match_product,
    "skipjack::baddbmm": match_product,
    "aten::_softmax": match_softmax,
    "aten::_log_softmax": match_softmax,
    "aten::_softmax_backward_data": match_softmax,
    "aten::_log_softmax_backward_data": match_softmax,
    "aten::native_layer_norm": match_layer_norm,
    "aten::native_layer_norm_backward": match_layer_norm_backward,
    "aten::native_batch_norm": match_batch_norm,
    "aten::native_batch_norm_backward": match_batch_norm_backward,
}
"""By the operation's name."""


_NARROW = ("f16", "bf16")
"""Of wider types, the precision is a switch of PyTorch's that a program may change."""


def _left_to_the_gpus_libraries(call: TorchCall) -> str:
    if call.gpu is None or call.gpu < 0:
        return "its tensors are on several devices"
    if DTYPES[call.tensors[0].dtype] not in _NARROW:
        return f"on GPUs there are kernels for {' and '.join(_NARROW)} alone"
    return ""


def match_call(call: TorchCall) -> CallMatches:
    """The problems that a call is."""
    for tensor in call.tensors:
        if tensor.dtype not in DTYPES:
            return CallMatches(reason=f"no kernels for {tensor}")
        if tensor.rank > MOST_RANK or 0 in tensor.sizes:
            return CallMatches(reason="tensors without elements, or of too many dimensions")
    if len({tensor.dtype for tensor in call.tensors}) != 1:
        return CallMatches(reason="its tensors differ in dtype")
    if call.gpu is not None and (reason := _left_to_the_gpus_libraries(call)):
        return CallMatches(reason=reason)
    try:
        return MATCHERS[call.signature.full_name](call)
    except ProblemError as error:
        return CallMatches(reason=str(error))

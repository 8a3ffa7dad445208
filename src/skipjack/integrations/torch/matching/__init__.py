"""Which of our problems a call of PyTorch's is."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.torch.matching.calls import (
        DTYPES,
        CallMatch,
        CallMatches,
        KernelPart,
        StubStep,
        TensorFacts,
        TorchCall,
        read_call,
    )
    from skipjack.integrations.torch.matching.matchers import match_call

__all__ = [
    "DTYPES",
    "CallMatch",
    "CallMatches",
    "KernelPart",
    "StubStep",
    "TensorFacts",
    "TorchCall",
    "match_call",
    "read_call",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "calls": "CallMatch CallMatches DTYPES KernelPart StubStep TensorFacts TorchCall read_call",
        "matchers": "match_call",
    },
)

"""Which operations are worth the detour through the hook.

Most cost a third of a microsecond to some microseconds where PyTorch computes them all the same.
Those whose arguments the C interface cannot carry cost 2 and more in a loop, and 6 in a program. On
GPUs, whose programs often wait for the host, every microsecond counts. These are hooked if
something may come of it: the policy searches, the program is dumped, or a bank knows a problem that
they are and kernels have not been found to gain less than the detours of other calls cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from skipjack.bank import BankLayer, is_library
from skipjack.errors import StorageError
from skipjack.integrations.torch.racing import HookVerdict, StoredVerdict
from skipjack.integrations.torch.signatures import Signature, TorchBackend

_CONVOLUTIONS = ("conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d")
_OPERATIONS = {
    "mm": ("matmul",),
    "addmm": ("matmul",),
    "bmm": ("bmm",),
    "baddbmm": ("bmm",),
    "convolution": _CONVOLUTIONS,
    "convolution_backward": _CONVOLUTIONS,
    "_softmax": ("softmax",),
    "_log_softmax": ("logsoftmax",),
    "_softmax_backward_data": ("softmax_backward",),
    "_log_softmax_backward_data": ("logsoftmax_backward",),
}
"""Our operations by PyTorch's names."""
_ADDED = ("/bias=1", "/beta=1")
_NARROW = (":f16", ":bf16")
_MOST_PROBLEMS = 64
"""Of a family with more, one is taken to be for a device of the kind that is meant."""
_DETOUR_NS = {
    TorchBackend.CPU: {"addmm": 6_000.0, "baddbmm": 6_000.0},
    TorchBackend.CUDA: {
        **dict.fromkeys(("addmm", "baddbmm"), 12_000.0),
        **dict.fromkeys(("convolution", "convolution_backward"), 15_000.0),
    },
}
"""What a call costs that PyTorch computes all the same: as in steps of small networks, where caches
hold other things, not as in a loop of one call (``bench/torch_overhead.py``)."""
_SHORT_DETOUR_NS = 2_000.0


def wanted_signatures(
    signatures: Sequence[Signature], layers: Sequence[BankLayer], verdicts: Iterable[StoredVerdict]
) -> tuple[tuple[Signature, ...], tuple[Signature, ...]]:
    """Those that cost little or are known to gain, or may; and those that are known not to."""
    raced: dict[tuple[str, str], list[HookVerdict]] = {}
    for one in verdicts:
        raced.setdefault((one.subject.op, one.subject.backend), []).append(one.verdict)
    may_gain = [
        one for one in signatures if not is_costly(one) or any(_is_known(one, at) for at in layers)
    ]
    vain = tuple(one for one in may_gain if is_costly(one) and not _pays(one, raced))
    return tuple(one for one in may_gain if one not in vain), vain


def _pays(signature: Signature, raced: Mapping[tuple[str, str], Sequence[HookVerdict]]) -> bool:
    """Whether kernels gain more than the detours cost, if all kinds of calls are as frequent.

    What nobody has raced yet may gain.
    """
    found = raced.get((f"aten::{signature.name}", signature.backend.value))
    return not found or sum(_gain_ns(signature, one) for one in found) > 0.0


def _gain_ns(signature: Signature, verdict: HookVerdict) -> float:
    """For a call: without its detour, or the detour alone where PyTorch won.

    Calls that have a stand-in were raced against PyTorch without the hook.
    """
    cost = _DETOUR_NS[signature.backend].get(signature.name, _SHORT_DETOUR_NS)
    if verdict.way is None or verdict.after_ns is None:
        return -cost
    return verdict.before_ns - verdict.after_ns - (0.0 if signature.schema else cost)


def is_costly(signature: Signature) -> bool:
    """Whether the detour costs more than a program should pay for nothing."""
    return bool(signature.schema) or signature.backend is not TorchBackend.CPU


def _is_known(signature: Signature, layer: BankLayer) -> bool:
    try:
        families = layer.outline().families
        return any(
            _may_be(signature, family) and _is_for(signature, layer, list(problems.values()))
            for family, problems in families.items()
        )
    except StorageError:
        return True  # whoever looks a problem up says what is wrong with the bank


def _may_be(signature: Signature, family: tuple[str, str]) -> bool:
    """By the operation, and what follows the sizes in keys of the family."""
    operation, rest = family
    if operation not in _OPERATIONS[signature.name]:
        return False
    if signature.schema and not any(word in rest for word in _ADDED):
        return False
    return signature.backend is TorchBackend.CPU or any(word in rest for word in _NARROW)


def _is_for(signature: Signature, layer: BankLayer, problems: Sequence[str]) -> bool:
    """Whether an entry with a kernel of ours is for a CPU, or for a GPU, as it should be."""
    if len(problems) > _MOST_PROBLEMS:
        return True
    on_gpu = signature.backend is TorchBackend.CUDA
    return any(
        one.device_name.startswith("sm_") is on_gpu and not is_library(one)
        for problem in problems
        for one in layer.of_problem(problem)
    )

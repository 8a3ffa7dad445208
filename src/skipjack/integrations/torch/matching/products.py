"""Matrix products."""

from __future__ import annotations

from skipjack.integrations.torch.calls import (
    DTYPES,
    CallMatch,
    CallMatches,
    KernelPart,
    TensorFacts,
    TorchCall,
    contiguous,
    matches,
)
from skipjack.integrations.torch.stubs import ARGUMENT, RESULT
from skipjack.integrations.torch.table import PlanOutput, PlanPlace
from skipjack.operations import parse


def _stored(facts: TensorFacts) -> bool | None:
    """Whether a matrix, or each of a batch, is stored transposed; None if neither way."""
    rows, columns = facts.sizes[-2:]
    if facts.is_contiguous:
        return False
    turned = (*contiguous((*facts.sizes[:-2], columns, rows))[:-2], 1, rows)
    return True if matches(facts.sizes, facts.strides, turned) else None


def _agree(a: TensorFacts, b: TensorFacts, rank: int) -> bool:
    """Whether they can be multiplied."""
    if a.rank != rank or b.rank != rank:
        return False
    return a.sizes[:-2] == b.sizes[:-2] and a.sizes[-1] == b.sizes[-2]


def match_product(call: TorchCall) -> CallMatches:
    """A product, with what is added to it."""
    tensors = call.tensors
    a, b = tensors[-2:]
    if not _agree(a, b, 3 if call.signature.name.endswith("bmm") else 2):
        return CallMatches(reason="the shapes of its factors do not agree")
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
    return CallMatches((CallMatch((KernelPart(problem, arrays),), (made,)),), is_valid=True)

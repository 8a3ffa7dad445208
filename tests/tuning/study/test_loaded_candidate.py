"""The scratch memory of a candidate is known, on CPUs and on GPUs."""

from skipjack.core import Candidate, Config
from skipjack.execute import Loadable
from skipjack.gpu import ABI as GPU_ABI
from skipjack.gpu import Fill, Scratch, launch, to_slots
from skipjack.native import workspace_slot
from skipjack.operations import parse
from skipjack.tuning.study import LoadedCandidate

CANDIDATE = Candidate(parse("add:8"), "x", Config())


def test_scratch_of_a_launch_plan_counts_once() -> None:
    parts = Scratch("parts", 1 << 20)
    steps = [
        Fill(parts, 1 << 20),
        launch("k", (1,), ["x", parts, Scratch("locks", 64)]),
        launch("k", (1,), [parts, "out"]),
    ]
    code = Loadable(abi=GPU_ABI, slots=tuple(to_slots(steps)))
    loaded = LoadedCandidate(CANDIDATE, 1, code=code)
    assert loaded.workspace_bytes == (1 << 20) + 64


def test_slots_of_native_code_say_what_they_borrow() -> None:
    code = Loadable(slots=("x", workspace_slot(64)))
    assert LoadedCandidate(CANDIDATE, 1, code=code).workspace_bytes == 64
    assert LoadedCandidate(CANDIDATE, 1).workspace_bytes == 0, "a library's"

"""What the hook decided and counted becomes a dump, while the program runs and when it ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from skipjack.integrations.torch import TorchDecision, TorchStatus
from skipjack.integrations.torch.dumping import CountedCalls, TorchDump
from skipjack.native import cpu
from skipjack.runtime.dumps import DumpedProblem, read_dump, read_passed
from skipjack.settings import load_settings

MATMUL = "matmul:16x24x32:f32"
BACKWARD = "conv2d:n1c8h8w8k8y3x3p1q1:f32:NCHW:bwd conv2d:n1c8h8w8k8y3x3p1q1:f32:NCHW:wrw"


def decided(problem: str | None, op: str = "aten::mm", ns: float | None = None) -> TorchDecision:
    status = TorchStatus.VENDOR
    name = cpu.detect(1).name
    return TorchDecision(op, f"of {problem}", problem, name, False, "why", status, before_ns=ns)


class Counters:
    """Stands for the hook's."""

    def __init__(self) -> None:
        self.calls: list[CountedCalls] = []

    def __call__(self) -> Iterable[CountedCalls]:
        return list(self.calls)


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
def dump(tmp_path: Path, counters: Counters) -> TorchDump:
    return TorchDump(tmp_path / "dump", load_settings(), "2.13.0", counters)


def dumped(folder: Path) -> dict[str, DumpedProblem]:
    contents = read_dump(folder)
    assert not contents.damaged
    return {one.problem: one for _, one, _ in contents.problems}


def test_counts_that_only_grow_are_written_as_what_is_new(
    dump: TorchDump, counters: Counters, tmp_path: Path
) -> None:
    for total in (5, 5, 12):
        counters.calls = [CountedCalls(decided(MATMUL, ns=100.0), total)]
        dump.flush()
    one = dumped(tmp_path / "dump")[MATMUL]
    assert (one.calls, one.default_ns, one.ops, one.torch) == (12, 100.0, ("aten::mm",), "2.13.0")
    assert one.default is not None


def test_a_call_that_is_several_problems_is_each_of_them(
    dump: TorchDump, counters: Counters, tmp_path: Path
) -> None:
    counters.calls = [CountedCalls(decided(BACKWARD, "aten::convolution_backward", 1000.0), 3)]
    dump.flush()
    found = dumped(tmp_path / "dump")
    assert set(found) == set(BACKWARD.split())
    assert [one.calls for one in found.values()] == [3, 3]
    assert sum(one.default_ns or 0.0 for one in found.values()) == pytest.approx(1000.0)


def test_what_has_no_operation_is_counted_apart(
    dump: TorchDump, counters: Counters, tmp_path: Path
) -> None:
    odd = decided("frobnicate:8", "aten::frobnicate")
    counters.calls = [CountedCalls(decided(None, "aten::cumsum"), 4), CountedCalls(odd, 2)]
    dump.flush()
    passed = read_passed(tmp_path / "dump" / "passed_through.json")
    assert [(one.op, one.calls) for one in passed] == [("aten::cumsum", 4), ("aten::frobnicate", 2)]
    assert passed[0].reason == "why" and "frobnicate" in passed[1].reason


def test_it_is_written_while_the_program_runs(
    dump: TorchDump, counters: Counters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skipjack.integrations.torch.dumping._FLUSH_S", 0.01)
    counters.calls = [CountedCalls(decided(MATMUL), 1)]
    dump._start_thread()
    try:
        for _ in range(3000):
            if list((tmp_path / "dump").glob("*/problem.json")):
                break
            threading.Event().wait(0.01)
        assert dumped(tmp_path / "dump")[MATMUL].calls == 1
    finally:
        dump.stop()
    assert not [one for one in threading.enumerate() if one.name == "skipjack dump"]


PROGRAM = """
import multiprocessing, os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from test_torch_dump import Counters, decided, CountedCalls, MATMUL
from skipjack.integrations.torch.dumping import start_dump
from skipjack.settings import load_settings

counters = Counters()
counters.calls = [CountedCalls(decided(MATMUL), 10)]

def work(more):
    counters.calls = [CountedCalls(decided(MATMUL), 10 + more)]

if __name__ == "__main__":
    start_dump(Path(sys.argv[1]), load_settings(), "2", counters)
    one = multiprocessing.get_context("fork").Process(target=work, args=(7,))
    one.start()
    one.join()
    assert one.exitcode == 0
    counters.calls = [CountedCalls(decided(MATMUL), 15)]
"""


def test_forked_processes_count_from_the_fork_on_and_all_is_there_at_the_end(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(path=[str(Path(__file__).parent)]))
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "dump")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert dumped(tmp_path / "dump")[MATMUL].calls == 15 + 7


def test_a_folder_that_cannot_be_made_costs_one_warning(
    counters: Counters, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    one = TorchDump(tmp_path / "file" / "dump", load_settings(), "2", counters)
    counters.calls = [CountedCalls(decided(MATMUL), 1)]
    for _ in range(3):
        one.flush()
    assert len([one for one in caplog.records if "not dumped" in one.message]) == 1

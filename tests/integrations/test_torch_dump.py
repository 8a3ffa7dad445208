"""What the hook decided and counted becomes a dump, while the program runs and when it ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack.integrations.torch.outcomes import TorchDecision, TorchStatus
from skipjack.integrations.torch.program_dump import CountedCalls, TorchDump
from skipjack.native import cpu
from skipjack.runtime.dumps import DumpedProblem, PassedCalls, read_dump, read_passed
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
    monkeypatch.setattr("skipjack.integrations.torch.program_dump._FLUSH_S", 0.01)
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
from skipjack.integrations.torch.program_dump import start_dump

counters = Counters()
counters.calls = [CountedCalls(decided(MATMUL), 10)]

def work(more):
    counters.calls = [CountedCalls(decided(MATMUL), 10 + more)]

if __name__ == "__main__":
    start_dump(Path(sys.argv[1]), "2", counters)
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
    program.write_text(PROGRAM.format(path=[str(one) for one in Path(__file__).parents[:2]]))
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


def test_operations_that_are_not_hooked_are_counted_and_timed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "from skipjack.integrations.torch.program_dump import OtherCalls\n"
        "others = OtherCalls(['aten::mm'])\n"
        "others.start()\n"
        "x = torch.ones(4, 5, requires_grad=True)\n"
        "for _ in range(3):\n"
        "    torch.mm(x, x.t()).cumsum(0).sum().backward()\n"
        "found = {one.op: one for one in others() if 'f32[4x4]' in one.description}\n"
        "assert found['aten::cumsum'].calls >= 3 and found['aten::cumsum'].time_ns > 0\n"
        "assert 'aten::mm' not in found and 'aten::t' not in found\n"
        "assert found['aten::flip'].calls > 0, 'the gradient is counted as well'\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_counts_of_others_are_written_as_what_is_new(tmp_path: Path) -> None:
    sums = [PassedCalls("aten::cumsum", "f32[4]", "cpu", "x", 2, 100)]
    one = TorchDump(tmp_path / "dump", load_settings(), "2", tuple, lambda: sums)
    one.flush()
    sums = [PassedCalls("aten::cumsum", "f32[4]", "cpu", "x", 5, 300)]
    one.flush()
    one.flush()
    (found,) = read_passed(tmp_path / "dump" / "passed_through.json")
    assert (found.calls, found.time_ns) == (5, 300)


TRAINING = """
import torch
import skipjack.torch

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        row = torch.ones(1, 6)
        return torch.mm(row, torch.ones(6, 5))[0], at % 2

if __name__ == "__main__":
    torch.set_num_threads(1)
    skipjack.integrations.torch.activation.enable("incremental", seconds=0.5)
    torch.manual_seed(1)
    model = torch.nn.Linear(5, 2)
    for x, y in torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=2):
        torch.nn.functional.cross_entropy(model(x).cumsum(1), y).backward()
    print(model.weight.grad.sum().item(), torch.rand(1).item())
"""


def test_a_training_script_and_its_workers_write_one_dump(
    tmp_path: Path, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "train.py"
    program.write_text(TRAINING)

    # Workers hand tensors over by sockets, whose paths are short.
    monkeypatch.setenv("TMPDIR", "/tmp")

    def run() -> str:
        done = subprocess.run(
            [sys.executable, str(program)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=PATIENCE_S,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    monkeypatch.setenv("ENABLE_TUNE_DUMP", "True")
    before = run()
    assert not (user_dir / "bank.jsonl").exists(), "nothing is searched"
    found = dumped(tmp_path / "tune_dump")
    products = {key: one.calls for key, one in found.items() if key.startswith("matmul:")}
    assert products == {
        "matmul:1x5x6:f32": 8,
        "matmul:4x2x5/tb=1/bias=1:f32": 2,
        "matmul:2x5x4/ta=1:f32": 2,
    }
    for one in found.values():
        assert one.default_ns and one.default and one.default.files
        assert one.torch.startswith("2.")
    passed = {one.op: one.calls for one in read_passed(tmp_path / "tune_dump/passed_through.json")}
    assert passed["aten::cumsum"] >= 2
    monkeypatch.setenv("TUNE_DUMP_PATH", str(tmp_path / "tune_dump"))
    assert run() == before, "the program's own random numbers are as they were"
    again = dumped(tmp_path / "tune_dump")
    assert [one.calls for one in again.values()] == [2 * one.calls for one in found.values()]

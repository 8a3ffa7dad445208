"""AutoTune's variables in real PyTorch programs: their effects appear in the result file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from exec_rig import COMMAND

from skipjack.integrations.torch.outcomes import ReadResult, read_result

PROGRAM = """
import torch
torch.set_num_threads(1)
a, b = torch.randn(24, 40), torch.randn(40, 32)
for _ in range(20):
    torch.log_softmax(a @ b, dim=1)
"""


class Program:
    """Runs it with variables, and reads what it wrote."""

    def __init__(self, folder: Path, user_dir: Path) -> None:
        self.folder, self.work, self.bank = folder, folder / "work", folder / "bank"
        self.work.mkdir()
        self.bank.mkdir()
        (folder / "program.py").write_text(PROGRAM)
        self.always = {
            "SKIPJACK_USER_DB_PATH": str(user_dir),
            "TUNE_BANK_PATH": str(self.bank),
            "ASCEND_WORK_PATH": str(self.work),
        }

    def run(self, *words: str, **variables: str) -> ReadResult | None:
        """The result file of a run; None if it wrote none."""
        before = set(self.work.iterdir())
        command = [sys.executable, "-c", COMMAND, "exec", "--result", "--seconds", "3", *words]
        done = subprocess.run(
            [*command, "--", sys.executable, "program.py"],
            env=os.environ | self.always | variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        (*written,) = set(self.work.iterdir()) - before
        return read_result(written[0]) if written else None


def shown(result: ReadResult | None) -> dict[str, tuple[str, str]]:
    assert result is not None
    return {row.op: (row.status, row.searcher) for row in result.rows}


@pytest.mark.long
def test_every_variable_has_its_effect(tmp_path: Path, user_dir: Path) -> None:
    pytest.importorskip("torch")
    program = Program(tmp_path, user_dir)
    both = "--mode", "RL,GA"
    first = shown(program.run(*both, TUNE_OPS_NAME="mm", TE_PARALLEL_COMPILER="1"))
    assert first == {"aten::mm": ("bank_append", "genetic"), "aten::_log_softmax": ("vendor", "")}
    assert "matmul:24x32x40" in (program.bank / "bank.jsonl").read_text()
    assert not (user_dir / "bank.jsonl").exists()
    second = shown(program.run(*both, TUNE_OPS_NAME="mm"))
    assert second["aten::mm"] == ("bank_hit", "")
    again = shown(program.run(*both, TUNE_OPS_NAME="mm", REPEAT_TUNE="True"))
    assert again["aten::mm"][0] in ("bank_update", "bank_reserved") and again["aten::mm"][1]
    plain = program.run(ENABLE_TUNE_BANK="False")
    assert plain is not None and (plain.policy, plain.rows) == ("off", ())
    dumped = program.run(*both, ENABLE_TUNE_DUMP="True", TUNE_DUMP_PATH="dump")
    assert {status for status, _ in shown(dumped).values()} <= {"bank_hit", "vendor"}
    assert list((tmp_path / "dump").glob("logsoftmax-24x32-*/problem.json"))
    vectors = shown(program.run("--mode", "RL", TUNE_BANK_PATH=str(user_dir)))
    assert vectors["aten::mm"] == ("vendor", "")
    status, searcher = vectors["aten::_log_softmax"]
    assert status in ("bank_append", "bank_reserved") and searcher in ("exhaustive", "genetic")

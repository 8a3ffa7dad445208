"""Many processes write at once, and a killed one loses nothing that was committed."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from skipjack.core import Config, Study, Trial
from skipjack.ledger import Ledger

WRITE = """
import sys
from pathlib import Path
from skipjack.core import Config
from skipjack.core import Trial
from skipjack.ledger import Ledger

directory, study, writer, count = sys.argv[1:]
with Ledger.open(Path(directory)) as ledger:
    for batch in range(int(count)):
        trials = [Trial(Config(writer=writer, batch=batch, n=n), value=1.0) for n in range(20)]
        ledger.log_tells(study, trials)
        print(batch, flush=True)
"""


def writer(directory: Path, study: str, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITE, str(directory), study, name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )


def committed(process: subprocess.Popen[str], kill_after: int | None) -> int:
    """How many batches a writer reported, ended with SIGKILL amid its work or by itself."""
    assert process.stdout is not None
    reported = 0
    with process:
        for _ in process.stdout:
            reported += 1
            if reported == kill_after:
                process.kill()
    return reported


def test_every_committed_row_survives_a_kill(tmp_path: Path, study: Study) -> None:
    with Ledger.open(tmp_path) as ledger:
        ledger.start_study(study, 1)
    kills = {"a": None, "b": None, "c": 3, "d": 11}
    writers = {
        name: writer(tmp_path, study.id, name, 100_000 if kill else 30)
        for name, kill in kills.items()
    }
    with ThreadPoolExecutor(len(writers)) as pool:
        reported = dict(
            zip(writers, pool.map(committed, writers.values(), kills.values()), strict=True)
        )
    assert reported["a"] == reported["b"] == 30
    assert reported["c"] >= 3
    assert reported["d"] >= 11

    with Ledger.open(tmp_path) as ledger:
        found = {trial.config for trial in ledger.trials(study.id)}
        sequence = [entry.seq for entry in ledger.log(study.id)]
    for name, batches in reported.items():
        for batch in range(batches):
            assert all(Config(writer=name, batch=batch, n=n) in found for n in range(20))
    assert len(found) % 20 == 0, "a batch is there whole or not at all"
    assert sequence == list(range(1, len(sequence) + 1))
    check = sqlite3.connect(tmp_path / "ledger.sqlite")
    assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check.close()


def test_many_may_create_the_ledger_at_once(tmp_path: Path) -> None:
    create = (
        "import sys; from pathlib import Path; from skipjack.ledger import Ledger; "
        "Ledger.open(Path(sys.argv[1])).close()"
    )
    command = [sys.executable, "-c", create, str(tmp_path / "new")]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4


def test_a_reader_sees_whole_batches_while_another_writes(tmp_path: Path, study: Study) -> None:
    with Ledger.open(tmp_path) as mine, Ledger.open(tmp_path) as theirs:
        mine.start_study(study, 1)
        for batch in range(1, 4):
            theirs.log_tells(study.id, [Trial(Config(n=n)) for n in range(5)])
            assert len(mine.trials(study.id)) == 5 * batch

"""The text of the batch script."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.fleet.slurm import SlurmRequest, batch_script

WORD = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1)


def test_bash_understands_the_script() -> None:
    script = batch_script(SlurmRequest("l", nodes=2, until_done=True))
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_options_come_first_where_sbatch_reads_them() -> None:
    request = SlurmRequest("l", nodes=4, gpus_per_node=8)
    first, *lines = batch_script(request).splitlines()
    assert first == "#!/bin/bash"
    assert lines[: len(request.options())] == [f"#SBATCH {word}" for word in request.options()]
    assert not any(line.startswith("#SBATCH") for line in lines[len(request.options()) :])


def test_the_environment_stays_out_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    before = batch_script(SlurmRequest("l"))
    monkeypatch.setenv("SKIPJACK_DB", "postgresql+psycopg://me:secret@host/db")
    monkeypatch.setenv("SKIPJACK_FLEET_KEY", "/secret/key")
    assert batch_script(SlurmRequest("l")) == before


@settings(max_examples=25, deadline=None)
@given(WORD, WORD)
def test_words_reach_the_coordinator_as_they_are(label: str, argument: str) -> None:
    request = SlurmRequest(label, run_arguments=("--owner", "x" + argument))
    values = batch_script(request).split("# From here on")[0]
    shown = subprocess.run(
        ["bash", "-c", values + "printf '%s\\0' \"${coordinator[@]}\""],
        capture_output=True,
        check=True,
    )
    assert shown.stdout.decode().split("\0")[:-1] == [
        *(sys.executable, "-P", "-m", "skipjack", "run", "-l", label, "--engine", "ray"),
        *("--owner", "x" + argument),
    ]

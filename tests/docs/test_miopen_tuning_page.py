"""The page for users of MIOpen's tuning databases follows MIOpen's own, and nothing on it is unrun.

Its blocks are run by `test_docs`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from test_docs import blocks_of, command_of, run_in

from warm import Warm

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-miopen-tuning.md"
HEADINGS = (
    *("Incremental tuning", "Exhaustive tuning", "Method 1", "Method 2"),
    *("Kernel cache", "Post tuning"),
)
"""Those of MIOpen's page, in its order."""
SAME_NAMES = (
    *("USER_DB_PATH", "SYSTEM_DB_PATH", "FIND_ENFORCE", "FIND_MODE"),
    *("ENABLE_LOGGING_CMD", "CUSTOM_CACHE_DIR"),
)
"""All variables of MIOpen's page, which are called alike here."""


def test_the_headings_are_those_of_miopens_page_in_its_order() -> None:
    found = re.findall(r"^#+ (.+)$", PAGE.read_text(), re.MULTILINE)
    assert [heading for heading in found if heading in HEADINGS] == list(HEADINGS)


@pytest.mark.parametrize("name", SAME_NAMES)
def test_every_variable_of_miopens_page_is_set_in_a_block_that_is_run(name: str) -> None:
    run = "".join(block.text for block in blocks_of(PAGE.read_text()) if block.mark == "run")
    assert f"SKIPJACK_{name}" in run


def test_every_block_is_run() -> None:
    blocks = list(blocks_of(PAGE.read_text()))
    assert blocks and all(block.mark for block in blocks)


def test_where_miopens_page_has_a_call_this_one_has_one() -> None:
    text = PAGE.read_text()
    assert "miopenSetTuningPolicy()" in text and "skipjack.set_tuning_policy" in text


@pytest.mark.long
def test_the_page_can_be_followed_in_one_shell(tmp_path: Path, warm: Warm) -> None:
    lines = []
    for block in blocks_of(PAGE.read_text()):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        else:
            python = block.language == "python"
            lines.append(shlex.join(command_of(block)) if python else block.text)
    shell = ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]
    done = run_in(tmp_path, tmp_path / "user", shell, warm)
    assert done.returncode == 0, done.stdout + done.stderr

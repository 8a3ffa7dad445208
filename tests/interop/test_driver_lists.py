"""Lists as people have them: every line of every list is understood.

`DRIVER_LISTS` names a folder with such lists (``*.txt``, one command a line); without it they are
looked for beside the repository.
"""

import os
from pathlib import Path

import pytest

from skipjack.core import Problem
from skipjack.interop import NotApplicable, driver_line, parse_driver, without_comment

_BESIDE = Path(__file__).parents[3] / "shared" / "data" / "driver"
FOLDER = os.environ.get("DRIVER_LISTS", str(_BESIDE) if _BESIDE.is_dir() else "")

pytestmark = pytest.mark.skipif(not FOLDER, reason="DRIVER_LISTS names no folder of lists")


def lines() -> list[str]:
    texts = [path.read_text() for path in sorted(Path(FOLDER).glob("*.txt"))]
    every = [without_comment(line) for text in texts for line in text.splitlines()]
    found = [line for line in every if "MIOpenDriver" in line or line.startswith("-")]
    assert found
    return found


def test_every_line_is_understood() -> None:
    for line in lines():
        assert parse_driver(line), line


def test_every_problem_has_a_command_of_its_own() -> None:
    for line in lines():
        for entry in parse_driver(line):
            if isinstance(entry, Problem):
                assert parse_driver(driver_line(entry)) == (entry,)
            else:
                assert isinstance(entry, NotApplicable)
                assert entry.reason

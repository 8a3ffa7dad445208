"""Every command line in the documents is one that its command takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_lines import lines_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_line_is_taken_by_its_command(path: Path) -> None:
    found = {line: line.complaint for line in lines_of(path.read_text())}
    # In the middle of a sentence a line need not be complete; the shell knows what $NAME is.
    bad = {
        line.text: complaint
        for line, complaint in found.items()
        if complaint
        and (line.fenced or not complaint.startswith("missing"))
        and not complaint.startswith(("device '$", "alias '$"))
    }
    assert not bad


def test_a_line_that_has_rotted_is_found() -> None:
    page = "`skipjack loda -t x` `skipjack run --build`\n```\nskipjack load -l L --tga x\n```\n"
    assert all(line.complaint for line in lines_of(page))
    sound = "`skipjack import -f - -t app < list.txt` `skipjack image` `skipjack --help`"
    assert not any(line.complaint for line in lines_of(sound))
    assert [line.command for line in lines_of(sound)] == ["import", "image", ""]

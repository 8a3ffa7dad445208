"""The documents do what they say: marked blocks are run, links lead somewhere.

A block is run if an HTML comment stands on the line before its fence::

    <!-- run -->                bash or python: run it, it must succeed
    <!-- file: conv1d.py -->    write the block to a file of that name

The blocks of a document run in order, in one directory and with one user directory of their own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from processes import PATIENCE_S, command
from skipjack import operations
from warm import Warm

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
DOCUMENTS = sorted([*(ROOT / name for name in OUTSIDE), *(ROOT / "docs").glob("*.md")])
_FENCE = re.compile(r"^```(\w*)$")
_MARK = re.compile(r"^<!-- (run|file: ([\w.-]+)) -->$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block, the mark before it, and where it starts."""

    language: str
    mark: str
    file: str
    text: str
    line: int


def blocks_of(text: str) -> Iterator[Block]:
    """All fenced blocks of a document in order."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if not fence:
            at += 1
            continue
        end = next((n for n in range(at + 1, len(lines)) if lines[n] == "```"), len(lines))
        mark = _MARK.match(lines[at - 1]) if at else None
        body = "\n".join(lines[at + 1 : end]) + "\n"
        yield Block(
            fence[1], mark[1] if mark else "", (mark[2] or "") if mark else "", body, at + 1
        )
        at = end + 1


def marked(path: Path) -> list[Block]:
    """The blocks of a document that a test runs or writes."""
    return [block for block in blocks_of(path.read_text()) if block.mark]


@pytest.fixture(scope="module")
def peaks_file(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Path:
    """The device's peaks, measured once for all documents."""
    home = tmp_path_factory.mktemp("peaks")
    result = run_in(home, home, command(["device"]), warm)
    assert result.returncode == 0, result.stderr
    return home / "devices.json"


@pytest.fixture
def user_dir(tmp_path: Path, peaks_file: Path) -> Path:
    """An empty user directory that knows the device."""
    directory = tmp_path / "user"
    directory.mkdir()
    (directory / peaks_file.name).write_bytes(peaks_file.read_bytes())
    return directory


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    """Where a document's commands run."""
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


def run_in(
    directory: Path, user_dir: Path, words: list[str], warm: Warm
) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would who has activated this interpreter's environment."""
    warm.start()
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SKIPJACK_") or name == "SKIPJACK_CPU_LEVEL"
    }
    environment["SKIPJACK_USER_DB_PATH"] = str(user_dir)
    environment["SKIPJACK_LOCK_DIR"] = str(user_dir.with_name("locks"))
    places = str(warm.bin), str(Path(sys.executable).parent), environment["PATH"]
    environment["PATH"] = os.pathsep.join(places)
    if words[1] in ("-c", "-m"):
        return warm.run(words, cwd=directory, env=environment, timeout=PATIENCE_S)
    return subprocess.run(
        words,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def command_of(block: Block) -> list[str]:
    """How a block is run."""
    if block.language == "bash":
        return ["bash", "-euo", "pipefail", "-c", block.text]
    if block.language == "python":
        return [sys.executable, "-c", block.text]
    raise AssertionError(f"line {block.line}: a block of {block.language!r} cannot be run")


LONG = (
    *("coming-from-autotune.md", "coming-from-looptune.md", "coming-from-miopen-tuning.md"),
    *("coming-from-tuna.md", "compare-and-promote.md", "convolutions.md", "export.md", "fleet.md"),
    *("fleet-bundles.md", "fleet-slurm.md", "loadgen.md", "machines.md", "miopen.md"),
    *("miopen-databases.md", "misses.md", "torch.md", "tutorial.md"),
)
"""Those that take long, and whose commands quick tests run too."""
RUN = [
    pytest.param(path, id=path.name, marks=[pytest.mark.long] * (path.name in LONG))
    for path in DOCUMENTS
    if marked(path)
]


@pytest.mark.parametrize("path", RUN)
def test_marked_blocks_run(path: Path, work_dir: Path, user_dir: Path, warm: Warm) -> None:
    for block in marked(path):
        if block.file:
            (work_dir / block.file).write_text(block.text)
            continue
        result = run_in(work_dir, user_dir, command_of(block), warm)
        assert result.returncode == 0, (
            f"{path.name}, line {block.line}, exit code {result.returncode}\n"
            f"{block.text}\n{result.stdout}\n{result.stderr}"
        )


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(path: Path, work_dir: Path, user_dir: Path, warm: Warm) -> None:
    if "import torch" in path.read_text():
        pytest.importorskip("torch")
    result = run_in(work_dir, user_dir, [sys.executable, str(path)], warm)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in _LINK.findall(path.read_text()):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        assert other.exists(), f"{path.name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(other), f"{path.name} links to {target}: no such heading"


def anchors(path: Path) -> set[str]:
    """The names that a Markdown viewer gives to a document's headings."""
    headings = _HEADING.findall(path.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_mark_is_misspelt(path: Path) -> None:
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines[:-1], start=1):
        if re.match(r"\s*<!--\s*(run|file)", line, re.IGNORECASE):
            assert _MARK.match(line), f"{path.name}, line {number}: {line} is no mark"
            assert _FENCE.match(lines[number]), f"{path.name}, line {number}: no block follows"


def test_the_list_of_operations_is_complete() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `", (ROOT / "docs" / "problems.md").read_text(), re.MULTILINE
    )
    code = "from skipjack import operations; print(*operations.names())"
    # Another process: tests before this one may have registered operations of their own.
    known = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(rows) == known.stdout.split()


def test_example_keys_of_the_documents_parse() -> None:
    row = re.compile(r"^\| `(\w+)` \| `([^`]+)` \|", re.MULTILINE)
    examples = row.findall((ROOT / "docs" / "problems.md").read_text())
    assert examples
    for name, key in examples:
        assert operations.parse(key).operation == name


def test_every_document_is_linked_from_the_index() -> None:
    linked = set(_LINK.findall((ROOT / "docs" / "index.md").read_text()))
    missing = {path.name for path in (ROOT / "docs").glob("*.md")} - linked - {"index.md"}
    assert not missing
    assert "docs/index.md" in _LINK.findall((ROOT / "README.md").read_text())


def test_the_readme_fits_on_a_screen() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 80


def test_the_page_of_settings_lists_the_variables_as_they_are_declared() -> None:
    from skipjack.settings import VARIABLES

    row = re.compile(r"^\| `([A-Z_]+)` \| (?:`(\w+)` )?\| .* \| (.*) \|$", re.MULTILINE)
    listed = {
        name: (field, re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", default))
        for name, field, default in row.findall((ROOT / "docs" / "settings.md").read_text())
    }
    assert listed == {one.name: (one.field, one.default) for one in VARIABLES if not one.internal}


def test_blocks_are_found_with_their_marks() -> None:
    listing, script = "```python\n1\n```\n", "```bash\nls\n```\n"
    text = f"a\n<!-- run -->\n{script}\n{listing}<!-- file: b.py -->\n{listing}"
    found = [(block.language, block.mark, block.file, block.text) for block in blocks_of(text)]
    assert found == [
        ("bash", "run", "", "ls\n"),
        ("python", "", "", "1\n"),
        ("python", "file: b.py", "b.py", "1\n"),
    ]


@pytest.mark.parametrize("name", ["performance_doc.py", "gains_picture.py"])
def test_every_number_about_speed_comes_from_a_result_file(name: str) -> None:
    script = ROOT / "bench" / name
    done = subprocess.run([sys.executable, str(script), "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, f"run python bench/{name}"

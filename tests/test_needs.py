"""Tests that lack a program of `needs.PARTS` are skipped locally and fail under CI=true."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from needs import PARTS

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "testing.md"
_SKIPS = ("pytest.skip", "pytest.importorskip", "pytest.mark.skipif", "pytest.mark.skip")
_WORDS = re.compile(rf"\b({'|'.join(word for words in PARTS.values() for word in words)})", re.I)


def own_skips(source: str) -> Iterator[str]:
    """Skips that name a part and go past `needs`, and reads of ``CI``."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called, given = ast.unparse(node.func), ast.unparse(node)
        if called in _SKIPS and _WORDS.search(given.removeprefix(called)):
            yield f"{node.lineno}: {given}"
        if called in ("os.environ.get", "os.getenv") and ast.unparse(node.args[0]) == "'CI'":
            yield f"{node.lineno}: {given}"


def run_without(part: str, folder: Path, ci: str) -> subprocess.CompletedProcess[str]:
    code = f"from needs import lacking\n\ndef test_it():\n    lacking({part!r}, 'it is not here')\n"
    (folder / "test_one.py").write_text(code)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "-c", os.devnull, "."],
        cwd=folder,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )


def test_a_missing_part_is_a_skip_with_its_reason(tmp_path: Path) -> None:
    done = run_without("Slurm", tmp_path, ci="")
    assert done.returncode == 0, done.stdout
    assert "needs Slurm: it is not here" in done.stdout
    assert "1 skipped" in done.stdout


def test_a_missing_part_is_a_failure_in_ci(tmp_path: Path) -> None:
    done = run_without("Slurm", tmp_path, ci="true")
    assert done.returncode == 1, done.stdout
    assert "needs Slurm: it is not here; under CI=true it must be installed" in done.stdout
    assert "1 failed" in done.stdout


def test_no_test_skips_a_part_in_another_way() -> None:
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path.name != "needs.py" and re.search(r"\.skip|importorskip|[\"']CI[\"']", source):
            found += [f"{path.relative_to(TESTS)}:{one}" for one in own_skips(source)]
    assert not found, "call needs.lacking instead"


@pytest.mark.parametrize(
    "code",
    [
        'pytest.importorskip("ray")',
        'pytest.skip("mariadbd is not installed")',
        'pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="no emulator")',
        'os.environ.get("CI")',
    ],
)
def test_other_ways_are_seen(code: str) -> None:
    assert list(own_skips(code))
    assert not list(own_skips('pytest.importorskip("torch")'))


def test_the_documentation_lists_the_parts() -> None:
    assert re.findall(r"^\| ([A-Z]\w+) \|", PAGE.read_text(), re.MULTILINE) == list(PARTS)

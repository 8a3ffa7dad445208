"""The text of a kernel changes with what decides its machine code, and with nothing else."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skipjack.errors import SkipjackError
from skipjack.solvers.gpu.triton import kernel_text
from skipjack.solvers.gpu.triton.kernel_source import source_files

MAIN = '''"""A module."""
import math
import triton
import triton.language as tl
import scaling
from rounding import near as nearest

SIZE = tl.constexpr(4)
OTHER = tl.constexpr(5)

@triton.jit
def twice(x):
    return x * SIZE

def unrelated():
    return OTHER

@triton.autotune(configs=[], key=[])
@triton.jit(noinline=True)
def kernel(x, n, block: tl.constexpr):
    """Of a function."""
    at = tl.arange(0, block)  # places
    tl.store(x + at, nearest(scaling.scaled(twice(tl.load(x + at)))) * math.pi, mask=at < n)
'''
SCALING = """from factors import FACTOR as by
import triton

@triton.jit
def scaled(x):
    return x * by
"""
FILES = {
    "main.py": MAIN,
    "scaling.py": SCALING,
    "factors.py": "import triton.language as tl\nFACTOR = tl.constexpr(3)\n",
    "rounding.py": "import triton\n\n@triton.jit\ndef near(x):\n    return x + 0.5\n",
}
Edit = Callable[..., str]


@pytest.fixture
def edited(tmp_path: Path) -> Edit:
    """Writes the files, replaces something in one of them, and gives the text."""
    clock = iter(range(1, 1000))

    def edit(name: str = "main.py", old: str = "", new: str = "") -> str:
        for file, content in FILES.items():
            assert file != name or old in content, "there is nothing to replace"
            path = tmp_path / file
            path.write_text(content.replace(old, new) if file == name and old else content)
            # Two edits may come within one tick of the file system's clock.
            os.utime(path, ns=(0, next(clock) * 10**9))
        return kernel_text(str(tmp_path / "main.py"), "kernel")

    return edit


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("main.py", "# places", "# where, and a longer comment"),
        ("main.py", "Of a function.", "Another docstring."),
        ("main.py", "A module.", "A module.\n\n\nWith more lines."),
        ("main.py", "return OTHER", "return OTHER + 1"),
        ("main.py", "constexpr(5)", "constexpr(6)"),
        ("main.py", "configs=[]", "configs=[1, 2]"),
        ("main.py", "at = tl.arange(0, block)  #", "at = tl.arange(0,   block)#"),
        ("main.py", "SIZE = tl.constexpr(4)\nOTHER", "OTHER = 0\nSIZE = tl.constexpr(4)\nOTHER"),
        ("scaling.py", "@triton.jit", "NEW = 1\n\n\n@triton.jit"),
    ],
)
def test_what_does_not_matter_keeps_the_text(edited: Edit, name: str, old: str, new: str) -> None:
    assert edited() == edited(name, old, new)


def test_moving_a_function_keeps_the_text(edited: Edit) -> None:
    function = MAIN[MAIN.index("@triton.jit\ndef twice") : MAIN.index("def unrelated")]
    at_the_end = MAIN.replace(function, "") + "\n" + function
    assert edited() == edited("main.py", MAIN, at_the_end)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("main.py", "tl.arange(0, block)", "tl.arange(0, block) + 0"),
        ("main.py", "x * SIZE", "x + SIZE"),
        ("main.py", "constexpr(4)", "constexpr(8)"),
        ("main.py", "noinline=True", "noinline=False"),
        ("main.py", "block: tl.constexpr", "block"),
        ("main.py", "import math", "import cmath as math"),
        ("scaling.py", "x * by", "x / by"),
        ("factors.py", "constexpr(3)", "constexpr(7)"),
        ("rounding.py", "0.5", "0.25"),
    ],
)
def test_what_matters_changes_the_text(edited: Edit, name: str, old: str, new: str) -> None:
    assert edited() != edited(name, old, new)


def test_the_text_does_not_depend_on_where_the_files_lie(edited: Edit, tmp_path: Path) -> None:
    text = edited()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in FILES:
        (elsewhere / file).write_text((tmp_path / file).read_text())
    assert kernel_text(str(elsewhere / "main.py"), "kernel") == text
    assert {path.name for path in source_files(str(elsewhere / "main.py"), "kernel")} == set(FILES)


def test_a_package_is_followed_through_relative_imports_and_its_init(tmp_path: Path) -> None:
    package = tmp_path / "package_of_kernels"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("from .low import helper\n")
    (package / "low.py").write_text("def helper(x):\n    return x + 41\n")
    (package / "deep" / "__init__.py").write_text("")
    (package / "deep" / "top.py").write_text(
        "from .. import helper\nfrom ..low import *\n\ndef kernel(x):\n    return helper(x)\n"
    )
    assert "x + 41" in kernel_text(str(package / "deep" / "top.py"), "kernel")


def test_a_missing_function_file_or_module_is_one_sentence(edited: Edit, tmp_path: Path) -> None:
    edited()
    with pytest.raises(SkipjackError, match=r"main.py has no function 'nothing'"):
        kernel_text(str(tmp_path / "main.py"), "nothing")
    with pytest.raises(SkipjackError, match="there is no file"):
        kernel_text(str(tmp_path / "gone.py"), "kernel")
    with pytest.raises(SkipjackError, match=r"no Python module skipjack\.nowhere"):
        kernel_text("skipjack.nowhere.at_all", "kernel")
    (tmp_path / "broken.py").write_text("def kernel(:\n")
    with pytest.raises(SkipjackError, match="cannot be read as Python"):
        kernel_text(str(tmp_path / "broken.py"), "kernel")


def test_nothing_of_triton_is_imported_for_it() -> None:
    kernels = Path(__file__).parents[2] / "tiny_kernels.py"
    told = "import sys; from skipjack.solvers.gpu.triton import kernel_text;"
    told += "assert 'def times' in kernel_text(sys.argv[1], 'add');"
    told += "sys.exit('triton' in sys.modules or 'torch' in sys.modules)"
    command = [sys.executable, "-c", told, str(kernels)]
    assert subprocess.run(command, check=False).returncode == 0

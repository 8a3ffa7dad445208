"""A kernel's text changes with what decides its machine code, and with nothing else."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

from skipjack.integrations.triton.identity import function_text

SOURCE = '''
import triton
import triton.language as tl

SCALE = tl.constexpr(2)
SHAPE = tl.constexpr((4, (8, 16)))
UNUSED = 5


@triton.jit
def add(a, b):
    return a + b


STEPS = tl.constexpr((add, 3))


@triton.jit
def twice(x):
    return STEPS[0](x * SCALE, SHAPE.value[1][0])


@triton.jit
def kernel(x, n, BLOCK: tl.constexpr):
    """Doubles."""
    at = tl.arange(0, BLOCK)  # a comment
    tl.store(x + at, twice(tl.load(x + at, mask=at < n)), mask=at < n)
'''


@pytest.fixture
def text_of(tmp_path: Path) -> Any:
    count = 0

    def text(source: str) -> str:
        nonlocal count
        count += 1
        path = tmp_path / f"kernels_{count}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return function_text(module.kernel)

    return text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# a comment", "# another"),
        ('"""Doubles."""', '"""Makes it twice as much."""'),
        ("UNUSED = 5", "UNUSED = 6\n\n\nn = 3"),
        ("arange(0, BLOCK)", "arange( 0,BLOCK )"),
        ("@triton.jit\ndef kernel", "@triton.jit(debug=False)\ndef kernel"),
    ],
)
def test_what_does_not_matter_changes_nothing(text_of: Any, old: str, new: str) -> None:
    assert old in SOURCE
    assert text_of(SOURCE) == text_of(SOURCE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SCALE = tl.constexpr(2)", "SCALE = tl.constexpr(3)"),
        ("x * SCALE", "x + SCALE"),
        ("(4, (8, 16))", "(4, (8, 32))"),
        ("(add, 3)", "(add, 4)"),
        ("return a + b", "return a - b"),
        ("mask=at < n)), mask", "mask=at <= n)), mask"),
    ],
)
def test_what_decides_the_code_makes_another_kernel(text_of: Any, old: str, new: str) -> None:
    assert old in SOURCE
    assert text_of(SOURCE) != text_of(SOURCE.replace(old, new))

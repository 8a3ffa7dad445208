"""One module calls Triton's compiler, and says in one sentence why a kernel cannot be built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import skipjack
from skipjack.errors import UsageError
from skipjack.gpu import GpuBuildError, collected_calls
from skipjack.gpu.triton_compiler import explained

CALLS = (r"triton\.compile\(", r"ASTSource\(", r"\.warmup\(", r"AsyncCompileMode\(")


@pytest.mark.parametrize("call", CALLS)
def test_one_file_alone_calls_tritons_compiler(call: str) -> None:
    root = Path(skipjack.__file__).parent
    holding = [path for path in root.rglob("*.py") if re.search(call, path.read_text())]
    assert [str(path.relative_to(root)) for path in holding] == ["gpu/triton_compiler.py"]


def test_what_a_compiler_raises_is_one_sentence_with_its_deepest_cause() -> None:
    def compilation() -> None:
        try:
            raise ValueError("arange's range must be a power of 2\nsee the manual")
        except ValueError as error:
            raise RuntimeError("at 3:4: a page of code") from error

    with pytest.raises(GpuBuildError) as caught:
        explained(compilation)
    assert str(caught.value) == "ValueError: arange's range must be a power of 2"
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_error_of_our_own_stays_as_it_is() -> None:
    def refuse() -> None:
        raise UsageError("give a shape")

    with pytest.raises(UsageError, match="give a shape"):
        explained(refuse)


def test_an_error_while_calls_are_collected_is_raised_and_waits_for_nothing() -> None:
    pytest.importorskip("triton")
    with pytest.raises(KeyError, match="BLOK"), collected_calls() as collected:
        waiting = collected.submit(lambda: None)
        raise KeyError("BLOK")
    assert isinstance(waiting.exception(), KeyError)

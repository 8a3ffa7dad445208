"""The hook's machine code is compiled once for all programs, and starting it loads little."""

from __future__ import annotations

from pathlib import Path

import pytest
from hooked_calls import run_program

from skipjack.integrations.torch.stubs import stub_code, stub_module
from skipjack.native import cpu, llvm
from skipjack.storage import ArtifactStore

pytest.importorskip("torch")
TEXT = "define void @nothing() {\n  ret void\n}\n"


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that were compiled, in a user directory of their own."""
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path))
    texts: list[str] = []
    compile_object = llvm.compile_object

    def compile_and_count(text: str, target: str) -> bytes:
        texts.append(text)
        return compile_object(text, target)

    monkeypatch.setattr(llvm, "compile_object", compile_and_count)
    return texts


def target() -> str:
    return cpu.target_of(cpu.detect())


def test_code_is_compiled_once(compiled: list[str]) -> None:
    assert stub_code(TEXT, target()) == stub_code(TEXT, target())
    assert compiled == [TEXT]
    stub_code(TEXT.replace("nothing", "other"), target())
    assert len(compiled) == 2


def test_damaged_code_is_compiled_again(compiled: list[str], tmp_path: Path) -> None:
    code = stub_code(TEXT, target())
    (stored,) = ArtifactStore(tmp_path / "artifacts").stored()
    stored.path.write_bytes(b"not the code")
    assert stub_code(TEXT, target()) == code
    for named in (tmp_path / "torch" / "stubs").iterdir():
        named.write_text("../../elsewhere")
    assert stub_code(TEXT, target()) == code
    assert len(compiled) == 3


def test_without_a_place_to_write_it_is_compiled_each_time(
    compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "file" / "below"))
    assert stub_code(TEXT, target()) == stub_code(TEXT, target())
    assert len(compiled) == 2


def test_the_text_is_the_same_in_every_process() -> None:
    """It holds no addresses, which differ from process to process."""
    module = stub_module(())
    assert "inttoptr (i64" not in module.text
    assert module.imports(len, 7)["skipjack_import_state"] == 7


def test_plain_calls_do_not_load_pytorchs_compiler(tmp_path: Path) -> None:
    """Trying a call on tensors without memory would load SymPy, which takes 0.2 s."""
    done = run_program(
        """
        import sys, torch, skipjack.torch
        skipjack.integrations.torch.activation.enable("db", force=True)
        torch.set_num_threads(1)
        layers = torch.nn.Sequential(
            torch.nn.Conv1d(3, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.LayerNorm(6),
            torch.nn.Linear(6, 5), torch.nn.Softmax(-1),
        )
        layers(torch.randn(2, 3, 8)).sum().backward()
        torch.bmm(torch.randn(2, 3, 4), torch.randn(2, 4, 5))
        print(skipjack.integrations.torch.activation.report().hits, "sympy" in sys.modules)
        """,
        tmp_path,
    )
    hits, loaded = done.stdout.split()
    assert (int(hits) > 5, loaded) == (True, "False"), done.stderr

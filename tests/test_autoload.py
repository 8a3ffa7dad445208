"""PyTorch calls `autoload.start` in every program, which must be cheap and never fail."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from skipjack import autoload

ROOT = Path(__file__).parents[1]


def test_the_package_tells_torch_where_it_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["torch.backends"] == {"skipjack": "skipjack.autoload:start"}


@pytest.mark.parametrize("value", ["", "0", "yes"])
def test_without_the_variable_nothing_is_loaded(value: str) -> None:
    code = (
        "import sys, skipjack.autoload as autoload; before = set(sys.modules); autoload.start();"
        "ours = [one for one in sys.modules if one.startswith('skipjack')];"
        "print(sorted(ours), set(sys.modules) - before)"
    )
    env = {"SKIPJACK_TORCH": value, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    ours = [
        "skipjack",
        *(f"skipjack.{name}" for name in ("autoload", "earlier_paths", "lazy_names")),
    ]
    assert done.stdout.strip() == f"{ours} set()"


def test_a_failure_is_one_warning_and_the_program_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("no such symbol")

    monkeypatch.setenv("SKIPJACK_TORCH", "1")
    monkeypatch.setattr("skipjack.integrations.torch.start_in_program", fail)
    with caplog.at_level(logging.WARNING):
        autoload.start()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "runs with PyTorch as it is: RuntimeError: no such symbol" in caplog.text

"""The fixtures of `open_tuner`; lookups wait for kernels, however busy the machine is.

Nor does it decide whether a guess keeps up with the library: it does.
"""

import pytest

from open_tuner import home, tuner
from processes import PATIENCE_S
from skipjack.runtime import bank_lookup
from skipjack.runtime.checks import beside, entry_code

__all__ = ["home", "tuner"]


@pytest.fixture(autouse=True)
def patient_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank_lookup, "_PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(beside, "_checks", {})
    monkeypatch.setattr(entry_code, "library_ratio", lambda kernel, device: 2.0)

"""Names of a package that are loaded on first use."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

INIT = """
from skipjack.lazy_names import lazy
__all__ = ["answer", "Device"]
__getattr__, __dir__ = lazy(
    __name__, {"inner": "answer", "skipjack.core.device": "Device"}
)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "lazy_package").mkdir()
    (tmp_path / "lazy_package" / "__init__.py").write_text(INIT)
    (tmp_path / "lazy_package" / "inner.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("lazy_package", "lazy_package.inner"):
        sys.modules.pop(name, None)


def test_a_module_is_loaded_when_one_of_its_names_is_used(package: None) -> None:
    import lazy_package

    assert "lazy_package.inner" not in sys.modules
    assert lazy_package.answer == 42
    assert vars(lazy_package)["answer"] == 42, "from now on it is an attribute like any other"


def test_a_name_may_be_of_another_package(package: None) -> None:
    import lazy_package

    from skipjack.core import Device

    assert lazy_package.Device is Device


def test_names_are_listed_before_they_are_loaded(package: None) -> None:
    import lazy_package

    assert {"answer", "Device", "__all__"} <= set(dir(lazy_package))
    assert "lazy_package.inner" not in sys.modules


def test_an_unknown_name_is_an_attribute_error_as_of_any_module(package: None) -> None:
    import lazy_package

    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'anser'"):
        _ = lazy_package.anser

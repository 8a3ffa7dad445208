"""The exception tree is as documented, and built-in exception types catch it."""

import re
from pathlib import Path

import pytest

import skipjack
from skipjack import errors
from skipjack.core import Budget


def drawn() -> dict[str, tuple[str, str]]:
    """The parent and the remark of each class of the tree at the top of the module."""
    found: dict[str, tuple[str, str]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"((?:│   |    )*)(├── |└── )?(\w+Error) {2,}(.*)", line)
        if match:
            depth = len(match[1]) // 4 + bool(match[2])
            above[depth:] = [match[3]]
            found[match[3]] = (above[depth - 1] if depth else "", match[4])
    return found


def test_the_tree_is_drawn_as_it_is() -> None:
    classes = [one for one in vars(errors).items() if one[0].endswith("Error")]
    found = {
        name: next((base.__name__ for base in kind.__bases__ if base.__name__ in drawn()), "")
        for name, kind in classes
    }
    assert found == {name: parent for name, (parent, _) in drawn().items()}
    for name, (_, remark) in drawn().items():
        for builtin in re.findall(r"also an? (\w+)", remark):
            assert builtin in [base.__name__ for base in getattr(errors, name).__mro__]


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda: skipjack.tune("matmul:0x8x8"), ValueError),
        (lambda: skipjack.lookup("add:8", solver="nobody"), ValueError),
        (lambda: skipjack.tune(8), TypeError),  # type: ignore[arg-type]
        (lambda: skipjack.lookup("add:8", threads="1"), TypeError),  # type: ignore[arg-type]
        (lambda: skipjack.TuneOptions(seed="1"), TypeError),  # type: ignore[arg-type]
        (lambda: Budget(trials="1"), TypeError),  # type: ignore[arg-type]
        (lambda: skipjack.kernels(Path("no-such.skk")), FileNotFoundError),
        (lambda: skipjack.tune("add:8", plugins="no_such.py"), FileNotFoundError),
    ],
)
def test_an_argument_that_is_wrong_is_what_python_calls_it(wrong: object, kind: type) -> None:
    with pytest.raises(kind) as caught:
        wrong()  # type: ignore[operator]
    assert isinstance(caught.value, errors.UsageError) and isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)

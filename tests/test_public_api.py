"""The public API is listed, exists, and is documented."""

import inspect

import pytest

import skipjack
from skipjack import bank, interop, ledger, operations, runtime, search, solvers, storage, tuning


def test_the_front_door_is_small() -> None:
    assert set(skipjack.__all__) == {
        "FindResult",
        "TuneOptions",
        "TuneResult",
        "TunedKernel",
        "Tuner",
        "__version__",
        "autotune",
        "find",
        "kernels",
        "lookup",
        "reload",
        "set_tuning_policy",
        "triton_kernel",
        "tune",
        "tuning_policy",
    }
    assert set(skipjack.__all__) <= set(dir(skipjack))


@pytest.mark.parametrize(
    "module",
    [skipjack, bank, interop, ledger, operations, runtime, search, solvers, storage, tuning],
)
def test_everything_listed_is_there_and_documented(module: object) -> None:
    names: list[str] = module.__all__  # type: ignore[attr-defined]
    assert len(set(names)) == len(names)
    for name in names:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tuna'"):
        _ = skipjack.tuna  # type: ignore[attr-defined]


def test_the_signature_of_tune_is_kept() -> None:
    parameters = inspect.signature(skipjack.tune).parameters
    assert list(parameters) == [
        *("problem", "seconds", "budget", "dtype", "layout", "direction"),
        *("searcher", "seed", "solver", "retune", "threads", "device", "plugins"),
        *("deployed", "caches", "pinned"),
    ]
    keyword_only = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert keyword_only == list(parameters)[1:]

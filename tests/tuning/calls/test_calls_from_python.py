"""A Python program that uses a tuner wrongly, or is interrupted, gets a clear error."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest

import skipjack
from skipjack.core import Budget
from skipjack.errors import SkipjackError, UsageError
from skipjack.interrupt import Interrupted
from skipjack.solvers.vendor.cpu import NumpySolver
from skipjack.tuning import Builder, BuildOptions, FindResult, Tuner
from skipjack.tuning.study import TuneOptions, TuneProgress, TuneResult


@pytest.fixture
def press() -> Iterator[Callable[[TuneProgress], None]]:
    """Presses Ctrl-C once, when something has been tried."""
    pressed: list[TuneProgress] = []

    def observe(summary: TuneProgress) -> None:
        if summary.trials and not pressed:
            pressed.append(summary)
            signal.raise_signal(signal.SIGINT)

    # A shell that runs the tests in the background has them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield observe
    signal.signal(signal.SIGINT, before)
    assert pressed


def test_ctrl_c_ends_a_loop_of_tunings(tuner: Tuner, press: Callable[[TuneProgress], None]) -> None:
    options = TuneOptions(budget=Budget(seconds=60), observer=press)
    begun = []
    with pytest.raises(KeyboardInterrupt) as stopped:
        for key in ("add:96", "add:97"):
            begun.append(key)
            tuner.tune(key, options)
    assert begun == ["add:96"]
    assert isinstance(stopped.value, Interrupted)
    result = stopped.value.result
    assert isinstance(result, TuneResult)
    assert result.interrupted and result.trials
    assert tuner.context.ledger.summary().tells >= len(result.trials)
    again = tuner.tune("add:96", TuneOptions(budget=Budget(trials=2)))
    assert not again.interrupted


def test_ctrl_c_ends_a_loop_of_finds(tuner: Tuner, press: Callable[[TuneProgress], None]) -> None:
    options = TuneOptions(budget=Budget(seconds=60), observer=press)
    with pytest.raises(Interrupted) as stopped:
        tuner.find("add:98", options, ["nest"])
    assert isinstance(stopped.value.result, FindResult)
    assert stopped.value.result.interrupted


def test_ctrl_c_ends_a_loop_of_builds(tuner: Tuner, press: Callable[[TuneProgress], None]) -> None:
    with Builder() as builder, pytest.raises(Interrupted) as stopped:
        builder.build("add:99", BuildOptions(16, observer=press))
    assert stopped.value.result.interrupted


def test_a_tuner_works_inside_of_its_block_alone(home: object) -> None:
    unopened = Tuner()
    for call in (unopened.tune, unopened.find):
        with pytest.raises(UsageError, match=r"this Tuner is not open.*with Tuner"):
            call("add:8")
    with pytest.raises(UsageError, match=r"this Builder is not open.*with Builder"):
        Builder().build("add:8")


def test_a_tuner_does_not_work_after_its_block(tuner: Tuner) -> None:
    context = tuner.context
    try:
        context.opened = False  # as `close` leaves it; closing would cost the other tests theirs
        with pytest.raises(UsageError, match="this Tuner is not open"):
            tuner.tune("add:8")
    finally:
        context.opened = True


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"budget": 4}, r"budget is 4; write .*Budget\(trials=4\)"),
        ({"solver": ["nest"]}, r"solver is \['nest'\], not the name of a solver.*skipjack\.find"),
        ({"searcher": None}, "searcher is None, not the name of a searcher"),
        ({"seed": "x"}, "seed is 'x'; give a whole number"),
    ],
)
def test_options_of_another_kind_are_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        TuneOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"solver": ["nest"]},
        {"solver": ("nest", "rows")},
        {"budget": "4"},
        {"budget": True},
        {"seconds": "2"},
        {"seconds": True},
        {"retune": 1},
        {"seed": True},
        {"searcher": 3},
        {"seed": -1},
        {"seed": 1.5},
        {"device": 7},
        {"threads": "two"},
        {"threads": 0},
        {"dtype": 32},
        {"layout": 1},
        {"direction": []},
        {"plugins": 5},
        {"plugins": [None]},
    ],
)
@pytest.mark.parametrize("door", [skipjack.tune, skipjack.find])
def test_a_wrong_argument_is_a_sentence(
    home: object,
    monkeypatch: pytest.MonkeyPatch,
    door: Callable[..., object],
    wrong: dict[str, object],
) -> None:
    monkeypatch.setattr(Tuner, "__enter__", lambda self: pytest.fail("it was let in"))
    if "solver" in wrong and door is skipjack.find:
        wrong = {"solvers": [["nest"]]}
    with pytest.raises(SkipjackError):
        door("add:8", **wrong)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"threads": "2"}, "threads is '2'; give a whole number"),
        ({"threads": 0}, "threads is 0; give a whole number above 0"),
        ({"threads": True}, "threads is True; give a whole number"),
        ({"device": 1}, "device is 1; give a string"),
        ({"dtype": 32}, "dtype is 32; give a string"),
        ({"plugins": [None]}, r"plugins is \[None\]; give a string or a list of strings"),
        ({"settings": "home"}, "settings is 'home'; give Settings"),
    ],
)
def test_a_wrong_argument_of_lookup_is_a_sentence(
    home: object, wrong: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UsageError, match=f"^{sentence}$"):
        skipjack.lookup("add:8", **wrong)  # type: ignore[arg-type]


def test_other_wrong_arguments_are_sentences(tuner: Tuner) -> None:
    with pytest.raises(UsageError, match=r"^path is 3; give a string or Path$"):
        skipjack.kernels(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^options is 4; give TuneOptions$"):
        tuner.tune("add:8", 4)  # type: ignore[arg-type]


@pytest.fixture
def slow_library(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """NumPy as a library whose package is slow to import, and the messages."""
    heard: list[str] = []
    monkeypatch.setattr(NumpySolver, "imports", "wave", raising=False)
    monkeypatch.setattr(tuner.context, "say", heard.append)
    yield heard
    tuner.context.session.imported.discard("wave")


def test_packages_of_libraries_are_imported_once_before_the_search(
    tuner: Tuner, slow_library: list[str]
) -> None:
    seen: list[bool] = []

    def observe(summary: TuneProgress) -> None:
        seen.append("wave" in tuner.context.session.imported)

    for key in ("add:100", "add:101"):
        tuner.tune(key, TuneOptions(budget=Budget(trials=1), observer=observe))
    assert all(seen)
    assert slow_library == ["importing wave, to compare with it"]


def test_an_import_that_is_longer_than_its_share_of_the_seconds_is_told(
    tuner: Tuner, slow_library: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuner.context.session, "import_package", lambda name: time.sleep(0.05))
    tuner.find("add:102", TuneOptions(budget=Budget(seconds=0.1)), ["nest", "numpy"])
    assert slow_library[1].endswith("s; 0.04 s count against the budget, leaving 0.06 s to search")


def test_a_package_that_cannot_be_imported_costs_its_library_alone(tuner: Tuner) -> None:
    session = tuner.context.session
    session.import_package("no_such_package")
    assert tuner.tune("add:103", TuneOptions(budget=Budget(trials=1))).trials

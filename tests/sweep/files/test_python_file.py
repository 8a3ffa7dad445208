"""Sweep files in Python: lists are parameters, META functions are hooks, mistakes have a line."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from skipjack.errors import ForeignError, SkipjackError, UsageError
from skipjack.sweep.files import SweepFile, read_sweep_file

Read = Callable[..., SweepFile]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str, name: str = "tune.py") -> SweepFile:
        path = tmp_path / name
        path.write_text(dedent(text))
        return read_sweep_file(path)

    return read


def refusal(read: Read, text: str, kind: type[SkipjackError] = UsageError) -> str:
    """The one sentence, without the directory."""
    with pytest.raises(kind) as caught:
        read(text)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence[sentence.index("tune.py") :]


def test_global_lists_are_parameters_in_their_order(read: Read) -> None:
    file = read("""
        import math
        from pathlib import Path

        zeta = [3, 1, 2]
        _hidden = [1]
        limit = 7
        names = {"a": 1}
        title = "a text"
        def helper(values):
            inner = [1, 2]
            return [2 * value for value in values]
        alpha = helper(zeta)
    """)
    assert list(file.parameters.items()) == [("zeta", (3, 1, 2)), ("alpha", (6, 2, 4))]
    assert file.where("alpha").endswith("tune.py:13")


def test_imported_lists_are_parameters_too(read: Read, tmp_path: Path) -> None:
    (tmp_path / "shared_values.py").write_text("batches = [1, 2]\npair = (1, 2)\n")
    assert read("from shared_values import batches, pair").parameters == {"batches": (1, 2)}


def test_lists_that_numpy_made_hold_plain_numbers(read: Read) -> None:
    file = read("""
        import numpy
        batch = list(numpy.arange(1, 3))
        share = [numpy.float32(0.5)]
    """)
    assert [type(value) for value in file.parameters["batch"]] == [int, int]
    assert type(file.parameters["share"][0]) is float


def test_members_of_enumerations_are_what_they_stand_for(read: Read) -> None:
    file = read("""
        from enum import Enum, IntEnum
        class Word(str, Enum):
            HALF = "fp16"
        class Size(IntEnum):
            SMALL = 3
        a = [Word.HALF]
        b = [Size.SMALL]
    """)
    values = [values[0] for values in file.parameters.values()]
    assert [(type(value), value) for value in values] == [(str, "fp16"), (int, 3)]


def test_nothing_leaks_from_file_to_file(read: Read) -> None:
    read("""
        first = [1]
        def META_get_no_rebuild_params():
            return ["first"]
    """)
    second = read("second = [1]")
    assert list(second.parameters) == ["second"]
    assert second.no_rebuild is None


def test_neighbours_of_two_files_do_not_meet(tmp_path: Path) -> None:
    for number in (1, 2):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "neighbour.py").write_text(f"values = [{number}]")
        (place / "tune.py").write_text("from neighbour import values")
        assert read_sweep_file(place / "tune.py").parameters == {"values": (number,)}
    assert "neighbour" not in sys.modules


def test_an_edit_is_seen_at_once(read: Read) -> None:
    # Same size and same second: a cache of compiled files would not notice.
    assert read("a = [1]").parameters != read("a = [2]").parameters


def test_dataclasses_can_be_defined_in_a_file(read: Read) -> None:
    file = read("""
        from __future__ import annotations
        from dataclasses import dataclass
        @dataclass
        class Pair:
            left: int
        a = [Pair(3).left]
    """)
    assert file.parameters == {"a": (3,)}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("(1, 2)", "tuple"),
        ("range(4)", "range"),
        ("{1, 2}", "set"),
        ("map(int, '12')", "map"),
        ("(x for x in '12')", "generator"),
        ("__import__('numpy').arange(3)", "ndarray"),
    ],
)
def test_what_is_no_list_is_refused_aloud(read: Read, value: str, kind: str) -> None:
    sentence = refusal(read, f"first = [1]\nbatch = {value}")
    assert sentence.startswith(
        f"tune.py:2: batch is a {kind}, which cannot be a parameter; write a list"
    )


def test_constants_in_capitals_and_hidden_names_are_left_alone(read: Read) -> None:
    file = read("""
        from collections import namedtuple
        LIMITS = (1, 2)
        _pairs = range(3)
        Pair = namedtuple("Pair", "a b")
        both = Pair(1, 2)
        a = [1]
    """)
    assert list(file.parameters) == ["a"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = [1]\nb = [\n", "tune.py:2: invalid Python: '[' was never closed"),
        ("a = [[1]]", "tune.py:1: a has a list among its values ([1])"),
        ("a = [1]\nb = [(1, 2)]", "tune.py:2: b has a tuple among its values"),
        ("a = [float('nan')]", "tune.py:1: a has the value nan"),
        ("a = [object]", "tune.py:1: a has a type among its values"),
        (
            "a = [1]\n\ndef META_get_no_rebuild_parms():\n    return []",
            "tune.py:3: unknown hook META_get_no_rebuild_parms; the hooks are",
        ),
        ("def METAsearch(): pass", "tune.py:1: unknown hook METAsearch"),
        ("META_search_callback = 3", "tune.py:1: META_search_callback is a int; define a function"),
    ],
)
def test_a_mistake_is_a_sentence_with_its_line(read: Read, text: str, sentence: str) -> None:
    assert refusal(read, text).startswith(sentence)


def test_an_unknown_hook_is_compared_with_the_known_ones(read: Read) -> None:
    sentence = refusal(read, "def META_is_valid_config(config): return True")
    assert sentence.endswith("did you mean META_is_config_valid?")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = [1]\nimport no_such_module", "tune.py:2: the file raised ModuleNotFoundError: "),
        ("from library import Bisekt", "tune.py:1: the file raised ImportError: cannot import"),
        ("a = [1]\nb = [1 / 0]", "tune.py:2: the file raised ZeroDivisionError: division"),
        ("def f():\n    raise KeyError('x')\n\nf()", "tune.py:2: the file raised KeyError: 'x'"),
        ("raise SystemExit(3)", "tune.py:1: the file raised SystemExit: 3"),
    ],
)
def test_what_a_file_raises_has_its_line(read: Read, text: str, sentence: str) -> None:
    assert refusal(read, text, ForeignError).startswith(sentence)


def test_no_rebuild_names_are_parameters(read: Read) -> None:
    hook = "\ndef META_get_no_rebuild_params():\n    return {}\n"
    assert read("a = [1]\nb = [2]" + hook.format("['b', 'b']")).no_rebuild == ("b",)
    assert read("a = [1]" + hook.format("[]")).no_rebuild == ()
    sentence = refusal(read, "audio = [1]" + hook.format("['adio', 'x']"))
    assert sentence.startswith("tune.py:2: META_get_no_rebuild_params names adio, x, for which")
    assert refusal(read, "audio = [1]" + hook.format("['adio']")).endswith("mean audio?")
    for wrong in ("('a',)", "'a'", "None", "[1]"):
        sentence = refusal(read, "a = [1]" + hook.format(wrong))
        assert "return a list of parameter names" in sentence
    sentence = refusal(read, "a = [1]" + hook.format("1 / 0"), ForeignError)
    assert sentence.startswith("tune.py:3: META_get_no_rebuild_params raised ZeroDivisionError")


def test_with_a_search_unknown_no_rebuild_names_are_only_remarked_upon(
    read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    file = read("""
        from library import Step
        def META_search_callback():
            return Step("qps", 1, 3, lambda x: x + 1)
        def META_get_no_rebuild_params():
            return ["qps"]
    """)
    assert file.no_rebuild == ("qps",)
    assert "qps" in caplog.text


def test_the_validity_hook_sees_a_dict_of_its_own(read: Read) -> None:
    file = read("""
        def META_is_config_valid(config):
            return config.pop("a") - 1
    """)
    assert file.is_valid is not None
    config = {"a": 1}
    assert not file.is_valid(config)
    assert file.is_valid({"a": 2})
    assert config == {"a": 1}


def test_a_validity_hook_that_raises_names_itself_and_the_point(read: Read) -> None:
    file = read("""
        a = [1]
        def META_is_config_valid(config):
            return config["lines"] > 3
    """)
    assert file.is_valid is not None
    with pytest.raises(ForeignError, match=r"tune.py:4: META_is_config_valid raised KeyError") as e:
        file.is_valid({"a": 1, "other": 2})
    assert str(e.value).endswith("the point was a=1")


def test_synthetic_results_come_as_stats(read: Read) -> None:
    file = read("""
        class Old:
            data = {"result_validity": "INVALID", "x": 1}
            def __getitem__(self, name): return self.data[name]
        answers = iter([{"x": 2}, Old(), None])
        def META_get_synthetic(point):
            return next(answers)
    """)
    assert file.synthetic is not None
    good, bad = file.synthetic({}), file.synthetic({})
    assert good["x"] == 2 and not good.status.failed  # type: ignore[index, attr-defined]
    assert bad["x"] == 1 and bad.status.failed  # type: ignore[index, attr-defined]
    with pytest.raises(UsageError, match=r"tune.py:6: META_get_synthetic returned NoneType"):
        file.synthetic({})

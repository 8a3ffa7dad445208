"""Sweep files in TOML: values by rule, constraints as text, searches by name, options by name."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from skipjack.errors import SkipjackError, UsageError
from skipjack.search import Run, Stats
from skipjack.sweep.files import SweepFile, read_sweep_file

Read = Callable[[str], SweepFile]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str) -> SweepFile:
        path = tmp_path / "knobs.toml"
        path.write_text(dedent(text))
        return read_sweep_file(path)

    return read


def values(read: Read, rule: str) -> tuple[Any, ...]:
    return read(f"[parameters]\na = {rule}").parameters["a"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("[3, 'x', true]", (3, "x", True)),
        ("{range = [1, 4]}", (1, 2, 3, 4)),
        ("{range = [1, 8], step = 3}", (1, 4, 7)),
        ("{range = [4, 1]}", (4, 3, 2, 1)),
        ("{range = [0.1, 0.3], step = 0.1}", (0.1, 0.2, 0.3)),
        ("{range = [5, 5]}", (5,)),
        ("{powers = [1, 64]}", (1, 2, 4, 8, 16, 32, 64)),
        ("{powers = [3, 50]}", (3, 6, 12, 24, 48)),
        ("{powers = [1, 1000], of = 10}", (1, 10, 100, 1000)),
    ],
)
def test_values_are_listed_or_given_by_rule(
    read: Read, rule: str, expected: tuple[Any, ...]
) -> None:
    found = values(read, rule)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("3", "a is 3; write a list"),
        ("[[1]]", "a has a list among its values"),
        ("[{x = 1}]", "a has a dict among its values"),
        ("[inf]", "inf is not a finite number"),
        ("{rnge = [1, 2]}", "a has the key 'rnge'; did you mean range?"),
        ("{range = [1, 8], of = 2}", "a has the key 'of'"),
        ("{}", "has neither range nor powers"),
        ("{range = [1]}", "write two numbers"),
        ("{range = [1, true]}", "write two numbers"),
        ("{range = [1, 4], step = 0}", "cannot go from 1 to 4 in steps of 0"),
        ("{range = [1, 4], step = -1}", "cannot go from 1 to 4 in steps of -1"),
        ("{range = [0, 1], step = 1e-9}", "more than 100000 values"),
        ("{powers = [0, 8]}", "the factor must be above 1, and the first value above 0"),
        ("{powers = [1, 8], of = 1}", "the factor must be above 1, and the first value above 0"),
        ("{powers = [1, 8], of = 1.0000001}", "more than 100000 values"),
    ],
)
def test_a_wrong_rule_is_a_sentence_with_its_line(read: Read, rule: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        values(read, rule)
    assert "knobs.toml:2: " in str(caught.value)
    assert complaint in str(caught.value)


def test_constraints_see_parameters_and_the_base_config(read: Read) -> None:
    file = read("""
        constraints = ["depth * audio <= lines", "mode in ('a', 'b')"]
        [parameters]
        depth = [1, 2]
        audio = [8]
    """)
    assert file.is_valid is not None
    full = {"audio": 8, "lines": 15, "mode": "a", "unused": {"nested": 1}}
    assert file.is_valid({**full, "depth": 1})
    assert not file.is_valid({**full, "depth": 2})
    assert not file.is_valid({**full, "depth": 1, "mode": "c"})
    with pytest.raises(SkipjackError, match="needs lines"):
        file.is_valid({"depth": 1, "audio": 1, "mode": "a"})


def test_builds_are_said_either_way(read: Read) -> None:
    lists = "[parameters]\na = [1]\nb = [1]\nc = [1]"
    assert read(lists).no_rebuild is None
    assert read(f"no_rebuild = ['c', 'a']\n{lists}").no_rebuild == ("c", "a")
    assert read(f"build = ['b']\n{lists}").no_rebuild == ("a", "c")
    assert read(f"build = []\n{lists}").no_rebuild == ("a", "b", "c")


def test_settings_are_the_options_of_the_command_line(read: Read) -> None:
    file = read("""
        base = "base.json"
        run_cmd = "./run.sh"
        metric = "rate:max"
        repeats = 3
        load = {parameter = "qps", from = 100, to = 900}
        [search]
        searcher = "genetic:tournament=3,population=30"
        budget = 40
        [parameters]
        a = [1, 2]
    """)
    assert file.search is None
    assert file.settings == {
        "base": "base.json",
        "run_cmd": "./run.sh",
        "metric": "rate:max",
        "repeats": 3,
        "load": {"parameter": "qps", "from": 100, "to": 900},
        "searcher": "genetic:population=30",
        "budget": 40,
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a = 1\nb =", ":2: this is not TOML"),
        ("# x\nmetrc = 'a:max'", ":2: unknown setting 'metrc'; did you mean metric?"),
        ("zzzzz = [1]", ":1: unknown setting 'zzzzz'; parameters to sweep belong in [parameters]"),
        ("parameters = 3", "parameters is 3; write a table"),
        ("no_rebuild = ['x']\n[parameters]\nxx = [1]", ":1: no_rebuild names x, for which"),
        ("no_rebuild = 'x'", ":1: no_rebuild is 'x'; write a list of strings"),
        ("no_rebuild = []\nbuild = []", "write one of them"),
        ("constraints = ['a <']", ":1: expression 'a <' cannot be read"),
        ("constraints = ['open(a)']", ":1: expression"),
        ("\nload = {parameter = 'q', from = 1}", ":2: load must be like"),
        ("load = {parameter = 'q', from = 9, to = 1}", ":1: load must be like"),
        ("load = {parameter = 'q', from = 1, too = 9}", "unknown key 'too'; did you mean to?"),
        ("[search]\nseed = 1", ":1: [search] has no key searcher"),
        ("[search]\nsearcher = 'bisekt'", "the unknown searcher 'bisekt'"),
        ("[search]\nsearcher = ['step']", ":1: [search] has the unknown searcher ['step']"),
        ("[search]\nsearcher = 'genetic'\nsteps = 1", "unknown key 'steps'"),
        ("[search]\nsearcher = 'genetic:size=9'", ":1: searcher genetic has no parameter 'size'"),
        ("[search]\nsearcher = 'genetic:population=0'", "must be from 1 to 10000, not 0"),
        ("[search]\nsearcher = 'step'\nstart = 1", ":1: step needs search_param, end, update"),
        ("[search]\nsearcher = 'step'\nstat = 1", "not 'stat'; did you mean start?"),
        (
            "[search]\nsearcher='bisect'\nsearch_param='q'\nlower_bound=1\nupper_bound=9\n"
            "step_size=0\npredicate='ok'",
            ":1: step_size of Bisect of 'q' must not be 0",
        ),
        (
            "[search]\nsearcher='step'\nsearch_param='q'\nstart=1\nend=9\nupdate=3",
            ":1: update is 3; write an expression",
        ),
    ],
)
def test_a_mistake_is_a_sentence_with_its_line(read: Read, text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert complaint in str(caught.value)
    assert "knobs.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bisection_needs_no_code(read: Read) -> None:
    file = read("""
        [search]
        searcher = "bisect"
        search_param = "qps"
        lower_bound = 500
        upper_bound = 2500
        step_size = 100
        predicate = "result_99_00_percentile_ms <= 15 and result_validity == 'VALID'"
    """)
    assert file.search is not None
    points = file.search().generate()
    tried = [next(points)["qps"]]
    for p99 in (10, 20, 10):
        stats = Stats({"result_99.00_percentile_ms": p99, "result_validity": "VALID"})
        tried.append(points.send(Run({"qps": tried[-1]}, stats))["qps"])
    assert tried == [1500, 2000, 1700, 1800]


def test_searchers_can_be_composed_without_code(read: Read) -> None:
    file = read("""
        [search]
        searcher = "composer"
        timeout = 2
        [[search.searchers]]
        searcher = "bisect"
        search_param = "qps"
        lower_bound = 0
        upper_bound = 8
        step_size = 1
        predicate = "result_validity == 'VALID'"
        [[search.searchers]]
        searcher = "overlay"
        overlay_dict = {mode = "fast"}
        subject = {searcher = "step", search_param = "s", start = 1, end = 8, update = "x * 2"}
    """)
    assert file.search is not None
    points = file.search().generate()
    assert next(points) == {"qps": 4, "s": 1, "mode": "fast"}
    bad = Run({}, Stats({"result_validity": "INVALID"}))
    assert points.send(bad) == {"qps": 4, "s": 2, "mode": "fast"}


def test_a_greedy_search_compares_with_the_best_run(read: Read) -> None:
    file = read("""
        [search]
        searcher = "greedy_stepper"
        predicate = "rate > old_rate"
        steppers = [{searcher = "step", search_param = "s", start = 1, end = 9, update = "x + 1"}]
    """)
    assert file.search is not None
    points = file.search().generate()
    tried, rates = [next(points)["s"]], iter([1.0, 2.0, 1.5])
    with pytest.raises(StopIteration):
        while True:
            run = Run({"s": tried[-1]}, Stats({"rate": next(rates, 0.0)}))
            tried.append(points.send(run)["s"])
    assert tried == [1, 2, 3]

"""META_search_callback in its three forms, and in forms that it does not have."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from skipjack.core import Status
from skipjack.errors import ForeignError, SkipjackError, UsageError
from skipjack.search import Run, SearcherInterface, Stats
from skipjack.sweep.files import SweepFile, read_sweep_file

Read = Callable[[str], SweepFile]
BISECT = 'Bisect("qps", 0, 8, 1, lambda run: run.stats["result_validity"] == "VALID")'


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str) -> SweepFile:
        path = tmp_path / "tune.py"
        path.write_text(dedent(text))
        return read_sweep_file(path)

    return read


def searcher_of(file: SweepFile) -> SearcherInterface:
    assert file.search is not None
    return file.search()


def points_of(searcher: SearcherInterface, most: int) -> list[Any]:
    """The points when loads up to `most` hold."""
    points, found = searcher.generate(), []
    point = next(points, None)
    while point is not None:
        found.append(dict(point))
        valid = point["qps"] <= most
        stats = Stats({"result_validity": "VALID" if valid else "INVALID", "p99": 7})
        try:
            point = points.send(Run(point, stats))
        except StopIteration:
            break
    return found


def test_without_arguments_it_returns_a_searcher(read: Read) -> None:
    file = read(f"from library import *\ndef META_search_callback():\n    return {BISECT}")
    searcher = searcher_of(file)
    assert searcher.is_dynamic
    assert [p["qps"] for p in points_of(searcher, 5)] == [4, 6, 5]


def test_with_past_runs_it_may_return_a_searcher_too(read: Read) -> None:
    file = read(f"""
        from library import Bisect
        def META_search_callback(past_runs):
            assert past_runs == []
            return {BISECT}
    """)
    assert [p["qps"] for p in points_of(searcher_of(file), 5)] == [4, 6, 5]


def test_with_past_runs_it_may_return_points(read: Read) -> None:
    file = read("""
        def META_search_callback(past_runs):
            if not past_runs:
                return {"qps": 1}
            point, stats = past_runs[-1]
            if stats["result_validity"] == "VALID" and stats["p99"] == 7:
                return {"qps": point["qps"] * 2}
            return None
    """)
    searcher = searcher_of(file)
    assert searcher.is_dynamic
    assert [p["qps"] for p in points_of(searcher, 5)] == [1, 2, 4, 8]


def test_the_oldest_bisection_still_works(read: Read) -> None:
    file = read("""
        from library import QPSBisect
        def META_search_callback(past_runs):
            return QPSBisect(lb=500, ub=2500, ss=100, past_runs=past_runs).get_next_cross()
    """)
    points, tried = searcher_of(file).generate(), []
    point = next(points)
    with pytest.raises(StopIteration):
        while True:
            load = point["server_target_qps"]
            tried.append(load)
            held = "VALID" if load <= 1700 else "INVALID"
            point = points.send(Run(point, Stats({"result_validity": held})))
    assert tried == [1500, 2000, 1700, 1800]


def test_failing_runs_are_told_as_invalid_to_the_stateless_form(read: Read) -> None:
    file = read("""
        def META_search_callback(past_runs):
            if not past_runs:
                return {"qps": 1}
            assert past_runs[0][1]["result_validity"] == "INVALID"
            return None
    """)
    points = searcher_of(file).generate()
    next(points)
    with pytest.raises(StopIteration):
        points.send(Run({"qps": 1}, Stats({}, Status.CRASH)))


def test_the_callback_is_called_once_for_the_first_searcher(read: Read) -> None:
    file = read(f"""
        from library import Bisect
        calls = {{}}
        def META_search_callback():
            calls[len(calls)] = 1
            if len(calls) > 2:
                raise ValueError("called too often")
            return {BISECT}
    """)
    assert searcher_of(file) is not searcher_of(file)
    with pytest.raises(ForeignError, match="called too often"):
        searcher_of(file)


def test_the_stateless_form_may_scribble_on_its_list(read: Read) -> None:
    file = read("""
        def META_search_callback(past_runs):
            if len(past_runs) == 2:
                return None
            past_runs.clear()
            return {"qps": 1}
    """)
    assert len(points_of(searcher_of(file), 5)) == 2


def test_the_same_point_for_ever_is_stopped_with_a_sentence(read: Read) -> None:
    file = read("def META_search_callback(past_runs):\n    return {'qps': 3}")
    with pytest.raises(ForeignError, match=r'tune.py:1: .* returned the point {"qps":3} 21 times'):
        points_of(searcher_of(file), 5)


def test_a_falsy_answer_at_once_is_a_search_without_points(read: Read) -> None:
    file = read("def META_search_callback(past_runs):\n    return {}")
    assert points_of(searcher_of(file), 5) == []


@pytest.mark.parametrize(
    ("callback", "complaint"),
    [
        ("(): return {'qps': 1}", "returned a dict; return a searcher"),
        ("(): return None", "returned None; return a searcher"),
        ("(): return Bisect", "returned the class Bisect instead of an instance"),
        ("(): yield {'qps': 1}", "returned a generator; return a searcher"),
        ("(past_runs): return [1]", "returned a list; return a searcher, a dict with"),
        ("(a, b): return None", "takes 2 arguments; it must take none, or one for the past runs"),
    ],
)
def test_what_it_may_not_return_is_refused_when_read(
    read: Read, callback: str, complaint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(f"from library import Bisect\ndef META_search_callback{callback}")
    assert "tune.py:2: META_search_callback " + complaint in str(caught.value)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("return Bisect(lower=3)", "tune.py:3: META_search_callback raised TypeError"),
        ("raise KeyError('x')", "tune.py:3: META_search_callback raised KeyError: 'x'"),
        ("return Step('x', 1, 1, lambda x: x)", "tune.py:3: Step of 'x' from 1 to 1 has no"),
    ],
)
def test_what_it_raises_has_a_line(read: Read, body: str, sentence: str) -> None:
    with pytest.raises(SkipjackError) as caught:
        read(f"from library import Bisect, Step\ndef META_search_callback():\n    {body}")
    assert sentence in str(caught.value)


def test_a_later_point_that_is_no_dict_is_refused(read: Read) -> None:
    file = read("""
        def META_search_callback(past_runs):
            return [1, 2] if past_runs else {"qps": 1}
    """)
    with pytest.raises(UsageError, match=r"tune.py:2: .* returned a list after 1 run;"):
        points_of(searcher_of(file), 5)


def test_a_predicate_that_misses_a_number_has_the_line_of_the_predicate(read: Read) -> None:
    file = read("""
        from library import Bisect
        def META_search_callback():
            return Bisect("qps", 0, 8, 1,
                          lambda run: run.stats["p99_ms"] < 15)
    """)
    with pytest.raises(SkipjackError, match=r"tune.py:5: .*the run has no metric 'p99_ms'"):
        points_of(searcher_of(file), 5)


def test_an_endless_step_is_refused_with_its_file(read: Read) -> None:
    file = read("""
        from library import Step
        def META_search_callback():
            return Step("qps", 1, 4, lambda x: x + 2)
    """)
    with pytest.raises(UsageError, match=r"tune.py:3: Step of 'qps' .* never reaches its end"):
        points_of(searcher_of(file), 5)


def test_a_file_with_a_search_may_have_lists_and_tuples_of_its_own(read: Read) -> None:
    file = read("""
        pairs = [(1, 64), (2, 128)]
        batches = (64, 128)
        qps = []
        def META_search_callback(past_runs):
            if len(past_runs) < len(pairs):
                return dict(zip(("qps", "batch"), pairs[len(past_runs)]))
    """)
    assert file.parameters == {"qps": ()}
    assert [p["batch"] for p in points_of(searcher_of(file), 5)] == [64, 128]


def test_a_search_of_ones_own_is_served(read: Read) -> None:
    file = read("""
        from scripts.autotune.library import SearcherInterface, do_send
        class Mine(SearcherInterface):
            is_dynamic = True
            def generate(self):
                run = yield {"qps": 1}
                yield {"qps": 9 if run["result_validity"] == "VALID" else 0}
        def META_search_callback():
            return Mine()
    """)
    assert [p["qps"] for p in points_of(searcher_of(file), 5)] == [1, 9]

"""Where the numbers of a run come from, and that those of an earlier run do not count."""

import json
from pathlib import Path

import pytest

from skipjack.errors import UsageError
from skipjack.execute import CommandResult
from skipjack.sweep.commands import ResultReader, results
from skipjack.sweep.commands.results import ResultReading


def ended(tmp_path: Path, output: str = "") -> CommandResult:
    (tmp_path / "log").write_text(output)
    return CommandResult(0, "", 1.25, 0, tmp_path / "log")


def read(text: str, tmp_path: Path, output: str = "", writes: str | None = None) -> ResultReading:
    """What is read after a run that printed, and wrote into ``out.json``."""
    reader = ResultReader.parse(text, "speed")
    before = reader.before({"run_dir": str(tmp_path)}, tmp_path)
    if writes is not None:
        (tmp_path / "out.json").write_text(writes)
    return reader.read(before, ended(tmp_path, output))


def test_nested_json_has_dotted_names(tmp_path: Path) -> None:
    content = {"qps": 12, "ok": True, "name": "x", "lat": {"p99": 3.5, "all": [1, 2]}, "no": None}
    reading = read("json:{run_dir}/out.json", tmp_path, writes=json.dumps(content))
    assert reading.metrics == {
        "seconds": 1.25,
        "qps": 12.0,
        "ok": 1.0,
        "name": "x",
        "lat.p99": 3.5,
        "lat.all.0": 1.0,
        "lat.all.1": 2.0,
    }


def test_the_file_of_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text('{"qps": 1}')
    reading = read("json:out.json", tmp_path)
    assert "is from an earlier run" in reading.missing
    assert reading.metrics == {"seconds": 1.25}


def test_the_same_bytes_written_again_at_once_do_count(tmp_path: Path) -> None:
    for _ in range(20):
        reading = read("json:out.json", tmp_path, writes='{"qps": 1}')
        assert reading.metrics["qps"] == 1.0


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "the run did not write "),
        ("{", "is not JSON"),
        ("[1]", "contains a list, not an object"),
        ("3", "contains a single value"),
        ("{}", "contains an empty object"),
    ],
)
def test_a_file_without_result_is_described(
    tmp_path: Path, content: str | None, sentence: str
) -> None:
    assert sentence in read("json:out.json", tmp_path, writes=content).missing


def test_json_may_be_the_last_line_of_the_output(tmp_path: Path) -> None:
    output = '{"qps": 1}\nmore\n{"qps": 2}\ndone {}\n'
    assert read("json:-", tmp_path, output).metrics["qps"] == 2.0
    assert "no line of the output" in read("json:-", tmp_path, "hello").missing


def test_the_last_match_wins(tmp_path: Path) -> None:
    output = "qps: 10\nqps: 1,234.5 then qps: 30\nend\n"
    assert read(r"regex:qps: ([\d.,]+)", tmp_path, output).metrics["speed"] == 30.0
    named = read(r"regex:(?P<key>\w+): (?P<value>[\d,.]+) then", tmp_path, output)
    assert named.metrics == {"seconds": 1.25, "key": "qps", "value": 1234.5}


def test_a_pattern_may_span_lines(tmp_path: Path) -> None:
    assert read(r"regex:total\n\s*(\d+)", tmp_path, "total\n  42\n").metrics["speed"] == 42.0


def test_an_output_without_match_is_described(tmp_path: Path) -> None:
    missing = read(r"regex:qps: (\d+)", tmp_path, "hello\nbye\n").missing
    assert missing == "nothing in the output matches 'qps: (\\\\d+)'; the last line is 'bye'"
    assert "there is no output" in read(r"regex:(\d+)", tmp_path).missing


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("json:", "is not understood"),
        ("xml:file", "is not understood"),
        ("exit:0", "is not understood"),
        ("regex:(", "is not a valid pattern"),
        ("regex:qps", "has no group"),
        (r"regex:(\d+) (\d+)", "has 2 groups without names"),
        ("json:{a b}", "is not a placeholder"),
    ],
)
def test_what_cannot_be_read_is_refused_at_the_start(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        ResultReader.parse(text)


def test_a_pattern_that_takes_for_ever_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results.last_match, "__defaults__", (0.2,))
    output = "a" * 60 + "!"
    assert "took too long" in read("regex:(?P<x>(a+)+)$", tmp_path, output).missing


def test_exit_has_the_seconds_alone(tmp_path: Path) -> None:
    assert read("exit", tmp_path).metrics == {"seconds": 1.25}

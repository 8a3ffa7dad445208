"""What users say they want."""

import pytest

from skipjack.core import Objective
from skipjack.errors import UsageError
from skipjack.sweep.engine import default_objective, loadgen_objective, parse_objectives
from skipjack.sweep.engine.options import missing_metric


def test_a_metric_has_a_direction() -> None:
    assert parse_objectives(["qps:max", "p99.ms:min"], ["x < 1"]) == (
        Objective("qps", "max", ("x < 1",)),
        Objective("p99.ms", "min", ("x < 1",)),
    )


@pytest.mark.parametrize("text", ["qps", "qps:up", ":max", "qps:"])
def test_a_metric_without_one_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="has no direction"):
        parse_objectives([text], [])


def test_without_a_metric_the_time_counts_where_there_is_nothing_else() -> None:
    assert default_objective("exit", None, []) == Objective("seconds", "min")
    with pytest.raises(UsageError, match="--metric is missing: give --metric NAME:max"):
        default_objective("json", None, [])


@pytest.mark.parametrize(
    ("scenario", "direction"), [("Offline", "max"), ("single_stream", "min"), ("SERVER", "max")]
)
def test_loadgen_has_a_metric_for_each_scenario(scenario: str, direction: str) -> None:
    found = default_objective("loadgen", scenario, [])
    assert found is not None and found.direction == direction


def test_a_scenario_that_nobody_named_is_known_from_the_log() -> None:
    assert default_objective("loadgen", None, []) is None
    found = loadgen_objective({"scenario": "Offline", "result_samples_per_second": 3.0}, [])
    assert found == Objective("result_samples_per_second", "max")


def test_a_missing_metric_is_named_with_what_there_is() -> None:
    sentence = missing_metric("qsp", {"qps": 1.0, "verdict": "VALID"}, "out.log")
    assert "no metric 'qsp'; it has qps; did you mean qps?" in sentence and "out.log" in sentence

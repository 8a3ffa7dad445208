"""Real LoadGen runs as a bench: runs that were too short are repaired, slow ones are not."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skipjack.core import Config, Status
from skipjack.interop.loadgen import Judgement, RunValidity
from skipjack.sweep.commands import CommandBench, CommandSpec, CommandTemplate, ResultReader
from skipjack.sweep.commands.command_bench import LearnedRepairs, repair_settings

DUMMY = Path(__file__).parents[2] / "interop" / "dummy_sut.py"
Make = Callable[..., CommandBench]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes benches of the system that only waits."""
    pytest.importorskip("mlperf_loadgen")
    made: list[CommandBench] = []

    def bench(scenario: str, service_s: float, base: dict[str, Any], fields: str) -> CommandBench:
        command = f"{sys.executable} {DUMMY} {{run_dir}}/logs {scenario} {service_s} {fields}"
        spec = CommandSpec(
            run=CommandTemplate.parse(command),
            result=ResultReader.parse("loadgen:{run_dir}/logs"),
            workdir=tmp_path,
            state_dir=tmp_path / "state",
            base=base,
            run_timeout_s=60,
        )
        made.append(CommandBench(spec))
        return made[-1]

    yield bench
    for one in made:
        one.close()


SERVER = {"min_query_count": 100, "server_target_qps": 2000}
SERVER_FIELDS = (
    "min_duration_ms=10 min_query_count={min_query_count} server_target_qps={server_target_qps} "
    "server_target_latency_ns=10000000000"
)


def test_a_run_with_too_few_queries_is_made_again_with_more(make: Make) -> None:
    bench = make("Server", 0.0, SERVER, SERVER_FIELDS)
    outcome = bench.measure(Config(server_target_qps=2000), {})
    assert outcome.status is Status.OK
    assert outcome.metrics["result_query_count"] == 459
    assert outcome.notes == (
        "measured again with min_query_count=459: "
        "100 queries are too few to decide; 459 are needed",
    )
    later = bench.measure(Config(server_target_qps=2500), {})
    assert later.status is Status.OK
    assert later.notes == ("run with min_query_count=459, which an earlier run needed to be valid",)


def test_the_lines_for_loadgen_are_given_with_each_run(make: Make, tmp_path: Path) -> None:
    bench = make("Server", 0.0, {**SERVER, "min_query_count": 500}, SERVER_FIELDS)
    outcome = bench.measure(Config(server_target_qps=2000), {})
    lines = (Path(outcome.log).parent / "user.conf").read_text()
    assert lines == "*.Server.min_query_count = 500\n*.Server.target_qps = 2000\n"


def test_a_slow_system_is_invalid_and_not_run_again(make: Make, tmp_path: Path) -> None:
    fields = SERVER_FIELDS.replace("10000000000", "5000000")
    bench = make("Server", 0.005, {**SERVER, "min_query_count": 200}, fields)
    outcome = bench.measure(Config(server_target_qps=2000), {})
    assert outcome.status is Status.INVALID
    assert outcome.reason.startswith("too slow: ")
    assert "result_completed_samples_per_sec" in outcome.metrics
    assert float(outcome.metrics["result_scheduled_samples_per_sec"]) > 1000, "what was offered"
    assert len(list((tmp_path / "state/runs").iterdir())) == 1


def test_a_command_that_ignores_the_settings_is_not_repaired_for_ever(
    make: Make, tmp_path: Path
) -> None:
    fields = SERVER_FIELDS.replace("{min_query_count}", "100")
    outcome = make("Server", 0.0, {"server_target_qps": 1}, fields).measure(
        Config(server_target_qps=2000), {}
    )
    assert outcome.status is Status.INVALID
    assert outcome.reason.startswith("measured too little: ")
    assert outcome.notes[-1] == "the command did not apply the changed settings"
    assert len(list((tmp_path / "state/runs").iterdir())) == 2


TOO_LITTLE = Judgement(RunValidity.TOO_LITTLE, ("short",), {"offline_expected_qps": 100.0})


def test_a_repair_uses_the_name_that_the_config_has() -> None:
    assert repair_settings(TOO_LITTLE, {"target_qps": 5}, {}) == {"target_qps": 100}
    assert repair_settings(TOO_LITTLE, {}, {}) == {"offline_expected_qps": 100}


def test_a_swept_parameter_is_never_repaired() -> None:
    config = {"offline_expected_qps": 5}
    assert repair_settings(TOO_LITTLE, config, {"offline_expected_qps": 5}) == {}


def test_a_limit_gives_way_to_a_repair() -> None:
    judgement = Judgement(RunValidity.TOO_LITTLE, ("few",), {"min_query_count": 459.0})
    config = {"min_query_count": 5, "max_query_count": 100}
    assert repair_settings(judgement, config, {}) == {
        "min_query_count": 459,
        "max_query_count": 459,
    }


def test_what_was_too_slow_is_not_repaired() -> None:
    assert repair_settings(Judgement(RunValidity.TOO_SLOW), {}, {}) == {}


def test_how_many_queries_it_takes_is_shared_and_how_quick_they_are_is_not() -> None:
    learned = LearnedRepairs()
    fast, slow = Config(batch=8), Config(batch=1)
    repaired = {"offline_expected_qps": 100000, "min_query_count": 459, "max_query_count": 459}
    learned.add(fast, {}, repaired, late=False)
    assert learned.at(fast, {}) == repaired
    assert learned.at(slow, {}) == {"min_query_count": 459, "max_query_count": 459}
    assert learned.at(slow, {"min_duration": 5}) == {}, "other runs have needs of their own"
    assert learned.at(Config(min_query_count=3), {}) == {"max_query_count": 459}


def test_what_late_queries_made_necessary_is_of_that_point_alone() -> None:
    learned = LearnedRepairs()
    learned.add(Config(load=900), {}, {"min_query_count": 662}, late=True)
    assert learned.at(Config(load=900), {}) == {"min_query_count": 662}
    assert learned.at(Config(load=100), {}) == {}


# Offline: a run takes as long as its expectation says, at the speed of its point.
OFFLINE = """\
import json, os, sys, time
speed = int(os.environ["speed"])
samples = float(os.environ.get("offline_expected_qps", "1"))
print("samples", samples)
time.sleep(min(60, 0.01 * samples / speed))
values = {
    "effective_scenario": "Offline",
    "effective_target_qps": samples,
    "result_validity": "VALID" if samples >= speed else "INVALID",
    "result_min_duration_met": samples >= speed,
    "result_samples_per_second": speed * float(os.environ["room"]),
}
os.makedirs(sys.argv[1], exist_ok=True)
with open(sys.argv[1] + "/mlperf_log_detail.txt", "w") as log:
    for key, value in values.items():
        log.write(":::MLLOG " + json.dumps({"key": key, "value": value, "metadata": {}}) + "\\n")
"""


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[CommandBench]:
    """A bench that takes its time in proportion to what it expects."""
    (tmp_path / "offline.py").write_text(OFFLINE)
    spec = CommandSpec(
        run=CommandTemplate.parse(f"{sys.executable} offline.py {{run_dir}}/logs"),
        result=ResultReader.parse("loadgen:{run_dir}/logs"),
        workdir=tmp_path,
        state_dir=tmp_path / "state",
        base={"room": 1.0, "speed": 1},
        run_timeout_s=1.0,
    )
    bench = CommandBench(spec)
    yield bench
    bench.close()


def test_a_fast_point_does_not_make_slow_ones_long(offline: CommandBench) -> None:
    for speed in (5000, 4):
        outcome = offline.measure(Config(speed=speed), {})
        assert outcome.status is Status.OK, outcome.reason
    assert Path(outcome.log).read_text() == "samples 5.0\n"


def test_a_repair_that_takes_too_long_leaves_what_was_measured(offline: CommandBench) -> None:
    outcome = offline.measure(Config(speed=4, room=10000.0), {})
    assert outcome.status is Status.INVALID
    assert outcome.reason.startswith("measured too little: ")
    assert outcome.metrics["result_samples_per_second"] == 40000
    assert "did not end in time" in outcome.notes[-1]

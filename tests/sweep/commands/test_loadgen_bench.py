"""Real LoadGen runs as a bench: runs that were too short are repaired, slow ones are not."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skipjack.core.config import Config
from skipjack.core.trial import Status
from skipjack.interop.loadgen_log import Judgement, LoadgenVerdict
from skipjack.sweep.commands.command import Command
from skipjack.sweep.commands.command_bench import CommandBench, CommandSpec
from skipjack.sweep.commands.repair import repair_settings
from skipjack.sweep.commands.results import ResultReader

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
            run=Command.parse(command),
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
        "measured again with min_query_count=459: 100 queries cannot settle it, it takes 459",
    )
    later = bench.measure(Config(server_target_qps=2500), {})
    assert later.status is Status.OK
    assert later.notes == ("run with min_query_count=459, which an earlier run needed to count",)


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
    assert "result_scheduled_samples_per_sec" not in outcome.metrics
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
    assert outcome.notes[-1] == "the command did not take the settings over"
    assert len(list((tmp_path / "state/runs").iterdir())) == 2


TOO_LITTLE = Judgement(LoadgenVerdict.TOO_LITTLE, ("short",), {"offline_expected_qps": 100.0})


def test_a_repair_uses_the_name_that_the_config_has() -> None:
    assert repair_settings(TOO_LITTLE, {"target_qps": 5}, {}) == {"target_qps": 100}
    assert repair_settings(TOO_LITTLE, {}, {}) == {"offline_expected_qps": 100}


def test_a_swept_parameter_is_never_repaired() -> None:
    config = {"offline_expected_qps": 5}
    assert repair_settings(TOO_LITTLE, config, {"offline_expected_qps": 5}) == {}


def test_a_limit_gives_way_to_a_repair() -> None:
    judgement = Judgement(LoadgenVerdict.TOO_LITTLE, ("few",), {"min_query_count": 459.0})
    config = {"min_query_count": 5, "max_query_count": 100}
    assert repair_settings(judgement, config, {}) == {
        "min_query_count": 459,
        "max_query_count": 459,
    }


def test_what_was_too_slow_is_not_repaired() -> None:
    assert repair_settings(Judgement(LoadgenVerdict.TOO_SLOW), {}, {}) == {}

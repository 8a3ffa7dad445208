"""grid.py's dry run: its lines, its statistics, and what earlier results leave to do."""

import json
from pathlib import Path
from typing import Any

import pytest

from skipjack.errors import SkipjackError, UsageError
from skipjack.interop.loadgen.grid_results import META_FILE
from skipjack.sweep.nvidia_grid import GridOptions, GridRequest, dry_run, make_request
from skipjack.sweep.nvidia_grid.request import MARK

EXAMPLES = Path(__file__).parents[3] / "examples" / "sweep"


def request(tmp_path: Path, config: str = "audio.py", **options: Any) -> GridRequest:
    given = {
        **{"configs": EXAMPLES / "configs", "logs": tmp_path / "logs", "temp_timeout": 0},
        **{"spoof_system_id": "A10x8"},
        **options,
    }
    path = tmp_path / config if (tmp_path / config).exists() else EXAMPLES / config
    return make_request("RNN-T", "server", path, GridOptions(**given))


def lines(tmp_path: Path, config: str = "audio.py", **options: Any) -> list[str]:
    return list(dry_run(request(tmp_path, config, **options)))


def kinds(output: list[str]) -> list[str]:
    assert all(line.startswith(f"{MARK} ") for line in output[:-1])
    return [line.split()[1] for line in output[:-1]]


def finish(made: GridRequest, point: dict[str, Any], validity: str = "VALID") -> Path:
    """Leave a result as a run of grid.py does."""
    directory = made.result_directory(point)
    log = directory / "A10x8" / "rnnt" / "Server" / "mlperf_log_detail.txt"
    log.parent.mkdir(parents=True)
    entries = [{"key": "result_validity", "value": validity}]
    log.write_text("".join(f":::MLLOG {json.dumps(entry)}\n" for entry in entries))
    meta = {"config": point, "run_info": {"start_temp": 41.0}}
    (directory / META_FILE).write_text(json.dumps(meta))
    return directory


def test_the_statistics_are_the_last_line_in_the_known_form(tmp_path: Path) -> None:
    output = lines(tmp_path)
    assert output[-1] == "builds=2, cached_builds=4, runs=6, cached_runs=0"
    assert kinds(output) == ["build", "run", "run", "run", "build", "run", "run", "run"]


def test_without_hook_every_run_has_a_build(tmp_path: Path) -> None:
    assert lines(tmp_path, "rnnt.json")[-1] == "builds=6, cached_builds=0, runs=6, cached_runs=0"


def test_an_existing_engine_saves_the_first_build_alone(tmp_path: Path) -> None:
    output = lines(tmp_path, use_existing_engine=True)
    assert output[-1] == "builds=1, cached_builds=5, runs=6, cached_runs=0"
    assert kinds(output)[0] == "run"


def test_commands_are_those_of_the_harness(tmp_path: Path) -> None:
    made = request(tmp_path, extra_run_args="--fast --name='a b'")
    assert made.build_argv("/x y/c.json") == (
        *("make", "generate_engines"),
        "RUN_ARGS=--benchmarks=RNN-T --scenarios=server '--configs=/x y/c.json' --fast "
        "'--name=a b'",
    )
    assert made.run_argv("c.json", "logs/1") == (
        *("make", "run_harness", "LOG_DIR=logs/1"),
        "RUN_ARGS=--benchmarks=RNN-T --scenarios=server --configs=c.json "
        "--test_mode=PerformanceOnly --fast '--name=a b'",
    )


def test_own_commands_get_words_of_their_own(tmp_path: Path) -> None:
    made = request(tmp_path, run_cmd="./run.sh --now", extra_run_args="'a b'")
    assert made.run_argv("c.json", "l") == (
        *("./run.sh", "--now", "LOG_DIR=l", "--benchmarks=RNN-T", "--scenarios=server"),
        *("--configs=c.json", "--test_mode=PerformanceOnly", "a b"),
    )


def test_the_config_file_has_the_point_under_the_system(tmp_path: Path) -> None:
    made = request(tmp_path)
    config = made.config_file(made.base.with_point({"audio_batch_size": 7}))
    assert (config["benchmark"], config["scenario"], config["default"]) == ("rnnt", "Server", {})
    assert config["A10x8"]["audio_batch_size"] == 7
    assert config["A10x8"]["server_target_qps"] == 3300 * 7.5


def test_directories_have_the_proper_names_and_the_hash(tmp_path: Path) -> None:
    directory = request(tmp_path).result_directory({"a": 1})
    assert directory == tmp_path / "logs" / "grid_A10x8_rnnt_Server_42b7b4f292"


def test_waits_are_shown_before_later_builds_and_every_run(tmp_path: Path) -> None:
    output = lines(tmp_path, "audio.py", temp_timeout=30, cool_temp=45)
    assert f"{MARK} wait for 45 °C, 30 s at most" in output
    run = ["wait", "run"]
    assert kinds(output) == ["build", *run * 3, "wait", "build", *run * 3]


def test_refused_points_are_skipped_with_the_reason(tmp_path: Path) -> None:
    output = lines(tmp_path, "valid.py")
    skipped = [line for line in output if "META_is_config_valid refuses it" in line]
    assert skipped and len(skipped) + kinds(output).count("run") == 72
    refused = "audio_batch_size=1024 dali_pipeline_depth=2 audio_buffer_num_lines=1024"
    assert f"{MARK} skip {refused}: META_is_config_valid refuses it" in output


def test_cached_results_count_and_leave_the_engine_as_it_is(tmp_path: Path) -> None:
    made = request(tmp_path)
    finish(made, {"audio_batch_size": 128, "gpu_batch_size": 128})
    finish(made, {"audio_batch_size": 512, "gpu_batch_size": 128}, "INVALID")
    done = lines(tmp_path, use_cached=True)
    assert done[-1] == "builds=2, cached_builds=2, runs=4, cached_runs=2"
    assert kinds(done)[:4] == ["skip", "build", "run", "skip"]
    assert lines(tmp_path)[-1].endswith("runs=6, cached_runs=0"), "without the flag all is run"


def test_a_collision_ends_with_a_sentence(tmp_path: Path) -> None:
    made = request(tmp_path)
    directory = finish(made, {"audio_batch_size": 128, "gpu_batch_size": 128})
    (directory / META_FILE).write_text('{"config": {"audio_batch_size": 1}, "run_info": {}}')
    with pytest.raises(SkipjackError, match="has the same hash"):
        lines(tmp_path, use_cached=True)


def test_a_search_that_waits_for_results_is_one_line_and_zeros(tmp_path: Path) -> None:
    output = lines(tmp_path, "bespoke.py")
    assert len(output) == 2
    assert "depends on results" in output[0]
    assert output[1] == "builds=0, cached_builds=0, runs=0, cached_runs=0"


def test_with_synthetic_results_the_search_is_simulated(tmp_path: Path) -> None:
    output = lines(tmp_path, "tune_server.py")
    ran = [line.split(": make")[0].split(" ", 2)[2] for line in output if " run " in line]
    assert [tuple(part.split("=")[1] for part in point.split()) for point in ran] == [
        *(("3800", "1", "200"), ("3800", "2", "200"), ("4200", "2", "200")),
        *(("4200", "3", "200"), ("4200", "3", "150"), ("4400", "3", "150")),
        *(("4300", "3", "150"), ("4250", "3", "150")),
    ]
    assert output[-1] == "builds=2, cached_builds=6, runs=8, cached_runs=0"


def test_a_refused_point_is_told_as_such_in_a_simulation(tmp_path: Path) -> None:
    (tmp_path / "forbidden.py").write_text(
        "from library import Bisect\n"
        "def META_search_callback():\n"
        "    return Bisect('server_target_qps', 500, 2500, 100,\n"
        "                  lambda r: r['result_validity'] == 'VALID')\n"
        "def META_is_config_valid(config):\n"
        "    return config['server_target_qps'] != 1500\n"
        "def META_get_synthetic(point):\n"
        "    held = point['server_target_qps'] <= 1700\n"
        "    return {'result_validity': 'VALID' if held else 'INVALID'}\n"
    )
    output = lines(tmp_path, "forbidden.py")
    tried = [int(line.split("server_target_qps=")[1].split(":")[0]) for line in output[1:-1]
             if " build " not in line]  # fmt: skip
    assert tried == [1500, 1000, 1200, 1300, 1400]
    assert output[-1] == "builds=4, cached_builds=0, runs=4, cached_runs=0"


def test_a_static_search_keeps_its_order(tmp_path: Path) -> None:
    (tmp_path / "static.py").write_text(
        "from library import SearcherInterface\n"
        "class Zigzag(SearcherInterface):\n"
        "    is_dynamic = False\n"
        "    def generate(self):\n"
        "        for batch in (128, 256, 128):\n"
        "            yield {'gpu_batch_size': batch}\n"
        "def META_search_callback():\n"
        "    return Zigzag()\n"
        "def META_get_no_rebuild_params():\n"
        "    return []\n"
    )
    output = lines(tmp_path, "static.py")
    assert output[-1] == "builds=3, cached_builds=0, runs=3, cached_runs=0"


def test_names_are_checked_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "unknown.json").write_text('{"gpu_batch_sise": [1]}')
    with pytest.raises(UsageError, match=r"unknown.json:1: gpu_batch_sise is not in the base"):
        request(tmp_path, "unknown.json")
    output = lines(tmp_path, "unknown.json", no_check_keys=True)
    assert output[-1] == "builds=1, cached_builds=0, runs=1, cached_runs=0"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"spoof_system_id": "A10x2"}, "no entry for A10x2"),
        ({"extra_run_args": "'open"}, "--extra_run_args: no closing quotation"),
        ({"temp_timeout": -1}, "--temp_timeout is -1"),
        ({"configs": Path("nowhere")}, "the directory of base configs nowhere does not exist"),
    ],
)
def test_wrong_options_are_a_sentence(
    tmp_path: Path, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        request(tmp_path, **options)


def test_the_base_config_may_be_one_file(tmp_path: Path) -> None:
    made = request(tmp_path, configs=EXAMPLES / "base.json")
    assert made.base.config["audio_batch_size"] == 256
    assert made.result_directory({}).name.startswith("grid_A10x8_rnnt_Server_")


def test_the_check_that_comes_with_grid_py_passes(tmp_path: Path) -> None:
    (tmp_path / "sanity.py").write_text(
        "gpu_batch_size=[64]\n"
        "audio_batch_size=[64, 128, 256, 512]\n"
        "def META_get_no_rebuild_params():\n"
        "    return ['audio_batch_size']\n"
        "def META_is_config_valid(config):\n"
        "    return config['audio_batch_size'] <= 128\n"
    )
    fresh = lines(tmp_path, "sanity.py", noparse=True)
    assert fresh[-1] == "builds=1, cached_builds=1, runs=2, cached_runs=0"
    for audio in (64, 128):
        finish(request(tmp_path), {"gpu_batch_size": 64, "audio_batch_size": audio})
    done = lines(tmp_path, "sanity.py", use_cached=True)
    assert done[-1] == "builds=0, cached_builds=0, runs=0, cached_runs=2"

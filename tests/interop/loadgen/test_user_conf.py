"""Lines of user.conf from a config, and back."""

from pathlib import Path

import pytest

from skipjack.errors import UsageError
from skipjack.interop.loadgen import user_conf_lines
from skipjack.interop.loadgen.user_conf import parse_user_conf, read_user_conf


def test_settings_are_written_in_the_units_of_loadgen() -> None:
    config = {
        "scenario": "server",
        "server_target_qps": 1500.5,
        "server_target_latency_ns": 15_000_000,
        "server_target_latency_percentile": 0.99,
        "offline_expected_qps": 9,
        "min_duration": 600000,
        "gpu_batch_size": 64,
    }
    assert user_conf_lines(config) == (
        "*.Server.target_qps = 1500.5",
        "*.Server.target_latency = 15",
        "*.Server.target_latency_percentile = 99",
        "*.Server.min_duration = 600000",
    )


def test_without_a_scenario_each_setting_says_its_own() -> None:
    config = {"single_stream_expected_latency_ns": 1e6, "offline_expected_qps": 1e7}
    assert user_conf_lines(config, "resnet50") == (
        "resnet50.SingleStream.target_latency = 1",
        "resnet50.Offline.target_qps = 10000000",
    )


def test_what_holds_for_any_scenario_is_said_of_each() -> None:
    places = ("Server", "Offline", "SingleStream", "MultiStream")
    assert user_conf_lines({"min_duration": 5}) == tuple(
        f"*.{place}.min_duration = 5" for place in places
    )
    assert user_conf_lines({"offline_expected_qps": 1, "min_duration": 5}) == (
        "*.Offline.target_qps = 1",
        "*.Offline.min_duration = 5",
    )


def test_what_is_written_is_read_again() -> None:
    lines = user_conf_lines({"server_target_qps": 0.001, "min_query_count": 459})
    settings = parse_user_conf(
        "\n".join(["# by hand", *lines, "", "a.Server.min_duration = 5 # x"])
    )
    assert tuple(setting.line for setting in settings)[:2] == lines
    assert settings[-1] == ("a", "Server", "min_duration", 5.0)


@pytest.mark.parametrize("line", ["*.Server.target_qps=5", "*.Server.target_qps = many", "qps = 5"])
def test_a_line_that_loadgen_would_misread_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match=r"user.conf:2: .* is not `model"):
        parse_user_conf(f"\n{line}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_user_conf(tmp_path / "user.conf")


def test_loadgen_takes_the_lines_over(tmp_path: Path) -> None:
    loadgen = pytest.importorskip("mlperf_loadgen")
    config = {"scenario": "Offline", "offline_expected_qps": 1234.5, "min_duration": 77}
    path = tmp_path / "user.conf"
    path.write_text("".join(f"{line}\n" for line in user_conf_lines(config)))
    settings = loadgen.TestSettings()
    assert settings.FromConfig(str(path), "any", "Offline") == 0
    assert (settings.offline_expected_qps, settings.min_duration_ms) == (1234.5, 77)

"""What other programs print and log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reader import Reader, as_json, of_bytes, of_file, of_text, these


def _loadgen(data: bytes) -> object:
    from skipjack.interop.loadgen import judge, scenario_metrics
    from skipjack.interop.loadgen.detail_log import parse_detail_log

    log = parse_detail_log(data.decode(errors="replace"))
    return scenario_metrics(log), judge(log), log.percentile, log.scenario


def _power_log(path: Path) -> object:
    from skipjack.interop.loadgen import average_watts, read_power_log

    log = read_power_log(path)
    return log.remarks(), average_watts(log, _BEGIN, _END)


def _grid_result(data: bytes, directory: Path) -> object:
    from skipjack.interop.loadgen import read_result
    from skipjack.interop.loadgen.grid_results import META_FILE

    (directory / META_FILE).write_bytes(data)
    (directory / "mlperf_log_detail.txt").write_bytes(_LOG)
    return read_result(directory)


def _run_output(data: bytes, directory: Path) -> object:
    from skipjack.execute import CommandResult
    from skipjack.sweep.commands import ResultReader

    output, file = directory / "out.txt", directory / "r.json"
    file.unlink(missing_ok=True)
    ended = CommandResult(0, "", 1.0, 0, output)
    read = []
    for text in ("json:-", "json:r.json"):
        reader = ResultReader.parse(text)
        before = reader.before({}, directory)
        output.write_bytes(data)
        file.write_bytes(data)
        read.append(reader.read(before, ended))
    return read


def _image_answer(text: str) -> object:
    from subprocess import CompletedProcess
    from types import SimpleNamespace

    from skipjack.fleet.images.names import identity

    said = SimpleNamespace(name="docker", call=lambda _: CompletedProcess([], 0, text, ""))
    engine: Any = said
    return identity(engine, "rocm:6")


def _machines_answer(text: str) -> object:
    from skipjack.fleet.machines import SshResult
    from skipjack.fleet.machines.checks import Requirements, check_reply
    from skipjack.fleet.machines.remote import parse_reply
    from skipjack.fleet.model import Registration

    machine = Registration("gpu7", "gpu7", device="gfx908/120", gpus=2)
    reply = parse_reply(machine, SshResult("gpu7", 0, text, "", 1.0))
    wish = Requirements({"ray": "2.1"}, label="L", notes={"rocm": "6.2"}, devices=("gfx908/120",))
    return check_reply(machine, reply, wish)


_PROBED = {
    **{"format": 1, "cores": 4, "memory_bytes": 1 << 30, "cpus": ["znver4/1", "znver4/4"]},
    **{"gpus": {"gfx908/120": 2}, "versions": {"skipjack": "1", "ray": "2.1", "rocm": "6.2.1"}},
    **{"toolchain": "t", "free_bytes": 1 << 40, "user_dir": "/x", "failure": ""},
}
_BEGIN, _END = "10-12-2021 02:13:11.000", "10-12-2021 02:13:13.000"


def _log_line(key: str, value: object) -> bytes:
    record = {"key": key, "value": value, "metadata": {"is_error": False, "line_no": 3}}
    return b":::MLLOG " + json.dumps(record).encode() + b"\n"


_SERVER: dict[str, object] = {
    "effective_scenario": "Server",
    "effective_target_latency_percentile": 0.99,
    "effective_target_latency_ns": 15_000_000,
    "effective_target_qps": 100.5,
    "effective_min_query_count": 1000,
    "result_validity": "INVALID",
    "result_perf_constraints_met": False,
    "result_min_duration_met": False,
    "result_min_queries_met": False,
    "early_stopping_met": False,
    "result_query_count": 900,
    "result_overlatency_query_count": 12,
    "result_scheduled_samples_per_sec": 99.5,
}
_STREAM = _SERVER | {
    "effective_scenario": "SingleStream",
    "result_perf_constraints_met": True,
    "result_min_latency_ns": 1000,
}
_LOG = b"".join(_log_line(key, value) for key, value in _SERVER.items())
_STREAM_LOG = b"".join(_log_line(key, value) for key, value in _STREAM.items())
_VALID = _LOG + _log_line("result_validity", "VALID")


READERS = (
    Reader("LoadGen log", of_bytes(_loadgen), these(_LOG, _STREAM_LOG, _VALID)),
    Reader(
        "power log",
        of_file("spl.txt", _power_log),
        these(
            b"Time,10-12-2021 02:13:12.352,Watts,293.14,Volts,207.28\n"
            b"Time,10-12-2021 02:13:13.352,Watts,290.1,Volts,207.28\n",
        ),
    ),
    Reader(
        "meta file of grid.py",
        _grid_result,
        as_json({"config": {"a": 1, "b": "x"}, "run_info": {"start_temp": 40.5}}),
        500,
    ),
    Reader(
        "result of a run",
        _run_output,
        these(
            b'{"rate": 1.5, "latency": {"p99": 3, "all": [1, 2]}, "note": "x"}',
            b'hello\n{"rate": 1.5}\nbye\n',
        ),
        500,
    ),
    Reader(
        "answer about an image",
        of_text(_image_answer),
        as_json([{"Id": "sha256:ab", "Config": {"Labels": {"org.skipjack.version": "1"}}}]),
    ),
    Reader(
        "answer of a machine",
        of_text(_machines_answer),
        these(b"motd\n" + json.dumps(_PROBED).encode()),
    ),
)

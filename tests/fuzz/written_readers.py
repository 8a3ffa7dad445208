"""What people write on a command line: problems, commands, names, expressions."""

from __future__ import annotations

from reader import Reader, as_json, of_text, these


def _problem(text: str) -> object:
    from skipjack.operations import parse

    return parse(text).key


def _driver(text: str) -> object:
    from skipjack.interop import parse_driver

    return parse_driver(text)


def _import_line(text: str) -> object:
    from skipjack.fleet.problem_import import ImportOptions
    from skipjack.fleet.problem_import.line_reader import LineReader as Lines

    return Lines(ImportOptions()).read(text)


def _find_db_key(text: str) -> object:
    from skipjack.interop import parse_find_db
    from skipjack.interop.miopen import parse_find_key
    from skipjack.interop.miopen.keys import is_perf_key

    return parse_find_key(text), is_perf_key(text), parse_find_db(text)


def _schedule(text: str) -> object:
    from skipjack.solvers.cpu.nest import Schedule

    return Schedule.parse(text).text()


def _expression(text: str) -> object:
    from skipjack.core import Expression

    expression = Expression(text)
    expression.holds({"a": 1, "b": 2, "tile_m": 8})
    return expression.evaluate({"a": 1, "b": 2, "tile_m": 8})


def _device_name(text: str) -> object:
    from skipjack.core import parse_device_name

    return parse_device_name(text)


def _database_name(text: str) -> object:
    from skipjack.interop.miopen import parse_db_name

    return parse_db_name(text)


def _machine(text: str) -> object:
    from skipjack.fleet.model import Registration

    name, _, host = text.partition(" ")
    return Registration(name, host)


def _image(text: str) -> object:
    from skipjack.fleet.images import check_image

    return check_image(text)


def _slurm(text: str) -> object:
    from skipjack.fleet.slurm import SlurmRequest, batch_script

    label, time, extra, argument = (*text.split(" "), "", "", "", "")[:4]
    request = SlurmRequest(
        label, time=time, extra=(extra,) if extra else (), run_arguments=(argument,)
    )
    return batch_script(request).encode()


def _config_key(text: str) -> object:
    from skipjack.core import Config

    return Config.from_key(text).key


def _config_text(text: str) -> object:
    from skipjack.fleet.release.results import config_of

    return config_of(text)


_DRIVER = b"MIOpenDriver conv -n 4 -c 24 -H 14 -W 14 -k 24 -y 5 -x 5 -p 2 -q 2 -g 24 -F 4"
_DRIVER_2 = (
    b"./bin/MIOpenDriver convfp16 -n 32 -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 "
    b"-j 1 -m conv -g 1 -F 1 -t 1"
)
_FIND_KEY = b"128-56-56-3x3-256-28-28-32-1x1-2x2-1x1-0-NCHW-FP32-F"

READERS = (
    Reader(
        "problem key",
        of_text(_problem),
        these(
            b"matmul:192x192x192:f32",
            b"conv2d:n1c64h56w56k64y3x3p1q1:f32:NCHW:fwd",
            b"sum:64x1024/axis=1",
            b"add:256",
        ),
    ),
    Reader("driver line", of_text(_driver), these(_DRIVER, _DRIVER_2), 500),
    Reader(
        "line of an import",
        of_text(_import_line),
        these(_DRIVER, b"matmul:192x192x192:f32", _FIND_KEY + b"=a:1,2,b"),
        500,
    ),
    Reader("find-db key", of_text(_find_db_key), these(_FIND_KEY)),
    Reader("schedule", of_text(_schedule), these(b"i:32 j:8 k i/v j/u", b"m:4/u n/v k")),
    Reader(
        "expression",
        of_text(_expression),
        these(
            b"a * b <= 64 and tile_m in (8, 16)",
            b"min(a, b) + 2 ** 3 if a < b < 7 else -b // 2",
        ),
    ),
    Reader("device name", of_text(_device_name), these(b"gfx90a/104", b"znver4/1", b"sm_90/132")),
    Reader(
        "database name",
        of_text(_database_name),
        these(b"gfx90a68.HIP.fdb.txt", b"gfx908_60.db", b"znver4_128.ukdb"),
    ),
    Reader(
        "machine", of_text(_machine), these(b"gpu7 gpu7.example.org", b"a [::1]", b"b 10.0.0.1")
    ),
    Reader("image", of_text(_image), these(b"registry.example.org:5000/rocm/tuna:6.2")),
    Reader(
        "Slurm request",
        of_text(_slurm),
        these(b"nightly 1:00:00 --constraint=a100 --once", b"l 1-12 --comment=x -v"),
    ),
    Reader("config key", of_text(_config_key), as_json({"a": 1, "b": "x", "c": [1.5, None]})),
    Reader(
        "config text",
        of_text(_config_text),
        these(b'tile_m~8,order~mnk,x~1.5,y~true,axes~![1%2C2],z~"12"'),
    ),
)

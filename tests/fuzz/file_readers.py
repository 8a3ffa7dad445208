"""Files that people write: settings, plans, sweeps."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from reader import Reader, as_json, of_file, these


def _settings(data: bytes, directory: Path) -> object:
    from skipjack.settings import CONFIG_FILE, load_settings

    (directory / CONFIG_FILE).write_bytes(data)
    return load_settings(user_dir=directory)


@cache
def _book() -> Any:
    from skipjack.cli.command_book import command_book
    from skipjack.cli.main import app

    return command_book(app)


def _plan(path: Path) -> object:
    from skipjack.plans import Mistakes, check_inputs, read_plan, validate

    mistakes = Mistakes(path)
    steps = validate(read_plan(path, mistakes), _book(), mistakes)
    check_inputs(steps, path.parent, mistakes)
    return mistakes.lines, [step.digest for step in steps]


def _progress(path: Path) -> object:
    from skipjack.plans import PlanProgress

    return PlanProgress(path).history()


def _sweep_file(path: Path) -> object:
    from skipjack.sweep.files import read_sweep_file

    return read_sweep_file(path)


def _base_config(path: Path) -> object:
    from skipjack.sweep.configs import read_base_config

    return read_base_config(path, "DGX")


def _user_conf(path: Path) -> object:
    from skipjack.interop.loadgen.user_conf import read_user_conf

    return [setting.line for setting in read_user_conf(path)]


_PLAN = b"""
format: 1
name: nightly
defaults: {label: L}
steps:
  - import: {file: problems.txt, tag: small}
  - load: {tag: small, budget: 4}
  - run:
    name: all of it
  - bank build
"""
_TOML = b"""
base = "base.json"
run_cmd = "./run.sh"
no_rebuild = ["streams"]
constraints = ["depth * streams <= 64"]
[parameters]
audio = {powers = [128, 1024]}
depth = {range = [1, 3]}
streams = [1, 2, 4]
[search]
searcher = "step"
search_param = "streams"
start = 1
end = 64
update = "x * 2"
"""

READERS = (
    Reader(
        "config.toml",
        _settings,
        these(
            b'log_level = "info"\nbuild_workers = 1\nplugins = ["a", "b.py"]\nautotune = "off"\n'
        ),
    ),
    Reader("plan", of_file("p.yaml", _plan), these(_PLAN), 150),
    Reader(
        "progress of a plan",
        of_file("p.jsonl", _progress),
        these(
            b'{"format": 1, "event": "begun", "step": 1, "name": "x", "digest": "d", "argv": []}\n'
            b'{"format": 1, "event": "from", "step": 2, "digests": ["d"]}\n'
            b'{"format": 1, "event": "finished", "step": 2, "digest": "e"}\n',
        ),
    ),
    Reader(
        "sweep in JSON",
        of_file("s.json", _sweep_file),
        as_json({"batch": [1, 2], "layout": ["a", None], "x": [1.5, True]}),
    ),
    Reader("sweep in TOML", of_file("s.toml", _sweep_file), these(_TOML), 500),
    Reader(
        "base config",
        of_file("b.json", _base_config),
        as_json(
            {"batch": 1, "nested": {"a": [1, 2]}, "text": "x"},
            {"default": {"a": 1, "b": {"c": 2}}, "DGX": {"b": {"c": 3}}, "benchmark": "x"},
        ),
    ),
    Reader(
        "user.conf",
        of_file("user.conf", _user_conf),
        these(b"# a\n*.Server.target_qps = 10.5\nresnet50.*.min_duration = 600 # ms\n"),
    ),
)

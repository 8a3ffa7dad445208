"""Two hosts whose CPUs have one name, and one of them less of the instruction set."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from skipjack.bank import Bank
from skipjack.core import levels_up_to
from skipjack.native import cpu
from skipjack.native.llvm import LEVEL_VARIABLE

Skipjack = Callable[..., CompletedProcess[str]]


@pytest.mark.long
def test_each_host_does_the_jobs_of_its_own_device(
    skipjack: Skipjack, user_dir: Path, tmp_path: Path
) -> None:
    full, *lower = levels_up_to(cpu.detect().level)
    if not lower:
        pytest.skip("this CPU has one level alone")
    levels = {"full": full, "less": lower[0]}
    problem = "softmax:8x64"
    (tmp_path / "list.txt").write_text(f"{problem}\n")

    def on(host: str, *words: str) -> CompletedProcess[str]:
        more = {"SKIPJACK_MACHINE": host, LEVEL_VARIABLE: levels[host]}
        return skipjack(*words, env={**os.environ, **more}, cwd=tmp_path)

    def done(host: str, *words: str) -> str:
        ended = on(host, *words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    done("full", "import", "-f", "list.txt", "-t", "some")
    for host in levels:  # no host was seen yet: the first one that evaluates decides
        done(host, "load", "-t", "some", "-l", host, "--budget", "2")
        done(host, "run", "-l", host)
    name = cpu.detect().name
    refused = on("full", "load", "-t", "some", "-l", "third", "--device", name)
    assert refused.returncode and "2 different devices are called" in refused.stderr
    done("full", "load", "-t", "some", "-l", "third", "--device", name, "--as-on", "less")
    other = on("full", "run", "-l", "third")
    assert other.returncode and "for devices that are not here" in other.stderr
    done("less", "run", "-l", "third")
    jobs = [
        json.loads(line)
        for label in ("full", "less", "third")
        for line in done("full", "status", "-l", label, "--jobs", "--json").splitlines()
    ]
    assert [job["state"] for job in jobs] == ["evaluated"] * 3
    assert [job["eval_machine"] for job in jobs] == ["full", "less", "less"]
    assert [job["device"] for job in jobs] == [name] * 3
    classes = [job["device_class"] for job in jobs]
    assert classes[0] != classes[1] == classes[2]
    shown = done("full", "status", "--by", "label,device")
    assert shown.count(f"{name} (") == 3
    for label in ("full", "less"):
        done(label, "bank", "build", "-l", label)
    banked = {
        entry.device
        for entry in Bank.open(user_dir).entries()
        if entry.problem == jobs[0]["problem"]
    }
    assert banked <= {classes[0], classes[1]} and banked

"""The batch job: options of sbatch, checked one by one; its script; and its submission."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources

from skipjack.errors import SkipjackError, UsageError
from skipjack.processes import python_command

# The request to Slurm. Every value is checked, because it becomes part of a script.

SHORTEST_WORK_S = 60
"""Time that must remain for work before Slurm's warning."""
SIGNAL_DELAY_S = 60
"""Slurm may send the warning this much earlier than requested."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,+-]*")
_PART = r"(\d{1,9})"
_TIME = re.compile(
    rf"(?:{_PART}-{_PART}(?::{_PART})?(?::{_PART})?|{_PART}(?::{_PART})?(?::{_PART})?)", re.ASCII
)
_SIZE = re.compile(r"\d{1,18}[KMGT]?", re.ASCII)
_EXTRA = re.compile(r"--([a-z][a-z0-9-]*)(?:=[A-Za-z0-9_.,:;+%@/&|!*=()\[\]-]+)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
"""Includes bytes of a command line that are not text: the script is written as UTF-8."""
_PASSWORD = re.compile(r"://[^/@\s]*:[^/\s]*@")

_OURS = {
    "nodes": "nodes",
    "gpus-per-node": "gpus_per_node",
    "time": "time",
    "partition": "partition",
    "account": "account",
    "qos": "qos",
    "mem": "memory",
    "exclusive": "shared",
    "requeue": "requeue",
    "no-requeue": "requeue",
}
"""Options of sbatch that have a field, by its name."""
_FIXED = (
    *("array", "chdir", "clusters", "export", "export-file", "get-user-env", "help", "job-name"),
    *("ntasks", "ntasks-per-node", "open-mode", "parsable", "signal", "test-only", "usage"),
    *("version", "wait", "wrap"),
)
"""Options of sbatch that the script relies on."""
_RUN_FIXED = ("-l", "--label", "--engine", "--address")


@dataclass(frozen=True, slots=True)
class SlurmRequest:
    """A run of a label on some nodes for some time. Invalid values raise `UsageError`."""

    label: str
    nodes: int = 1
    time: str = "1:00:00"
    """Time limit in a form of sbatch: minutes, ``h:m:s`` or ``d-h``."""
    gpus_per_node: int = 0
    partition: str = ""
    account: str = ""
    qos: str = ""
    memory: str = ""
    """Memory of each node; empty: all of it on exclusive nodes."""
    shared: bool = False
    """Whether other jobs may use the nodes, which disturbs timings."""
    requeue: bool = False
    """Whether Slurm restarts the job after a node failure or preemption."""
    until_done: bool = False
    """Whether the job is queued again at its time limit while work is left."""
    most_restarts: int = 100
    """Maximum number of such restarts."""
    margin_s: int = 60
    """Time before the limit at which the coordinator is told to give its jobs back."""
    gather_s: int = 300
    """Time to wait for all nodes; then the work starts on those that have joined."""
    extra: tuple[str, ...] = ()
    """Further options of sbatch, each as one argument: ``--constraint=a100``."""
    run_arguments: tuple[str, ...] = ()
    """Further options of ``skipjack run``."""
    command: tuple[str, ...] = ()
    """Arguments of ``skipjack`` for another command than ``run``; it gets ``--address``, too."""

    def __post_init__(self) -> None:
        if not self.label or _CONTROL.search(self.label):
            raise UsageError(f"label {self.label!r} is empty or contains control characters")
        _at_least(1, nodes=self.nodes, most_restarts=self.most_restarts, gather_s=self.gather_s)
        _at_least(0, gpus_per_node=self.gpus_per_node)
        _at_least(30, margin_s=self.margin_s)
        for field in ("partition", "account", "qos"):
            _check_name(field, getattr(self, field))
        if self.memory and not _SIZE.fullmatch(self.memory):
            raise UsageError(f"memory is {self.memory!r}; write a size such as 64G")
        self._check_time()
        for option in self.extra:
            _check_extra(option)
        for argument in self.run_arguments:
            _check_run_argument(argument)
        for argument in self.command:
            _check_word(argument)

    def _check_time(self) -> None:
        needed_s = self.margin_s + SIGNAL_DELAY_S + SHORTEST_WORK_S
        if seconds(self.time) < needed_s:
            raise UsageError(
                f"time is {self.time!r}, which is too short: Slurm warns up to "
                f"{self.margin_s + SIGNAL_DELAY_S} s before the end; request at least "
                f"{-(-needed_s // 60)} minutes"
            )

    @property
    def job_name(self) -> str:
        """The label as a name for Slurm; a digest distinguishes labels with other characters."""
        word = re.sub(r"[^A-Za-z0-9_.-]", "_", self.label)[:60]
        if word != self.label:
            word += "-" + hashlib.sha256(self.label.encode()).hexdigest()[:8]
        return f"skipjack-{word}"

    def options(self) -> tuple[str, ...]:
        """The options of sbatch, each as one argument without blanks or quotes."""
        return tuple(self._options())

    def _options(self) -> Iterator[str]:
        yield f"--job-name={self.job_name}"
        yield f"--nodes={self.nodes}"
        yield "--ntasks-per-node=1"
        yield f"--time={self.time}"
        if self.gpus_per_node:
            yield f"--gpus-per-node={self.gpus_per_node}"
        for field in ("partition", "account", "qos"):
            if getattr(self, field):
                yield f"--{field}={getattr(self, field)}"
        if not self.shared:
            yield "--exclusive"
        if self.memory or not self.shared:
            yield f"--mem={self.memory or 0}"
        # Not SIGTERM, which scancel sends: a cancelled job must not restart.
        yield f"--signal=B:USR1@{self.margin_s}"
        yield "--requeue" if self.requeue or self.until_done else "--no-requeue"
        yield "--open-mode=append"
        if not any(option.startswith("--output=") for option in self.extra):
            yield "--output=skipjack-%j.out"
        yield from self.extra


def seconds(time: str) -> int:
    """A time limit in a form of sbatch, in seconds."""
    match = _TIME.fullmatch(time)
    if match is None:
        raise UsageError(f"time is {time!r}; write minutes, h:m:s or days-hours, such as 1:00:00")
    days, hours, minutes, secs, *plain = (None if g is None else int(g) for g in match.groups())
    if days is not None:
        return ((days * 24 + (hours or 0)) * 60 + (minutes or 0)) * 60 + (secs or 0)
    parts = [part for part in plain if part is not None]
    if len(parts) == 3:
        return parts[0] * 3600 + parts[1] * 60 + parts[2]
    return parts[0] * 60 + (parts[1] if len(parts) == 2 else 0)


def _at_least(least: int, **fields: int) -> None:
    for field, value in fields.items():
        if value < least:
            raise UsageError(f"{field} is {value}; write {least} or more")


def _check_name(field: str, value: str) -> None:
    if value and not _NAME.fullmatch(value):
        raise UsageError(
            f"{field} is {value!r}; names in Slurm contain only letters, digits and _ . , + -"
        )


def _check_extra(option: str) -> None:
    match = _EXTRA.fullmatch(option)
    if match is None:
        raise UsageError(
            f"{option!r} is not an option of sbatch in one argument; write it as --name or "
            "--name=value, without blanks or quotes"
        )
    name = match[1]
    if name in _OURS:
        raise UsageError(f"sbatch's --{name} cannot be an extra option; set {_OURS[name]} instead")
    if name in _FIXED:
        raise UsageError(
            f"sbatch's --{name} cannot be changed, because the script relies on it; leave it out"
        )


def _check_run_argument(argument: str) -> None:
    _check_word(argument)
    name = argument.partition("=")[0]
    if name in _RUN_FIXED or re.match(r"-l[^-]", argument):
        raise UsageError(f"{name} is set by the script itself; leave it out")


def _check_word(argument: str) -> None:
    if _CONTROL.search(argument):
        raise UsageError(f"argument {argument!r} contains control characters")
    if _PASSWORD.search(argument):
        raise UsageError(
            "an argument of run contains a password, which would be written into the script; "
            "set SKIPJACK_DB in the environment instead, which sbatch passes on"
        )


# The batch script: options and values of a request, then text that is always the same.

BODY = "allocation.sh"


def batch_script(request: SlurmRequest, *, skipjack: Sequence[str] = ()) -> str:
    """The script for sbatch. Of the environment it contains only the path of Python.

    ``skipjack`` is the command that is called with ``run ...`` or the command of the request; by
    default that of this Python.
    """
    body = resources.files("skipjack.fleet.slurm").joinpath(BODY).read_text(encoding="utf-8")
    directives = [f"#SBATCH {option}" for option in request.options()]
    return "\n".join(["#!/bin/bash", *directives, "", *_values(request, skipjack), "", body])


def _values(request: SlurmRequest, skipjack: Sequence[str]) -> list[str]:
    run = ("run", "-l", request.label, "--engine", "ray", *request.run_arguments)
    words = [*(skipjack or python_command("skipjack")), *(request.command or run)]
    return [
        f"python={shlex.quote(sys.executable)}",
        f"coordinator=({shlex.join(words)})",
        f"gpus_per_node={request.gpus_per_node}",
        f"gather_s={request.gather_s}",
        f"margin_s={request.margin_s}",
        f"most_restarts={request.most_restarts if request.until_done else 0}",
    ]


# Submission of a request with sbatch.

PATIENCE_S = 120.0
"""Timeout of sbatch: a busy controller answers late."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job in Slurm's queue."""

    job: int
    cluster: str = ""
    """Name of the cluster, at sites that have several."""


def submit(request: SlurmRequest, *, skipjack: Sequence[str] = ()) -> Submitted:
    """Submit a request to Slurm, with this process's environment and directory.

    The options are in the script and also arguments of sbatch: arguments take precedence over
    variables such as SBATCH_PARTITION, which would override the script.
    """
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise UsageError(
            "sbatch is not on the PATH; run this on a machine of the Slurm cluster, "
            "or copy the script of --dry-run there"
        )
    command = [sbatch, "--parsable", "--export=ALL", *request.options()]
    script = batch_script(request, skipjack=skipjack)
    try:
        done = subprocess.run(
            command, input=script, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SkipjackError(
            f"sbatch did not answer within {PATIENCE_S:.0f} s; check with squeue whether the job "
            f"{request.job_name} exists before you try again"
        ) from None
    if done.returncode != 0:
        raise _refusal(done.stderr)
    return _parse(done.stdout)


def _refusal(stderr: str) -> SkipjackError:
    """The error of sbatch, without its name before every line."""
    lines = [re.sub(r"^sbatch: (error|fatal): ", "", line) for line in stderr.splitlines()]
    said = "; ".join(line.strip() for line in lines if line.strip())
    refused = any(line.startswith("Batch job submission failed") for line in lines)
    kind = UsageError if refused or "nvalid" in said else SkipjackError
    return kind(f"sbatch refused the job: {said or 'it gave no reason'}")


def _parse(stdout: str) -> Submitted:
    job, _, cluster = stdout.strip().partition(";")
    if not job.isdigit():
        raise SkipjackError(f"sbatch answered {stdout.strip()!r} instead of a job's number")
    return Submitted(int(job), cluster)

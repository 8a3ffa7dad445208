"""What is asked of Slurm, checked word by word: all of it ends up in a script."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from skipjack.errors import UsageError

SHORTEST_WORK_S = 60
"""What must be left of the time limit when Slurm's own warning is taken off."""
SIGNAL_DELAY_S = 60
"""Slurm may warn this much earlier than asked."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,+-]*")
_PART = r"(\d{1,9})"
_TIME = re.compile(
    rf"(?:{_PART}-{_PART}(?::{_PART})?(?::{_PART})?|{_PART}(?::{_PART})?(?::{_PART})?)", re.ASCII
)
_SIZE = re.compile(r"\d{1,18}[KMGT]?", re.ASCII)
_EXTRA = re.compile(r"--([a-z][a-z0-9-]*)(?:=[A-Za-z0-9_.,:;+%@/&|!*=()\[\]-]+)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
"""Also bytes of a command line that are no text: the script is written as UTF-8."""
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
"""Options of sbatch that have a field of their own."""
_FIXED = (
    *("array", "chdir", "clusters", "export", "export-file", "get-user-env", "help", "job-name"),
    *("ntasks", "ntasks-per-node", "open-mode", "parsable", "signal", "test-only", "usage"),
    *("version", "wait", "wrap"),
)
"""Options of sbatch that the script relies on."""
_RUN_FIXED = ("-l", "--label", "--engine", "--address")


@dataclass(frozen=True, slots=True)
class SlurmRequest:
    """One label, to be run on some nodes for some time. What is wrong raises `UsageError`."""

    label: str
    nodes: int = 1
    time: str = "1:00:00"
    """As sbatch takes it: minutes, ``h:m:s`` or ``d-h``."""
    gpus_per_node: int = 0
    partition: str = ""
    account: str = ""
    qos: str = ""
    memory: str = ""
    """Of each node; all of it where the node is ours alone."""
    shared: bool = False
    """Whether others may use the nodes meanwhile, which disturbs what is timed."""
    requeue: bool = False
    """Whether Slurm starts the job again after a node failed or the job was preempted."""
    until_done: bool = False
    """Whether the job goes back into the queue at its time limit while work is left."""
    most_restarts: int = 100
    """How often it does so at most."""
    margin_s: int = 60
    """How long before the time limit the coordinator is asked to give its jobs back."""
    gather_s: int = 300
    """How long to wait for all nodes; after that the work starts on those that came."""
    extra: tuple[str, ...] = ()
    """Further options of sbatch, each one word: ``--constraint=a100``."""
    run_arguments: tuple[str, ...] = ()
    """Further options of ``skipjack run``."""
    command: tuple[str, ...] = ()
    """Words behind ``skipjack`` of another command than ``run``; it is given ``--address``, too."""

    def __post_init__(self) -> None:
        if not self.label or _CONTROL.search(self.label):
            raise UsageError(f"label {self.label!r} is empty or has control characters in it")
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
                f"time is {self.time!r}, too short to do anything: Slurm warns up to "
                f"{self.margin_s + SIGNAL_DELAY_S} s before the end; ask for at least "
                f"{-(-needed_s // 60)} minutes"
            )

    @property
    def job_name(self) -> str:
        """The label as a word; a digest keeps apart those that differ in other characters."""
        word = re.sub(r"[^A-Za-z0-9_.-]", "_", self.label)[:60]
        if word != self.label:
            word += "-" + hashlib.sha256(self.label.encode()).hexdigest()[:8]
        return f"skipjack-{word}"

    def options(self) -> tuple[str, ...]:
        """The options of sbatch, one word each, without blanks or quotes."""
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
        # A signal of its own: SIGTERM is what scancel sends, and who cancels wants no restart.
        yield f"--signal=B:USR1@{self.margin_s}"
        yield "--requeue" if self.requeue or self.until_done else "--no-requeue"
        yield "--open-mode=append"
        if not any(option.startswith("--output=") for option in self.extra):
            yield "--output=skipjack-%j.out"
        yield from self.extra


def seconds(time: str) -> int:
    """A time limit as sbatch writes it."""
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
            f"{field} is {value!r}; Slurm's names have letters, digits and the signs _ . , + - only"
        )


def _check_extra(option: str) -> None:
    match = _EXTRA.fullmatch(option)
    if match is None:
        raise UsageError(
            f"{option!r} is no option of sbatch in one word; write it as --name or --name=value, "
            "without blanks or quotes"
        )
    name = match[1]
    if name in _OURS:
        raise UsageError(f"sbatch's --{name} is not for extra options: set {_OURS[name]} instead")
    if name in _FIXED:
        raise UsageError(f"sbatch's --{name} cannot be changed: the script relies on it")


def _check_run_argument(argument: str) -> None:
    _check_word(argument)
    name = argument.partition("=")[0]
    if name in _RUN_FIXED or re.match(r"-l[^-]", argument):
        raise UsageError(f"{name} is set by the script itself; leave it out")


def _check_word(argument: str) -> None:
    if _CONTROL.search(argument):
        raise UsageError(f"argument {argument!r} has control characters in it")
    if _PASSWORD.search(argument):
        raise UsageError(
            "an argument of run holds a password, which would be written into the script; "
            "set SKIPJACK_DB in the environment instead, which sbatch hands on"
        )

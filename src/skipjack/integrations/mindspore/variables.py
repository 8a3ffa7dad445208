"""The environment variables of AutoTune, translated to Skipjack's.

They count for programs that ``skipjack exec`` runs, for those that set `skipjack.context` and for
the tuning of a dump, and for nothing else. A value that cannot be used is reported, and
the program goes on without it.

====================  =========================================================================
variable              here
====================  =========================================================================
``TUNE_BANK_PATH``    the user directory, which must exist and be readable and writable
``REPEAT_TUNE``       ``True``: what a bank knows is searched again (policy ``exhaustive``)
``ENABLE_TUNE_BANK``  ``False``: no bank answers; what is tuned is searched each time
``TUNE_OPS_NAME``     the operations that are tuned, with commas between them
``ENABLE_TUNE_DUMP``  ``True``: problems are dumped to be tuned later
``TUNE_DUMP_PATH``    where they are dumped to
``TE_PARALLEL_COMPILER``  how many processes build kernels
``ASCEND_DEVICE_ID``  the GPU that the program sees
``ASCEND_WORK_PATH``  the directory of the result file
====================  =========================================================================
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.settings import BUILD_WORKERS, TORCH_OPS, TUNE_RESULT_PATH, USER_DIR, expanded

VARIABLES = (
    *("TUNE_BANK_PATH", "REPEAT_TUNE", "ENABLE_TUNE_BANK", "TUNE_OPS_NAME"),
    *("ENABLE_TUNE_DUMP", "TUNE_DUMP_PATH", "TE_PARALLEL_COMPILER"),
    *("ASCEND_DEVICE_ID", "ASCEND_WORK_PATH"),
)
OFF, DB, INCREMENTAL, EXHAUSTIVE = "off", "db", "incremental", "exhaustive"
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_MOST_COMPILERS = 32


@dataclass(slots=True)
class AutoTuneVariables:
    """What they say, and what is wrong with them."""

    variables: dict[str, str] = field(default_factory=dict)
    """Of Skipjack and others, in the place of AutoTune's."""
    repeats: bool = False
    reads_banks: bool = True
    complaints: list[str] = field(default_factory=list)
    """A sentence for each that was left out, or is not what it seems."""
    unusable: list[str] = field(default_factory=list)
    """Their names."""

    def policy(self, given: str | None) -> str | None:
        """The policy that they make of the one that was asked for."""
        if given == INCREMENTAL and (self.repeats or not self.reads_banks):
            return EXHAUSTIVE
        if given in (None, DB) and not self.reads_banks:
            return OFF
        return given

    def put_into(self, environment: MutableMapping[str, str], say: Callable[[str], object]) -> None:
        """Have them count in an environment, without those that cannot be used."""
        for sentence in self.complaints:
            say(sentence)
        for name in self.unusable:
            del environment[name]
        environment.update(self.variables)


def read_variables(environment: Mapping[str, str]) -> AutoTuneVariables:
    """What the variables of an environment come to."""
    found = AutoTuneVariables()
    for name, read in _READERS.items():
        value = environment.get(name, "").strip()
        if not value:
            continue
        try:
            read(value, found, environment)
        except UsageError as error:
            found.complaints.append(f"{name} is {value!r}, and is left out: {error}")
            found.unusable.append(name)
    return found


def _bank(value: str, found: AutoTuneVariables, _: Mapping[str, str]) -> None:
    from skipjack.bank import FILE_NAME

    directory = _directory(value)
    bank = directory / FILE_NAME
    if bank.exists() and not os.access(bank, os.R_OK | os.W_OK):
        raise UsageError(f"you may not read and write its {FILE_NAME}; ask its owner for access")
    found.variables[USER_DIR.name] = str(directory)
    if sentence := _other_processor(bank):
        found.complaints.append(f"TUNE_BANK_PATH is {value!r}: {sentence}")


def _other_processor(bank: Path) -> str:
    """Why a bank has nothing for this machine; empty if it has something, or may have."""
    from skipjack.bank import processors_of
    from skipjack.native import cpu

    try:
        theirs = processors_of(bank)
    except OSError:
        return ""
    # Asking for GPUs would start their driver, in a program that may fork.
    if not theirs or not all(one.startswith("cpu:") for one in theirs) or not cpu.detectable():
        return ""
    own = cpu.detect().class_key.partition("/")[0]
    if own in theirs:
        return ""
    names = ", ".join(sorted(one.removeprefix("cpu:") for one in theirs))
    return (
        f"its bank is of another processor ({names}) and has nothing for this one "
        f"({own.removeprefix('cpu:')}), for which entries are added as they are tuned"
    )


def _repeat(value: str, found: AutoTuneVariables, _: Mapping[str, str]) -> None:
    found.repeats = _truth(value)


def _reads_banks(value: str, found: AutoTuneVariables, _: Mapping[str, str]) -> None:
    found.reads_banks = _truth(value)


def _operations(value: str, found: AutoTuneVariables, _: Mapping[str, str]) -> None:
    found.variables[TORCH_OPS.name] = value


def _dump(value: str, found: AutoTuneVariables, _: Mapping[str, str]) -> None:
    _truth(value)  # the hook reads it itself


def _compilers(value: str, found: AutoTuneVariables, _: Mapping[str, str]) -> None:
    count = int(value) if value.isascii() and value.isdigit() and len(value) < 4 else -1
    if not 0 <= count <= _MOST_COMPILERS:
        raise UsageError(f"write a number from 0 to {_MOST_COMPILERS}")
    found.variables[BUILD_WORKERS.name] = str(max(1, count))


def _device(value: str, found: AutoTuneVariables, environment: Mapping[str, str]) -> None:
    if not (value.isascii() and value.isdigit()):
        raise UsageError("write the number of a GPU, from 0")
    for name in _VISIBLE:
        if environment.get(name, value) != value:
            raise UsageError(f"{name} says which GPUs the program sees")
    found.variables |= dict.fromkeys(_VISIBLE, value)


def _work(value: str, found: AutoTuneVariables, _: Mapping[str, str]) -> None:
    found.variables[TUNE_RESULT_PATH.name] = str(_directory(value))


_READERS = {
    "TUNE_BANK_PATH": _bank,
    "REPEAT_TUNE": _repeat,
    "ENABLE_TUNE_BANK": _reads_banks,
    "TUNE_OPS_NAME": _operations,
    "ENABLE_TUNE_DUMP": _dump,
    "TE_PARALLEL_COMPILER": _compilers,
    "ASCEND_DEVICE_ID": _device,
    "ASCEND_WORK_PATH": _work,
}


def _truth(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise UsageError("write True or False")
    return value.lower() == "true"


def _directory(value: str) -> Path:
    path = expanded(value).absolute()
    if not path.is_dir():
        raise UsageError("there is no such directory; make it, with access to read and write")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise UsageError("you may not read and write there")
    return path

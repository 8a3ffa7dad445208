"""The modes and environment variables of MindSpore's AutoTune, translated to Skipjack's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.core import did_you_mean
from skipjack.errors import UsageError
from skipjack.settings import BUILD_WORKERS, TORCH_OPS, TUNE_RESULT_PATH, USER_DIR, expanded

# AutoTune's modes: which classes of operations are tuned, and by which searcher.
#
# ``RL`` is the learned policy on vector operations (broadcast, reduce, elementwise), ``GA`` the
# genetic search on cube operations (convolutions and products of matrices).

GRAPH_MODE, PYNATIVE_MODE = 0, 1
NO_TUNE = "NO_TUNE"
AUTO_TUNE_MODES = (NO_TUNE, "RL", "GA", "RL,GA", "GA,RL")
_SEARCHERS = {"RL": ("vector", "policy"), "GA": ("cube", "genetic")}


def searchers_of(mode: str) -> dict[str, str]:
    """The searcher for each class of operations that a mode tunes; none for ``NO_TUNE``.

    An unknown mode is a `UsageError`.
    """
    if mode not in AUTO_TUNE_MODES:
        hint = did_you_mean(str(mode), AUTO_TUNE_MODES)
        known = ", ".join(AUTO_TUNE_MODES[:-2])
        raise UsageError(f"unknown mode {mode!r}; choose {known}, RL,GA or GA,RL{hint}")
    return dict(_SEARCHERS[word] for word in mode.split(",") if word in _SEARCHERS)


def mode_policy(searchers: Mapping[str, str]) -> str:
    """The policy of a mode: without searchers, banks answer and nothing is searched."""
    return "incremental" if searchers else "db"


def auto_tune_mode(searchers: Iterable[tuple[str, str]]) -> str:
    """The mode with these searchers; empty if there is none."""
    given = set(searchers)
    words = [word for word, pair in _SEARCHERS.items() if pair in given]
    return ",".join(words) if words and len(words) == len(given) else ""


# The environment variables of AutoTune, translated to Skipjack's.
#
# They apply only to programs that ``skipjack exec`` runs, to programs that set `skipjack.context`,
# and to the tuning of a dump. A value that cannot be used is reported and ignored.
#
# ====================  =========================================================================
# variable              meaning
# ====================  =========================================================================
# ``TUNE_BANK_PATH``    the user directory, which must exist, be readable and writable
# ``REPEAT_TUNE``       ``True``: search again what banks know (policy ``exhaustive``)
# ``ENABLE_TUNE_BANK``  ``False``: use no bank; search each time
# ``TUNE_OPS_NAME``     the operations to tune, separated by commas
# ``ENABLE_TUNE_DUMP``  ``True``: dump problems, to be tuned later
# ``TUNE_DUMP_PATH``    the directory of the dump
# ``TE_PARALLEL_COMPILER``  the number of processes that build kernels
# ``ASCEND_DEVICE_ID``  the GPU that the program sees
# ``ASCEND_WORK_PATH``  the directory of the result file
# ====================  =========================================================================

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
    """The values of the variables, and what is wrong with them."""

    variables: dict[str, str] = field(default_factory=dict)
    """The variables of Skipjack and others that replace AutoTune's."""
    repeats: bool = False
    reads_banks: bool = True
    complaints: list[str] = field(default_factory=list)
    """A sentence for each variable that is ignored, or may surprise."""
    unusable: list[str] = field(default_factory=list)
    """The names of variables that cannot be used."""

    def policy(self, given: str | None) -> str | None:
        """The policy in force, given the one that was requested."""
        if given == INCREMENTAL and (self.repeats or not self.reads_banks):
            return EXHAUSTIVE
        if given in (None, DB) and not self.reads_banks:
            return OFF
        return given

    def put_into(self, environment: MutableMapping[str, str], say: Callable[[str], object]) -> None:
        """Set them in an environment, and remove those that cannot be used."""
        for sentence in self.complaints:
            say(sentence)
        for name in self.unusable:
            del environment[name]
        environment.update(self.variables)


def read_variables(environment: Mapping[str, str]) -> AutoTuneVariables:
    """The settings in the variables of an environment."""
    found = AutoTuneVariables()
    for name, read in _READERS.items():
        value = environment.get(name, "").strip()
        if not value:
            continue
        try:
            read(value, found, environment)
        except UsageError as error:
            found.complaints.append(f"{name} is {value!r}, which is ignored: {error}")
            found.unusable.append(name)
    return found


def _bank(value: str, found: AutoTuneVariables, _: Mapping[str, str]) -> None:
    from skipjack.bank import FILE_NAME

    directory = _directory(value)
    bank = directory / FILE_NAME
    if bank.exists() and not os.access(bank, os.R_OK | os.W_OK):
        raise UsageError(
            f"its {FILE_NAME} cannot be read and written; ask its owner for permission"
        )
    found.variables[USER_DIR.name] = str(directory)
    if sentence := _other_processor(bank):
        found.complaints.append(f"TUNE_BANK_PATH is {value!r}: {sentence}")


def _other_processor(bank: Path) -> str:
    """Why a bank has nothing for this machine; empty if it has, or may have."""
    from skipjack.bank import processors_of
    from skipjack.native import cpu

    try:
        theirs = processors_of(bank)
    except OSError:
        return ""
    # Listing GPUs would start their driver, in a program that may fork.
    if not theirs or not all(one.startswith("cpu:") for one in theirs) or not cpu.detectable():
        return ""
    own = cpu.detect().class_key.partition("/")[0]
    if own in theirs:
        return ""
    names = ", ".join(sorted(one.removeprefix("cpu:") for one in theirs))
    return (
        f"its bank is for another processor ({names}) and has nothing for this one "
        f"({own.removeprefix('cpu:')}); entries are added as problems are tuned"
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
        raise UsageError("this directory does not exist; create it, readable and writable")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise UsageError("this directory cannot be read and written; change its permissions")
    return path

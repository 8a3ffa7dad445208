"""`kernels`: precompiled kernels of a kernel database, as functions. Nothing is compiled."""

from __future__ import annotations

import logging
from pathlib import Path
from types import TracebackType

from skipjack import plugins
from skipjack.bank import KernelDb, KernelRecord
from skipjack.core import Device, type_checked
from skipjack.devices import local_devices
from skipjack.errors import ProblemError, SkipjackError
from skipjack.gpu import gpu_name
from skipjack.runtime.local_kernels import (
    GpuKernel,
    KernelCode,
    TunedKernel,
    callable_of,
    lacking,
    named_plugins,
    requested_problem,
)
from skipjack.runtime.process import warn_once
from skipjack.settings import load_settings
from skipjack.solvers import definition_digest

log = logging.getLogger(__name__)


@type_checked
def kernels(path: str | Path) -> Kernels:
    """The kernels of a ``.skk`` file for the devices of this machine.

    Code from the file runs in this process, as from a shared library: open only what you trust.
    """
    return Kernels(KernelDb.open(Path(path)))


def found_again(path: str, key: str, pickled_with: tuple[str, ...] = ()) -> TunedKernel | GpuKernel:
    """The kernel that was pickled; `SkipjackError` if the file no longer has it.

    Only plug-ins that the settings name are loaded; those of the pickle are only mentioned.
    """
    plugins.load(load_settings().plugins)
    try:
        with kernels(path) as file:
            found = file.find(key)
    except ProblemError as error:
        if remedy := lacking(pickled_with):
            raise SkipjackError(f"the kernel of {key} cannot be found: {remedy}") from error
        raise
    if found is None:
        raise SkipjackError(f"{path} has no kernel of {key} for this machine")
    return found


class Kernels:
    """An open kernel database and the devices of this machine, GPUs first."""

    def __init__(self, database: KernelDb) -> None:
        self._database = database
        self._devices: list[Device] = sorted(
            local_devices(), key=lambda device: device.kind == "cpu"
        )

    @type_checked
    def find(
        self,
        problem: str,
        *,
        dtype: str | None = None,
        layout: str | None = None,
        direction: str | None = None,
    ) -> TunedKernel | GpuKernel | None:
        """The kernel for a problem on a device of this machine; None if the file has none.

        `devices` lists the devices that the file has one for. A warning, once for each file and
        reason, says why none of them can be used.
        """
        asked = requested_problem(problem, dtype, layout=layout, direction=direction)
        found = self._found(asked.key)
        if found is None:
            return None
        record, device = found
        if record.definition and record.definition != definition_digest(asked):
            sentence = (
                f"the kernel of {asked.key} in {self._database.path} computes another definition "
                f"of {asked.operation} than the one that is loaded here; export it again"
            )
            self._warn(sentence, "definition", asked.operation)
            return None
        data = self._database.code(record)
        code = KernelCode(data, record.artifact, record.symbol, record.abi, record.slots)
        name = device.name if device.kind == "cpu" else gpu_name(device)
        again = (found_again, (str(self._database.path.absolute()), asked.key, *named_plugins()))
        return callable_of(asked, code, name, again, record.solver)

    def record(self, key: str) -> KernelRecord | None:
        """The record of a problem for a device of this machine."""
        found = self._found(requested_problem(key).key)
        return found[0] if found else None

    def _found(self, key: str) -> tuple[KernelRecord, Device] | None:
        for device in self._devices:
            record = self._database.find(key, device.name, device.loadable)
            if record is not None:
                return record, device
        if others := self._database.needs(key):
            runs = ", ".join(dict.fromkeys(device.compat_key for device in self._devices))
            sentence = (
                f"no kernel of {key} in {self._database.path} runs here: it has code for "
                f"{', '.join(others)}, and this machine runs {runs}; tune it here and export it "
                "again"
            )
            self._warn(sentence, "code", *others)
        return None

    def _warn(self, sentence: str, *reason: str) -> None:
        """Warn once for this file and reason, whatever the problem."""
        warn_once(log, sentence, about=(str(self._database.path.absolute()), *reason))

    def devices(self, key: str) -> list[str]:
        """All devices, of this machine or others, for which the file has a kernel of a problem."""
        return list(self._database.devices(requested_problem(key).key))

    def close(self) -> None:
        """Close the file; kernels that were found stay usable."""
        self._database.close()

    def __enter__(self) -> Kernels:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

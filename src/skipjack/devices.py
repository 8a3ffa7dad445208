"""Any device by its name: CPUs and GPUs, of this machine or elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skipjack.core.cpu_levels import used_features
from skipjack.core.device import Device, parse_device_name
from skipjack.core.dtypes import CPU_DTYPES
from skipjack.errors import UsageError
from skipjack.gpu.describing import describe_gpu, names_gpu
from skipjack.gpu.opening import find_gpus
from skipjack.native import cpu, named_cpu
from skipjack.reading import numbered


class NotHereError(UsageError):
    """A device that is known, and is not one of this machine."""


def describe(text: str) -> Device:
    """The device that ``arch/units`` names, wherever it is; `UsageError` if the name is unknown.

    What is on this machine is described as it is found here, so that what is built for it is used
    by tunings here.
    """
    arch, units = parse_device_name(text)
    _check_spelling(arch, units)
    seen = _gpu_here(text)
    if seen:
        return seen
    return describe_gpu(text) if names_gpu(arch) else named_cpu.describe(text)


def find_device(text: str | None = None, threads: int | None = None) -> Device:
    """A device that is here: the CPU with so many threads, or the GPU of that name.

    Another CPU is here if this one has all of its features: see `named_cpu.stand_in`.
    """
    if text is None or text == "cpu":
        return cpu.detect(threads or 1)
    check_threads(text, threads)
    arch, units = parse_device_name(text)
    _check_spelling(arch, units)
    this = cpu.detect()
    if arch == this.arch:
        return cpu.detect(units)
    gpu = _gpu_here(text)
    if gpu:
        return gpu
    if names_gpu(arch):
        raise NotHereError(_not_here(text))
    named = named_cpu.describe(text)  # a name that nobody knows is the greater mistake
    lacking = sorted(set(used_features(arch, named.features)) - set(this.features))
    if lacking:
        raise NotHereError(
            f"device {text} is not here: this machine's CPU is {this.name}, which lacks "
            f"{_some(lacking)}"
        )
    return named_cpu.stand_in(named, cpu.detect(units))


def device_for(
    dtypes: Iterable[str], text: str | None = None, threads: int | None = None
) -> Device:
    """A device that is here, for problems in these element types.

    The one that is named; ``cpu`` is this machine's CPU, ``gpu`` the first GPU. Without a name it
    is the CPU, or the first GPU where there is one and no kernel for CPUs computes in one of the
    types.

    GPUs are looked for where one may be meant alone: that starts their driver, which processes
    forked from this one cannot use any more.
    """
    if threads is not None and threads < 1:
        raise UsageError(f"threads is {threads}; give a whole number above 0")
    beyond = text is None and threads is None and not set(dtypes) <= set(CPU_DTYPES)
    gpus = find_gpus() if beyond or text == "gpu" else []
    if gpus:
        return gpus[0][2]
    if text == "gpu":
        raise UsageError("there is no GPU here; skipjack doctor says why")
    return find_device(text, threads)


def name_of(text: str) -> str:
    """The name of a device that is here or elsewhere; ``cpu`` and ``gpu`` are this machine's."""
    if text in ("cpu", "gpu"):
        return device_for((), text).name
    _check_spelling(*parse_device_name(text))
    return text


def here() -> list[Device]:
    """All devices of this machine: its GPUs, then its CPU with each number of threads."""
    return [*(gpu for _, _, gpu in find_gpus()), *cpu.detect_all()]


def check_threads(text: str, threads: int | None) -> None:
    """A device's units are its threads, if it is a CPU: two numbers for them must agree."""
    arch, units = parse_device_name(text)
    if threads is not None and names_gpu(arch):
        raise UsageError(f"device {text} is a GPU, and --threads is for CPUs; leave it out")
    if threads not in (None, units):
        raise UsageError(
            f"device {text} has {numbered(units, 'thread')}, but --threads says {threads}"
        )


def _some(names: Sequence[str]) -> str:
    few = ", ".join(names[:3])
    return few if len(names) <= 3 else f"{few} and {len(names) - 3} more"


def _gpu_here(text: str) -> Device | None:
    return next((gpu for _, _, gpu in find_gpus() if gpu.name == text), None)


def _not_here(text: str) -> str:
    describe_gpu(text)  # a name that nobody knows is the greater mistake
    names = ", ".join(dict.fromkeys(gpu.name for _, _, gpu in find_gpus()))
    found = f"the GPUs here are {names}" if names else "there is no GPU here"
    return f"device {text} is not here: {found}"


def _check_spelling(arch: str, units: int) -> None:
    """GPUs are written in lower case, and LLVM would be asked about a CPU of that name."""
    if names_gpu(arch.lower()) and not names_gpu(arch):
        raise UsageError(f"unknown device {arch}/{units}: did you mean {arch.lower()}/{units}?")

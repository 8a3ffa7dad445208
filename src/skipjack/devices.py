"""Devices by name: CPUs and GPUs, of this machine or others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skipjack.core import CPU_DTYPES, Device, parse_device_name, used_features
from skipjack.errors import UsageError
from skipjack.gpu import describe_gpu, find_gpus, is_gpu_arch
from skipjack.native import cpu, named_cpu
from skipjack.reading import numbered


class DeviceNotPresentError(UsageError):
    """A known device that is not a device of this machine."""


def describe(text: str) -> Device:
    """The device ``arch/units``, on this machine or not; `UsageError` if the name is unknown.

    A device of this machine is described as detected, so that tunings here use what is built for
    it.
    """
    arch, units = parse_device_name(text)
    _check_spelling(arch, units)
    seen = _gpu_here(text)
    if seen:
        return seen
    return describe_gpu(text) if is_gpu_arch(arch) else named_cpu.describe(text)


def find_device(text: str | None = None, threads: int | None = None) -> Device:
    """A device of this machine: the CPU with this number of threads, or the GPU of this name.

    Another CPU counts as present if this one has all of its features: see `named_cpu.stand_in`.
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
    if is_gpu_arch(arch):
        raise DeviceNotPresentError(_not_present_message(text))
    named = named_cpu.describe(text)  # raises if the name is unknown, which is reported first
    lacking = sorted(set(used_features(arch, named.features)) - set(this.features))
    if lacking:
        raise DeviceNotPresentError(
            f"device {text} is not on this machine: its CPU is {this.name}, which lacks "
            f"{_shortened_list(lacking)}"
        )
    return named_cpu.emulated(named, cpu.detect(units))


def device_for(
    dtypes: Iterable[str], text: str | None = None, threads: int | None = None
) -> Device:
    """A device of this machine, for problems in these element types.

    This is the named device; ``cpu`` is this machine's CPU, ``gpu`` the first GPU. Without a name,
    it is the CPU, or the first GPU if there is one and no CPU kernel supports one of the types.

    GPUs are only searched for if one may be used: that starts their driver, which processes forked
    from this one cannot use any more.
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
    """The name of any known device; ``cpu`` and ``gpu`` are those of this machine."""
    if text in ("cpu", "gpu"):
        return device_for((), text).name
    _check_spelling(*parse_device_name(text))
    return text


def local_devices() -> list[Device]:
    """All devices of this machine: its GPUs, then its CPU with each number of threads."""
    return [*(gpu for _, _, gpu in find_gpus()), *cpu.detect_all()]


def check_threads(text: str, threads: int | None) -> None:
    """Check that a number of threads agrees with the units of a CPU's name."""
    arch, units = parse_device_name(text)
    if threads is not None and is_gpu_arch(arch):
        raise UsageError(f"device {text} is a GPU, but --threads is for CPUs; leave it out")
    if threads not in (None, units):
        raise UsageError(
            f"device {text} has {numbered(units, 'thread')}, but --threads says {threads}"
        )


def _shortened_list(names: Sequence[str]) -> str:
    few = ", ".join(names[:3])
    return few if len(names) <= 3 else f"{few} and {len(names) - 3} more"


def _gpu_here(text: str) -> Device | None:
    return next((gpu for _, _, gpu in find_gpus() if gpu.name == text), None)


def _not_present_message(text: str) -> str:
    describe_gpu(text)  # raises if the name is unknown, which is reported first
    names = ", ".join(dict.fromkeys(gpu.name for _, _, gpu in find_gpus()))
    found = f"its GPUs are {names}" if names else "it has no GPU"
    return f"device {text} is not on this machine: {found}"


def _check_spelling(arch: str, units: int) -> None:
    """Refuse GPU names in upper case, which LLVM would otherwise look up as CPUs."""
    if is_gpu_arch(arch.lower()) and not is_gpu_arch(arch):
        raise UsageError(f"unknown device {arch}/{units}: did you mean {arch.lower()}/{units}?")

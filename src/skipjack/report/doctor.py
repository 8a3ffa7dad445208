"""What is here, what is missing, and what would help."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.text import Text

from skipjack import operations, search, solvers
from skipjack.core.cpu_levels import level_of, levels_up_to
from skipjack.core.device import Device, Peaks
from skipjack.core.trial import Candidate
from skipjack.entry_points import InstalledPlugin, strays
from skipjack.errors import SkipjackError
from skipjack.fleet.release import formats
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.describing import refusal_of_arch
from skipjack.gpu.opening import find_gpus, why_none
from skipjack.native import cpu, llvm, named_cpu
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import rate_text, size_text
from skipjack.runtime import cache_status
from skipjack.settings import CACHE_LIMIT, Settings
from skipjack.solvers.vendor.blas import MklSolver
from skipjack.storage import ensure_directory, is_network_file_system, user_directory
from skipjack.tuning.config_timer import TriedKernel, try_kernels
from skipjack.tuning.context import measured_peaks

Level = Literal["good", "note", "bad"]
_STYLES = {"good": "green", "note": "yellow", "bad": "red"}
_OPTIONAL = {
    "mkl": "a second library to beat: pip install 'skipjack[mkl]'",
    "torch": "oneDNN's convolutions to choose from: pip install 'skipjack[torch]'",
    "triton": "GPU kernels are built with it: pip install 'skipjack[triton]'",
}
_ILLEGAL = "SIGILL"
_LOW_DISK = 1 << 30
_NOISY = 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    part: str
    level: Level
    text: str


def examine(settings: Settings) -> list[Finding]:
    """Look at everything; a part that cannot be looked at is a finding too."""
    return [
        *_machine(settings),
        *_compiler(),
        kernel_finding(settings),
        *gpu_findings(),
        *_parts(),
        *plugin_findings(),
        *_disk(settings),
    ]


def _machine(settings: Settings) -> Iterator[Finding]:
    yield Finding("python", "good", f"{platform.python_version()} on {platform.system()}")
    try:
        device, peaks = measured_peaks(settings)
    except SkipjackError as error:
        yield Finding("cpu", "bad", str(error))
        return
    yield Finding(
        "cpu", "good", f"{device.name} ({device.model}), {numbered(device.cores, 'core')}"
    )
    yield from _instructions(device)
    yield from _peaks(peaks)
    load = os.getloadavg()[0]
    busy = load > 0.5 * device.cores
    note = "; timings take longer and vary more while other programs run" if busy else ""
    yield Finding("load", "note" if busy else "good", f"{load:.2f} over the last minute{note}")


def _instructions(device: Device) -> Iterator[Finding]:
    lacking = named_cpu.absent_features(device)
    yield Finding("instructions", "note" if lacking else "good", named_cpu.level_text(device))
    level: Level = "good" if device.vector_bytes >= 32 else "note"
    yield Finding("vectors", level, f"{8 * device.vector_bytes} bits")


def _peaks(peaks: Peaks) -> Iterator[Finding]:
    flops = ", ".join(
        f"{dtype} {rate_text(rate / 1e9, 'GFLOP/s')}" for dtype, rate in peaks.flops_per_s
    )
    yield Finding("peak", "good", f"{flops} on one core")
    rates = ", ".join(
        f"{size_text(size)}: {rate_text(rate / 1e9, 'GB/s')}" for size, rate in peaks.bytes_per_s
    )
    yield Finding("bandwidth", "good", rates)
    noisy = peaks.noise > _NOISY
    text = f"{100 * peaks.noise:.2f} % spread of the sentinel kernel"
    advice = "; close other programs, or set SKIPJACK_CORE to a quieter core" if noisy else ""
    yield Finding("noise", "note" if noisy else "good", text + advice)
    if len(cpu.usable_cores()) < 2:
        yield Finding("cores", "note", "one core: builds and timings take turns on it")


def _compiler() -> Iterator[Finding]:
    try:
        yield Finding("compiler", "good", llvm.compiler_version())
    except (ImportError, OSError, RuntimeError) as error:
        yield Finding("compiler", "bad", f"llvmlite does not work here: {error}")


def kernel_finding(settings: Settings, candidates: Sequence[Candidate] | None = None) -> Finding:
    """Whether kernels run here and compute what they should."""
    try:
        tried = try_kernels(settings, candidates)
    except (SkipjackError, ImportError, OSError) as error:
        return Finding("kernels", "bad", f"none could be tried: {error}")
    failed = [one for one in tried if one.status.failed]
    if not failed:
        return Finding("kernels", "good", f"{len(tried)} were built and run, and are right")
    first = failed[0]
    text = f"{len(failed)} of {len(tried)} fail; {first.candidate.problem.key} by "
    text += f"{first.candidate.solver}: {first.reason}"
    return Finding("kernels", "bad", f"{text}; {_remedy(failed)}")


def _remedy(failed: Sequence[TriedKernel]) -> str:
    """What to do about kernels that fail."""
    device = cpu.detect()
    lower = levels_up_to(level_of(device.arch, device.features))[1:]
    if any(_ILLEGAL in one.reason for one in failed) and lower:
        # A hypervisor may say that the processor has what it does not let programs use.
        lowest = ", or x86-64-v2 if that does not help" if "x86-64-v2" in lower[1:] else ""
        return (
            "the processor lacks instructions that it claims to have: set "
            f"{llvm.LEVEL_VARIABLE}={lower[0]}{lowest}, and report it"
        )
    return "what is tuned here cannot be relied on; report it with skipjack device --json"


def gpu_findings() -> Iterator[Finding]:
    """The GPUs here with their drivers, or why there is none."""
    found = find_gpus()
    for driver, index, device in found:
        version = ".".join(map(str, driver.version()))
        text = f"{driver.name}:{index} is {device.name} ({device.model}), driver of "
        text += f"{driver.name.upper()} {version}"
        if device.arch in KNOWN:
            yield Finding("gpu", "good", text)
        else:
            yield Finding("gpu", "note", f"{text}; {refusal_of_arch(device.arch)}")
    if not found:
        reasons = " and ".join(filter(None, map(why_none, ("cuda", "hip"))))
        yield Finding("gpu", "note", f"none here ({reasons}); kernels can be built for one")
    elif any(device.kind == "cuda" for _, _, device in found):
        yield _torch_for_gpus()


def _torch_for_gpus() -> Finding:
    """What version of CUDA torch was built for; its version tells without loading it."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        text = "not installed: cuBLAS and cuDNN are no rivals to choose from"
        return Finding("torch for GPUs", "note", text)
    if version.endswith("+cpu"):
        return Finding("torch for GPUs", "note", f"torch {version} is built for CPUs alone")
    return Finding("torch for GPUs", "good", f"torch {version}: cuBLAS and cuDNN")


def _parts() -> Iterator[Finding]:
    yield Finding("numpy", "good", importlib.metadata.version("numpy"))
    for name, use in _OPTIONAL.items():
        version = _mkl_version() if name == MklSolver.name else _version(name)
        yield Finding(name, "good" if version else "note", version or f"not installed; {use}")


def plugin_findings() -> Iterator[Finding]:
    """All plug-ins of installed distributions, loaded, and what failed."""
    for installed in (operations.installed, solvers.installed, search.installed, formats.installed):
        registry = installed()
        for plugin in registry.plugins():
            yield _plugin_finding(registry.kind, plugin)
    for plugin in strays():
        yield _plugin_finding("entry point", plugin)


def _plugin_finding(kind: str, plugin: InstalledPlugin) -> Finding:
    what = f"{kind} {plugin.name} of {plugin.distribution} {plugin.version} ({plugin.value})"
    if plugin.failure:
        return Finding("plug-in", "bad", f"{what} is left out: {plugin.failure}")
    return Finding("plug-in", "good", what)


def _version(package: str) -> str:
    """Of an installed package; empty if it is not."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _mkl_version() -> str:
    """Of the library that its solver finds, which may have come without a Python package."""
    files = MklSolver().files()
    return (_version(MklSolver.name) or str(files[0])) if files else ""


def _disk(settings: Settings) -> Iterator[Finding]:
    try:
        directory = user_directory(settings)
    except SkipjackError as error:
        yield Finding("directory", "bad", str(error))
        return
    yield Finding("directory", "good", str(directory))
    free = shutil.disk_usage(directory).free
    yield Finding("disk", "note" if free < _LOW_DISK else "good", f"{size_text(free)} free")
    yield cache_finding(settings)
    network = is_network_file_system(directory)
    if network:
        text = f"{network}: shared file systems are slow for a ledger; set SKIPJACK_USER_DB_PATH"
        yield Finding("file system", "note", text)


def cache_finding(settings: Settings) -> Finding:
    """How full the kernel cache is, and whether it can be written."""
    status = cache_status(settings)
    text = (
        f"{size_text(status.used_bytes)} of {size_text(status.limit_bytes)}, "
        f"{numbered(status.kernels, 'kernel')} in {status.directory}"
    )
    try:
        ensure_directory(status.directory)
    except SkipjackError as error:
        return Finding("kernel cache", "note", f"{text}; new ones are not kept: {error}")
    if status.used_bytes > status.limit_bytes:
        text += f"; what banks name stays: raise {CACHE_LIMIT}"
        return Finding("kernel cache", "note", text)
    return Finding("kernel cache", "good", text)


def print_findings(findings: list[Finding]) -> None:
    """One each, in lines that begin below each other."""
    width = max(len(finding.part) for finding in findings)
    fields = [
        (
            Text.assemble((finding.level, _STYLES[finding.level]), f"  {finding.part:>{width}}"),
            finding.text,
        )
        for finding in findings
    ]
    screen.print_fields(fields)

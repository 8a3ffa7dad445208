"""Checks of this machine: what works, what is missing, and what to do about it."""

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
from skipjack.core import Candidate, Device, Peaks, level_of, levels_up_to
from skipjack.errors import SkipjackError
from skipjack.fleet.release import formats
from skipjack.gpu import KNOWN, find_gpus, missing_driver_reason, refusal_of_arch
from skipjack.native import cpu, llvm, named_cpu
from skipjack.plugins import InstalledPlugin, unknown_entry_points
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import rate_text, size_text
from skipjack.runtime.local_kernels import cache_status
from skipjack.settings import CACHE_LIMIT, Settings
from skipjack.solvers.vendor import MklSolver
from skipjack.storage import ensure_directory, is_network_file_system, user_directory
from skipjack.tuning import TriedKernel, try_kernels
from skipjack.tuning.study import measured_peaks

Level = Literal["good", "note", "bad"]
_STYLES = {"good": "green", "note": "yellow", "bad": "red"}
_OPTIONAL = {
    "mkl": "a second library to compare with: pip install 'skipjack[mkl]'",
    "optuna": "adds its samplers as searchers: pip install 'skipjack[optuna]'",
    "torch": "adds oneDNN's convolutions as solvers: pip install 'skipjack[torch]'",
    "triton": "needed to build GPU kernels: pip install 'skipjack[triton]'",
}
_ILLEGAL = "SIGILL"
_LOW_DISK = 1 << 30
_NOISY = 0.05


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The result of one check."""

    part: str
    level: Level
    text: str


def examine(settings: Settings) -> list[HealthCheck]:
    """Run all checks; a failure to check something is a finding, too."""
    return [
        *_machine(settings),
        *_compiler(),
        kernel_finding(settings),
        *gpu_findings(),
        *_parts(),
        *plugin_findings(),
        *_disk(settings),
    ]


def _machine(settings: Settings) -> Iterator[HealthCheck]:
    yield HealthCheck("python", "good", f"{platform.python_version()} on {platform.system()}")
    try:
        device, peaks = measured_peaks(settings)
    except SkipjackError as error:
        yield HealthCheck("cpu", "bad", str(error))
        return
    yield HealthCheck(
        "cpu", "good", f"{device.name} ({device.model}), {numbered(device.cores, 'core')}"
    )
    yield from _instructions(device)
    yield from _peaks(peaks)
    load = os.getloadavg()[0]
    busy = load > 0.5 * device.cores
    note = "; timings take longer and vary more while other programs run" if busy else ""
    yield HealthCheck("load", "note" if busy else "good", f"{load:.2f} over the last minute{note}")


def _instructions(device: Device) -> Iterator[HealthCheck]:
    lacking = named_cpu.absent_features(device)
    yield HealthCheck("instructions", "note" if lacking else "good", named_cpu.level_text(device))
    level: Level = "good" if device.vector_bytes >= 32 else "note"
    yield HealthCheck("vectors", level, f"{8 * device.vector_bytes} bits")


def _peaks(peaks: Peaks) -> Iterator[HealthCheck]:
    flops = ", ".join(
        f"{dtype} {rate_text(rate / 1e9, 'GFLOP/s')}" for dtype, rate in peaks.flops_per_s
    )
    yield HealthCheck("peak", "good", f"{flops} on one core")
    rates = ", ".join(
        f"{size_text(size)}: {rate_text(rate / 1e9, 'GB/s')}" for size, rate in peaks.bytes_per_s
    )
    yield HealthCheck("bandwidth", "good", rates)
    noisy = peaks.noise > _NOISY
    text = f"{100 * peaks.noise:.2f} % spread of the sentinel kernel"
    advice = "; close other programs, or set SKIPJACK_CORE to a quieter core" if noisy else ""
    yield HealthCheck("noise", "note" if noisy else "good", text + advice)
    if len(cpu.usable_cores()) < 2:
        yield HealthCheck("cores", "note", "one core: builds and timings take turns on it")


def _compiler() -> Iterator[HealthCheck]:
    try:
        yield HealthCheck("compiler", "good", llvm.compiler_version())
    except (ImportError, OSError, RuntimeError) as error:
        yield HealthCheck("compiler", "bad", f"llvmlite does not work here: {error}")


def kernel_finding(
    settings: Settings, candidates: Sequence[Candidate] | None = None
) -> HealthCheck:
    """Whether kernels run here and compute correct results."""
    try:
        tried = try_kernels(settings, candidates)
    except (SkipjackError, ImportError, OSError) as error:
        return HealthCheck("kernels", "bad", f"none could be tried: {error}")
    failed = [one for one in tried if one.status.failed]
    if not failed:
        return HealthCheck("kernels", "good", f"{len(tried)} were built and run, and are correct")
    first = failed[0]
    text = f"{len(failed)} of {len(tried)} fail; {first.candidate.problem.key} by "
    text += f"{first.candidate.solver}: {first.reason}"
    return HealthCheck("kernels", "bad", f"{text}; {_remedy(failed)}")


def _remedy(failed: Sequence[TriedKernel]) -> str:
    """What to do about kernels that fail."""
    device = cpu.detect()
    lower = levels_up_to(level_of(device.arch, device.features))[1:]
    if any(_ILLEGAL in one.reason for one in failed) and lower:
        # A hypervisor may report instructions that it does not let programs use.
        lowest = ", or x86-64-v2 if that does not help" if "x86-64-v2" in lower[1:] else ""
        return (
            "the processor lacks instructions that it claims to have; set "
            f"{llvm.LEVEL_VARIABLE}={lower[0]}{lowest}, and report this"
        )
    return (
        "results of tuning on this machine are unreliable; report this with skipjack device --json"
    )


def gpu_findings() -> Iterator[HealthCheck]:
    """The GPUs of this machine with their drivers, or why there are none."""
    found = find_gpus()
    for driver, index, device in found:
        version = ".".join(map(str, driver.version()))
        text = f"{driver.name}:{index} is {device.name} ({device.model}), driver of "
        text += f"{driver.name.upper()} {version}"
        if device.arch in KNOWN:
            yield HealthCheck("gpu", "good", text)
        else:
            yield HealthCheck("gpu", "note", f"{text}; {refusal_of_arch(device.arch)}")
    if not found:
        reasons = " and ".join(filter(None, map(missing_driver_reason, ("cuda", "hip"))))
        yield HealthCheck(
            "gpu", "note", f"none found ({reasons}); kernels can still be built for GPUs"
        )
    elif any(device.kind == "cuda" for _, _, device in found):
        yield _torch_for_gpus()


def _torch_for_gpus() -> HealthCheck:
    """The CUDA version that torch was built for, found without loading torch."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        text = "not installed: cuBLAS and cuDNN are not compared"
        return HealthCheck("torch for GPUs", "note", text)
    if version.endswith("+cpu"):
        return HealthCheck("torch for GPUs", "note", f"torch {version} is built for CPUs only")
    return HealthCheck("torch for GPUs", "good", f"torch {version}: cuBLAS and cuDNN")


def _parts() -> Iterator[HealthCheck]:
    yield HealthCheck("numpy", "good", importlib.metadata.version("numpy"))
    for name, use in _OPTIONAL.items():
        version = _mkl_version() if name == MklSolver.name else _version(name)
        yield HealthCheck(name, "good" if version else "note", version or f"not installed; {use}")


def plugin_findings() -> Iterator[HealthCheck]:
    """All plug-ins of installed distributions, after loading them, and their failures."""
    for installed in (operations.installed, solvers.installed, search.installed, formats.installed):
        registry = installed()
        for plugin in registry.plugins():
            yield _plugin_finding(registry.kind, plugin)
    for plugin in unknown_entry_points():
        yield _plugin_finding("entry point", plugin)


def _plugin_finding(kind: str, plugin: InstalledPlugin) -> HealthCheck:
    what = f"{kind} {plugin.name} of {plugin.distribution} {plugin.version} ({plugin.value})"
    if plugin.failure:
        return HealthCheck("plug-in", "bad", f"{what} is left out: {plugin.failure}")
    return HealthCheck("plug-in", "good", what)


def _version(package: str) -> str:
    """The version of a package; empty if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _mkl_version() -> str:
    """The version or file of the library that its solver finds, with or without a package."""
    files = MklSolver().files()
    return (_version(MklSolver.name) or str(files[0])) if files else ""


def _disk(settings: Settings) -> Iterator[HealthCheck]:
    try:
        directory = user_directory(settings)
    except SkipjackError as error:
        yield HealthCheck("directory", "bad", str(error))
        return
    yield HealthCheck("directory", "good", str(directory))
    free = shutil.disk_usage(directory).free
    yield HealthCheck("disk", "note" if free < _LOW_DISK else "good", f"{size_text(free)} free")
    yield cache_finding(settings)
    network = is_network_file_system(directory)
    if network:
        text = f"{network}: shared file systems are slow for a ledger; set SKIPJACK_USER_DB_PATH"
        yield HealthCheck("file system", "note", text)


def cache_finding(settings: Settings) -> HealthCheck:
    """How full the kernel cache is, and whether it can be written."""
    status = cache_status(settings)
    text = (
        f"{size_text(status.used_bytes)} of {size_text(status.limit_bytes)}, "
        f"{numbered(status.kernels, 'kernel')} in {status.directory}"
    )
    try:
        ensure_directory(status.directory)
    except SkipjackError as error:
        return HealthCheck("kernel cache", "note", f"{text}; new kernels are not kept: {error}")
    if status.used_bytes > status.limit_bytes:
        text += f"; kernels of bank entries are always kept; raise {CACHE_LIMIT}"
        return HealthCheck("kernel cache", "note", text)
    return HealthCheck("kernel cache", "good", text)


def print_findings(findings: list[HealthCheck]) -> None:
    """Print the findings in aligned lines."""
    width = max(len(finding.part) for finding in findings)
    fields = [
        (
            Text.assemble((finding.level, _STYLES[finding.level]), f"  {finding.part:>{width}}"),
            finding.text,
        )
        for finding in findings
    ]
    screen.print_fields(fields)

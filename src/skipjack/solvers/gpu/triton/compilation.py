"""From specs to an artifact: Triton compiles ahead of time, for GPUs that need not be here."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any, NamedTuple

from skipjack.errors import SkipjackError, UsageError
from skipjack.gpu import (
    ABI,
    KNOWN,
    GpuArtifact,
    GpuBuildError,
    KernelAbi,
    compile_source,
    is_gpu_arch,
    pack,
    refusal_of_arch,
)
from skipjack.reading import parse_json
from skipjack.solvers.gpu.triton import compiled_code
from skipjack.solvers.gpu.triton.compiled_code import count_in_amdgcn, count_in_ptx, hidden_pointers
from skipjack.solvers.gpu.triton.kernel_source import kernel_text, load_function
from skipjack.solvers.gpu.triton.spec import Constant, KernelSpec
from skipjack.solvers.solver import Blob

# Triton's names of the GPUs that it builds for; `skipjack.gpu.architectures` lists them.

_NVIDIA = re.compile(r"sm_(\d+)a?")


class TritonTarget(NamedTuple):
    """A target; fields are in the order of the parameters of Triton's ``GPUTarget``."""

    backend: str
    arch: int | str
    warp: int

    @property
    def extension(self) -> str:
        """The extension of files with machine code for this target."""
        return "cubin" if self.backend == "cuda" else "hsaco"


def cannot_build(arch: str) -> str:
    """Why Triton cannot build for an architecture; empty if it can."""
    arch = _plain(arch)
    if arch in KNOWN:
        return ""
    if is_gpu_arch(arch):
        return refusal_of_arch(arch)
    return f"{arch!r} is not the architecture of a GPU; write, for example, sm_90 or gfx942"


def parse_target(arch: str) -> TritonTarget:
    """The target of ``sm_90`` or ``gfx942``; `UsageError` if Triton cannot build for it."""
    if reason := cannot_build(arch):
        raise UsageError(reason)
    limits = KNOWN[_plain(arch)]
    nvidia = _NVIDIA.fullmatch(limits.arch)
    return TritonTarget(limits.kind, int(nvidia[1]) if nvidia else limits.arch, limits.warp)


def _plain(arch: str) -> str:
    """The architecture without suffixes.

    These are the modes that AMD's driver appends, as in ``gfx90a:sramecc+:xnack-``, and NVIDIA's
    mark of code for one chip only, as in ``sm_90a``.
    """
    name = arch.partition(":")[0]
    nvidia = _NVIDIA.fullmatch(name)
    return f"sm_{nvidia[1]}" if nvidia else name


# From specs to an artifact: Triton compiles ahead of time, for GPUs that need not be here.
#
# Triton is imported to compile and for nothing else. Where it is missing, artifacts that were built
# on other machines can still be planned, launched and compared.

POINTER_RANGE = "pointer_range"
"""Option of a spec: 32 states that no tensor has 2 GiB or more. AMD's GPUs then load and store with
32-bit offsets, for which the hardware checks bounds; for NVIDIA's GPUs it has no effect."""
_OURS = (POINTER_RANGE,)
_ByPlace = Mapping[tuple[int, ...], Any]
_ABSENT = "triton (not installed)"
_LEAST_HIP = (6, 0)
"""The first version whose runtime loads the code objects that Triton writes by default."""
_MOST_THREADS = 1024
_BLACKWELL = 100
"""The first architecture for which Triton uses a separate assembler."""


@lru_cache(maxsize=1)
def compiler_name() -> str:
    """Name and version, as ``triton 3.6.0``, without loading Triton."""
    try:
        return f"triton {metadata.version('triton')}"
    except metadata.PackageNotFoundError:
        return _ABSENT


def missing() -> str:
    """Why nothing can be compiled here; empty if Triton is installed."""
    if compiler_name() != _ABSENT:
        return ""
    return "Triton is not installed here, so no GPU kernel can be built: install skipjack[triton]"


def warm_up() -> None:
    """Import Triton now instead of during the first build; does nothing if it is not installed."""
    with contextlib.suppress(Exception):
        import triton.compiler  # noqa: F401
        from triton.runtime.cache import triton_key

        triton_key()  # hashes all of Triton, once in a process


def compile_specs(specs: Sequence[KernelSpec], target: str) -> Blob:
    """All kernels of a config as one artifact; `GpuBuildError` if one fails."""
    if reason := missing():
        raise GpuBuildError(reason)
    triton_target = parse_target(target)
    built = [_built(spec.key, _text(spec), triton_target) for spec in specs]
    kernels = tuple(kernel for kernel, _ in built)
    for kernel in kernels:
        _check_limits(kernel, target)
    artifact = GpuArtifact(
        target,
        kernels,
        tuple(binary for _, binary in built),
        compiler_name(),
        _least_driver(triton_target),
        _notes(triton_target),
    )
    data = pack(artifact)
    return Blob(data, "gpu", ABI, _summary(artifact))


def _summary(artifact: GpuArtifact) -> dict[str, float]:
    """The largest resource needs of any of the kernels, for reports and limits."""
    kernels = artifact.kernels
    return {
        "registers": max(kernel.registers for kernel in kernels),
        "shared_bytes": max(kernel.shared_bytes for kernel in kernels),
        "spill_bytes": max(kernel.spill_bytes for kernel in kernels),
        "binary_bytes": sum(map(len, artifact.binaries)),
    }


def _text(spec: KernelSpec) -> str:
    try:
        return kernel_text(spec.module, spec.function)
    except SkipjackError as error:
        raise GpuBuildError(f"kernel {spec.name}: {error}") from None


@lru_cache(maxsize=128)
def _built(key: str, text: str, target: TritonTarget) -> tuple[KernelAbi, bytes]:
    """A kernel and its binary, cached: configs with several kernels may share some of them.

    `text` is part of the cache's key, so that an edited function is built again.
    """
    spec = KernelSpec.from_json(parse_json(key, finite=False))
    kernel = _compile(spec, target)
    return _abi(spec, kernel, target), bytes(kernel.asm[target.extension])


def _compile(spec: KernelSpec, target: TritonTarget) -> Any:
    source = _source(spec)
    try:
        return compile_source(*source, target, _options(spec))
    except GpuBuildError as error:
        raise GpuBuildError(f"kernel {spec.name}: {error}") from error.__cause__


def _source(
    spec: KernelSpec,
) -> tuple[Any, Mapping[str, str], _ByPlace, _ByPlace]:
    """The function, its signature, its constants and the attributes of its arguments."""
    function = load_function(spec.module, spec.function)
    names = list(function.arg_names)
    given = [*spec.arguments, *spec.constants]
    if sorted(given) != sorted(names):
        odd = ", ".join(sorted(set(given) ^ set(names)))
        raise GpuBuildError(
            f"kernel {spec.name}: {spec.function} takes {', '.join(names)}; "
            f"the spec and the function differ in {odd}"
        )
    if list(spec.arguments) != [name for name in names if name in spec.arguments]:
        raise GpuBuildError(
            f"kernel {spec.name}: the spec's arguments are not in the order of the function's"
        )
    signature = {
        name: spec.arguments[name].type if name in spec.arguments else "constexpr" for name in names
    }
    constants: _ByPlace = {
        (names.index(name),): _constant(value) for name, value in spec.constants.items()
    }
    return function, signature, constants, _attributes(names, spec)


def _attributes(names: Sequence[str], spec: KernelSpec) -> _ByPlace:
    """What Triton may assume about each argument, by its position."""
    reach = spec.options.get(POINTER_RANGE)
    attributes: dict[tuple[int, ...], Any] = {}
    for name, argument in spec.arguments.items():
        known: list[list[Any]] = []
        if argument.divisible > 1:
            known.append(["tt.divisibility", argument.divisible])
        if reach and argument.type.startswith("*"):
            known.append(["tt.pointer_range", reach])
        if known:
            attributes[(names.index(name),)] = known
    return attributes


def _constant(value: Constant) -> Any:
    """A string such as ``tl.float16`` is one of Triton's types; any other value is itself."""
    if not isinstance(value, str):
        return value
    import triton.language as tl

    prefix, _, name = value.rpartition(".")
    found = getattr(tl, name, None) if prefix in ("tl", "triton.language") else None
    return found if isinstance(found, tl.dtype) else value


def _options(spec: KernelSpec) -> dict[str, Any]:
    """Options for Triton's backend, which ignores those of the other vendor."""
    return {
        "num_warps": spec.warps,
        "num_stages": spec.stages,
        **{name: value for name, value in spec.options.items() if name not in _OURS},
    }


def _abi(spec: KernelSpec, kernel: Any, target: TritonTarget) -> KernelAbi:
    """The launch ABI: everything that Triton's own launcher reads, for both vendors."""
    record = kernel.metadata._asdict()
    arguments = tuple(spec.arguments.values())
    descriptors = tuple(dict(one) for one in record.get("tensordesc_meta") or ())
    if target.backend == "cuda":
        usage = compiled_code.of_cubin(kernel.asm[target.extension])
        counted = count_in_ptx(kernel.asm["ptx"])
    else:
        usage = compiled_code.of_amdgcn(kernel.asm["amdgcn"])
        counted = count_in_amdgcn(kernel.asm["amdgcn"])
    return KernelAbi(
        spec.name,
        record["name"],
        arguments,
        # With warp specialisation Triton uses more warps than requested.
        threads=int(record["num_warps"]) * target.warp,
        shared_bytes=int(record["shared"]),
        cluster=(int(record.get("num_ctas") or 1), 1, 1),
        cooperative=bool(record.get("launch_cooperative_grid")),
        dependent=bool(record.get("launch_pdl")),
        scratch_bytes=int(record.get("global_scratch_size") or 0),
        scratch_align=int(record.get("global_scratch_align") or 1),
        profile_bytes=int(record.get("profile_scratch_size") or 0),
        profile_align=int(record.get("profile_scratch_align") or 1),
        hidden_pointers=hidden_pointers(
            arguments, counted, copy_engine=bool(descriptors), kernel=spec.name
        ),
        descriptors=descriptors,
        registers=usage.registers,
        spill_bytes=usage.spill_bytes,
    )


def _check_limits(kernel: KernelAbi, target: str) -> None:
    if kernel.threads > _MOST_THREADS:
        raise GpuBuildError(
            f"kernel {kernel.name}: needs blocks of {kernel.threads} threads, "
            f"{target} allows {_MOST_THREADS}"
        )
    limits = KNOWN.get(target)
    if limits and kernel.shared_bytes > limits.shared_bytes:
        raise GpuBuildError(
            f"kernel {kernel.name}: needs {kernel.shared_bytes} bytes of shared memory, "
            f"{target} has {limits.shared_bytes}"
        )


def _least_driver(target: TritonTarget) -> tuple[int, int]:
    """Machine code of CUDA 12.8 loads with every CUDA 12 driver, since it contains no PTX."""
    if target.backend == "hip":
        return _LEAST_HIP
    major, _ = _cuda_version(target)
    return major, 0


def _notes(target: TritonTarget) -> dict[str, str]:
    if target.backend == "hip":
        return {}
    major, minor = _cuda_version(target)
    return {"cuda": f"{major}.{minor}"}


def _cuda_version(target: TritonTarget) -> tuple[int, int]:
    """The version of the assembler that Triton uses."""
    from triton import knobs

    tool = "ptxas_blackwell" if int(target.arch) >= _BLACKWELL else "ptxas"
    assembler = getattr(knobs.nvidia, tool, knobs.nvidia.ptxas)
    found = re.match(r"(\d+)\.(\d+)", str(assembler.version))
    return (int(found[1]), int(found[2])) if found else (0, 0)

"""From specs to an artifact: Triton compiles ahead of time, for GPUs that need not be here.

Triton is imported to compile and for nothing else: where it is missing, artifacts that were built
elsewhere can be planned, launched and compared all the same.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any

from skipjack.errors import SkipjackError
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.artifact import ABI, GpuArtifact, KernelAbi, pack
from skipjack.gpu.triton_compiler import GpuBuildError, compile_source
from skipjack.reading import parse_json
from skipjack.solvers.gpu import resources
from skipjack.solvers.gpu.loading import load_function
from skipjack.solvers.gpu.parameters import count_in_amdgcn, count_in_ptx, hidden_pointers
from skipjack.solvers.gpu.source import kernel_text
from skipjack.solvers.gpu.spec import Constant, KernelSpec
from skipjack.solvers.gpu.targets import Target, target_of
from skipjack.solvers.solver import Blob

POINTER_RANGE = "pointer_range"
"""Option of a spec: 32 says that no tensor has 2 GiB or more. AMD's GPUs then load and store with
offsets of 32 bits, which check bounds by themselves; NVIDIA's do nothing with it."""
_OURS = (POINTER_RANGE,)
_ByPlace = Mapping[tuple[int, ...], Any]
_ABSENT = "triton (not installed)"
_LEAST_HIP = (6, 0)
"""Version whose runtime is the first to load the code objects that Triton writes by default."""
_MOST_THREADS = 1024
_BLACKWELL = 100
"""The first architecture for which Triton has an assembler of its own."""


@lru_cache(maxsize=1)
def compiler_name() -> str:
    """``triton 3.6.0``, without loading it."""
    try:
        return f"triton {metadata.version('triton')}"
    except metadata.PackageNotFoundError:
        return _ABSENT


def missing() -> str:
    """Why nothing can be compiled here; empty if it can. What was built elsewhere still runs."""
    if compiler_name() != _ABSENT:
        return ""
    return "Triton is not installed here, so no GPU kernel can be built: install skipjack[triton]"


def warm_up() -> None:
    """Import Triton now, so that the first build need not; quiet where there is none."""
    with contextlib.suppress(Exception):
        import triton.compiler  # noqa: F401
        from triton.runtime.cache import triton_key

        triton_key()  # hashes all of Triton, once in a process


def compile_specs(specs: Sequence[KernelSpec], target: str) -> Blob:
    """All kernels of a config as one artifact; `GpuBuildError` in one sentence if one fails."""
    if reason := missing():
        raise GpuBuildError(reason)
    goal = target_of(target)
    built = [_built(spec.key, _text(spec), goal) for spec in specs]
    kernels = tuple(kernel for kernel, _ in built)
    for kernel in kernels:
        _check_limits(kernel, target)
    artifact = GpuArtifact(
        target,
        kernels,
        tuple(binary for _, binary in built),
        compiler_name(),
        _least_driver(goal),
        _notes(goal),
    )
    data = pack(artifact)
    return Blob(data, "gpu", ABI, _summary(artifact))


def _summary(artifact: GpuArtifact) -> dict[str, float]:
    """What reports show and rules judge: the most that any of the kernels needs."""
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
def _built(key: str, text: str, target: Target) -> tuple[KernelAbi, bytes]:
    """A kernel and its binary; configs that differ in one of several kernels share the others.

    `text` is there so that an edited function is built again.
    """
    spec = KernelSpec.from_json(parse_json(key, finite=False))
    kernel = _compile(spec, target)
    return _abi(spec, kernel, target), bytes(kernel.asm[target.extension])


def _compile(spec: KernelSpec, target: Target) -> Any:
    source = _source(spec)
    try:
        return compile_source(*source, target, _options(spec))
    except GpuBuildError as error:
        raise GpuBuildError(f"kernel {spec.name}: {error}") from error.__cause__


def _source(
    spec: KernelSpec,
) -> tuple[Any, Mapping[str, str], _ByPlace, _ByPlace]:
    """The function, and what is known of its arguments by name or by place."""
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
        raise GpuBuildError(f"kernel {spec.name}: the spec's arguments are in another order")
    signature = {
        name: spec.arguments[name].type if name in spec.arguments else "constexpr" for name in names
    }
    constants: _ByPlace = {
        (names.index(name),): _constant(value) for name, value in spec.constants.items()
    }
    return function, signature, constants, _attributes(names, spec)


def _attributes(names: Sequence[str], spec: KernelSpec) -> _ByPlace:
    """What Triton may take for granted of each argument, by its place."""
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
    """A text such as ``tl.float16`` is one of Triton's types; any other text is itself."""
    if not isinstance(value, str):
        return value
    import triton.language as tl

    prefix, _, name = value.rpartition(".")
    found = getattr(tl, name, None) if prefix in ("tl", "triton.language") else None
    return found if isinstance(found, tl.dtype) else value


def _options(spec: KernelSpec) -> dict[str, Any]:
    """For Triton's backend, which passes over those of the other vendor."""
    return {
        "num_warps": spec.warps,
        "num_stages": spec.stages,
        **{name: value for name, value in spec.options.items() if name not in _OURS},
    }


def _abi(spec: KernelSpec, kernel: Any, target: Target) -> KernelAbi:
    """Everything that Triton's own launcher reads, of either vendor."""
    told = kernel.metadata._asdict()
    arguments = tuple(spec.arguments.values())
    descriptors = tuple(dict(one) for one in told.get("tensordesc_meta") or ())
    if target.backend == "cuda":
        usage = resources.of_cubin(kernel.asm[target.extension])
        counted = count_in_ptx(kernel.asm["ptx"])
    else:
        usage = resources.of_amdgcn(kernel.asm["amdgcn"])
        counted = count_in_amdgcn(kernel.asm["amdgcn"])
    return KernelAbi(
        spec.name,
        told["name"],
        arguments,
        # With warp specialisation Triton raises the number of warps over what was asked for.
        threads=int(told["num_warps"]) * target.warp,
        shared_bytes=int(told["shared"]),
        cluster=(int(told.get("num_ctas") or 1), 1, 1),
        cooperative=bool(told.get("launch_cooperative_grid")),
        dependent=bool(told.get("launch_pdl")),
        scratch_bytes=int(told.get("global_scratch_size") or 0),
        scratch_align=int(told.get("global_scratch_align") or 1),
        profile_bytes=int(told.get("profile_scratch_size") or 0),
        profile_align=int(told.get("profile_scratch_align") or 1),
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
            f"{target} has {_MOST_THREADS}"
        )
    limits = KNOWN.get(target)
    if limits and kernel.shared_bytes > limits.shared_bytes:
        raise GpuBuildError(
            f"kernel {kernel.name}: needs {kernel.shared_bytes} bytes of shared memory, "
            f"{target} has {limits.shared_bytes}"
        )


def _least_driver(target: Target) -> tuple[int, int]:
    """Machine code of CUDA 12.8 loads with every driver of CUDA 12: no PTX is left to compile."""
    if target.backend == "hip":
        return _LEAST_HIP
    major, _ = _cuda_version(target)
    return major, 0


def _notes(target: Target) -> dict[str, str]:
    if target.backend == "hip":
        return {}
    major, minor = _cuda_version(target)
    return {"cuda": f"{major}.{minor}"}


def _cuda_version(target: Target) -> tuple[int, int]:
    """Of the assembler that Triton used."""
    from triton import knobs

    tool = "ptxas_blackwell" if int(target.arch) >= _BLACKWELL else "ptxas"
    assembler = getattr(knobs.nvidia, tool, knobs.nvidia.ptxas)
    found = re.match(r"(\d+)\.(\d+)", str(assembler.version))
    return (int(found[1]), int(found[2])) if found else (0, 0)

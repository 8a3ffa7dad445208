"""Machine code in a directory that the user names, with a manifest for programs that call it.

For a CPU these are object files; for a GPU they are the binaries that its driver loads, and the
manifest has the launch ABI of each kernel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from skipjack.gpu import GpuArtifact, unpack
from skipjack.native import undefined_symbols
from skipjack.operations import outputs, tensor_dtype, tensors
from skipjack.storage import atomic_write, output_directory
from skipjack.tuning.build_only import BuildResult, BuiltConfig

FORMAT = 2


def write_objects(result: BuildResult, directory: Path) -> BuildResult:
    """Write the files and their manifest; returns the result with their paths.

    Configs that differ only in run-time settings share a file. The manifest is written last, so
    that all files it names exist; if it cannot be written, the new files are removed.
    """
    output_directory(directory)
    with _all_or_nothing() as write:
        written = _write_binaries(result, directory, write)
        text = json.dumps(_manifest(written), indent=1) + "\n"
        write(directory / f"{_stem(result)}.json", text.encode())
    return written


_Write = Callable[[Path, bytes], None]


@contextmanager
def _all_or_nothing() -> Iterator[_Write]:
    """Writes files; new ones are removed if the block fails."""
    new: list[Path] = []

    def write(path: Path, data: bytes) -> None:
        there = path.exists()
        atomic_write(path, data)
        if not there:
            new.append(path)

    try:
        yield write
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        raise


def _write_binaries(result: BuildResult, directory: Path, write: _Write) -> BuildResult:
    files: dict[str, Path] = {}
    builds = []
    for build in result.builds:
        if build.ok:
            if build.digest not in files:
                names = _files(build, result, f"{_stem(result)}.{build.number:03}")
                for name, data in names.items():
                    write(directory / name, data)
                files[build.digest] = directory / next(iter(names))
            build = replace(build, path=files[build.digest])
        builds.append(build)
    return replace(result, builds=tuple(builds))


def _files(build: BuiltConfig, result: BuildResult, stem: str) -> dict[str, bytes]:
    """Names and contents: one object file, or one binary for each kernel of a GPU's artifact."""
    if not result.gpu:
        return {f"{stem}.o": build.data}
    artifact = unpack(build.data)
    return dict(zip(_binary_names(artifact, result, stem), artifact.binaries, strict=True))


def _binary_names(artifact: GpuArtifact, result: BuildResult, stem: str) -> list[str]:
    extension = "cubin" if result.device.kind == "cuda" else "hsaco"
    return [f"{stem}.{kernel.name}.{extension}" for kernel in artifact.kernels]


def _stem(result: BuildResult) -> str:
    parts = (result.problem.key, result.solver, result.device.name)
    return ".".join(re.sub(r"[^A-Za-z0-9=,._-]", "-", part) for part in parts)


def _manifest(result: BuildResult) -> dict[str, Any]:
    problem = result.problem
    return {
        "format": FORMAT,
        "kind": "objects",
        "problem": problem.key,
        "device": result.device.name,
        "solver": result.solver,
        "solver_version": result.solver_version,
        **result.target,
        "compiler": result.compiler,
        "arrays": [
            {
                "name": tensor.name,
                "shape": list(tensor.shape),
                "dtype": tensor_dtype(problem, tensor),
            }
            for tensor in tensors(problem)
        ],
        "outputs": [tensor.name for tensor in outputs(problem)],
        "builds": [
            _gpu_entry(build, result) if result.gpu else _entry(build)
            for build in result.builds
            if build.ok
        ],
    }


def _entry(build: BuiltConfig) -> dict[str, Any]:
    assert build.path is not None, "it was written"
    return {
        "number": build.number,
        "config": dict(build.config),
        "file": build.path.name,
        "digest": build.digest,
        "bytes": len(build.data),
        "text_bytes": build.text_bytes,
        "symbol": build.symbol,
        "abi": build.abi,
        "slots": list(build.slots),
        "needs": undefined_symbols(build.data),
    }


def _gpu_entry(build: BuiltConfig, result: BuildResult) -> dict[str, Any]:
    """Binaries with their launch ABI, and the launches that compute the problem once."""
    assert build.path is not None, "it was written"
    artifact = unpack(build.data)
    stem = build.path.name.removesuffix(f".{artifact.kernels[0].name}{build.path.suffix}")
    names = _binary_names(artifact, result, stem)
    return {
        "number": build.number,
        "config": dict(build.config),
        "digest": build.digest,
        "abi": build.abi,
        "least_driver": list(artifact.least_driver),
        "kernels": [
            {"file": name, "bytes": len(binary), **asdict(kernel)}
            for name, binary, kernel in zip(names, artifact.binaries, artifact.kernels, strict=True)
        ],
        "slots": list(build.slots),
    }

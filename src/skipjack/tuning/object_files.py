"""Object files in a directory of the user's, with a manifest from which a program can call them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from skipjack.native.object_code import undefined_symbols
from skipjack.operations import outputs, tensors
from skipjack.storage import atomic_write, ensure_directory
from skipjack.tuning.build_result import BuildResult, BuiltConfig

FORMAT = 2


def write_objects(result: BuildResult, directory: Path) -> BuildResult:
    """Write the object files and their manifest; gives the result with their paths.

    Configs that differ in run-time settings alone share a file. The manifest comes last, so that
    what it names is there.
    """
    ensure_directory(directory)
    stem = _stem(result)
    files: dict[str, Path] = {}
    builds = []
    for build in result.builds:
        if build.ok:
            if build.digest not in files:
                files[build.digest] = directory / f"{stem}.{build.number:03}.o"
                atomic_write(files[build.digest], build.data)
            build = replace(build, path=files[build.digest])
        builds.append(build)
    written = replace(result, builds=tuple(builds))
    text = json.dumps(_manifest(written), indent=1) + "\n"
    atomic_write(directory / f"{stem}.json", text.encode())
    return written


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
            {"name": tensor.name, "shape": list(tensor.shape), "dtype": problem.dtype}
            for tensor in tensors(problem)
        ],
        "outputs": [tensor.name for tensor in outputs(problem)],
        "builds": [_entry(build) for build in result.builds if build.ok],
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

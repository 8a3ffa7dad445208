"""The example's network, built once for all tests of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from loadgen_example import EXAMPLE, base_config, run_script


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The network in both precisions, built once."""
    for module in ("mlperf_loadgen", "onnx", "onnxruntime"):
        pytest.importorskip(module, reason=f"{module} is not installed; make demo-loadgen does it")
    root = tmp_path_factory.mktemp("loadgen")
    for precision in ("fp32", "int8"):
        config = base_config("Offline", precision=precision)
        result = run_script(EXAMPLE / "build.py", root / precision, config)
        assert result.returncode == 0, result.stderr
    return {precision: root / precision / "build" for precision in ("fp32", "int8")}

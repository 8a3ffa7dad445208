"""The first configs of nvMatmulHeuristics for products, on request.

This script runs inside an environment of its own and shares nothing with Skipjack. It needs no GPU.
Its argument is the name of a GPU that the library knows, as ``H200_SXM``. It first writes a line
of JSON with the library's version; then it answers each line ``[target, precision, m, n, k, ta, tb,
count]`` of its input with a line of JSON: the configs in the library's order.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any

import nvMatmulHeuristics as nv


class Library:
    """One interface for each target, such as ``TRITON``; discovery sets are loaded as needed."""

    def __init__(self, gpu: str) -> None:
        self._gpu = nv.NvMatmulHeuristicsNvidiaGpu[gpu]
        self._of: dict[str, Any] = {}

    def picks(
        self, target: str, precision: str, m: int, n: int, k: int, ta: int, tb: int, count: int
    ) -> list[dict[str, Any]]:
        """The first configs, and what the library expects of them."""
        library = self._of.get(target)
        if library is None:
            library = self._of[target] = nv.NvMatmulHeuristicsInterfaceEx(
                backend=nv.NvMatmulHeuristicsTarget[target],
                flags=nv.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
                gpu=self._gpu,
            )
        layout = nv.boolsToNvMatmulHeuristicsLayout(bool(ta), bool(tb))
        problem = library.makeNvMatmulHeuristicsProblem(m, n, k, layout)
        return [_plain(one) for one in library.get(problem, count, precision)]


def _plain(one: dict[str, Any]) -> dict[str, Any]:
    kernel = one["kernel"]
    return {
        "cta": [kernel.cta_tile_m, kernel.cta_tile_n, kernel.cta_tile_k],
        "warp": [kernel.warp_tile_m, kernel.warp_tile_n, kernel.warp_tile_k],
        "stages": kernel.stages,
        "splits": kernel.split_k,
        "swizzle": kernel.swizzle_factor,
        "by_columns": bool(kernel.cta_order),
        "cluster": [kernel.cluster_m, kernel.cluster_n],
        "expected_us": round(one["runtime"] * 1e6, 3),
    }


def main() -> None:
    """Serve until the input ends."""
    library = Library(sys.argv[1])
    print(json.dumps(version("nvidia-matmul-heuristics")), flush=True)
    for line in sys.stdin:
        print(json.dumps(library.picks(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()

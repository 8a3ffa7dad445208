"""Tune products on a GPU, then ask for them in a fresh process: what `lookup` gives and costs.

``--seconds`` are those of one problem's tuning. Where cuBLAS wins, the answer calls cuBLAS. Every
answer is called on PyTorch's tensors and compared with PyTorch's product; calls of both take turns
and are timed with events, so that the ratio is of what a program gets. Prints one JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import statistics
import subprocess
import sys
import time
from datetime import date
from typing import Any

PRODUCTS = (
    *("1024x1024x1024", "2048x2048x2048", "4096x4096x4096", "8192x8192x8192", "1000x1000x1000"),
    *("16x4096x4096", "64x11008x4096", "4096x11008x4096", "4097x4095x4093", "512x512x8192"),
)
DTYPE = "f16"
_ROUNDS, _CALLS, _ASKS = 20, 20, 1000


def main() -> None:
    """Tune here, ask there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--ask", action="store_true", help="only ask, in this process")
    arguments = parser.parse_args()
    if arguments.ask:
        print(json.dumps([_asked(shape) for shape in PRODUCTS]))
        return
    tuned = [_tuned(shape, arguments.seconds) for shape in PRODUCTS]
    child = subprocess.run(
        [sys.executable, __file__, "--ask"], stdout=subprocess.PIPE, text=True, check=True
    )
    cases = [{**one, **other} for one, other in zip(tuned, json.loads(child.stdout), strict=True)]
    ratios = [case["torch_over_answer"] for case in cases]
    print(
        json.dumps(
            {
                "format": 1,
                "machine": _machine(),
                "dtype": DTYPE,
                "seconds_each": arguments.seconds,
                "answered": sum(case["source"] != "none" for case in cases),
                "libraries": sum(case["source"] == "library" for case in cases),
                "geometric_mean": round(statistics.geometric_mean(ratios), 3),
                "cases": cases,
            },
            indent=1,
        )
    )


def _tuned(shape: str, seconds: float) -> dict[str, Any]:
    import skipjack

    result = skipjack.tune(f"matmul:{shape}", dtype=DTYPE, device="gpu", seconds=seconds)
    print(f"{shape}: {result.status}, {result.solver}", file=sys.stderr, flush=True)
    return {"shape": shape, "outcome": str(result.status), "tuned": result.solver}


def _asked(shape: str) -> dict[str, Any]:
    import skipjack

    torch: Any = importlib.import_module("torch")
    torch.zeros(1, device="cuda")
    began = time.perf_counter()
    found: Any = skipjack.lookup(f"matmul:{shape}", dtype=DTYPE, device="gpu")
    first_s = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(_ASKS):
        skipjack.lookup(f"matmul:{shape}", dtype=DTYPE, device="gpu")
    again_us = (time.perf_counter() - began) / _ASKS * 1e6
    if found is None:
        return {"source": "none", "torch_over_answer": 1.0}
    m, n, k = map(int, shape.split("x"))
    left = torch.randn(m, k, device="cuda", dtype=torch.float16)
    right = torch.randn(k, n, device="cuda", dtype=torch.float16)
    out, expected = (torch.empty(m, n, device="cuda", dtype=torch.float16) for _ in range(2))
    found(left, right, out=out)
    torch.mm(left, right, out=expected)
    error = ((out.double() - expected.double()).abs().max() / expected.double().std()).item()
    ratios = _ratios(
        lambda: found(left, right, out=out), lambda: torch.mm(left, right, out=expected)
    )
    return {
        "source": found.source,
        "solver": found.solver,
        "error_over_std": round(error, 5),
        "first_lookup_ms": round(first_s * 1e3, 2),
        "repeated_lookup_us": round(again_us, 2),
        "torch_over_answer": round(statistics.median(ratios), 3),
        "spread": [round(min(ratios), 3), round(max(ratios), 3)],
    }


def _ratios(answer: Any, peer: Any) -> list[float]:
    """How many times longer PyTorch takes, round by round."""
    for call in (answer, peer):
        for _ in range(_CALLS):
            call()
    return [_events_ms(peer) / _events_ms(answer) for _ in range(_ROUNDS)]


def _events_ms(call: Any) -> float:
    torch: Any = importlib.import_module("torch")
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(_CALLS):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def _machine() -> dict[str, str]:
    torch: Any = importlib.import_module("torch")
    triton: Any = importlib.import_module("triton")
    return {
        "date": date.today().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()

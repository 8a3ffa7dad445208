"""Are tuned kernels right wherever a program calls them? On side streams, in graphs, in threads.

Runs on a GPU machine with Triton and PyTorch: each problem is tuned with few trials, then its
kernel runs on tensors of PyTorch on several streams at once, inside a captured graph that is
replayed, and in threads, each against PyTorch's own result. Prints one JSON without any times.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_summary import FORMAT

Record = dict[str, Any]
MATMUL, BMM, CONV, SOFTMAX = (
    "matmul:512x384x256:f16",
    "bmm:70000x16x16x16:f16",
    "conv2d:n2c16h14w14k32y3x3p1q1:f16:NHWC:fwd",
    "softmax:1024x1000:f32",
)
STREAMS, REPEATS = 4, 20


def tensors(key: str) -> tuple[list[Any], Callable[..., Any]]:
    """Inputs of a problem, and PyTorch's way to compute it."""
    import torch

    def some(*shape: int, dtype: Any = torch.float16) -> Any:
        return torch.randint(-3, 4, shape, device="cuda").to(dtype)

    if key == MATMUL:
        return [some(512, 256), some(256, 384)], torch.matmul
    if key == BMM:
        return [some(70000, 16, 16), some(70000, 16, 16)], torch.bmm
    if key == SOFTMAX:
        return [some(1024, 1000, dtype=torch.float32)], lambda x: torch.softmax(x, 1)

    def convolution(image: Any, weights: Any) -> Any:
        """Channels last, as the arrays lie."""
        found = torch.conv2d(image.permute(0, 3, 1, 2), weights.permute(0, 3, 1, 2), padding=1)
        return found.permute(0, 2, 3, 1)

    return [some(2, 14, 14, 16), some(32, 3, 3, 16)], convolution


def near(found: Any, expected: Any) -> bool:
    """Whole numbers are exact in products; softmax has a rounding error."""
    import torch

    return bool(torch.allclose(found.float(), expected.float(), rtol=2e-3, atol=2e-3))


def on_streams(kernel: Any, inputs: list[Any], compute: Callable[..., Any]) -> bool:
    """Several streams at once, each with tensors that were just written on it."""
    import torch

    torch.cuda.synchronize()
    pairs = []
    cuda: Any = torch.cuda
    for _ in range(REPEATS):
        for stream in [cuda.Stream() for _ in range(STREAMS)]:
            with torch.cuda.stream(stream):
                mine = [tensor * 1 for tensor in inputs]
                pairs.append((kernel(*mine), compute(*mine), mine))
    torch.cuda.synchronize()
    return all(near(found, expected) for found, expected, _ in pairs)


def in_a_graph(kernel: Any, inputs: list[Any], compute: Callable[..., Any]) -> bool:
    """Captured once, replayed on other numbers."""
    import torch

    mine = [tensor.clone() for tensor in inputs]
    out = torch.empty_like(compute(*mine).contiguous())
    kernel(*mine, out=out)  # code is loaded before anything is captured
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*mine, out=out)
    for sign in (-1, 2):
        for tensor, first in zip(mine, inputs, strict=True):
            tensor.copy_(first * sign)
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        if not near(out, compute(*mine)):
            return False
    return True


def in_threads(kernel: Any, inputs: list[Any], compute: Callable[..., Any]) -> bool:
    """Several threads share one kernel."""
    good: list[bool] = []
    threads = [
        threading.Thread(target=lambda: good.append(on_streams(kernel, inputs, compute)))
        for _ in range(STREAMS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return good == [True] * STREAMS


def check(key: str, budget: int, home: Path) -> Record:
    """Tune one problem and call its kernel everywhere."""
    from skipjack.devices import device_for
    from skipjack.operations import parse
    from skipjack.settings import load_settings
    from skipjack.tuning import Tuner, make_budget
    from skipjack.tuning.study import TuneOptions

    problem = parse(key)
    with Tuner(load_settings(user_dir=home), device_for([problem.dtype], "gpu")) as tuner:
        result = tuner.tune(problem, TuneOptions(budget=make_budget(budget, None)))
    wrong = sum(trial.status == "wrong" for trial in result.trials)
    record: Record = {"problem": key, "solver": result.solver, "trials": len(result.trials)}
    record |= {"failed": sum(trial.status.failed for trial in result.trials), "wrong": wrong}
    kernel = result.kernel()
    inputs, compute = tensors(key)
    for name, way in (("streams", on_streams), ("graph", in_a_graph), ("threads", in_threads)):
        try:
            record[name] = way(kernel, inputs, compute)
        except Exception:
            record[name] = traceback.format_exc(limit=3)
    return record


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        found = [check(key, options.budget, Path(home)) for key in (MATMUL, BMM, CONV, SOFTMAX)]
    print(json.dumps({"format": FORMAT, "kind": "gpu streams", "problems": found}, indent=1))


if __name__ == "__main__":
    main()

"""A layer norm that is tuned when it is first called, and remembered: ``@skipjack.autotune``.

    python examples/triton/tuned_layernorm.py

The second run of this script times nothing: the results are in the user directory.
"""

import sys
import time

import torch
import triton
import triton.language as tl

import skipjack


@skipjack.autotune(
    space={"BLOCK": [512, 1024, 2048, 4096, 8192], "num_warps": [2, 4, 8, 16]},
    constraints=["BLOCK <= 2 * cols", "BLOCK >= 64 * num_warps"],
    key=["rows", "cols"],
)
@triton.jit
def layer_norm(y_ptr, x_ptr, gamma_ptr, beta_ptr, rows, cols, eps, BLOCK: tl.constexpr):
    """One program for each row, in blocks: mean and variance in one pass, the result in another."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * cols
    y_ptr += row * cols
    total = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < cols, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total) / cols
    variance = tl.sum(squares) / cols - mean * mean
    scale = 1.0 / tl.sqrt(variance + eps)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < cols
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        gamma = tl.load(gamma_ptr + at, mask=inside).to(tl.float32)
        beta = tl.load(beta_ptr + at, mask=inside).to(tl.float32)
        tl.store(y_ptr + at, (x - mean) * scale * gamma + beta, mask=inside)


def main(rows: int = 4096, cols: int = 8192) -> int:
    """Tune, say what was found, compare with torch."""
    if not torch.cuda.is_available():
        print("there is no GPU here: run this where torch finds one")
        return 0
    x = torch.randn(rows, cols, device="cuda", dtype=torch.float16)
    gamma, beta = (torch.randn(cols, device="cuda", dtype=torch.float16) for _ in range(2))
    y = torch.empty_like(x)
    started = time.perf_counter()
    layer_norm[(rows,)](y, x, gamma, beta, rows, cols, 1e-5)
    torch.cuda.synchronize()
    print(f"ready after {time.perf_counter() - started:.2f} s with {layer_norm.best_config}")
    for config, (time_ms, *_) in sorted(layer_norm.configs_timings.items(), key=lambda p: p[1]):
        print(f"  {time_ms * 1e3:8.1f} us  {config}")
    for config, reason in layer_norm.failures.items():
        print(f"    failed: {config}: {reason}")
    exact = torch.nn.functional.layer_norm(x.float(), (cols,), gamma.float(), beta.float())
    print(f"largest error {float((y.float() - exact).abs().max()):.2g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

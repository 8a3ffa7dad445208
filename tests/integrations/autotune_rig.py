"""A small kernel with configs, and a fake GPU to call it on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from fake_triton import FakeDriver, FakeTimer

import skipjack


@triton.jit
def add_one(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Adds one."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


def config(block: int, warps: int = 4, **more: Any) -> Any:
    return triton.Config({"BLOCK": block}, num_warps=warps, **more)


THREE = [config(64), config(128), config(256)]


def by_block(told: Any, _: object) -> float:
    """Larger blocks are faster."""
    return 1e6 / float(told.BLOCK)


class Rig:
    """A fake GPU, and how often what ran on it."""

    def __init__(self, fake: FakeDriver, timer: FakeTimer) -> None:
        self.fake, self.timer = fake, timer
        self.x = torch.zeros(1024)
        self.y = torch.zeros(1024)

    def call(self, kernel: Any, n: int = 1000, **kwargs: Any) -> Any:
        """One call; gives the config that it ran with."""
        kernel[(8,)](self.x, self.y, n, **kwargs)
        return kernel.best_config

    def sampled(self) -> set[int]:
        """Blocks that were timed since the last time."""
        blocks = set(self.timer.sampled)
        self.timer.sampled.clear()
        return blocks


def tuned(configs: Any = THREE, function: Any = add_one, **more: Any) -> Any:
    return skipjack.autotune(configs=list(configs), key=["n"], **more)(function)


@contextmanager
def compiler_that_fails(fail: Callable[[], object], block: int) -> Iterator[None]:
    """On one block of `add_one`, in this way."""
    _ = add_one.device_caches[0]  # sets what it compiles with
    compiler = add_one.compile

    def compile_or_fail(src: Any, **options: Any) -> Any:
        if block in src.constants.values():
            fail()
        return compiler(src, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(add_one, "compile", compile_or_fail)
        yield

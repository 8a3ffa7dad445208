"""Kernels for the hook that are built, not searched for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hooked_calls import ForcedHook

from skipjack.integrations.torch.hook import existing_hook
from skipjack.native import detect
from skipjack.operations import parse
from skipjack.runtime.local_kernels import KernelCode, TunedKernel
from skipjack.solvers import solvers_for


def built_kernel(key: str, solver_name: str = "", threads: int = 1) -> TunedKernel:
    """The default kernel of a problem by a solver, the first that takes it without a name."""
    problem, device = parse(key), detect(threads)
    solver = solvers_for(problem, device, solver_name or None)[0]
    config = solver.space(problem, device).default()
    blob = solver.compile(solver.lower(problem, device, config))
    slots = tuple(solver.slots(problem, device, config))
    code = KernelCode(blob.data, blob.digest, blob.symbol, blob.abi, slots)
    return TunedKernel(problem, code, solver=solver.name)


@pytest.fixture
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No bank, one thread, nothing decided; the hook is away afterwards."""
    torch: Any = pytest.importorskip("torch")
    hooked = pytest.importorskip("skipjack.torch")
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path))
    monkeypatch.setenv("SKIPJACK_SYSTEM_DB_PATH", str(tmp_path))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    if hook := existing_hook():
        hook.forget()
    yield
    torch.set_num_threads(before)
    hooked.disable()


@pytest.fixture
def built_kernels(own_directory: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Every problem has a kernel: the default of a solver, which a test may name."""
    name = ""

    def lookup(key: str, *, device: str, **_: object) -> TunedKernel:
        return built_kernel(key, name, int(device.rpartition("/")[2]))

    def choose(solver_name: str) -> None:
        nonlocal name
        name = solver_name

    monkeypatch.setattr("skipjack.integrations.torch.selection.call_chooser.lookup", lookup)
    return choose


@pytest.fixture
def forced(own_directory: None) -> Iterator[ForcedHook]:
    """Enabled, with kernels of ours wherever there can be any."""
    with ForcedHook() as hook:
        yield hook

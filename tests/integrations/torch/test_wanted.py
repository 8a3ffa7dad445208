"""Which operations are hooked: all that cost little, the others where it may be worth it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skipjack.bank import Bank, BankEntry, BankLayer, layers_of
from skipjack.integrations.torch.dispatcher_registration import is_costly, wanted_signatures
from skipjack.integrations.torch.selection import RaceResult, RaceResults, StoredRace
from skipjack.integrations.torch.selection.race import RaceSubject
from skipjack.integrations.torch.stubs import SIGNATURES, TorchBackend


def banks(folder: Path, *known: tuple[str, str], solver: str = "nest") -> tuple[BankLayer, ...]:
    """That of a user who knows these problems on these devices."""
    folder.mkdir(exist_ok=True)
    bank = Bank.open(folder)
    for problem, device in known:
        bank.put(
            BankEntry(
                problem=problem,
                device=f"class of {device}",
                device_name=device,
                solver=solver,
                solver_version=1,
                config={"tile": 4} if solver == "nest" else {},
                time_ns=100.0,
                default_ns=200.0,
                vendor_ns=None,
                vendor="",
                speedup={"default": {"ratio": 2.0, "low": 1.9, "high": 2.1}},
            )
        )
    return layers_of(folder, (), folder)


def verdict(op: str, before_ns: float, after_ns: float | None, backend: str) -> StoredRace:
    way = 1 if after_ns is not None else None
    found = RaceResult(way, 1.0, before_ns, after_ns, "")
    return StoredRace(RaceSubject(f"aten::{op}", backend, "2.13.0"), found)


def hooked(layers: tuple[BankLayer, ...], *verdicts: StoredRace) -> dict[str, set[str]]:
    found, vain = wanted_signatures(SIGNATURES, layers, verdicts)
    assert not set(found) & set(vain)
    return {
        backend.value: {one.name for one in found if one.backend is backend}
        for backend in TorchBackend
    }


def test_without_a_bank_only_what_costs_little_is_hooked(tmp_path: Path) -> None:
    cheap = {one.name for one in SIGNATURES if not is_costly(one)}
    assert {"mm", "convolution", "_softmax"} <= cheap and "addmm" not in cheap
    assert hooked(banks(tmp_path)) == {"cpu": cheap, "cuda": set()}


@pytest.mark.parametrize(
    ("problem", "device", "cpu", "cuda"),
    [
        ("matmul:8x8x8:f32", "znver4/1", set(), set()),
        ("matmul:8x8x8/tb=1/bias=1:f32", "znver4/1", {"addmm"}, set()),
        ("bmm:2x8x8x8/beta=1:f32", "znver4/1", {"baddbmm"}, set()),
        ("matmul:8x8x8:f16", "sm_90/132", set(), {"mm"}),
        ("matmul:8x8x8/bias=1:f16", "sm_90/132", set(), {"mm", "addmm"}),
        ("matmul:8x8x8/bias=1:f32", "sm_90/132", set(), set()),
        ("softmax:8x8:bf16", "sm_90/132", set(), {"_softmax"}),
        (
            *("conv2d:n1c8h6w6k8y3x3p1q1:f16:NHWC:fwd", "sm_90/132", set()),
            {"convolution", "convolution_backward"},
        ),
    ],
)
def test_what_a_bank_knows_is_hooked(
    tmp_path: Path, problem: str, device: str, cpu: set[str], cuda: set[str]
) -> None:
    found = hooked(banks(tmp_path, (problem, device)))
    assert found["cuda"] == cuda
    assert found["cpu"] & {"addmm", "baddbmm"} == cpu


def test_what_a_library_computes_is_not_hooked(tmp_path: Path) -> None:
    layers = banks(tmp_path, ("matmul:8x8x8/bias=1:f32", "znver4/1"), solver="mkl")
    assert "addmm" not in hooked(layers)["cpu"]


def test_what_gains_less_than_it_costs_is_not_hooked(tmp_path: Path) -> None:
    layers = banks(tmp_path, ("matmul:8x8x8/bias=1:f32", "znver4/1"))
    small = verdict("addmm", 9_000.0, 8_000.0, "cpu")
    large = verdict("addmm", 90_000.0, 60_000.0, "cpu")
    lost = verdict("addmm", 50_000.0, None, "cpu")
    assert "addmm" in hooked(layers)["cpu"]
    assert "addmm" in hooked(layers, small)["cpu"], "it was raced against PyTorch without the hook"
    assert "addmm" not in hooked(layers, lost)["cpu"]
    assert "addmm" not in hooked(layers, small, lost)["cpu"], "the detour of the other costs more"
    assert "addmm" in hooked(layers, small, large, lost)["cpu"]
    assert "addmm" in hooked(layers, verdict("addmm", 9_000.0, None, "cuda"))["cpu"]


def test_verdicts_are_read_back(tmp_path: Path) -> None:
    store = RaceResults(tmp_path)
    stored = verdict("mm", 2_000.0, 1_000.0, "cpu")
    assert store.put("a", stored.verdict, stored.subject) == stored.verdict
    (tmp_path / "torch" / "b.json").write_text('{"format":1,"way":1}')
    (tmp_path / "torch" / "c.json").write_text("nothing")
    assert list(store.all()) == [stored]
    assert store.find("a") == stored.verdict
    other = replace(stored.verdict, gain=3.0)
    assert store.put("a", other, stored.subject) == stored.verdict
    assert store.put("a", other, stored.subject, stored.verdict) == other
    assert store.find("b") is None

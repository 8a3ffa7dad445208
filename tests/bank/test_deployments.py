"""The deployment is part of a lookup: an entry of another deployment is a prior."""

from pathlib import Path
from typing import Any

from skipjack.bank import FIND, Bank
from skipjack.core import Device, deployed_protocol
from skipjack.core.timing import cpu_protocol

MakeEntry = Any

PROBLEM, DEVICE = "matmul:8x8x8:f32", "cpu:znver4/1:abc"
EAGER = deployed_protocol(Device("cpu", "znver4", 1), "eager").key


def test_an_entry_of_another_deployment_is_no_answer(bank: Bank, entry: MakeEntry) -> None:
    eager = entry(protocol=EAGER)
    bank.put(eager)
    assert bank.lookup(PROBLEM, DEVICE) is None
    assert bank.lookup(PROBLEM, DEVICE, protocol="native/hot") is None
    assert bank.lookup(PROBLEM, DEVICE, protocol="eager/hot") == eager
    assert bank.ranked(*eager.key) == (eager,)
    assert bank.priors(PROBLEM, DEVICE) == (eager,)
    assert bank.priors(PROBLEM, DEVICE, "eager/hot") == ()


def test_entries_of_two_deployments_stay_side_by_side_however_strong_one_is(
    bank: Bank, entry: MakeEntry
) -> None:
    strong = {"vendor": {"ratio": 9.0, "low": 8.0, "high": 9.5}}
    native, eager = entry(protocol=cpu_protocol().key), entry(protocol=EAGER, speedup=strong)
    other = entry(config={"tile": 2})
    bank.add([eager, other, native])
    assert bank.lookup(PROBLEM, DEVICE) in (native, other)
    assert {one.deployed for one in bank.entries()} == {"native/hot", "eager/hot"}
    assert eager in bank.priors(PROBLEM, DEVICE)
    assert len(bank.priors(PROBLEM, DEVICE)) == 2


def test_entries_of_earlier_versions_have_the_default_of_their_device(
    tmp_path: Path, entry: MakeEntry
) -> None:
    cpu, gpu = entry(), entry(device="cuda:sm_90/132:abc", kind=FIND)
    assert (cpu.protocol, cpu.deployed) == ("", "native/hot")
    assert (gpu.protocol, gpu.deployed) == ("", "graph/cold")
    bank = Bank.open(tmp_path)
    bank.add([cpu, gpu])
    assert bank.lookup(PROBLEM, DEVICE, protocol="native/hot") == cpu
    assert bank.lookup(PROBLEM, gpu.device, FIND) == gpu


def test_an_index_finds_deployments_apart(tmp_path: Path, entry: MakeEntry) -> None:
    bank = Bank.open(tmp_path)
    known = [entry(f"add:{n}:f32", protocol=p) for n in range(200) for p in ("", EAGER)]
    bank.add(known)
    assert bank.path.with_suffix(".index").exists()
    reader = Bank.open(tmp_path)
    for one in known[::37]:
        assert reader.lookup(one.problem, DEVICE, protocol=one.deployed) == one

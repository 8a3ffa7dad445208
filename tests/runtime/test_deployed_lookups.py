"""Lookups answer for the deployment that is asked about, and with what is fresh first."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import skipjack
from skipjack.bank import Bank, BankEntry
from skipjack.errors import UsageError
from skipjack.execute import Ratio
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime.local_kernels import KernelCode
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.tuning.study import Speedup, TuneOutcome, TuneResult

KEY = "add:96"


def entry(solver: str = "nest", **changes: Any) -> BankEntry:
    """A kernel of ours, or what a library does."""
    device, found = cpu.detect(), find_solver(solver)
    config = found.space(parse(KEY), device).default()
    return BankEntry(
        parse(KEY).key, device.class_key, device.name, solver, found.version, config, 1.0, 2.0,
        None, "", {}, **changes,
    )  # fmt: skip


@pytest.fixture
def bank(user_dir: Path) -> Bank:
    return Bank.open(user_dir)


def test_an_answer_is_of_the_deployment_that_is_asked_about(bank: Bank) -> None:
    bank.add([entry(protocol="native/hot"), entry("numpy", protocol="eager/hot")])
    native, eager = skipjack.lookup(KEY), skipjack.lookup(KEY, protocol="eager/hot")
    assert native is not None and eager is not None
    assert (native.solver, eager.solver) == ("nest", "numpy")
    assert native.source == eager.source == "user"
    named = skipjack.lookup(KEY, protocol="native/hot")
    assert named is not None and named.solver == "nest"
    assert skipjack.lookup(KEY, protocol="eager/cold", strict=True) is None
    assert pickle.loads(pickle.dumps(eager)).solver == "numpy"


def test_a_tuned_kernel_is_found_again_as_it_was_deployed(bank: Bank) -> None:
    bank.add([entry(protocol="native/hot"), entry("numpy", protocol="eager/hot")])
    problem, device, nest = parse(KEY), cpu.detect(), find_solver("nest")
    config = nest.space(problem, device).default()
    assert isinstance(nest, BuildingSolver)
    blob = nest.compile(nest.lower(problem, device, config))
    slots = tuple(nest.slots(problem, device, config))
    result = TuneResult(
        *(
            problem,
            device.name,
            "nest",
            TuneOutcome.BANKED,
            config,
            [],
            Speedup(Ratio(1.0, 1.0, 1.0)),
        ),
        *(1.0, 0.0, 1.0, 1, 1, 1.0, 0.0),
        code=KernelCode(blob.data, blob.digest, blob.symbol, blob.abi, slots),
        deployed="eager/hot",
    )
    assert pickle.loads(pickle.dumps(result.kernel())).solver == "numpy"
    usual = replace(result, deployed="native/hot")
    assert pickle.loads(pickle.dumps(usual.kernel())).solver == "nest"


def test_what_a_program_names_is_of_a_deployment_and_found_again_by_its_name(bank: Bank) -> None:
    bank.add([entry("numpy", protocol=way) for way in ("native/hot", "eager/hot")])
    with pytest.raises(UsageError, match="is not a deployment"):
        skipjack.lookup(KEY, solver="numpy", protocol="eager")
    config = find_solver("nest").space(parse(KEY), cpu.detect()).default()
    named = skipjack.lookup(KEY, solver="nest", config=config, protocol="eager/hot")
    again = pickle.loads(pickle.dumps(named))
    assert (again.source, again.solver) == ("explicit", "nest")
    library = pickle.loads(pickle.dumps(skipjack.lookup(KEY, solver="numpy")))
    assert (library.source, library.solver) == ("explicit", "numpy")


def test_an_entry_of_another_deployment_answers_nothing(bank: Bank) -> None:
    bank.add([entry(protocol="eager/hot")])
    assert skipjack.lookup(KEY, strict=True) is None
    found = skipjack.lookup(KEY)
    assert found is not None and found.source != "user"


@pytest.mark.parametrize("name", ["graph/hot", "eager", "fast/hot", "native/warm"])
def test_what_is_no_deployment_of_the_device_is_refused(bank: Bank, name: str) -> None:
    with pytest.raises(UsageError):
        skipjack.lookup(KEY, protocol=name)


def test_a_fresh_entry_answers_before_a_stale_one_with_stronger_evidence(bank: Bank) -> None:
    stale = entry(toolchain="llvm-1.0.0/llvmlite-0.0.1", evidence={"samples": 90})
    bank.add([entry("numpy"), stale])
    assert bank.entries() == [stale]
    found = skipjack.lookup(KEY, strict=True)
    assert found is not None and found.solver == "numpy"
    bank.clean(lambda one: one.solver == "numpy")
    left = skipjack.lookup(KEY, strict=True)
    assert left is not None and left.solver == "nest", "what is stale is better than nothing"

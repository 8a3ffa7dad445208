"""Jobs of a store that somebody has built, and what bundles make of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bundle_makers import (
    DEVICE,
    HOST,
    SHARED,
    Sham,
    digest_of,
    facts_of,
)

from skipjack.fleet.bundle.evaluating import Evaluated, Evaluation, evaluate_bundle
from skipjack.fleet.bundle.exporting import Exported, export_bundle
from skipjack.fleet.bundle.manifest import Slice
from skipjack.fleet.engine import Host
from skipjack.fleet.records import Claim, Label, Plan, Settlement, Want
from skipjack.fleet.states import Built, Stage
from skipjack.fleet.store.claims.bundling import Wanted
from skipjack.fleet.store.jobs.problems import NewProblem
from skipjack.fleet.store.store import Store
from skipjack.ledger.facts import read_facts
from skipjack.processes import ProcessIdentity

LABEL = "nightly"
BUILDER = Host("builder1", 4, 1 << 30, (DEVICE,))


def load(store: Store, count: int, label: str = LABEL) -> None:
    """New jobs of a label."""
    keys = [f"matmul:{n}x8x8:f32" for n in range(1, count + 1)]
    store.problems.add([NewProblem(key, "matmul", "", "f32") for key in keys], "some")
    store.jobs.add(Label(label, "ada"), [Plan(key, DEVICE.name) for key in keys])


def claimed(store: Store, stage: Stage, count: int) -> tuple[str, list[Claim]]:
    """Jobs in the hands of a coordinator."""
    owner = store.queue.sign_in(ProcessIdentity("head", 1), 60.0)
    machine = store.queue.register(BUILDER, "local")
    devices = (DEVICE,) if stage is Stage.EVALUATE else ()
    taken = store.queue.claim(owner, stage, [Want(machine.id, "0", devices, count)])
    return owner, [claim for claim, _ in taken]


def build(store: Store, count: int) -> list[int]:
    """Build so many jobs; all share one kernel and have one of their own."""
    owner, claims = claimed(store, Stage.BUILD, count)
    settlements = []
    for claim in claims:
        own = f"the kernel of job {claim.job}".encode()
        artifacts = {digest_of(data): data for data in (SHARED, own)}
        facts = read_facts(facts_of(f"built {claim.job}"))
        settlements.append(Settlement(claim, Built(), facts, tuple(artifacts), artifacts))
    assert store.queue.settle(owner, settlements) == []
    store.queue.sign_out(owner, "done")
    return [claim.job for claim in claims]


def export(store: Store, path: Path, part: str = "1/1", label: str = LABEL) -> Exported:
    return export_bundle(store, Wanted(label, part=Slice.parse(part)), path)


def evaluate(
    store: Store, jobs: Path, results: Path, fails: Sequence[int] = (), finished: bool = True
) -> Evaluated:
    """What a machine without the store would do."""
    worker = Sham()
    worker.fails = set(fails)
    worker.finished = finished
    how = Evaluation(host=HOST, worker=lambda: worker, gpu="0")
    return evaluate_bundle(jobs, results, store.key, how)

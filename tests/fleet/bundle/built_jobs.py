"""Built jobs of a store, and bundles of them."""

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

from skipjack.fleet.bundle import Evaluation, evaluate_bundle, export_bundle
from skipjack.fleet.bundle.evaluation import EvaluatedBundle
from skipjack.fleet.bundle.format import JobSlice
from skipjack.fleet.bundle.transfer import ExportedBundle
from skipjack.fleet.model import (
    Built,
    Claim,
    ClaimResult,
    Host,
    JobPlan,
    JobStage,
    Label,
    WorkRequest,
)
from skipjack.fleet.store import BundleSelection, NewProblem, Store
from skipjack.ledger import read_facts
from skipjack.processes import ProcessIdentity

LABEL = "nightly"
BUILDER = Host("builder1", 4, 1 << 30, (DEVICE,))


def load(store: Store, count: int, label: str = LABEL) -> None:
    """New jobs of a label."""
    keys = [f"matmul:{n}x8x8:f32" for n in range(1, count + 1)]
    store.problems.add([NewProblem(key, "matmul", "", "f32") for key in keys], "some")
    store.jobs.add(Label(label, "ada"), [JobPlan(key, DEVICE.name) for key in keys])


def claimed(store: Store, stage: JobStage, count: int) -> tuple[str, list[Claim]]:
    """Jobs in the hands of a coordinator."""
    owner = store.queue.start_lease(ProcessIdentity("head", 1), 60.0)
    machine = store.queue.register(BUILDER, "local")
    devices = (DEVICE,) if stage is JobStage.EVALUATE else ()
    taken = store.queue.claim(owner, stage, [WorkRequest(machine.id, "0", devices, count)])
    return owner, [claim for claim, _ in taken]


def build(store: Store, count: int) -> list[int]:
    """Build so many jobs; all share one kernel and have one of their own."""
    owner, claims = claimed(store, JobStage.BUILD, count)
    claim_results = []
    for claim in claims:
        own = f"the kernel of job {claim.job}".encode()
        artifacts = {digest_of(data): data for data in (SHARED, own)}
        facts = read_facts(facts_of(f"built {claim.job}"))
        claim_results.append(ClaimResult(claim, Built(), facts, tuple(artifacts), artifacts))
    assert store.queue.finish(owner, claim_results) == []
    store.queue.end_lease(owner, "done")
    return [claim.job for claim in claims]


def export(store: Store, path: Path, part: str = "1/1", label: str = LABEL) -> ExportedBundle:
    return export_bundle(store, BundleSelection(label, part=JobSlice.parse(part)), path)


def evaluate(
    store: Store, jobs: Path, results: Path, fails: Sequence[int] = (), finished: bool = True
) -> EvaluatedBundle:
    """What a machine without the store would do."""
    worker = Sham()
    worker.fails = set(fails)
    worker.finished = finished
    how = Evaluation(host=HOST, worker=lambda: worker, gpu="0")
    return evaluate_bundle(jobs, results, store.key, how)

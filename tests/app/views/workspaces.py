"""Workspaces with a little of everything, made by the functions that programs use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from skipjack.app.views import Workspace, WorkspacePlaces
from skipjack.bank import Bank, BankEntry
from skipjack.core import (
    Config,
    Device,
    Objective,
    Problem,
    Status,
    Study,
    TimingProtocol,
    Trial,
)
from skipjack.fleet.model import (
    Built,
    Claim,
    ClaimResult,
    Failed,
    Host,
    JobPlan,
    JobStage,
    Label,
    RunningLog,
    Told,
    WorkRequest,
)
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.ledger import (
    CandidateKey,
    DecisionRecord,
    Ledger,
    MeasurementRecord,
    MetricSamples,
)
from skipjack.operations import parse
from skipjack.processes import ProcessIdentity
from skipjack.settings import Settings

ZEN = Device("cpu", "znver4", 1, "a real one", ("avx2",), 8, 32, (("L1", 1 << 15),), 1 << 30, "s1")
KEY = "matmul:8x8x8:f32"
ODD = '<script>alert("1")</script>'
"""A text that would be markup."""
CREATED = "2026-01-01T00:00:00.000000Z"
STUDY = "5" * 32


def settings_in(place: Path) -> Settings:
    """Settings without a system bank."""
    return Settings(place, system_dir=place)


def workspace_in(place: Path, **places: Any) -> Workspace:
    """A workspace that looks for files below a directory only."""
    found = {"runs": (place / "runs",), "programs": (place,), "sweeps": (place,), **places}
    return Workspace(settings_in(place), WorkspacePlaces(**found))


class Fleet:
    """A store with a coordinator and one machine."""

    def __init__(self, store: Store, machine: str = "node1") -> None:
        self.store = store
        self.machine = store.queue.register(Host(machine, 8, 1 << 30, (ZEN,)), "local")
        self.owner = store.queue.start_lease(ProcessIdentity(machine, 1), 600.0)

    def load(self, *keys: str, label: str = "nightly", owner: str = "me") -> None:
        """Load a job for each problem."""
        self.store.problems.add(
            [NewProblem(key, key.partition(":")[0], "", "f32") for key in keys],
            "resnet50",
            source="a dump",
            model="resnet",
        )
        made = Label(label, owner, versions="rocm 6", image="image:1", ticket="PERF-1")
        self.store.jobs.add(made, [JobPlan(key, ZEN.name) for key in keys])

    def claim(self, stage: JobStage) -> Claim:
        """Claim the next job."""
        want = WorkRequest(self.machine.id, "0", (ZEN,), 1, gpu="0")
        ((claim, _),) = self.store.queue.claim(self.owner, stage, [want])
        return claim

    def build(self) -> int:
        """Build the next job."""
        claim = self.claim(JobStage.BUILD)
        self.finish(claim, Built(), log="built it\n")
        return claim.job

    def evaluate(self, *, best_ns: float = 1234.5) -> int:
        """Evaluate the next built job, with two trials."""
        claim = self.claim(JobStage.EVALUATE)
        result = {"status": "banked", "solver": "loops", "config": {"tile": 8}, "time_ns": best_ns}
        self.finish(
            claim,
            Told(True),
            facts=facts(best_ns),
            trials=3,
            failed_trials=1,
            best_ns=best_ns,
            result=result,
            log="timed it\n",
        )
        return claim.job

    def fail(self, reason: str) -> int:
        """Fail the next job in a way that no other worker could avoid."""
        claim = self.claim(JobStage.BUILD)
        self.finish(claim, Failed(reason, hopeless=True))
        return claim.job

    def finish(self, claim: Claim, event: Any, **more: Any) -> None:
        """Store the result of a claim."""
        assert not self.store.queue.finish(self.owner, [ClaimResult(claim, event, **more)])

    def say(self, claim: Claim, text: str) -> None:
        """Store the log so far of a running task."""
        self.store.queue.store_logs(self.owner, [RunningLog(claim.job, claim.attempt, text)])


def facts(best_ns: float) -> dict[str, list[dict[str, Any]]]:
    """The ledger's rows of a round: three trials, of which one failed."""
    log = {"study": STUDY, "solver_version": 1, "epoch": 0, "created": CREATED}
    told = (
        ('{"tile":4}', "ok", 2.0 * best_ns, ""),
        ('{"tile":8}', "ok", best_ns, ""),
        ('{"tile":16}', "crash", None, ODD),
    )
    samples = [best_ns, best_ns * 1.02, best_ns * 0.98]
    metrics = json.dumps({"time_ns": {"samples": samples, "unit": "ns"}})
    return {
        "studies": [
            {
                **{"id": STUDY, "problem": KEY, "solver": "loops", "device": "cpu:znver4/1:0"},
                **{"searcher": "random", "seed": "7", "space": "s", "objective": "time_ns:min"},
                **{"protocol": "p", "created": CREATED},
            }
        ],
        "study_log": [
            {
                **log,
                **{"id": f"l{seq}", "seq": seq, "kind": "tell", "config": config},
                **{"status": status, "value": value, "spread": 0.01, "reason": reason},
                "metrics": "{}",
            }
            for seq, (config, status, value, reason) in enumerate(told, 1)
        ],
        "candidates": [
            {
                **{"id": "c8", "problem": KEY, "solver": "loops", "solver_version": 1},
                **{"config": '{"tile":8}', "created": CREATED},
            }
        ],
        "measurements": [
            {
                **{"id": "m8", "candidate": "c8", "session": "x", "block": 0, "disturbed": 1},
                **{"metrics": metrics, "status": "ok", "reason": "", "seq": 1, "protocol": "p"},
                **{"device_instance": "i", "device_class": "cpu:znver4/1:0", "created": CREATED},
            }
        ],
    }


def open_fleet(place: Path) -> Store:
    """The store in a directory."""
    return open_store(settings=settings_in(place))


# A ledger.


def fill_ledger(place: Path, key: str = KEY) -> Study:
    """A search of six trials, samples of two configs, and a decision."""
    problem: Problem = parse(key)
    study = Study(
        problem=problem,
        solver="loops",
        device=ZEN.class_key,
        searcher="random",
        seed=7,
        space="s",
        objective=Objective(),
        protocol=TimingProtocol(),
    )
    with Ledger.open(place) as ledger:
        ledger.start_study(study, 1)
        for tile, pack, value in TRIALS:
            config = Config(tile=tile, pack=pack)
            ledger.log_ask(study.id, config)
            status = Status.OK if value else Status.BUILD_ERROR
            ledger.log_tells(study.id, [Trial(config, status, value, 0.01, "" if value else ODD)])
        ledger.add_measurements(
            [
                _block(problem.key, Config(tile=tile, pack=True), middle)
                for tile, middle in ((4, 100.0), (8, 101.0), (16, 300.0))
            ]
        )
        record = {"time_ns": 100.0, "evidence": {}}
        best = Config(tile=4, pack=True)
        ledger.add_decision(
            DecisionRecord(study.id, problem.key, ZEN.class_key, "loops", best, "kept", record)
        )
    return study


TRIALS = (
    (4, False, 400.0),
    (8, False, None),
    (16, False, 500.0),
    (4, True, 100.0),
    (8, True, 101.0),
    (16, True, 300.0),
)
"""Tiles, whether packed, and values."""


def _block(problem: str, config: Config, middle: float) -> MeasurementRecord:
    values = tuple(middle * factor for factor in (0.97, 0.99, 1.0, 1.01, 1.03))
    return MeasurementRecord(
        CandidateKey(problem, "loops", 1, config.key),
        "source",
        ZEN.instance_key,
        ZEN.class_key,
        TimingProtocol().key,
        "session-1",
        0,
        {"time_ns": MetricSamples("ns", values)},
        disturbed=2,
    )


# A bank.


def entry(problem: str = KEY, **changes: Any) -> BankEntry:
    """An entry of a bank."""
    known: dict[str, Any] = {
        "problem": problem,
        "device": ZEN.class_key,
        "device_name": ZEN.name,
        "solver": "loops",
        "solver_version": 1,
        "config": {"tile": 8},
        "time_ns": 100.0,
        "default_ns": 200.0,
        "vendor_ns": 150.0,
        "vendor": "numpy",
        "speedup": {"default": {"ratio": 2.0, "low": 1.9, "high": 2.1}},
        "evidence": {"samples": 20},
        "created": CREATED,
        "protocol": TimingProtocol().key,
    }
    return BankEntry(**{**known, **changes})


def fill_bank(place: Path, *entries: BankEntry) -> Path:
    """A bank in a directory; returns the directory."""
    place.mkdir(parents=True, exist_ok=True)
    Bank.open(place).add(entries or [entry()])
    return place

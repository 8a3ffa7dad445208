"""From what an engine reports to what happened to a job. Pure."""

from __future__ import annotations

import math

from skipjack.errors import NewerFormatError, StorageError
from skipjack.fleet.engine import Done
from skipjack.fleet.records import Claim, Settlement
from skipjack.fleet.states import (
    ArtifactLost,
    Built,
    Event,
    Failed,
    Inapplicable,
    Lost,
    Stage,
    Told,
)
from skipjack.fleet.task import Outcome
from skipjack.ledger import read_facts


def settlement_of(claim: Claim, done: Done) -> Settlement:
    """What is to be written down about a claim."""
    outcome = done.outcome
    if outcome is None:
        return Settlement(claim, Lost(done.lost or "the worker is gone"), log=done.lost)
    event = event_of(claim.stage, outcome)
    if not isinstance(event, Built | Told):
        return Settlement(claim, event, log=outcome.log)
    try:
        facts = read_facts(outcome.facts) if outcome.facts else {}
    except (StorageError, NewerFormatError) as error:
        return Settlement(claim, Failed(f"the results cannot be read: {error}"), log=outcome.log)
    return Settlement(
        claim,
        event,
        facts=facts,
        digests=outcome.digests,
        artifacts=outcome.artifacts,
        trials=outcome.trials,
        failed_trials=outcome.failed_trials,
        best_ns=outcome.best_ns if math.isfinite(outcome.best_ns or 0.0) else None,
        result=outcome.result,
        log=outcome.log,
    )


def event_of(stage: Stage, outcome: Outcome) -> Event:
    """What an outcome means for its job."""
    if outcome.stage is not stage:
        return Failed(f"a worker answered a {stage} with the outcome of a {outcome.stage}")
    if outcome.failed:
        return Failed(outcome.failed, outcome.hopeless)
    if outcome.artifact_lost and stage is Stage.EVALUATE:
        return ArtifactLost(outcome.artifact_lost)
    if stage is Stage.BUILD:
        return Inapplicable(outcome.inapplicable) if outcome.inapplicable else Built()
    return Told(finished=outcome.finished)

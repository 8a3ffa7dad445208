"""From outcomes to claim results."""

from __future__ import annotations

import pytest

from skipjack.fleet.model import Built, Claim, Done, Failed, JobStage, TaskOutcome, claim_result_of
from skipjack.ledger import write_facts

CLAIM = Claim(7, 1, JobStage.BUILD, 1, "0")


def built(facts: str) -> Done:
    return Done("0", 7, TaskOutcome(7, JobStage.BUILD, facts=facts, log="said"))


def test_the_rows_of_an_outcome_are_settled_by_table() -> None:
    row = {"id": "p", "text": "p", "created": "2026-01-01T00:00:00.000000Z"}
    claim_result = claim_result_of(CLAIM, built(write_facts({"protocols": [row]})))
    assert (claim_result.event, claim_result.facts) == (Built(), {"protocols": [row]})
    assert claim_result_of(CLAIM, built("")).facts == {}


@pytest.mark.parametrize(
    "facts",
    [
        "{damaged",
        '{"format": 99, "tables": {}}',
        '{"format": 3, "tables": {"jobs": {"columns": [], "rows": []}}}',
        '{"format": 3, "tables": {"protocols": {"columns": ["id"], "rows": [["p"]]}}}',
    ],
)
def test_results_that_no_table_holds_are_a_failure_of_their_worker(facts: str) -> None:
    claim_result = claim_result_of(CLAIM, built(facts))
    assert isinstance(claim_result.event, Failed) and "cannot be read" in claim_result.event.reason
    assert (claim_result.facts, claim_result.log) == ({}, "said")

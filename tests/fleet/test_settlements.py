"""From outcomes to settlements."""

from __future__ import annotations

import pytest

from skipjack.fleet.engine import Done
from skipjack.fleet.records import Claim
from skipjack.fleet.settlements import settlement_of
from skipjack.fleet.states import Built, Failed, Stage
from skipjack.fleet.task import Outcome
from skipjack.ledger import write_facts

CLAIM = Claim(7, 1, Stage.BUILD, 1, "0")


def built(facts: str) -> Done:
    return Done("0", 7, Outcome(7, Stage.BUILD, facts=facts, log="said"))


def test_the_rows_of_an_outcome_are_settled_by_table() -> None:
    row = {"id": "p", "text": "p", "created": "2026-01-01T00:00:00.000000Z"}
    settlement = settlement_of(CLAIM, built(write_facts({"protocols": [row]})))
    assert (settlement.event, settlement.facts) == (Built(), {"protocols": [row]})
    assert settlement_of(CLAIM, built("")).facts == {}


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
    settlement = settlement_of(CLAIM, built(facts))
    assert isinstance(settlement.event, Failed) and "cannot be read" in settlement.event.reason
    assert (settlement.facts, settlement.log) == ({}, "said")

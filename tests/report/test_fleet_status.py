"""What ``skipjack status`` says about machines that get no jobs."""

import pytest

from skipjack.app import FleetOverview, IdleMachines
from skipjack.fleet.model import Machine
from skipjack.report.fleet import render_status


def test_a_disabled_machine_is_enabled_and_any_other_resumed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    machines = [
        Machine(1, "gpu1", quarantined="new fans"),
        Machine(2, "gpu2", quarantined="disabled caches: 5 jobs in a row failed"),
        Machine(3, "gpu3", aborted=True),
        Machine(4, "gpu4"),
    ]
    idle = IdleMachines(machines, {"gpu1", "gpu4"}, [])
    render_status(FleetOverview("sqlite:///x", [], idle), json=False)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("machine")]
    assert said == [
        "machine gpu1 is quarantined: new fans; skipjack machine enable gpu1",
        "machine gpu2 is quarantined: disabled caches: 5 jobs in a row failed; "
        "skipjack resume --machine gpu2",
        "machine gpu3 is aborted; skipjack resume --machine gpu3",
    ]

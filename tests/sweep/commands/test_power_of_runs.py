"""Results per watt, or a note that says why there are none."""

from pathlib import Path

from skipjack.core import Status
from skipjack.interop.loadgen import LoadgenLog
from skipjack.sweep.bench import RunOutcome
from skipjack.sweep.commands.command_bench import with_power

LOG = LoadgenLog(
    {
        "effective_scenario": "Offline",
        "power_begin": "11-15-2026 10:00:00.000",
        "power_end": "11-15-2026 10:00:10.000",
    }
)
RUN = RunOutcome(Status.OK, {"result_samples_per_second": 500.0})


def spl(path: Path, watts: float) -> Path:
    lines = [f"Time,11-15-2026 10:00:{s:02d}.500,Watts,{watts},Volts,230" for s in range(10)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_run_has_its_rate_per_watt(tmp_path: Path) -> None:
    outcome = with_power(RUN, LOG, spl(tmp_path / "spl.txt", 250.0))
    assert outcome.metrics["power_w"] == 250.0 and outcome.metrics["qps_per_watt"] == 2.0


def test_what_is_missing_is_a_note(tmp_path: Path) -> None:
    assert with_power(RUN, None, tmp_path / "spl.txt").notes[0].startswith("no power: ")
    assert "cannot read" in with_power(RUN, LOG, tmp_path / "none.txt").notes[0]
    late = LoadgenLog(
        {
            **LOG.values,
            "power_begin": "11-15-2030 10:00:00.000",
            "power_end": "11-15-2030 10:00:10.000",
        }
    )
    noted = with_power(RUN, late, spl(tmp_path / "spl.txt", 1.0)).notes[0]
    assert "no samples between" in noted

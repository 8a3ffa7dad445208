"""Real runs of LoadGen against a system that only waits, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

from processes import PATIENCE_S

DUMMY = Path(__file__).with_name("dummy_sut.py")


def loadgen(directory: Path, scenario: str, service_s: float, **fields: float) -> Path:
    """Run once; the detail log."""
    settings = [f"{name}={value}" for name, value in fields.items()]
    command = [sys.executable, str(DUMMY), str(directory), scenario, str(service_s), *settings]
    subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True)
    return directory / "mlperf_log_detail.txt"

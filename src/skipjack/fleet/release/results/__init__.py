"""What a label, a bank or a file knows of problems: rankings, best configs, kernels."""

from __future__ import annotations

from skipjack.fleet.release.results.best_configs import (
    TunedProblem,
    tuned_in,
    tuned_in_bank,
    tuned_in_label,
)
from skipjack.fleet.release.results.config_text import params_of
from skipjack.fleet.release.results.found import FoundProblem, RankedEntry, ranked
from skipjack.fleet.release.results.json_lines import write_lines
from skipjack.fleet.release.results.readiness import (
    CACHED,
    CONFIGS,
    RANKINGS,
    TUNINGS,
    Readiness,
    Wanted,
    configs_readiness,
    readiness_of,
)
from skipjack.fleet.release.results.shipments import (
    Fetch,
    Shipment,
    fetching,
    kernels_in_label,
    outdated_remarks,
)
from skipjack.fleet.release.results.sources import (
    found_in,
    found_in_bank,
    found_in_file,
    found_in_label,
    miopen_key,
)
from skipjack.fleet.release.results.tolerant import Skipped, found_in_text

__all__ = [
    "CACHED",
    "CONFIGS",
    "RANKINGS",
    "TUNINGS",
    "Fetch",
    "FoundProblem",
    "RankedEntry",
    "Readiness",
    "Shipment",
    "Skipped",
    "TunedProblem",
    "Wanted",
    "configs_readiness",
    "fetching",
    "found_in",
    "found_in_bank",
    "found_in_file",
    "found_in_label",
    "found_in_text",
    "kernels_in_label",
    "miopen_key",
    "outdated_remarks",
    "params_of",
    "ranked",
    "readiness_of",
    "tuned_in",
    "tuned_in_bank",
    "tuned_in_label",
    "write_lines",
]

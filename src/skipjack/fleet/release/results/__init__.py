"""Results of a label, a bank or a file: rankings, best configs and kernels."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.release.results.best_configs import (
        TunedProblem,
        config_of,
        params_of,
        tuned_in,
        tuned_in_bank,
        tuned_in_label,
    )
    from skipjack.fleet.release.results.ranking_sources import (
        found_in,
        found_in_bank,
        found_in_label,
        miopen_key,
    )
    from skipjack.fleet.release.results.rankings import (
        FoundProblem,
        RankedEntry,
        SkippedLine,
        found_in_file,
        found_in_text,
        ranked,
        write_lines,
    )
    from skipjack.fleet.release.results.readiness import (
        CACHED,
        CONFIGS,
        RANKINGS,
        TUNINGS,
        JobSelection,
        Readiness,
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

__all__ = [
    "CACHED",
    "CONFIGS",
    "RANKINGS",
    "TUNINGS",
    "Fetch",
    "FoundProblem",
    "JobSelection",
    "RankedEntry",
    "Readiness",
    "Shipment",
    "SkippedLine",
    "TunedProblem",
    "config_of",
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "best_configs": "TunedProblem config_of params_of tuned_in tuned_in_bank tuned_in_label",
        "ranking_sources": "found_in found_in_bank found_in_label miopen_key",
        "rankings": (
            "FoundProblem RankedEntry SkippedLine found_in_file found_in_text ranked write_lines"
        ),
        "readiness": (
            "CACHED CONFIGS JobSelection RANKINGS Readiness TUNINGS configs_readiness readiness_of"
        ),
        "shipments": "Fetch Shipment fetching kernels_in_label outdated_remarks",
    },
)

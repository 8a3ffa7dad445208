"""How long schedules take: measured now, replayed from a table, or estimated."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.rates.live import LiveRates
    from skipjack.learn.rates.named_rates import (
        EXACTLY,
        LIVE,
        MIXED,
        MODEL,
        check_rated,
        open_rates,
        rated_device,
        read_tables,
        table_of,
    )
    from skipjack.learn.rates.rates import (
        CostModel,
        MixedRates,
        ModelRates,
        Rates,
        TableRates,
        close_rates,
        gflops,
        peak_gflops,
    )
    from skipjack.learn.rates.table import (
        LoopTable,
        TableHeader,
        join_tables,
        problem_line,
        read_table,
        table_files,
        write_table,
    )
    from skipjack.learn.rates.table_measurement import (
        MeasurePlan,
        measure_problem,
        open_table,
        played_schedules,
        table_header,
    )

__all__ = [
    "EXACTLY",
    "LIVE",
    "MIXED",
    "MODEL",
    "CostModel",
    "LiveRates",
    "LoopTable",
    "MeasurePlan",
    "MixedRates",
    "ModelRates",
    "Rates",
    "TableHeader",
    "TableRates",
    "check_rated",
    "close_rates",
    "gflops",
    "join_tables",
    "measure_problem",
    "open_rates",
    "open_table",
    "peak_gflops",
    "played_schedules",
    "problem_line",
    "rated_device",
    "read_table",
    "read_tables",
    "table_files",
    "table_header",
    "table_of",
    "write_table",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "live": "LiveRates",
        "named_rates": (
            "EXACTLY LIVE MIXED MODEL check_rated open_rates rated_device read_tables table_of"
        ),
        "rates": "CostModel MixedRates ModelRates Rates TableRates close_rates gflops peak_gflops",
        "table": (
            "LoopTable TableHeader join_tables problem_line read_table table_files write_table"
        ),
        "table_measurement": "MeasurePlan measure_problem open_table played_schedules table_header",
    },
)

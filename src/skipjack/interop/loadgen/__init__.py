"""Files of MLPerf's LoadGen: detail logs, user.conf, power logs and result directories."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.interop.loadgen.detail_log import (
        DETAIL_LOG,
        Judgement,
        LoadgenLog,
        RunValidity,
        judge,
        read_detail_log,
        scenario_metrics,
    )
    from skipjack.interop.loadgen.grid_results import (
        LOGS,
        WORKLOAD,
        GridResult,
        read_result,
        result_directory,
        write_meta,
    )
    from skipjack.interop.loadgen.power_log import average_watts, efficiency, read_power_log
    from skipjack.interop.loadgen.user_conf import user_conf_lines

__all__ = [
    "DETAIL_LOG",
    "LOGS",
    "WORKLOAD",
    "GridResult",
    "Judgement",
    "LoadgenLog",
    "RunValidity",
    "average_watts",
    "efficiency",
    "judge",
    "read_detail_log",
    "read_power_log",
    "read_result",
    "result_directory",
    "scenario_metrics",
    "user_conf_lines",
    "write_meta",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "detail_log": (
            "DETAIL_LOG Judgement LoadgenLog RunValidity judge read_detail_log scenario_metrics"
        ),
        "grid_results": "GridResult LOGS WORKLOAD read_result result_directory write_meta",
        "power_log": "average_watts efficiency read_power_log",
        "user_conf": "user_conf_lines",
    },
)

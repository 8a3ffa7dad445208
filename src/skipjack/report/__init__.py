"""How results are shown: tables for users, and JSON lines for programs."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report.bank import print_entries, print_entry
    from skipjack.report.device import device_record, print_device
    from skipjack.report.doctor import examine, print_findings
    from skipjack.report.escaping import (
        escaped,
        escaped_output,
        uncoloured,
        use_plain_characters,
    )
    from skipjack.report.learning import print_models
    from skipjack.report.learning_page import learning_document
    from skipjack.report.ledger import print_problem, problem_records
    from skipjack.report.numbers import (
        cell_text,
        duration_text,
        gain_text,
        metric_text,
        moment,
        percent_text,
        rate_text,
        size_text,
        time_text,
    )
    from skipjack.report.program import render_program_result
    from skipjack.report.replay import (
        render_replay,
        render_t4_export,
        replay_progress,
        write_replay_csv,
    )
    from skipjack.report.screen import (
        TableColumn,
        envelope,
        out,
        print_fields,
        print_json,
        print_rows,
        say,
        warn,
    )

__all__ = [
    "TableColumn",
    "cell_text",
    "device_record",
    "duration_text",
    "envelope",
    "escaped",
    "escaped_output",
    "examine",
    "gain_text",
    "learning_document",
    "metric_text",
    "moment",
    "out",
    "percent_text",
    "print_device",
    "print_entries",
    "print_entry",
    "print_fields",
    "print_findings",
    "print_json",
    "print_models",
    "print_problem",
    "print_rows",
    "problem_records",
    "rate_text",
    "render_program_result",
    "render_replay",
    "render_t4_export",
    "replay_progress",
    "say",
    "size_text",
    "time_text",
    "uncoloured",
    "use_plain_characters",
    "warn",
    "write_replay_csv",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "bank": "print_entries print_entry",
        "device": "device_record print_device",
        "doctor": "examine print_findings",
        "escaping": "escaped escaped_output uncoloured use_plain_characters",
        "learning": "print_models",
        "learning_page": "learning_document",
        "ledger": "print_problem problem_records",
        "numbers": (
            "cell_text duration_text gain_text metric_text moment percent_text rate_text size_text "
            "time_text"
        ),
        "program": "render_program_result",
        "replay": "render_replay render_t4_export replay_progress write_replay_csv",
        "screen": "TableColumn envelope out print_fields print_json print_rows say warn",
    },
)

"""Commands about programs that are run as they are: ``skipjack exec`` and ``skipjack report``."""

from __future__ import annotations

from skipjack.cli.programs.exec import EXAMPLES as EXEC_EXAMPLES
from skipjack.cli.programs.exec import exec_program
from skipjack.cli.programs.report import EXAMPLES as REPORT_EXAMPLES
from skipjack.cli.programs.report import show_report

__all__ = ["EXEC_EXAMPLES", "REPORT_EXAMPLES", "exec_program", "show_report"]

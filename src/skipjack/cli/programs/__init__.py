"""Commands about programs that are run as they are: ``skipjack exec``."""

from __future__ import annotations

from skipjack.cli.programs.exec import EXAMPLES as EXEC_EXAMPLES
from skipjack.cli.programs.exec import exec_program

__all__ = ["EXEC_EXAMPLES", "exec_program"]

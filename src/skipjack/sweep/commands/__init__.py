"""Benchmarks that are commands: building, keeping builds, running, and reading results."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.sweep.commands.command import CommandTemplate
    from skipjack.sweep.commands.command_bench import CommandBench
    from skipjack.sweep.commands.command_spec import CommandSpec
    from skipjack.sweep.commands.results import ResultReader
    from skipjack.sweep.commands.sources import code_digest, remember_code

__all__ = [
    "CommandBench",
    "CommandSpec",
    "CommandTemplate",
    "ResultReader",
    "code_digest",
    "remember_code",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "command": "CommandTemplate",
        "command_bench": "CommandBench",
        "command_spec": "CommandSpec",
        "results": "ResultReader",
        "sources": "code_digest remember_code",
    },
)

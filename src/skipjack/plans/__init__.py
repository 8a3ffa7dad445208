"""A cycle of commands in one YAML file: checked as a whole, run in order, and resumed."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.plans.commands import CommandBook, CommandParameter, Complaint, PlanCommand
    from skipjack.plans.example import write_example
    from skipjack.plans.execution import Observer, PlanRun, command_line, run_steps
    from skipjack.plans.plan import CommandStep, Mistakes, Plan, read_plan
    from skipjack.plans.progress import PlanProgress, StepState, find_step, state_of_step, to_do
    from skipjack.plans.secrets import names_a_secret
    from skipjack.plans.validation import PlannedStep, check_inputs, validate

__all__ = [
    "CommandBook",
    "CommandParameter",
    "CommandStep",
    "Complaint",
    "Mistakes",
    "Observer",
    "Plan",
    "PlanCommand",
    "PlanProgress",
    "PlanRun",
    "PlannedStep",
    "StepState",
    "check_inputs",
    "command_line",
    "find_step",
    "names_a_secret",
    "read_plan",
    "run_steps",
    "state_of_step",
    "to_do",
    "validate",
    "write_example",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "commands": "CommandBook CommandParameter Complaint PlanCommand",
        "example": "write_example",
        "execution": "Observer PlanRun command_line run_steps",
        "plan": "CommandStep Mistakes Plan read_plan",
        "progress": "PlanProgress StepState find_step state_of_step to_do",
        "secrets": "names_a_secret",
        "validation": "PlannedStep check_inputs validate",
    },
)

"""A cycle of commands in one YAML file: checked as a whole, run in order, resumed where it was."""

from skipjack.plans.commands import Command, CommandBook, Complaint, Parameter
from skipjack.plans.plan import Mistakes, Plan, Step, read_plan
from skipjack.plans.progress import Progress
from skipjack.plans.resuming import Standing, find_step, standing, to_do
from skipjack.plans.running import PlanRun, command_line, run_steps
from skipjack.plans.validating import PlannedStep, check_inputs, validate

__all__ = [
    "Command",
    "CommandBook",
    "Complaint",
    "Mistakes",
    "Parameter",
    "Plan",
    "PlanRun",
    "PlannedStep",
    "Progress",
    "Standing",
    "Step",
    "check_inputs",
    "command_line",
    "find_step",
    "read_plan",
    "run_steps",
    "standing",
    "to_do",
    "validate",
]

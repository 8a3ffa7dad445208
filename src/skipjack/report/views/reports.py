"""The report of any records that `skipjack.app.read_report` reads."""

from __future__ import annotations

from skipjack.app import (
    MeasuredStep,
    ReportedLabel,
    ReportedProblem,
    ReportedTraining,
    ReportRecords,
    StepCases,
)
from skipjack.app.views import BankDifference, ProgramPage
from skipjack.report.views.banks import difference_report
from skipjack.report.views.fleet import label_report
from skipjack.report.views.problems import problem_report
from skipjack.report.views.programs import program_report
from skipjack.report.views.rendered_report import RenderedReport
from skipjack.report.views.steps import step_cases_report, training_step_report
from skipjack.report.views.sweeps import sweep_report
from skipjack.report.views.training import training_report


def report_of(records: ReportRecords) -> RenderedReport:
    """The report, by what the records are about."""
    match records:
        case ReportedLabel():
            return label_report(records.page, records.jobs)
        case ReportedProblem():
            return problem_report(records.page, records.searches, records.samples)
        case BankDifference():
            return difference_report(records)
        case ProgramPage():
            return program_report(records)
        case MeasuredStep():
            return training_step_report(records)
        case StepCases():
            return step_cases_report(records)
        case ReportedTraining():
            return training_report(records)
        case _:
            return sweep_report(records)

"""Records that web pages, reports and the terminal show, of fleets, ledgers and banks."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.app.views.bank_pages import (
        BANK_COLUMNS,
        DIFFERENCE_COLUMNS,
        BankDifference,
        BankDifferenceRow,
        BankPage,
        BankRow,
        BankSize,
        DifferenceKind,
        EntryPage,
        bank_difference,
        bank_page,
        bank_sizes,
        entry_page,
    )
    from skipjack.app.views.fleet_pages import (
        LABEL_COLUMNS,
        FleetPage,
        LabelPage,
        LabelRow,
        fleet_page,
        label_page,
        label_table,
        seconds_of,
    )
    from skipjack.app.views.jobs import (
        JOB_COLUMNS,
        JobPage,
        LogPart,
        LogTail,
        job_log,
        job_number,
        job_page,
        job_table,
    )
    from skipjack.app.views.links import (
        entry_path,
        job_path,
        jobs_path,
        label_path,
        machine_path,
        problem_path,
        program_path,
        search_path,
        sweep_path,
        training_path,
    )
    from skipjack.app.views.machines import (
        DEVICE_COLUMNS,
        MACHINE_COLUMNS,
        MachinePage,
        MachineRow,
        MachinesPage,
        MachineState,
        device_table,
        machine_page,
        machine_table,
        machines_page,
        stopped_architectures,
    )
    from skipjack.app.views.overview import LedgerPage, OverviewPage, ledger_page, overview_page
    from skipjack.app.views.problems import (
        LEDGER_PROBLEM_COLUMNS,
        PROBLEM_COLUMNS,
        ledger_problem_table,
        problem_table,
    )
    from skipjack.app.views.programs import (
        MISS_COLUMNS,
        OPERATION_COLUMNS,
        PROGRAM_COLUMNS,
        ProgramPage,
        ProgramRow,
        ProgramsPage,
        program_page,
        program_page_of,
        programs_page,
    )
    from skipjack.app.views.samples import ConfigSamples, config_samples
    from skipjack.app.views.searches import (
        MOST_TRIALS,
        DecisionSummary,
        KnownEntry,
        LookupLadder,
        LookupStep,
        ProblemPage,
        ProblemSearch,
        SearchPage,
        TrialRow,
        lookup_ladder,
        problem_page,
        search_page,
        search_trials,
        trials_mark,
    )
    from skipjack.app.views.sweeps import (
        POINT_COLUMNS,
        SWEEP_COLUMNS,
        HeatMapView,
        LoadStep,
        LoadView,
        SweepFailures,
        SweepPage,
        SweepRow,
        load_view,
        point_table,
        sweep_page,
        sweep_table,
        sweep_view,
    )
    from skipjack.app.views.tables import (
        MOST_ROWS,
        RecordTable,
        RowsByKey,
        TableRequest,
        Unit,
        Value,
        ViewColumn,
        check_request,
        table_of,
    )
    from skipjack.app.views.training import (
        EPISODE_COLUMNS,
        TRAINING_COLUMNS,
        EpisodePage,
        EpisodeRow,
        LoopStep,
        TrainingPage,
        TrainingRow,
        episode_page,
        training_page,
        training_table,
    )
    from skipjack.app.views.workspace import (
        SourceMissingError,
        SourceName,
        UnknownNameError,
        Workspace,
        WorkspacePlaces,
        WorkspaceSource,
        open_workspace,
    )

__all__ = [
    "BANK_COLUMNS",
    "DEVICE_COLUMNS",
    "DIFFERENCE_COLUMNS",
    "EPISODE_COLUMNS",
    "JOB_COLUMNS",
    "LABEL_COLUMNS",
    "LEDGER_PROBLEM_COLUMNS",
    "MACHINE_COLUMNS",
    "MISS_COLUMNS",
    "MOST_ROWS",
    "MOST_TRIALS",
    "OPERATION_COLUMNS",
    "POINT_COLUMNS",
    "PROBLEM_COLUMNS",
    "PROGRAM_COLUMNS",
    "SWEEP_COLUMNS",
    "TRAINING_COLUMNS",
    "BankDifference",
    "BankDifferenceRow",
    "BankPage",
    "BankRow",
    "BankSize",
    "ConfigSamples",
    "DecisionSummary",
    "DifferenceKind",
    "EntryPage",
    "EpisodePage",
    "EpisodeRow",
    "FleetPage",
    "HeatMapView",
    "JobPage",
    "KnownEntry",
    "LabelPage",
    "LabelRow",
    "LedgerPage",
    "LoadStep",
    "LoadView",
    "LogPart",
    "LogTail",
    "LookupLadder",
    "LookupStep",
    "LoopStep",
    "MachinePage",
    "MachineRow",
    "MachineState",
    "MachinesPage",
    "OverviewPage",
    "ProblemPage",
    "ProblemSearch",
    "ProgramPage",
    "ProgramRow",
    "ProgramsPage",
    "RecordTable",
    "RowsByKey",
    "SearchPage",
    "SourceMissingError",
    "SourceName",
    "SweepFailures",
    "SweepPage",
    "SweepRow",
    "TableRequest",
    "TrainingPage",
    "TrainingRow",
    "TrialRow",
    "Unit",
    "UnknownNameError",
    "Value",
    "ViewColumn",
    "Workspace",
    "WorkspacePlaces",
    "WorkspaceSource",
    "bank_difference",
    "bank_page",
    "bank_sizes",
    "check_request",
    "config_samples",
    "device_table",
    "entry_page",
    "entry_path",
    "episode_page",
    "fleet_page",
    "job_log",
    "job_number",
    "job_page",
    "job_path",
    "job_table",
    "jobs_path",
    "label_page",
    "label_path",
    "label_table",
    "ledger_page",
    "ledger_problem_table",
    "load_view",
    "lookup_ladder",
    "machine_page",
    "machine_path",
    "machine_table",
    "machines_page",
    "open_workspace",
    "overview_page",
    "point_table",
    "problem_page",
    "problem_path",
    "problem_table",
    "program_page",
    "program_page_of",
    "program_path",
    "programs_page",
    "search_page",
    "search_path",
    "search_trials",
    "seconds_of",
    "stopped_architectures",
    "sweep_page",
    "sweep_path",
    "sweep_table",
    "sweep_view",
    "table_of",
    "training_page",
    "training_path",
    "training_table",
    "trials_mark",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "bank_pages": (
            "BANK_COLUMNS DIFFERENCE_COLUMNS BankDifference BankDifferenceRow BankPage "
            "BankRow BankSize DifferenceKind EntryPage bank_difference bank_page bank_sizes "
            "entry_page"
        ),
        "fleet_pages": (
            "LABEL_COLUMNS FleetPage LabelPage LabelRow fleet_page label_page label_table "
            "seconds_of"
        ),
        "jobs": "JOB_COLUMNS JobPage LogPart LogTail job_log job_number job_page job_table",
        "links": (
            "entry_path job_path jobs_path label_path machine_path problem_path program_path "
            "search_path sweep_path training_path"
        ),
        "machines": (
            "DEVICE_COLUMNS MACHINE_COLUMNS MachinePage MachineRow MachineState MachinesPage "
            "device_table machine_page machine_table machines_page stopped_architectures"
        ),
        "overview": "LedgerPage OverviewPage ledger_page overview_page",
        "problems": "LEDGER_PROBLEM_COLUMNS PROBLEM_COLUMNS ledger_problem_table problem_table",
        "programs": (
            "MISS_COLUMNS OPERATION_COLUMNS PROGRAM_COLUMNS ProgramPage ProgramRow "
            "ProgramsPage program_page program_page_of programs_page"
        ),
        "samples": "ConfigSamples config_samples",
        "searches": (
            "MOST_TRIALS DecisionSummary KnownEntry LookupLadder LookupStep ProblemPage "
            "ProblemSearch SearchPage TrialRow lookup_ladder problem_page search_page "
            "search_trials trials_mark"
        ),
        "sweeps": (
            "POINT_COLUMNS SWEEP_COLUMNS HeatMapView LoadStep LoadView SweepFailures "
            "SweepPage SweepRow load_view point_table sweep_page sweep_table sweep_view"
        ),
        "tables": (
            "MOST_ROWS RecordTable RowsByKey TableRequest Unit Value ViewColumn check_request "
            "table_of"
        ),
        "training": (
            "EPISODE_COLUMNS TRAINING_COLUMNS EpisodePage EpisodeRow LoopStep TrainingPage "
            "TrainingRow episode_page training_page training_table"
        ),
        "workspace": (
            "SourceMissingError SourceName UnknownNameError Workspace WorkspacePlaces "
            "WorkspaceSource open_workspace"
        ),
    },
)

"""The study engine: searchers propose configs, which are built, timed and compared; the best is
kept.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.tuning.study.build_queue import Builders, BuildQueue, MissingCodeError
    from skipjack.tuning.study.conclusion import (
        bank_entry,
        conclude,
        decision_evidence,
        keep_entry,
        record_outcome,
        timing_evidence,
    )
    from skipjack.tuning.study.context import (
        BankAccess,
        Clock,
        DeviceContext,
        NoBank,
        TuningContext,
        measured_peaks,
        session_place,
        timing_cores,
    )
    from skipjack.tuning.study.decision import Contenders, Decision
    from skipjack.tuning.study.engine import CandidateTrial, Evaluator, LedgerBuffer, StudyEngine
    from skipjack.tuning.study.evaluator import LoadingSession, RacingEvaluator
    from skipjack.tuning.study.final import (
        Final,
        RankedCandidate,
        find_final,
        joined_blocks,
        mark_slow_competitors,
        noisy_competitors,
        rank,
        tune_final,
    )
    from skipjack.tuning.study.kernel_evaluator import CandidateEvaluator, RoundBuilder, RoundTimer
    from skipjack.tuning.study.limits import DAY_S, LIMITS, Limits
    from skipjack.tuning.study.loaded_candidate import LoadedCandidate
    from skipjack.tuning.study.options import Observer, TimeLimit, TuneOptions, TuneProgress
    from skipjack.tuning.study.result import (
        DEFAULT,
        Speedup,
        TuneOutcome,
        TuneResult,
        nanoseconds,
        rounded,
    )
    from skipjack.tuning.study.rounds import BuiltRound, MeasuredRound, StudyRounds
    from skipjack.tuning.study.run import StudyRun, check_memory, unimported
    from skipjack.tuning.study.solver_search import SolverSearch, incumbent_of, outdated
    from skipjack.tuning.study.strategy import (
        ApplicableSolvers,
        FindStrategy,
        KnownStrategy,
        SearchStrategy,
        TuneStrategy,
        VerifyStrategy,
        applicable_solvers,
        buildable_solvers,
        compared,
        led_before,
    )

__all__ = [
    "DAY_S",
    "DEFAULT",
    "LIMITS",
    "ApplicableSolvers",
    "BankAccess",
    "BuildQueue",
    "Builders",
    "BuiltRound",
    "CandidateEvaluator",
    "CandidateTrial",
    "Clock",
    "Contenders",
    "Decision",
    "DeviceContext",
    "Evaluator",
    "Final",
    "FindStrategy",
    "KnownStrategy",
    "LedgerBuffer",
    "Limits",
    "LoadedCandidate",
    "LoadingSession",
    "MeasuredRound",
    "MissingCodeError",
    "NoBank",
    "Observer",
    "RacingEvaluator",
    "RankedCandidate",
    "RoundBuilder",
    "RoundTimer",
    "SearchStrategy",
    "SolverSearch",
    "Speedup",
    "StudyEngine",
    "StudyRounds",
    "StudyRun",
    "TimeLimit",
    "TuneOptions",
    "TuneOutcome",
    "TuneProgress",
    "TuneResult",
    "TuneStrategy",
    "TuningContext",
    "VerifyStrategy",
    "applicable_solvers",
    "bank_entry",
    "buildable_solvers",
    "check_memory",
    "compared",
    "conclude",
    "decision_evidence",
    "find_final",
    "incumbent_of",
    "joined_blocks",
    "keep_entry",
    "led_before",
    "mark_slow_competitors",
    "measured_peaks",
    "nanoseconds",
    "noisy_competitors",
    "outdated",
    "rank",
    "record_outcome",
    "rounded",
    "session_place",
    "timing_cores",
    "timing_evidence",
    "tune_final",
    "unimported",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "build_queue": "BuildQueue Builders MissingCodeError",
        "conclusion": (
            "bank_entry conclude decision_evidence keep_entry record_outcome timing_evidence"
        ),
        "context": (
            "BankAccess Clock DeviceContext NoBank TuningContext measured_peaks session_place "
            "timing_cores"
        ),
        "decision": "Contenders Decision",
        "engine": "CandidateTrial Evaluator LedgerBuffer StudyEngine",
        "evaluator": "LoadingSession RacingEvaluator",
        "final": (
            "Final RankedCandidate find_final joined_blocks mark_slow_competitors "
            "noisy_competitors rank tune_final"
        ),
        "kernel_evaluator": "CandidateEvaluator RoundBuilder RoundTimer",
        "limits": "DAY_S LIMITS Limits",
        "loaded_candidate": "LoadedCandidate",
        "options": "Observer TimeLimit TuneOptions TuneProgress",
        "result": "DEFAULT Speedup TuneOutcome TuneResult nanoseconds rounded",
        "rounds": "BuiltRound MeasuredRound StudyRounds",
        "run": "StudyRun check_memory unimported",
        "solver_search": "SolverSearch incumbent_of outdated",
        "strategy": (
            "ApplicableSolvers FindStrategy KnownStrategy SearchStrategy TuneStrategy "
            "VerifyStrategy applicable_solvers buildable_solvers compared led_before"
        ),
    },
)

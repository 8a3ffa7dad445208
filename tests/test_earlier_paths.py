"""Imports that documentation showed before modules moved: they work, and say what to write now."""

import subprocess
import sys
from importlib import import_module, reload

import pytest

import skipjack
from skipjack.earlier_paths import MOVED

SHOWN = {
    "skipjack": "TuneOptions Tuner operations search solvers",
    "skipjack.context": "",
    "skipjack.core.config": "Config",
    "skipjack.core.device": "Device",
    "skipjack.core.nest": "Access Affine Call Load Nest Tensor index",
    "skipjack.core.objective": "Objective",
    "skipjack.core.operation": "Array Arrays OperationClass Tolerance",
    "skipjack.core.parameters": "Parameter ParameterSpace",
    "skipjack.core.problem": "Problem",
    "skipjack.core.study": "Budget",
    "skipjack.core.trial": "Candidate Status Trial",
    "skipjack.errors": "ProblemError SkipjackError",
    "skipjack.execute.session": "Failure",
    "skipjack.execute.statistics": "Block",
    "skipjack.fleet.engines": "Engine LocalEngine",
    "skipjack.fleet.importing": "ImportOptions import_lines",
    "skipjack.fleet.release.compare.comparing": "compare",
    "skipjack.fleet.release.compare.gates": "Gate",
    "skipjack.fleet.release.compare.sides": "side_of_path",
    "skipjack.fleet.release.results.config_text": "config_of params_of",
    "skipjack.fleet.release.results.sources": "found_in_file found_in_label",
    "skipjack.fleet.slurm": "SlurmRequest batch_script",
    "skipjack.fleet.store": "open_store",
    "skipjack.interop": "driver_line parse_driver",
    "skipjack.interop.loadgen_log": "DETAIL_LOG LoadgenLog LoadgenVerdict judge read_detail_log",
    "skipjack.interop.miopen": "find_key find_results perf_key read_text_db",
    "skipjack.interop.power_log": "average_watts efficiency read_power_log",
    "skipjack.interrupt": "Interrupted",
    "skipjack.learn.loops": "Preset ROW_COLUMNS loop_game",
    "skipjack.learn.policy": "propose",
    "skipjack.learn.rates": "TableRates open_rates read_tables",
    "skipjack.learn.tree": "Method SearchBudget method_of run_search successors",
    "skipjack.loops": "",
    "skipjack.native": "cpu llvm",
    "skipjack.native.cpu": "detect target_of",
    "skipjack.native.ir": "IRWriter VectorType constant_mask function",
    "skipjack.operations": "bytes_moved parse tensor_dtype tensors",
    "skipjack.operations.attributes": "refuse_unknown require_rank",
    "skipjack.report.sweep_files": "read_json write_csv write_json",
    "skipjack.report.sweep_plots": "write_html",
    "skipjack.report.sweep_table": "print_sweep",
    "skipjack.runtime.dumps": "most_valuable_first read_dump",
    "skipjack.search": "Ask Batches Bounds GeneratorSearcher SearchContext Searcher cost create",
    "skipjack.search.generator": "Batch",
    "skipjack.search.genetic": "GeneticSearch",
    "skipjack.search.ranking": "cost",
    "skipjack.search.scripted": "GreedyStepper Run Step as_search",
    "skipjack.search.searcher": "SearchContext",
    "skipjack.settings": "Settings load_settings",
    "skipjack.solvers.cpu.nest": "Schedule",
    "skipjack.solvers.solver": "Blob Slot Solver Source",
    "skipjack.sweep": (
        "Bisect Boundary Composer GreedyStepper JointLoad Named QPSBisect SearcherInterface Step"
        " do_send"
    ),
    "skipjack.sweep.heat.sensors": "Sensors",
    "skipjack.sweep.heat.thermal": "Thermal",
    "skipjack.sweep.outcome": "Outcome",
    "skipjack.sweep.result": "SweepResult SweepTrial",
    "skipjack.testing.evaluators": "CandidateBehaviour EvaluatorConformance",
    "skipjack.testing.fleet.engines": "EngineConformance",
    "skipjack.testing.fleet.stores": "StoreConformance",
    "skipjack.testing.fleet.workers": "make_stand_in",
    "skipjack.testing.scripts": "play values_of",
    "skipjack.testing.searchers": "SearcherConformance",
    "skipjack.testing.solvers": "SolverConformance",
    "skipjack.testing.spaces": "tiled_space",
    "skipjack.torch": "",
    "skipjack.tuning": "Evaluator LoadedCandidate build",
}
"""Modules that some version of docs/ imported, and the names that it took from each."""


@pytest.mark.parametrize("module", SHOWN)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_documentation_showed_can_be_imported(module: str) -> None:
    for name in SHOWN[module].split():
        exec(f"from {module} import {name}", {})
    import_module(module)


def test_every_path_that_is_kept_was_shown() -> None:
    assert set(MOVED) <= set(SHOWN)


def test_an_earlier_path_warns_where_it_is_imported_and_names_the_new_one() -> None:
    words = r"skipjack.core.trial is deprecated: write `from skipjack.core import Trial`"
    with pytest.warns(DeprecationWarning, match=words) as caught:
        exec(compile("from skipjack.core.trial import Trial", "their_plugin.py", "exec"), {})
    assert caught[0].filename == "their_plugin.py"


def test_the_new_path_does_not_warn() -> None:
    code = "from skipjack.core import Status, Trial\nfrom skipjack.sweep.engine import SweepResult"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_module_that_never_existed_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"skipjack\.core\.trials"):
        import_module("skipjack.core.trials")
    with pytest.raises(ImportError, match="cannot import name 'Trails'"):
        exec("from skipjack.core.trial import Trails", {})


def test_the_finder_is_there_once() -> None:
    before = list(sys.meta_path)
    reload(skipjack)
    assert sys.meta_path == before

"""LoopTune's document can be followed to its last line, and all of the page for its users is run.

Times are estimated where nothing else is said, and sizes and budgets are cut down. The page's own
blocks, where nothing is, are run by `test_docs`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from command_lines import Line, lines_of
from typer.testing import CliRunner

from skipjack.cli.main import app
from skipjack.learn import rates
from skipjack.learn.loops import OBSERVATIONS, Preset

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-looptune.md"
PROGRAMS = {
    "loop_tool_service/benchmarks/generator.py": "dataset",
    "loop_tool_service/benchmarks/reader.py": "show",
    "loop_tool_service/models/rllib/launcher/slurm_launch.py": "train --engine slurm",
    "loop_tool_service/models/rllib/rllib_agent.py": "train",
    "search.py": "evaluate",
    "compare_tvm.py": "compare",
}
"""What stands for which program of the document, as the page says."""
DOCUMENT = (
    "python loop_tool_service/benchmarks/generator.py --kind=mm --dimA=64:128:16,64:128:16 "
    "--dimB=64:128:16,64:128:16  "
    "--out=$LOOP_TOOL_ROOT/loop_tool_service/benchmarks/mm64_128_16_range",
    "python loop_tool_service/benchmarks/reader.py --bench=path-to-txt-benchmark "
    "--actions='csv-actions'",
    "python loop_tool_service/models/rllib/launcher/slurm_launch.py --app=rllib_agent.py "
    "--time=1:00:00 -nc=80 -ng=2 --iter=1  --dataset=mm64_128_16_range  "
    "--trainer=dqn.ApexTrainer --steps=10  --eval_size=5 --eval_time=10",
    "python loop_tool_service/models/rllib/rllib_agent.py --iter=1 --dataset=mm64_128_16_range  "
    "--trainer=dqn.ApexTrainer  --eval_size=2 --eval_time=4",
    "python search.py --trainer=dqn.ApexTrainer --wandb_url=$wandb_run_path --debug",
    "python compare_tvm.py --size=25 --wandb_url=$wandb_run_path",
)
"""Its lines as they are, but for the dataset of the fourth, which the document does not make."""
MEANT = {
    "$LOOP_TOOL_ROOT": "looptune",
    "path-to-txt-benchmark": (
        "looptune/loop_tool_service/benchmarks/mm64_128_16_range/mm64_80_96.txt"
    ),
    "csv-actions": "split_4,down,swap_down",
    "$wandb_run_path": "runs/mm64_128_16_range-dqn-0",
    "--size=25": "--size=1",
}
"""What a reader puts in their place; the last is for the sake of time."""
CUT = {
    "train": ("--episodes", "2", "--eval-budget", "2"),
    "train --engine slurm": ("--dry-run",),
    "evaluate": ("--size", "1"),
}
"""More words for the sake of time, and since there is no Slurm."""
NAMES = (
    *("--kind", "--dimA", "--dimB", "--out", "--bench", "--actions", "--app", "--time", "-nc"),
    *("-ng", "--iter", "--dataset", "--trainer", "--steps", "--eval_size", "--eval_time"),
    *("--wandb_url", "--debug", "--size", "LOOP_TOOL_ROOT", "MAX_GFLOPS", "RLLIB_NUM_GPUS"),
    *("WANDB_CONSOLE", "wandb_key.txt"),
)
NOT_HERE = ("skipjack loops train --engine slurm",)
"""Names a program; the line of the document is below."""
FIRST = ("loops dataset", "loops train")
"""What others need comes before them; otherwise the page's order holds."""
LESS = {"--size": "1", "--seconds": "0.2", "--budget": "12"}
"""Values instead of the page's, for the sake of time; a budget of 0 stays."""
MORE = {
    "loops train": ("--eval-size", "1", "--eval-budget", "3"),
    "loops evaluate": ("--budget", "3"),
    "tune": ("--seconds", "1"),
}
NEW_RUN = ("--episodes", "2")


@pytest.fixture(autouse=True)
def own_directory(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("LOOP_TOOL_ROOT", "MAX_GFLOPS", "RLLIB_NUM_GPUS"):
        monkeypatch.setenv(name, "1")
    opened = rates.open_rates
    monkeypatch.setattr(
        rates, "open_rates", lambda text, device: opened(text.replace("live", "model"), device)
    )


def run(*words: str) -> str:
    """The sentence that a command fails with, or nothing."""
    done = CliRunner().invoke(app, words, input="split_4\ndown\n")
    if done.exception is None or done.exit_code == 0:
        return ""
    return str(done.exception) or done.output


def typed(line: Line) -> list[str]:
    """A line as it is run here."""
    words = list(line.rest)
    for at, word in enumerate(words[:-1]):
        if word in LESS and words[at + 1] != "0":
            words[at + 1] = LESS[word]
    more = MORE.get(line.command, ())
    if line.command == "loops train" and "--resume" not in words:
        more += NEW_RUN if "--iter=1" in words else (*NEW_RUN, "--total-steps", "20")
    return [*line.command.split(), *words, *more]


def turn(line: Line) -> int:
    return FIRST.index(line.command) if line.command in FIRST else len(FIRST)


@pytest.mark.long
def test_every_line_of_the_tables_works() -> None:
    pytest.importorskip("torch")
    page = PAGE.read_text()
    lines = [line for line in lines_of(page) if line.rest and not line.fenced]
    lines = [line for line in lines if line.text not in NOT_HERE]
    assert len(lines) > 20
    resumed = [line for line in lines if "--resume" in line.rest]
    ordered = sorted((line for line in lines if line not in resumed), key=turn)
    failures = {}
    for line in dict.fromkeys([*ordered, *resumed]):
        if sentence := run(*typed(line)):
            failures[line.text] = sentence
    assert not failures, "\n".join(f"{a}: {b}" for a, b in failures.items())
    for name in ("RUN/curves.csv", "RUN/evaluation/gains.svg", "graph.dot", "out/problems.svg"):
        assert Path(name).stat().st_size > 0, name


@pytest.mark.long
def test_the_document_is_followed_with_other_names_of_its_programs() -> None:
    pytest.importorskip("torch")
    for text in DOCUMENT:
        _, program, *words = shlex.split(text)
        for word, meant in MEANT.items():
            words = [each.replace(word, meant) for each in words]
        name = PROGRAMS[program]
        assert run("loops", *name.split(), *words, *CUT.get(name, ())) == "", text
        assert f"`python {program}" in PAGE.read_text()
    assert Path("graph.dot").is_file()


def test_every_option_and_variable_of_the_document_is_on_the_page() -> None:
    text = re.sub(r"^```.*?^```$", "", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    spans = " ".join(re.findall(r"`([^`]+)`", text))
    words = set(re.split(r"[\s=/$]+", spans))
    assert not [name for name in NAMES if name not in words]


def test_every_observation_and_action_of_the_document_is_on_the_page() -> None:
    page = PAGE.read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert [name for name in rows if name in OBSERVATIONS] == [*OBSERVATIONS[:-1]]
    assert not [action for action in Preset.LOOPTUNE.actions if f"`{action}`" not in page]


def test_blocks_are_run() -> None:
    fences = re.findall(r"^(.*)\n```\w+$", PAGE.read_text(), re.MULTILINE)
    assert fences == ["<!-- run -->"] * len(fences)

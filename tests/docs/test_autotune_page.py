"""AutoTune's document can be followed to its last line, and the page names all that is in it.

The page's blocks are run by `test_docs`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_docs import blocks_of

from skipjack.integrations.mindspore import AUTO_TUNE_MODES, VARIABLES
from skipjack.integrations.torch.outcomes import TorchDecision, TorchStatus
from skipjack.integrations.torch.outcomes.result_file import ProgramFacts, ProgramTime, ResultFile

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-autotune.md"
HEADINGS = (
    *("Overview", "TuneMode", "EnvironmentVariables", "EnablingTune", "Online Tune"),
    *("Offline Tune", "TuningResult", "MergeKnowledgeBase", "Notice"),
)
"""Those of the document, in its order."""
WORDS = (
    *("`elewise`", "`broadcast`", "`reduce`", "`cube`", "`LOCAL_ASCEND=/usr/local/Ascend`"),
    *("`LD_LIBRARY_PATH`", "`PATH`", "`PYTHONPATH`", "`fwkacllib`", "`ASCEND_OPP_PATH`"),
    *("`export ENABLE_TUNE_DUMP=True`", "`import mindspore.context as context`"),
    *("`mode=context.GRAPH_MODE`", '`device_target="Ascend"`', '`auto_tune_mode="GA,RL"`'),
    *("`tune_result_{timestamp}_pid{pid}.json`", "`TUNE_BANK_PATH`", "20 GB", "`TensorFlow`"),
    *("`pciutils`", "`msoptune.py", "description file", "binary file", "same processor"),
)
"""What else the document and its guides name."""


@pytest.fixture(scope="module")
def page() -> str:
    return re.sub("`python3 msoptune", "`msoptune", PAGE.read_text())


def first_cells(page: str, head: str) -> list[str]:
    """The first column of the table that begins with these words."""
    rows = page[page.index(f"\n| {head} |") :].split("\n\n")[0].strip().splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_the_headings_are_those_of_the_document_in_its_order(page: str) -> None:
    found = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    assert [heading for heading in found if heading in HEADINGS] == list(HEADINGS)


def test_all_that_the_document_names_is_on_the_page(page: str) -> None:
    assert not [word for word in WORDS if word not in page]


def test_one_table_has_every_variable_and_its_effect(page: str) -> None:
    assert sorted(first_cells(page, "variable")) == sorted(VARIABLES)


def test_one_table_has_every_mode(page: str) -> None:
    assert sorted(first_cells(page, "mode")) == sorted(AUTO_TUNE_MODES)


def test_tables_have_every_field_and_status_of_a_result_file(page: str, tmp_path: Path) -> None:
    file = ResultFile(tmp_path, ProgramFacts(("python",), "/", 1, "db"))
    file.add(TorchDecision("aten::mm", "x", None, "znver4/1", False, "so", TorchStatus.HIT))
    file.end(ProgramTime(1.0, True, False, 2.0))
    content = file.content()
    assert set(first_cells(page, "field")) == set(content)
    (row,) = content["operations"]
    assert set(first_cells(page, "field of an operation")) == set(row)
    assert first_cells(page, "status") == [str(one) for one in TorchStatus]
    inner = [*content["program"], *content["end_to_end"], *row["result_data"]]
    assert not [name for name in inner if f"`{name}`" not in page]


def test_every_block_is_run() -> None:
    blocks = list(blocks_of(PAGE.read_text()))
    assert blocks and all(block.mark for block in blocks)

"""The page on the architecture names files that exist, and tells each path in ten steps."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_files_that_it_names_exist() -> None:
    names = set(re.findall(r"[\w/]+\.py", PAGE))
    assert len(names) > 20
    gone = [
        name
        for name in names
        if not (ROOT / name).is_file() and not (ROOT / "src/skipjack/tuning" / name).is_file()
    ]
    assert gone == []


def test_each_path_has_ten_steps() -> None:
    for path in ("a tuning", "a find", "a fleet job", "a job through the store", "a lookup"):
        section = PAGE.split(f"## The path of {path}\n")[1].split("\n## ")[0]
        assert re.findall(r"^(\d+)\. ", section, re.MULTILINE) == [str(n) for n in range(1, 11)]


def test_the_classes_that_it_names_exist() -> None:
    source = "\n".join(
        path.read_text()
        for folder in ("tuning", "fleet/work", "fleet/store")
        for path in (ROOT / "src/skipjack" / folder).rglob("*.py")
    )
    for name in re.findall(r"`([A-Z]\w+)`", PAGE):
        assert f"class {name}" in source, name


def test_the_claims_sql_is_that_of_the_page_on_the_store() -> None:
    """That page is compared with what is sent (tests/fleet/store/test_claim_sql.py)."""
    whole = (ROOT / "docs" / "fleet-store.md").read_text()
    whole = " ".join(whole.split("### A claim on PostgreSQL\n")[1].split("\n### ")[0].split())
    shown = PAGE.split("```sql\n")[1].split("```")[0]
    parts = [part.strip(" ;)") for line in shown.splitlines() for part in line.split("...")]
    assert len(parts) > 15
    assert [part for part in parts if part not in whole] == []

"""Builds in the working directory: each run finds its own, and nobody's files are lost."""

from pathlib import Path

import pytest
from shell_bench import IN_PLACE, READ_IN_PLACE, Make, values

from skipjack.errors import UsageError

BUILD_OUT = "mkdir -p out; echo engine=$batch > out/engine; echo x > out/engine_$batch"
READ_OUT = '. out/engine; [ -e out/engine_$batch ] && echo "value $engine"'


def test_a_product_that_begins_like_another_is_no_log(make: Make, work: Path) -> None:
    build = "seq 1 $batch > numbers; echo $batch >> builds.txt"
    bench = make("echo value $(tail -n 1 numbers)", build)
    assert values(bench, 1, 2, 3, 1, 2, 3) == [1, 2, 3, 1, 2, 3]
    assert bench.builds == 3
    assert (work / "builds.txt").read_text() == "1\n2\n3\n", "what is appended to is a log"


def test_a_product_that_is_replaced_is_no_log(make: Make) -> None:
    build = "seq 1 $batch > new; mv new numbers"
    bench = make("echo value $(tail -n 1 numbers)", build)
    assert values(bench, 1, 2, 1) == [1, 2, 1]
    assert bench.builds == 2


def test_a_failed_build_takes_no_line_from_a_log(make: Make, work: Path) -> None:
    build = f"{IN_PLACE}; echo $batch >> builds.txt; [ $batch != 2 ]"
    bench = make(READ_IN_PLACE, build)
    values(bench, 1)
    with pytest.raises(AssertionError, match="the build ended with exit code 1"):
        values(bench, 2)
    assert values(bench, 1) == [1]
    assert (work / "builds.txt").read_text() == "1\n2\n"


def test_a_log_that_runs_appended_to_is_left_alone_in_the_next_sitting(
    make: Make, work: Path
) -> None:
    values(make(READ_IN_PLACE, IN_PLACE), 1)
    bench = make(READ_IN_PLACE, IN_PLACE)
    assert values(bench, 1) == [1]
    assert bench.builds == 0
    assert (work / "build/log").read_text().split() == ["built", "ran", "ran"]


@pytest.mark.parametrize("outputs", [(), ("out",)])
def test_what_somebody_edited_is_never_overwritten(
    make: Make, work: Path, outputs: tuple[str, ...]
) -> None:
    build = f"{BUILD_OUT}; grep -qs mine out/tuning.json || echo $batch > out/tuning.json"
    bench = make(READ_OUT, build, build_output=outputs)
    assert values(bench, 1, 2, 1) == [1, 2, 1]
    assert bench.builds == 2
    (work / "out/tuning.json").write_text("mine")
    assert values(bench, 2) == [2]
    assert (work / "out/tuning.json").read_text() == "mine"
    assert bench.builds == 3, "it is built again"
    assert "out/tuning.json was changed after a build wrote it" in bench.notes[0]


def test_an_edit_between_sittings_is_not_overwritten_either(make: Make, work: Path) -> None:
    build = f"{BUILD_OUT}; grep -qs mine out/tuning.json || echo $batch > out/tuning.json"
    values(make(READ_OUT, build, build_output=("out",)), 1, 2)
    (work / "out/tuning.json").write_text("mine")
    assert values(make(READ_OUT, build, build_output=("out",)), 1, 2) == [1, 2]
    assert (work / "out/tuning.json").read_text() == "mine"


def test_notes_beside_outputs_stay(make: Make, work: Path) -> None:
    bench = make(READ_OUT, BUILD_OUT, build_output=("out",))
    assert values(bench, 1) == [1]
    (work / "out/notes").write_text("one")
    assert values(bench, 2) == [2]
    (work / "out/notes").write_text("one, two")
    assert values(bench, 1, 2, 1) == [1, 2, 1]
    assert (work / "out/notes").read_text() == "one, two"
    assert not (work / "out/engine_2").exists(), "what another build wrote is not there"
    assert bench.builds == 2


def test_results_that_runs_write_among_outputs_cost_no_build(make: Make, work: Path) -> None:
    bench = make(f"{READ_OUT} > out/result; cat out/result", BUILD_OUT, build_output=("out",))
    assert values(bench, 1, 2, 1, 2, 1) == [1, 2, 1, 2, 1]
    assert bench.builds == 2


def test_an_output_that_builds_share_is_there_for_each(make: Make) -> None:
    build = f"{BUILD_OUT}; [ -e out/shared ] || echo x > out/shared"
    bench = make(f"[ -e out/shared ] && {READ_OUT}", build, build_output=("out",))
    assert values(bench, 1, 2, 1, 2) == [1, 2, 1, 2]
    assert bench.builds == 2


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("../x", "is outside the working directory"),
        (".", "is the working directory itself"),
        ("src/..", "is outside the working directory"),
        ("build.sh", "contains build.sh, which is read"),
        ("sweeps", "contains knobs.json, which is read"),
        (".git", "contains a .git"),
        ("vendor", "contains a .git"),
        ("link", "is the working directory itself"),
    ],
)
def test_outputs_that_hold_what_no_build_writes_are_refused(
    make: Make, work: Path, output: str, words: str
) -> None:
    for name in ("sweeps/knobs.json", ".git/HEAD", "vendor/lib/.git/HEAD", "src/main.c"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x")
    (work / "link").symlink_to(".")
    with pytest.raises(UsageError, match=words):
        make("true", "true", build_output=(output,), not_sources=(work / "sweeps/knobs.json",))

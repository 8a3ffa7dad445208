"""Two commands as a bench: what is built when, and how each failure is called."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from shell_bench import APART, BASE, IN_PLACE, READ_APART, READ_IN_PLACE, Make, at, value

from processes import PATIENCE_S
from skipjack.core import Config, Status
from skipjack.errors import UsageError
from skipjack.sweep.commands import snapshots


def test_parameters_arrive_as_variables_files_and_arguments(make: Make) -> None:
    bench = make('cp "$SKIPJACK_CONFIG" config.copy; echo "value $batch,$1,$rate"; pwd')
    outcome = bench.measure(Config(batch=8, threads=2), {"rate": 0.5})
    assert value(outcome) == "8,2,0.5"
    assert Path(outcome.log).read_text().startswith("value 8,2,0.5")


def test_a_b_a_in_place_costs_two_builds_and_sees_the_files_of_a(make: Make, work: Path) -> None:
    bench = make(READ_IN_PLACE, IN_PLACE)
    assert [value(at(bench, batch=b, threads=1)) for b in (1, 2, 1, 2, 1)] == [1, 2, 1, 2, 1]
    assert bench.builds == 2
    assert (work / "build/log").read_text().split().count("ran") == 5


def test_files_of_other_builds_are_gone_where_a_build_was_without_them(
    make: Make, work: Path
) -> None:
    build = "mkdir -p eng; rm -f eng/*; echo $batch > eng/e$batch"
    bench = make("echo value $(ls eng)", build)
    assert [value(at(bench, batch=b, threads=1)) for b in (1, 2, 4, 1, 2)] == [
        *("e1", "e2", "e4", "e1", "e2")
    ]
    assert bench.builds == 3


def test_what_a_build_let_stand_of_another_is_there_again(make: Make, work: Path) -> None:
    build = "mkdir -p eng; [ -f eng/common ] || echo c > eng/common; echo $batch > eng/own"
    bench = make("echo value $(cat eng/common)$(cat eng/own)", build)
    values = [value(at(bench, batch=b, threads=1)) for b in (1, 2, 1, 2)]
    assert values == ["c1", "c2", "c1", "c2"] and bench.builds == 2


def test_what_people_write_while_a_build_runs_is_theirs(make: Make, work: Path) -> None:
    apart = make(READ_APART, APART + "; echo v$batch > notes.txt; echo $batch > todo$batch.txt")
    for batch in (1, 2, 1):
        assert value(at(apart, batch=batch, threads=1)) == batch
    assert (work / "notes.txt").read_text() == "v2\n" and (work / "todo2.txt").exists()
    in_place = make(READ_IN_PLACE, IN_PLACE + "; [ $batch = 1 ] || echo v$batch > mine.txt")
    for batch in (1, 2, 3, 1):
        assert value(at(in_place, batch=batch, threads=1)) == batch
    assert (work / "mine.txt").read_text() == "v3\n", "builds write into build/ alone"


def test_a_build_that_had_nothing_to_do_tells_nothing_of_the_others(make: Make, work: Path) -> None:
    build = '[ "$(cat engine.bin)" = "$batch" ] || echo $batch > engine.bin'
    (work / "engine.bin").write_text("1\n")
    bench = make("echo value $(cat engine.bin)", build, build_jobs=2)
    bench.prepare([Config(batch=b, threads=1) for b in (1, 2, 3)])
    assert [value(at(bench, batch=b, threads=1)) for b in (1, 2, 3, 1)] == [1, 2, 3, 1]


def test_points_that_differ_in_no_build_parameter_share_a_build(make: Make) -> None:
    bench = make(READ_IN_PLACE, IN_PLACE)
    outcomes = [at(bench, batch=4, threads=t) for t in (1, 2, 3)]
    assert bench.builds == 1
    assert outcomes[0].build_seconds > 0.0 == outcomes[1].build_seconds
    assert bench.build_key(Config(batch=4, threads=1)) == bench.build_key(
        Config(batch=4, threads=2)
    )


def test_without_a_list_every_parameter_builds(make: Make) -> None:
    bench = make(READ_IN_PLACE, IN_PLACE, no_rebuild=None)
    for threads in (1, 2, 1):
        at(bench, batch=4, threads=threads)
    assert bench.builds == 2


@pytest.mark.parametrize(("run", "build"), [(READ_IN_PLACE, IN_PLACE), (READ_APART, APART)])
def test_builds_are_kept_for_the_next_sitting(make: Make, run: str, build: str) -> None:
    first = make(run, build)
    for batch in (1, 2):
        at(first, batch=batch, threads=1)
    second = make(run, build)
    assert [value(at(second, batch=b, threads=1)) for b in (1, 2)] == [1, 2]
    assert second.builds == 0


def test_an_edited_source_is_built_again(make: Make, work: Path) -> None:
    at(make(READ_APART, APART), batch=1, threads=1)
    (work / "kernel.c").write_text("int x;")
    bench = make(READ_APART, APART)
    at(bench, batch=1, threads=1)
    assert bench.builds == 1
    (work / "sweep.py").write_text("batch = [1, 2]")
    bench = make(READ_APART, APART, not_sources=(work / "sweep.py",))
    at(bench, batch=1, threads=1)
    assert bench.builds == 0


def test_a_source_that_builds_rewrite_and_somebody_edited_is_left_alone(
    make: Make, work: Path
) -> None:
    build = f"{IN_PLACE}; grep -qs edited config.h || echo $batch > config.h"
    bench = make(READ_IN_PLACE, build)
    for batch in (1, 2, 1):
        at(bench, batch=batch, threads=1)
    assert (bench.builds, (work / "config.h").read_text()) == (2, "1\n")
    (work / "config.h").write_text("edited")
    assert value(at(bench, batch=2, threads=1)) == 2
    assert (bench.builds, (work / "config.h").read_text()) == (3, "edited")


def test_a_failed_build_in_between_costs_no_other(make: Make) -> None:
    build = f"{IN_PLACE}; echo $batch > config.h; [ $batch != 2 ]"
    bench = make(READ_IN_PLACE, build)
    statuses = [at(bench, batch=batch, threads=1).status for batch in (1, 2, 1)]
    assert statuses == [Status.OK, Status.BUILD_ERROR, Status.OK]
    assert bench.builds == 2


def test_a_build_that_had_nothing_to_do_is_made_again_after_another(make: Make, work: Path) -> None:
    build = 'grep -qs "=$batch$" build/engine || echo engine=$batch > build/engine'
    (work / "build").mkdir()
    (work / "build/engine").write_text("engine=1\n")
    bench = make(READ_IN_PLACE, build)
    assert [value(at(bench, batch=b, threads=1)) for b in (1, 2, 1, 2, 1)] == [1, 2, 1, 2, 1]
    assert bench.builds == 3


def test_a_small_quota_builds_again_what_was_removed(make: Make) -> None:
    large = "head -c 1000 /dev/zero > $SKIPJACK_BUILD_DIR/x"
    bench = make("echo value 1", large, quota_bytes=1500)
    for batch in (1, 2, 2, 1):
        value(at(bench, batch=batch, threads=1))
    assert bench.builds == 3


def test_output_paths_given_by_the_user_are_exactly_what_a_build_left(
    make: Make, work: Path
) -> None:
    build = "mkdir -p out; echo x > out/engine_$batch; echo $batch > elsewhere"
    bench = make('echo "value $(ls out | tr "\\n" ,)"', build, build_output=("out",))
    at(bench, batch=1, threads=1)
    (work / "out/engine_1").unlink()
    assert value(at(bench, batch=2, threads=1)) == "engine_2,"
    assert value(at(bench, batch=1, threads=1)) == "engine_1,"
    assert (work / "elsewhere").read_text() == "2\n"
    assert bench.builds == 2


def test_in_a_huge_directory_only_the_last_build_is_reused(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_FILES", 0)
    bench = make(READ_IN_PLACE, IN_PLACE)
    assert [value(at(bench, batch=b, threads=1)) for b in (1, 1, 2, 1)] == [1, 1, 2, 1]
    assert bench.builds == 3
    assert "give --build-output" in bench.notes[0]


# failures


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("echo broken pipe; exit 3", Status.CRASH, "the run ended with exit code 3: broken pipe"),
        ("kill -KILL 0", Status.CRASH, "the run ended by SIGKILL"),
        ("kill -ABRT $$", Status.CRASH, "ended by SIGABRT"),
        ("echo 'std::bad_alloc'; exit 134", Status.OUT_OF_MEMORY, "the run ran out of memory"),
        ("echo 'CUDA error: out of memory'", Status.OUT_OF_MEMORY, "nothing in the output"),
        (r"printf '\033[31mred\033[0m\n'; exit 1", Status.CRASH, "exit code 1: red"),
        ("echo hello", Status.NO_RESULT, "the last line is 'hello'"),
        ("sleep 60", Status.TIMEOUT, "the run did not end within 0.4 s"),
    ],
)
def test_how_runs_fail(make: Make, script: str, status: Status, words: str) -> None:
    timeout_s = 0.4 if "sleep" in script else 60
    outcome = at(make(script, run_timeout_s=timeout_s), batch=1, threads=1)
    assert outcome.status is status
    assert words in outcome.reason
    assert Path(outcome.log).exists()


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("echo error: no such tile; exit 2", Status.BUILD_ERROR, "exit code 2: error: no such"),
        ("kill -SEGV $$", Status.BUILD_CRASH, "the build ended by SIGSEGV"),
        ("sh -c 'kill -SEGV $$'", Status.BUILD_CRASH, "the build ended with exit code 139"),
        ("exit 137", Status.OUT_OF_MEMORY, "the build ran out of memory"),
        ("sleep 60", Status.BUILD_TIMEOUT, "the build did not end within 0.4 s"),
    ],
)
def test_how_builds_fail(make: Make, script: str, status: Status, words: str) -> None:
    timeout_s = 0.4 if "sleep" in script else 60
    outcome = at(make("echo value 1", script, build_timeout_s=timeout_s), batch=1, threads=1)
    assert outcome.status is status
    assert words in outcome.reason
    assert outcome.build_seconds > 0.0
    assert Path(outcome.log).exists()


def test_a_build_that_failed_is_not_tried_again_for_its_other_points(make: Make) -> None:
    bench = make("echo value 1", "[ $batch = 1 ]")
    reasons = {at(bench, batch=2, threads=threads).reason for threads in (1, 2, 3)}
    assert len(reasons) == 1
    assert bench.builds == 1
    assert value(at(bench, batch=1, threads=1)) == 1


def test_a_program_that_vanishes_is_a_failure_of_that_run(make: Make, work: Path) -> None:
    bench = make("echo value 1")
    (work / "run.sh").unlink()
    outcome = at(bench, batch=1, threads=1)
    assert outcome.status is Status.ERROR
    assert "cannot start `./run.sh`" in outcome.reason


def test_stopping_is_no_outcome(make: Make, work: Path) -> None:
    bench = make("touch started; sleep 60", stop=(work / "started").exists)
    with pytest.raises(KeyboardInterrupt):
        at(bench, batch=1, threads=1)


def test_a_process_left_running_is_noted(make: Make) -> None:
    outcome = at(make("sleep 60 & echo value 1"), batch=1, threads=1)
    assert outcome.notes == ("the run left processes running (1), which were ended",)


def test_a_build_that_leaves_nothing_is_noted(make: Make) -> None:
    bench = make("echo value 1", "true")
    at(bench, batch=1, threads=1)
    assert "a build wrote neither to $SKIPJACK_BUILD_DIR" in bench.notes[0]


def test_settings_that_are_no_variables_are_noted_once(make: Make) -> None:
    bench = make("echo value 1", base={**BASE, "PATH": "x"})
    assert "PATH" in at(bench, batch=1, threads=1).notes[0]
    assert at(bench, batch=1, threads=1).notes == ()


# refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"run_cores": (4095,)}, "may not use cores 4095"),
        ({"build_jobs": 0}, "must be at least 1, not 0"),
        ({"parameters": ("batch",), "base": {}}, "{threads} is neither a parameter"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(
    make: Make, work: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        make("touch ran", **options)
    assert not (work / "ran").exists()


# several builds at a time


def test_builds_of_a_batch_run_side_by_side_and_end_before_the_run(make: Make, work: Path) -> None:
    all_there = "[ $batch = 1 ] || while [ $(grep -c + ../order) -lt 4 ]; do sleep 0.02; done"
    build = f"{APART}; echo + >> ../order; {all_there}; echo - >> ../order"
    run = f"echo run >> ../order; {READ_APART}"
    bench = make(run, build, build_jobs=3, build_timeout_s=20)
    points = [Config(batch=b, threads=1) for b in (1, 2, 3, 4)]
    values = []
    for number, point in enumerate(points):
        bench.prepare(points[number:])
        values.append(value(bench.measure(point, {})))
    assert values == [1, 2, 3, 4]
    assert bench.builds == 4
    # The first build alone tells whether builds write in place; the next three are a batch.
    assert (work.parent / "order").read_text().split() == [
        *"+-",
        "run",
        *"+++---",
        "run",
        "run",
        "run",
    ]


def test_builds_that_write_in_place_never_run_side_by_side(make: Make, work: Path) -> None:
    build = IN_PLACE + "; echo + >> ../order; sleep 0.1; echo - >> ../order"
    bench = make(READ_IN_PLACE, build, build_jobs=3)
    points = [Config(batch=b, threads=1) for b in (1, 2, 3)]
    for number, point in enumerate(points):
        bench.prepare(points[number:])
        assert value(bench.measure(point, {})) == point["batch"]
    assert (work.parent / "order").read_text().split() == list("+-" * 3)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_with_cores_for_runs_builds_go_on_beside_them(make: Make, work: Path) -> None:
    first, *others = sorted(os.sched_getaffinity(0))
    cores = "python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))'"
    bench = make(
        f"{cores} > ../run_cores; sleep 0.8; echo end >> ../order; {READ_APART}",
        f"{APART}; echo build $batch >> ../order; {cores} > ../build_cores",
        run_cores=(first,),
    )
    points = [Config(batch=b, threads=1) for b in (1, 2)]
    bench.prepare(points)
    assert value(bench.measure(points[0], {})) == 1
    deadline = time.monotonic() + PATIENCE_S
    while bench.builds < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert value(bench.measure(points[1], {})) == 2
    order = (work.parent / "order").read_text().splitlines()
    assert order[0] == "build 1"
    assert order.index("build 2") < order.index("end")
    assert (work.parent / "run_cores").read_text().split() == [str(first)]
    assert (work.parent / "build_cores").read_text().split() == list(map(str, others))


def test_closing_ends_builds_that_run_ahead(make: Make, work: Path) -> None:
    build = f"{APART}; [ $batch = 1 ] || sleep 60"
    bench = make(READ_APART, build, build_jobs=2)
    points = [Config(batch=b, threads=1) for b in (1, 2)]
    at(bench, batch=1, threads=1)
    assert bench.builder is not None
    bench.builder._start_ahead({bench.build_key(p): p for p in points})
    while not (work.parent / "builds.txt").read_text().endswith("2\n"):
        time.sleep(0.01)
    bench.close()
    again = make(READ_APART, build)
    assert value(at(again, batch=1, threads=1)) == 1
    assert again.builds == 0

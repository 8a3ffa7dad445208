"""The fleet's commands in the test's own process; some run from end to end with real workers."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import skipjack
from skipjack import lists, plugins
from skipjack.bank import Bank, BankEntry
from skipjack.cli.main import app
from skipjack.errors import SkipjackError, UsageError
from skipjack.gpu.discovery import only_drivers
from skipjack.native import cpu

Command = Callable[..., str]
HERE = cpu.detect().name


@pytest.fixture
def fleet(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Runs a command with arguments and gives what it printed; errors are raised."""
    (tmp_path / "problems.txt").write_text(
        "# two\nmatmul:16x16x16\nsoftmax:8x32\nthis is no problem\n"
    )
    monkeypatch.chdir(tmp_path)

    def run(*words: str, typed: str | None = None) -> str:
        done = CliRunner().invoke(app, list(words), input=typed)
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    # Commands send the log to a standard error that ends with them.
    handlers, level = list(logging.root.handlers), logging.root.level
    yield run
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture
def loaded(fleet: Command) -> Command:
    """Two jobs in label L."""
    fleet("import", "-f", "problems.txt", "-t", "two")
    fleet("load", "-t", "two", "-l", "L", "--budget", "2")
    return fleet


def record(text: str) -> dict[str, Any]:
    found = json.loads(text)
    assert found["format"] == 1
    return dict(found)


def test_the_way_from_a_list_to_the_bank(loaded: Command) -> None:
    done = record(loaded("run", "-l", "L", "--json"))
    assert done["states"] == {"evaluated": 2} and done["refused"] == 0
    assert record(loaded("status", "-l", "L", "--json"))["states"] == {"evaluated": 2}
    shown = record(loaded("job", "show", "1", "--json"))
    assert [line["event"] for line in shown["story"]] == ["claimed", "built", "claimed", "told"]
    assert shown["result"]["time_ns"] > 0 and shown["gpu"].startswith("cpu")
    log = loaded("job", "log", "1")
    assert "job 1: build" in log and "verdict" in log and "job 2" not in log
    assert "2 finished jobs" in loaded("bank", "build", "-l", "L")
    assert len(loaded("bank", "list", "--json").splitlines()) == 2
    # Nothing is stale: a good day, and nothing to run.
    loaded("import", "-f", "problems.txt", "-t", "two", "--recurrent")
    nightly = ("load", "--recurrent", "--stale", "-l", "nightly")
    assert loaded(*nightly).startswith(
        "nothing is stale: the current tools have measured 2 problems"
    )
    planned = record(loaded(*nightly, "--json"))
    assert (planned["jobs"], planned["known"], planned["fresh"]) == (0, 0, 2)
    assert record(loaded("run", "-l", "nightly", "--json"))["states"] == {}
    # What was evaluated starts over only if somebody says so.
    assert record(loaded("run", "-l", "L", "--json"))["settled"] == {}
    assert record(loaded("reset", "-l", "L", "--state", "evaluated", "--to", "new", "--json")) == {
        "format": 1,
        "reset": 2,
        "refused": 0,
        "reasons": [],
    }
    assert record(loaded("status", "-l", "L", "--json"))["states"] == {"new": 2}


def test_winners_ship_in_a_kernel_database(loaded: Command, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no finished job"):
        loaded("export", "kernel-db", "-l", "L", "-o", "x.skk")
    assert not Path("x.skk").exists()
    loaded("run", "-l", "L", "--json")
    done = record(loaded("export", "kernel-db", "-l", "L", "-o", "x.skk", "--json"))
    assert done["kernels"] == 2 and done["bytes"] == Path("x.skk").stat().st_size
    with skipjack.kernels("x.skk") as kernels:
        product = kernels.find("matmul:16x16x16")
        assert kernels.find("matmul:17x17x17") is None
    a, b = np.random.default_rng(0).random((2, 16, 16), np.float32)
    assert product is not None
    assert np.allclose(product(a, b), a @ b, atol=1e-4)


def test_the_bank_ships_too(user_dir: Path, fleet: Command) -> None:
    with pytest.raises(UsageError, match="no kernels"):
        fleet("export", "kernel-db", "-o", "mine.skk")
    fleet("tune", "matmul:96x96x96", "--budget", "12", "--json")
    if skipjack.lookup("matmul:96x96x96", strict=True) is None:
        pytest.skip("no gain over the default was confirmed on this machine just now")
    fleet("export", "kernel-db", "-o", "mine.skk")
    with skipjack.kernels("mine.skk") as kernels:
        assert kernels.find("matmul:96x96x96") is not None


def test_a_device_is_named_as_for_tune(loaded: Command, user_dir: Path) -> None:
    here = cpu.detect()
    planned = record(loaded("load", "-t", "two", "-l", "M", "--device", "cpu", "--json"))
    assert planned["jobs"] == 2
    assert f'"{here.name}"' in loaded("status", "-l", "M", "--jobs", "--json")
    loaded("load", "-t", "two", "-l", "N", "--devices", "cpu,sm_90/132", "--json")
    with pytest.raises(UsageError, match="no GPU here"), only_drivers():
        loaded("load", "-t", "two", "-l", "O", "--device", "gpu")
    for command in ("load -t two -l O", "bank show add:8", "status -l L", "compare L --against L"):
        with pytest.raises(UsageError, match="did you mean gfx90a/104"):
            loaded(*command.split(), "--device", "GFX90A/104")
    with pytest.raises(UsageError, match="not of the form"):
        loaded("machine", "add", "other", "--host", "10.0.0.1", "--device", "cpu")


def test_entries_of_one_device_are_shown(user_dir: Path, fleet: Command) -> None:
    here, times = cpu.detect(), (1.0, 2.0, None)
    for key, name in ((here.class_key, here.name), ("cpu:haswell/1:x", "haswell/1")):
        Bank.open(user_dir).put(BankEntry("add:8:f32", key, name, "nest", 1, {}, *times, "", {}))

    def shown(*words: str) -> list[str]:
        lines = fleet("bank", *words, "--json").splitlines()
        return [json.loads(line)["device"] for line in lines]

    for words in (("show", "add:8"), ("list",)):
        assert sorted(shown(*words)) == sorted([here.name, "haswell/1"])
        assert shown(*words, "--device", "cpu") == [here.name]
        assert shown(*words, "--device", "haswell/1") == ["haswell/1"]
        with pytest.raises(SkipjackError, match=r"the bank .* nehalem/1; .*skipjack"):
            fleet("bank", *words, "--device", "nehalem/1")


@pytest.mark.parametrize("what", ["find-db", "perf-db", "kernel-db"])
def test_an_export_loads_plugins(fleet: Command, tmp_path: Path, what: str) -> None:
    (tmp_path / "mine.py").write_text("raise RuntimeError('it was loaded')")
    with pytest.raises(UsageError, match="it was loaded"):
        fleet("export", what, "-o", "out", "--plugin", "mine.py")


def test_the_lists_that_come_along_are_shown(fleet: Command) -> None:
    assert "llm: 25 problems. A decoder" in fleet("import", "--lists")
    shown = [json.loads(line) for line in fleet("import", "--lists", "--json").splitlines()]
    assert [one["list"] for one in shown] == lists.names()


def test_a_list_that_comes_along_is_loaded_by_its_name(fleet: Command) -> None:
    loaded = record(fleet("load", "-t", "llm", "-l", "gpu", "--device", "sm_90/132", "--json"))
    assert loaded["jobs"] == 25
    again = record(fleet("load", "-t", "llm", "-l", "gpu", "--device", "sm_90/132", "--json"))
    assert (again["jobs"], again["known"]) == (0, 25)
    with pytest.raises(UsageError, match="in f16, which no kernel for CPUs computes in"):
        fleet("load", "-t", "llm", "-l", "cpu")
    with pytest.raises(UsageError, match="Skipjack comes with cpu, llm, looptune, resnet50"):
        fleet("import", "--list", "bert")
    with pytest.raises(UsageError, match="either"):
        fleet("import", "-t", "x")
    taken = record(fleet("import", "--list", "resnet50", "-b", "2", "--direction", "all", "--json"))
    assert taken["imported"] == 69


def test_an_import_says_how_many_lines_were_what(fleet: Command) -> None:
    done = record(fleet("import", "-f", "problems.txt", "-t", "two", "--json"))
    assert (done["lines"], done["imported"], done["duplicates"], done["rejected"]) == (4, 2, 0, 1)
    assert done["bad"][0]["line"] == 4
    again = record(fleet("import", "-f", "problems.txt", "-t", "two", "--json"))
    assert (again["imported"], again["duplicates"]) == (0, 2)
    assert "2  two" in fleet("store", "tags")


def test_loading_twice_makes_no_job_twice(loaded: Command) -> None:
    again = record(loaded("load", "-t", "two", "-l", "L", "--json"))
    assert (again["jobs"], again["known"]) == (0, 2)
    other = record(loaded("load", "--from-label", "L", "-l", "M", "--json"))
    assert other["jobs"] == 2
    assert record(loaded("load", "-t", "two", "-l", "N", "--solver", "all", "--json"))["jobs"] > 2


def test_counts_by_anything(loaded: Command) -> None:
    found = record(loaded("status", "-l", "L", "--by", "device,operation,state", "--json"))
    assert {"device": HERE, "operation": "matmul", "state": "new", "jobs": 1} in found["counts"]
    assert found["total"] == 2
    assert "2 new" in loaded("status")


def test_a_run_can_be_for_a_device_or_a_machine(loaded: Command) -> None:
    arch, _, units = HERE.partition("/")
    loaded("load", "-t", "two", "-l", "L", "--device", "sm_90/132", "--budget", "2")
    done = record(loaded("run", "-l", "L", "--build", "-a", arch, "-n", units, "--json"))
    assert done["states"] == {"built": 2}
    assert record(loaded("status", "-l", "L", "--json"))["states"] == {"new": 2, "built": 2}
    loaded("machine", "add", "gpu7", "--host", "there", "--device", "sm_90/132")
    for words, sentence in {
        ("--device", "sm_80/108"): "label L has no jobs for sm_80/108: its jobs are for",
        ("--machine", "gpu7", "--device", HERE): f"no jobs for {HERE} of gpu7",
        ("--machine", "gpu7"): "jobs of gpu7 are evaluated there; add --build",
        ("--machine", "gpu8"): "did you mean gpu7",
        ("--machine", "gpu7", "--engine", "slurm"): "--machine is not for --engine slurm",
        ("-a", arch): "-a and -n go together",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            loaded("run", "-l", "L", *words)
    script = loaded("run", "-l", "L", "--engine", "slurm", "--device", HERE, "--dry-run")
    assert f"--device {HERE}" in script


def test_problems_and_labels_are_shown_with_what_people_wrote(loaded: Command) -> None:
    done = record(loaded("problems", "tag", "softmax:8x32", "-t", "t", "--model", "gpt", "--json"))
    assert (done["tagged"], done["unchanged"]) == (1, 0)
    assert loaded("problems", "list", "-t", "t").splitlines() == [
        "softmax:8x32:f32",
        "    tags t, two; model gpt",
        "    never measured",
    ]
    shown = record(loaded("problems", "show", "softmax:8x32", "--json"))
    assert [tag["tag"] for tag in shown["tags"]] == ["t", "two"] and shown["results"] == []
    assert "1 problem untagged" in loaded("problems", "untag", "softmax:8x32", "-t", "t")
    loaded("load", "-t", "two", "-l", "M", "--ticket", "MLO-7", "--image", "rocm")
    assert "ticket MLO-7, image rocm" in loaded("status") and "MLO-7" in loaded("status", "-l", "M")
    assert record(loaded("status", "-l", "M", "--json"))["image"] == "rocm"


def test_aborted_until_resumed(loaded: Command) -> None:
    assert record(loaded("abort", "-l", "L", "--json")) == {"format": 1, "aborted": 2}
    with pytest.raises(SkipjackError, match="resume -l L"):
        loaded("run", "-l", "L", "--build", "--builders", "1")
    loaded("load", "-t", "two", "-l", "L", "--solver", "nest")
    assert record(loaded("resume", "-l", "L", "--json"))["resumed"] == 2


def test_an_architecture_is_aborted_whole(loaded: Command) -> None:
    arch = HERE.partition("/")[0]
    assert record(loaded("abort", "-a", arch, "--json"))["aborted"] == 2
    shown = loaded("status")
    assert f"all devices of {arch} are aborted; skipjack resume -a {arch}" in shown
    assert f"resume --device {HERE}" not in shown
    assert record(loaded("resume", "-a", arch, "--json"))["resumed"] == 2


def test_a_machine_that_was_never_seen_is_aborted_and_shown(fleet: Command) -> None:
    fleet("machine", "add", "gpu7", "--host", "10.0.0.7")
    assert "gpu7 gets no jobs until it is resumed" in fleet("abort", "--machine", "gpu7")
    assert "machine gpu7 is aborted; skipjack resume --machine gpu7" in fleet("status")
    assert record(fleet("machine", "show", "gpu7", "--json"))["idle"] == "aborted"
    assert "never seen, aborted" in fleet("machine", "show", "gpu7")
    fleet("resume", "--machine", "gpu7")
    assert "gpu7" not in fleet("status")


def test_a_run_on_a_disabled_machine_says_what_enables_it(
    loaded: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_MACHINE", "here")
    loaded("machine", "add", "here", "--host", "localhost")
    loaded("machine", "disable", "here", "--reason", "new fans")
    with pytest.raises(
        SkipjackError, match=r"new fans.*; skipjack machine enable here enables them"
    ):
        loaded("run", "-l", "L", "--build", "--builders", "1")


def test_it_asks_before_it_stops_what_belongs_to_others(loaded: Command) -> None:
    loaded("load", "-t", "two", "-l", "theirs", "--owner", "somebody")
    with pytest.raises(UsageError, match="theirs of somebody; add --yes"):
        loaded("abort", "-l", "theirs")
    with pytest.raises(UsageError, match="theirs of somebody"):
        loaded("abort", "--device", HERE)
    assert record(loaded("abort", "-l", "theirs", "--yes", "--json"))["aborted"] == 2


WRONG = [
    (("run", "-l", "LL"), "unknown label 'LL'"),
    (("status", "-l", "nothing"), "unknown label"),
    (("status", "--by", "colour"), "choose from label, device"),
    (("status", "--state", "bored"), "unknown state 'bored'"),
    (("load", "-t", "twoo", "-l", "x"), "unknown tag 'twoo'"),
    (("load", "-t", "two", "-l", "x", "--device", "abacus"), "arch/units"),
    (("load", "-t", "two", "-l", "x", "--device", "gfx906/60"), "Triton cannot build for gfx906"),
    (("load", "-t", "two", "-l", "x", "--solver", "nst"), "nest"),
    (("load", "-t", "two", "-l", "x", "--direction", "up"), "direction"),
    (("job", "show", "99"), "99"),
    (("job", "log", str(2**63)), "there is no job 9223372036854775808"),
    (("load", "-t", "two", "-l", "x", "--budget", str(2**32)), "the budget of a job is 4294967296"),
    (("reset", "-l", "L", "--state", "new", "--to", "error"), "new or built"),
    (("abort",), "name one target"),
    (("abort", "--machine", "nobody"), "nobody"),
    (("abort", "--device", "gfx900/56"), "gfx900/56"),
    (("abort", "-a", "gfx900"), "unknown architecture 'gfx900'"),
    (("abort", "-n", "56"), "-a and -n go together"),
    (("abort", "-a", "gfx900", "-l", "L"), "name one target"),
    (("import", "-f", "none.txt", "-t", "x"), "none.txt"),
    (("import", "-f", "problems.txt", "-t", "x", "-b", "0"), "batch"),
    (("bundle", "export", "-l", "L", "-o", "b.skj"), "--build"),
    (("bundle", "import", "none.skj"), "none.skj"),
    (("bank", "build", "-l", "L"), "L"),
    (("run", "-l", "L", "--address", "auto"), "--engine ray"),
]


def test_what_is_wrong_is_said_in_a_sentence_and_changes_nothing(loaded: Command) -> None:
    for words, sentence in WRONG:
        with pytest.raises(SkipjackError) as raised:
            loaded(*words)
        assert sentence in str(raised.value) and "\n" not in str(raised.value), words
    assert record(loaded("status", "-l", "L", "--json"))["states"] == {"new": 2}
    assert loaded("status").count(" new") == 1


def test_jobs_of_which_nothing_builds_end_in_error(
    fleet: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    doomed = Path(__file__).parents[1] / "fleet" / "work" / "doomed_solver.py"
    monkeypatch.setenv(plugins.VARIABLE, str(doomed))
    Path("adds.txt").write_text("add:991\n")
    fleet("import", "-f", "adds.txt", "-t", "adds")
    fleet("load", "-t", "adds", "-l", "A", "--solver", "doomed", "--budget", "2")
    with pytest.raises(SkipjackError, match="1 job of A in error"):
        fleet("run", "-l", "A", "--build")
    said = " ".join(fleet("status", "-l", "A", "--jobs").split())
    assert "none of 2 configs could be built" in said and "[today]" in said
    with pytest.raises(UsageError, match="no job of label A is built"):
        fleet("bundle", "export", "-l", "A", "-o", "a.skj")


def test_a_password_is_never_shown(fleet: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPJACK_DB", "mysql+pymysql://me:hunter2@127.0.0.1:1/x")
    with pytest.raises(SkipjackError) as raised:
        fleet("status")
    assert "hunter2" not in str(raised.value)


def test_a_bundle_goes_there_and_back(loaded: Command, tmp_path: Path) -> None:
    loaded("run", "-l", "L", "--build", "--json")
    assert record(loaded("bundle", "export", "-l", "L", "-o", "jobs.skj", "--json"))["jobs"] == 2
    done = record(loaded("bundle", "evaluate", "jobs.skj", "-o", "results.skj", "--json"))
    assert (done["done"], done["left"]) == (2, 0)
    assert record(loaded("bundle", "import", "results.skj", "--json"))["finished"] == 2
    again = record(loaded("bundle", "import", "results.skj", "--json"))
    assert (again["accepted"], again["duplicates"]) == (0, 2)


def test_the_script_for_slurm_can_be_looked_at(loaded: Command) -> None:
    words = ("-N", "4", "--gpus-per-node", "8", "--time", "1:00:00", "--dry-run")
    script = loaded("run", "-l", "L", "--engine", "slurm", *words)
    assert script.startswith("#!") and "--nodes=4" in script and "--gpus-per-node=8" in script

"""``skipjack exec`` becomes the program, so that a shell sees the program's own behavior."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from exec_rig import COMMAND, environment, install, run_exec, site

from skipjack.cli.program_launch import PythonPackages, python_of

SHOW = (
    "import json, os, sys; print(json.dumps({'argv': sys.argv, 'pid': os.getpid(), "
    "'env': {k: v for k, v in os.environ.items() if k.startswith(('SKIPJACK', 'TORCH'))}}))"
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(site(tmp_path / "site"), tmp_path / "user")


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_status_input_and_arguments_are_the_programs(env: dict[str, str], tmp_path: Path) -> None:
    program = "import sys; print(sys.stdin.read(), sys.argv[1:]); sys.exit(7)"
    words = ["--", sys.executable, "-c", program, "--policy", "x", "--", "-h"]
    done = run_exec(words, env, tmp_path, stdin="hello")
    assert done.returncode == 7
    assert done.stdout == "hello ['--policy', 'x', '--', '-h']\n"
    assert done.stderr == ""


def test_the_variables_say_what_was_asked_for(env: dict[str, str], tmp_path: Path) -> None:
    options = ["--policy", "incremental", "--seconds", "2", "--background", "--regret", "5%"]
    env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    words = [*options, "--ops", "mm,bmm", sys.executable, "-c", SHOW, "--seconds"]
    shown = json.loads(run_exec(words, env, tmp_path).stdout)
    assert shown["argv"] == ["-c", "--seconds"]
    found = shown["env"]
    assert found["SKIPJACK_TORCH"] == found["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "1"
    assert found["SKIPJACK_FIND_ENFORCE"] == "incremental"
    assert float(found["SKIPJACK_TUNING_SECONDS"]) == 2
    assert found["SKIPJACK_TUNING_BACKGROUND"] == "1"
    assert found["SKIPJACK_REGRET"] == "5%"
    assert found["SKIPJACK_TORCH_OPS"] == "mm,bmm"
    assert found["SKIPJACK_TORCH_STARTED"].split(":")[0] == str(shown["pid"])


def test_what_was_not_asked_for_is_left_to_the_environment(
    env: dict[str, str], tmp_path: Path
) -> None:
    env["SKIPJACK_FIND_ENFORCE"] = "off"
    shown = json.loads(run_exec([sys.executable, "-c", SHOW], env, tmp_path).stdout)
    assert shown["env"]["SKIPJACK_FIND_ENFORCE"] == "off"
    assert "SKIPJACK_TUNING_SECONDS" not in shown["env"]


def test_a_variable_that_means_nothing_is_named(env: dict[str, str], tmp_path: Path) -> None:
    env["SKIPJACK_FIND_ENFORCE"] = "fast"
    done = run_exec(["--", sys.executable, "-c", "open('ran', 'w')"], env, tmp_path)
    assert done.returncode == 2 and not (tmp_path / "ran").exists()
    assert done.stderr.startswith("skipjack: SKIPJACK_FIND_ENFORCE is 'fast', which is not valid")


def test_a_dump_is_asked_for_by_variables(env: dict[str, str], tmp_path: Path) -> None:
    show = "import os; print(os.environ['TUNE_DUMP_PATH'])"
    env["ENABLE_TUNE_DUMP"] = "true"
    done = run_exec([sys.executable, "-c", show], env, tmp_path)
    assert done.stdout == f"{tmp_path / 'tune_dump'}\n"
    env["TUNE_DUMP_PATH"] = "there"
    assert run_exec([sys.executable, "-c", show], env, tmp_path).stdout == f"{tmp_path / 'there'}\n"
    env["ENABLE_TUNE_DUMP"] = "yes"
    done = run_exec([sys.executable, "-c", show], env, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "skipjack: ENABLE_TUNE_DUMP is yes; write True or False\n"


def test_a_signal_reaches_the_program_and_ends_it(env: dict[str, str], tmp_path: Path) -> None:
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, "exec", "--", sys.executable, "-c", program],
        env=env,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM


def test_a_broken_pipe_is_not_ignored(env: dict[str, str], tmp_path: Path) -> None:
    done = run_exec(["--", "bash", "-c", "trap"], env, tmp_path)
    shown = run_exec(["--", "cat", "/proc/self/status"], env, tmp_path).stdout
    ignored = next(line for line in shown.splitlines() if line.startswith("SigIgn"))
    assert not int(ignored.split()[1], 16) & 1 << signal.SIGPIPE - 1
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "no-such-program"], 127, "there is no program no-such-program on PATH"),
        (["--", "./missing.py"], 127, "there is no program ./missing.py"),
        (["--", "./plain.py"], 126, "./plain.py is not executable; write python ./plain.py"),
        (["--", "./folder"], 126, "./folder is a directory"),
        (["--", "./nonsense"], 126, "nonsense cannot be run: Exec format error"),
        (["--policy", "some", "--", "true"], 2, "--policy is 'some', which is not valid"),
        (["--seconds", "-1", "--", "true"], 2, "--seconds is -1.0, which is not valid"),
        (["--regret", "2", "--", "true"], 2, "--regret is '2', which is not valid"),
        ([], 2, "COMMAND"),
        (["--", ""], 2, "the command is empty"),
    ],
)
def test_a_command_that_cannot_be_run_is_one_sentence(
    words: list[str], code: int, said: str, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "plain.py").write_text("print(1)\n")
    (tmp_path / "folder").mkdir()
    script(tmp_path / "nonsense", "\0\1\2")
    done = run_exec(words, env, tmp_path)
    assert done.returncode == code
    assert said in done.stderr and done.stderr.count("\n") == 1
    assert done.stdout == ""


def bare_python(folder: Path) -> Path:
    """A Python with nothing installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


@pytest.mark.parametrize("torchrun", [False, True])
def test_a_python_without_skipjack_runs_nothing(torchrun: bool, tmp_path: Path) -> None:
    python = bare_python(tmp_path / "venv")
    # -E: PYTHONPATH would bring this Python's packages to that one.
    launcher = script(tmp_path / "torchrun", f"#!{python} -E\nopen('ran', 'w')\n")
    words = [str(launcher), "x.py"] if torchrun else [str(python), "-E", "-c", "open('ran', 'w')"]
    done = run_exec(["--", *words], environment(None, tmp_path / "user"), tmp_path)
    assert done.returncode == 1
    assert f"({python}) has no Skipjack; install it there ({python} -m pip" in done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "ran").exists()


def test_an_older_torch_is_told_and_runs_as_it_is(tmp_path: Path) -> None:
    env = environment(site(tmp_path / "site", torch="2.4.1"), tmp_path / "user")
    done = run_exec(["--", sys.executable, "-c", SHOW], env, tmp_path)
    assert done.returncode == 0
    assert "PyTorch 2.4.1 is too old to be tuned" in done.stderr and "2.10" in done.stderr
    assert "SKIPJACK_TORCH" not in json.loads(done.stdout)["env"]


def test_a_skipjack_without_its_entry_point_runs_nothing(tmp_path: Path) -> None:
    install(tmp_path / "site", "skipjack", "0.0.1")
    install(tmp_path / "site", "torch", "2.13.0")
    env = environment(tmp_path / "site", tmp_path / "user")
    done = run_exec(["--", sys.executable, "-c", "open('ran', 'w')"], env, tmp_path)
    assert done.returncode == 1 and "is not registered with PyTorch" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_packages_without_torch_say_so() -> None:
    assert "has no PyTorch" in PythonPackages("python", "0.1.0", None, True).torch_lack
    assert not PythonPackages("python", "0.1.0", "", True).torch_lack
    assert not PythonPackages("python", "0.1.0", "2.10.0+cpu", True).torch_lack


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ("#!/usr/bin/python3\n", ["/usr/bin/python3"]),
        ("#!/usr/bin/python3 -s\n", ["/usr/bin/python3", "-s"]),
        ("#!/usr/bin/env python3\n", ["{bin}/python3"]),
        ("#!/usr/bin/env -S python3 -I\n", ["{bin}/python3", "-I"]),
        ('#!/bin/sh\n\'\'\'exec\' "/a b/bin/python3.11" "$0" "$@"\n', ["/a b/bin/python3.11"]),
        ("#!/bin/bash\n", None),
        ("#!/usr/bin/env nothing-at-all\n", None),
        ("#!\n", None),
        ("#!'\n", None),
        ("\x7fELF", None),
        ("", None),
    ],
)
def test_the_python_of_a_script_is_in_its_first_line(
    head: str, found: list[str] | None, tmp_path: Path
) -> None:
    script(tmp_path / "python3", "#!/bin/sh\n")
    path = script(tmp_path / "torchrun", head)
    wanted = found and [word.format(bin=tmp_path) for word in found]
    assert python_of(path, [], path=str(tmp_path)) == wanted


def test_options_that_change_what_a_python_finds_are_the_checks_too() -> None:
    python = Path("/usr/bin/python3.11")
    assert python_of(python, ["-u", "-I", "-X", "x.py"]) == [str(python), "-I"]
    assert python_of(python, ["train.py", "-I"]) == [str(python)]
    assert python_of(python, ["-m", "train", "-S"]) == [str(python)]


def test_workers_measure_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    from skipjack.processes import worker_environment

    monkeypatch.setitem(os.environ, "SKIPJACK_TORCH", "1")
    assert "SKIPJACK_TORCH" not in worker_environment()


def variables_of(words: list[str], env: dict[str, str], folder: Path) -> dict[str, str]:
    done = run_exec([*words, "--", sys.executable, "-c", SHOW], env, folder)
    found: dict[str, str] = json.loads(done.stdout)["env"]
    return found


def test_a_mode_names_the_policy_and_the_searchers(env: dict[str, str], tmp_path: Path) -> None:
    env["SKIPJACK_FIND_ENFORCE"] = "db"
    found = variables_of(["--mode", "RL,GA"], env, tmp_path)
    assert found["SKIPJACK_FIND_ENFORCE"] == "incremental"
    assert set(found["SKIPJACK_TUNING_SEARCHERS"].split(",")) == {"cube=genetic", "vector=policy"}
    off = variables_of(["--mode", "NO_TUNE"], env, tmp_path)
    assert off["SKIPJACK_FIND_ENFORCE"] == "db" and "SKIPJACK_TUNING_SEARCHERS" not in off
    done = run_exec(["--mode", "PPO", "--", "true"], env, tmp_path)
    assert done.returncode == 2 and "unknown mode 'PPO'" in done.stderr


@pytest.mark.parametrize(
    "words", [("--mode", "RL", "--policy", "db"), ("--mode", "NO_TUNE", "--policy", "incremental")]
)
def test_a_mode_and_a_policy_that_contradict_each_other_are_refused(
    env: dict[str, str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = run_exec([*words, "--", "true"], env, tmp_path)
    assert done.returncode != 0
    assert f"--mode {words[1]} " in done.stderr and f"--policy {words[3]} " in done.stderr
    assert "leave one of them out" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_of_searches_are_told_to_have_no_effect_where_nothing_is_searched(
    env: dict[str, str], tmp_path: Path
) -> None:
    done = run_exec(["--seconds", "2", "--regret", "5%", "--", "true"], env, tmp_path)
    assert done.returncode == 0
    assert "--seconds and --regret have no effect: the policy db searches nothing" in done.stderr
    wishes = ["--policy", "incremental", "--seconds", "2", "--", "true"]
    assert "no effect" not in run_exec(wishes, env, tmp_path).stderr


def test_an_operation_that_is_not_known_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    done = run_exec(["--ops", "mm,convolutoin", "--", "true"], env, tmp_path)
    assert done.returncode == 2
    assert "--ops: PyTorch has no tunable operation 'convolutoin'" in done.stderr
    assert "did you mean convolution" in done.stderr


def test_autotunes_variables_are_the_programs_settings(env: dict[str, str], tmp_path: Path) -> None:
    env |= {"TUNE_BANK_PATH": str(tmp_path), "REPEAT_TUNE": "True", "TUNE_OPS_NAME": "mm"}
    found = variables_of(["--policy", "incremental"], env, tmp_path)
    assert found["SKIPJACK_USER_DB_PATH"] == str(tmp_path)
    assert found["SKIPJACK_FIND_ENFORCE"] == "exhaustive"
    assert found["SKIPJACK_TORCH_OPS"] == "mm"
    assert variables_of(["--ops", "bmm"], env, tmp_path)["SKIPJACK_TORCH_OPS"] == "bmm"


def test_a_variable_that_cannot_be_used_is_told_and_the_program_runs(
    env: dict[str, str], tmp_path: Path
) -> None:
    env |= {"TUNE_BANK_PATH": str(tmp_path / "missing")}
    done = run_exec(["--", sys.executable, "-c", "print('ran')"], env, tmp_path)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr.count("\n") == 1 and "TUNE_BANK_PATH is" in done.stderr

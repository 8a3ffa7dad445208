"""``skipjack image``: build, tag, push, pull, login and list, with stand-ins for engine and ssh."""

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from image_stand_ins import ID, StandIn
from typer.testing import CliRunner, Result

import skipjack
from skipjack.cli.fleet.images import app
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.images import ImageRecipe, image_build
from skipjack.fleet.machines.remote_images import remote_command
from skipjack.fleet.model import Registration
from skipjack.fleet.store import open_store

PASSWORD = "correct horse"
WRONG = "battery staple"


def image(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, words, input=stdin)


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exception is None, result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


def sentence(result: Result) -> str:
    """What the command fails with."""
    assert isinstance(result.exception, SkipjackError), result.exception
    assert "\n" not in str(result.exception)
    return str(result.exception)


@pytest.fixture
def fleet(docker: StandIn, ssh: None, user_dir: Path) -> Iterator[StandIn]:
    """Three machines, one of them disabled."""
    with open_store() as store:
        store.registrations.add(Registration("gpu1", "one", device="gfx908/120", gpus=8))
        store.registrations.add(Registration("gpu2", "two", device="gfx90a/104", gpus=4))
        store.registrations.add(Registration("off", "three", enabled=False))
    yield docker


def register(name: str, host: str) -> None:
    with open_store() as store:
        store.registrations.add(Registration(name, host))


class TestBuilding:
    def test_the_documents_command(self, docker: StandIn) -> None:
        words = "build --branch develop --version 6.2 --no-cache -t my_img --json"
        (done,) = lines(image(*words.split()))
        assert done == {"format": 1, "image": "my_img", "id": "sha256:" + "b" * 64}
        (line,) = docker.asked()
        context = line[-1]
        assert " ".join(line) == (
            f"build --tag my_img --file {context}/Dockerfile --build-arg MIOPEN_BRANCH=develop "
            f"--build-arg ROCM_VERSION=6.2 --label skipjack.version={skipjack.__version__} "
            f"--no-cache {context}"
        )
        assert not Path(context).exists()

    def test_its_context_is_a_project_that_pip_installs(self, docker: StandIn) -> None:
        assert image("build", "-t", "my_img").exception is None
        files = json.loads((docker.place / "context.json").read_text())
        for name in ("cli/main.py", "fleet/work/worker.py", "fleet/images/Dockerfile", "py.typed"):
            assert f"skipjack/src/skipjack/{name}" in files
        assert {"Dockerfile", "skipjack/pyproject.toml"} <= set(files)
        assert not [name for name in files if "__pycache__" in name]

    def test_a_secret_among_the_arguments_is_warned_of_and_not_repeated(
        self, docker: StandIn, caplog: pytest.LogCaptureFixture
    ) -> None:
        words = ["--build-arg", "GITHUB_TOKEN=geheim", "--build-arg", "BUILD_JOBS=4"]
        assert image("build", "-t", "my_img", *words).exit_code == 0
        (warning,) = caplog.messages
        assert "GITHUB_TOKEN stays in the image's history" in warning and "geheim" not in warning

    def test_all_that_can_be_said(self, docker: StandIn, tmp_path: Path) -> None:
        own = tmp_path / "My.Dockerfile"
        own.write_text("FROM scratch\n")
        more = ["--repository", "https://example.org/m.git", "--build-arg", "BUILD_JOBS=4"]
        assert image("build", "-t", "i", "-b", "b", "--file", str(own), *more).exception is None
        (line,) = docker.asked()
        arguments = [line[at + 1] for at, word in enumerate(line) if word == "--build-arg"]
        assert arguments == [
            "MIOPEN_BRANCH=b",
            "MIOPEN_REPOSITORY=https://example.org/m.git",
            "BUILD_JOBS=4",
        ]

    def test_access_for_the_build_is_passed_on_and_its_values_are_not(
        self,
        docker: StandIn,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
        monkeypatch.setenv("PIP_TOKEN", "geheim1")
        monkeypatch.delenv("DOCKER_BUILDKIT", raising=False)
        file = tmp_path / "token"
        file.write_text("username=me\npassword=geheim2\n")
        secrets = (f"id=git_credentials,src={file}", "id=pip,env=PIP_TOKEN")
        words = ["--ssh", "default", *(each for one in secrets for each in ("--secret", one))]
        done = image("build", "-t", "i", *words)
        assert done.exception is None
        (line,) = docker.asked()
        label = ["--label", f"skipjack.version={skipjack.__version__}"]
        assert line[line.index(label[0]) : -1] == [*label, *words]
        made = (docker.place / "Dockerfile").read_text()
        (step,) = (text for text in made.splitlines() if "git init" in text)
        assert step.startswith(
            "RUN --mount=type=ssh,id=default --mount=type=secret,id=git_credentials "
            "--mount=type=secret,id=pip git init "
        )
        assert (docker.place / "buildkit.txt").read_text() == "1"
        for text in (done.output, " ".join(line), made, *caplog.messages):
            assert "geheim" not in text

    def test_without_access_the_dockerfile_is_as_it_is(self, docker: StandIn) -> None:
        assert image("build", "-t", "i").exception is None
        assert (docker.place / "Dockerfile").read_bytes() == image_build.DOCKERFILE.read_bytes()
        assert (docker.place / "buildkit.txt").read_text() == os.environ.get("DOCKER_BUILDKIT", "")

    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            (["--ssh", "default"], "--ssh default needs an ssh agent, but SSH_AUTH_SOCK"),
            (["--ssh", "default=/no/key"], "--ssh default: /no/key does not exist"),
            (["--ssh", "="], "--ssh '=' is not an ssh agent"),
            (["--secret", "geheim"], "--secret needs id=NAME,src=FILE or id=NAME,env=VARIABLE"),
            (["--secret", "id=a,value=geheim"], "--secret needs id=NAME,src=FILE"),
            (["--secret", "id=a,src=/no/file"], "--secret a: the file /no/file does not exist"),
            (["--secret", "id=a,env=NOT_SET"], "--secret a: the variable NOT_SET is not set"),
        ],
    )
    def test_access_that_is_not_there_starts_nothing(
        self,
        docker: StandIn,
        monkeypatch: pytest.MonkeyPatch,
        words: list[str],
        complaint: str,
    ) -> None:
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        said = sentence(image("build", "-t", "i", *words))
        assert said.startswith(complaint) and "geheim" not in said
        assert docker.calls() == []

    @pytest.mark.parametrize(
        ("words", "complaint"),
        [
            (["-t", "My Img"], "'My Img' is not the name of an image"),
            (["-t", "i", "--branch=--upload-pack=x"], "'--upload-pack=x' is not a branch"),
            (["-t", "i", "--version", "new"], "'new' is not a version of ROCm"),
            (["-t", "i", "--build-arg", "x"], "'x' is not a build argument"),
            (
                ["-t", "i", "--file", "/no/Dockerfile"],
                "the Dockerfile /no/Dockerfile does not exist",
            ),
        ],
    )
    def test_bad_words_start_nothing(
        self, docker: StandIn, words: list[str], complaint: str
    ) -> None:
        assert sentence(image("build", *words)).startswith(complaint)
        assert docker.calls() == []

    def test_a_build_that_fails_is_one_sentence(
        self, docker: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("STAND_IN_NO_BUILD", "1")
        why = sentence(image("build", "-t", "new"))
        assert why.startswith("docker could not build new: it ended with exit code 1")

    def test_an_installed_package_describes_itself(self) -> None:
        needs = ["numpy>=1", "ray[client]>=2; extra == 'ray'", "mkl; (a == 'b') and extra == 'mkl'"]
        project = tomllib.loads(image_build._project(needs))["project"]
        assert project["dependencies"] == ["numpy>=1"]
        assert project["optional-dependencies"] == {
            "ray": ["ray[client]>=2"],
            "mkl": ["mkl; (a == 'b')"],
        }

    def test_the_dockerfile_takes_what_the_command_gives(self) -> None:
        text = image_build.DOCKERFILE.read_text()
        for name in ("MIOPEN_BRANCH", "ROCM_VERSION", "MIOPEN_REPOSITORY", "BASE_IMAGE"):
            assert f"\nARG {name}=" in text
        image_build.check(ImageRecipe("my_img", rocm_version="6.2"))


def git(place: Path, *words: str) -> str:
    who = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    line = ["git", "-C", str(place), *who, *words]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()


def test_the_dockerfile_gets_a_branch_a_tag_and_a_commit(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet", "--initial-branch", "develop")
    commits = []
    for text in ("one", "two"):
        git(origin, "commit", "--quiet", "--allow-empty", "-m", text)
        commits.append(git(origin, "rev-parse", "HEAD"))
    git(origin, "tag", "v1", commits[0])
    script = image_build.DOCKERFILE.read_text().partition("RUN git init")[2].partition("\nRUN ")[0]
    for name, commit in (("develop", commits[1]), ("v1", commits[0]), (commits[0], commits[0])):
        place = tmp_path / name
        own = script.replace("/src/miopen", f"{place}/src").replace("/etc/", f"{place}/")
        variables = {"MIOPEN_BRANCH": name, "MIOPEN_REPOSITORY": f"file://{origin}"}
        subprocess.run(["sh", "-ec", f"git init{own}"], env={**os.environ, **variables}, check=True)
        assert (place / "miopen-commit").read_text().strip() == commit


class TestPushing:
    def test_tag_and_push_to_a_repository(self, docker: StandIn) -> None:
        (done,) = lines(image("push", "my_img", "--repository", "rocm/miopen-private", "--json"))
        assert done["pushed"] == "rocm/miopen-private:my_img"
        assert docker.asked() == [
            ["tag", "my_img", "rocm/miopen-private:my_img"],
            ["push", "rocm/miopen-private:my_img"],
        ]

    def test_tag(self, docker: StandIn) -> None:
        assert (
            image("tag", "my_img", "skipjack:latest").stdout == "my_img is also skipjack:latest\n"
        )
        why = sentence(image("tag", "other", "x"))
        assert why == "tag ended with exit code 1: No such image: other"

    def test_a_daemon_that_does_not_run(
        self, docker: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("STAND_IN_DOWN", "1")
        assert "Is the docker daemon running?" in sentence(image("tag", "my_img", "x"))


class TestPulling:
    def test_every_enabled_machine_gets_it(self, fleet: StandIn) -> None:
        found = lines(image("pull", "my_img", "--repository", "rocm/miopen-private", "--json"))
        assert [(one["machine"], one["ok"]) for one in found] == [("gpu1", True), ("gpu2", True)]
        for machine in ("one", "two"):
            assert fleet.asked(machine) == [
                ["pull", "rocm/miopen-private:my_img"],
                ["tag", "rocm/miopen-private:my_img", "my_img"],
            ]
        assert fleet.asked("three") == fleet.asked() == []

    def test_those_of_a_device_and_under_a_further_name(self, fleet: StandIn) -> None:
        words = ["pull", "my_img", "-a", "gfx908", "-n", "120", "--as", "skipjack:latest"]
        assert image(*words).stdout == "gpu1 has my_img as skipjack:latest\n"
        assert fleet.asked("one")[1] == ["tag", "my_img", "skipjack:latest"]
        assert fleet.asked("two") == []

    def test_a_machine_that_fails_is_named_and_the_others_go_on(self, fleet: StandIn) -> None:
        register("disk", "full")
        register("away", "gone")
        result = image("pull", "img", "--as", "skipjack:latest")
        assert result.stdout.splitlines() == [
            "gpu1 has img as skipjack:latest",
            "gpu2 has img as skipjack:latest",
        ]
        why = sentence(result)
        assert why.startswith("pulling img failed on 2 of 4 machines: away: ")
        assert "away (gone) refuses connections" in why
        disk = (
            "disk: pull ended with exit code 1: failed to register layer: no space left on device"
        )
        assert disk in why

    def test_here_is_this_machine_alone(self, fleet: StandIn) -> None:
        assert image("pull", "img", "--here").stdout == "here has img\n"
        assert fleet.asked() == [["pull", "img"]]

    def test_without_machines_it_says_what_to_do(self, docker: StandIn, user_dir: Path) -> None:
        result = image("pull", "img")
        assert isinstance(result.exception, UsageError)
        assert "no machine is registered yet" in sentence(result)


class TestOtherMachines:
    """The commands that their shells got."""

    def test_words_reach_the_engine_as_they_are(self, docker: StandIn, tmp_path: Path) -> None:
        words = ["tag", f"a; touch {tmp_path}/x", "$(b) 'c' \"d\""]
        subprocess.run(["sh", "-c", remote_command(words)], check=False)
        assert docker.asked() == [words]
        assert not (tmp_path / "x").exists()

    def test_one_without_an_engine_says_so(self, tmp_path: Path) -> None:
        (tmp_path / "sh").symlink_to("/bin/sh")
        done = subprocess.run(
            ["/bin/sh", "-c", remote_command(["pull", "x"])],
            env={"PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 127
        assert done.stderr == "neither docker nor podman is installed\n"


class TestLoggingIn:
    def test_here_and_everywhere_by_standard_input(self, fleet: StandIn) -> None:
        result = image("login", "-u", "me", "reg.example.org", stdin=f"{PASSWORD}\n")
        assert result.stdout.splitlines() == [
            "here is logged in",
            "gpu1 is logged in",
            "gpu2 is logged in",
        ]
        line = ["login", "--username", "me", "--password-stdin", "reg.example.org"]
        for machine in ("", "one", "two"):
            (call,) = fleet.calls(machine=machine)
            assert (call["argv"], call["stdin"]) == (line, f"{PASSWORD}\n")
        for call in fleet.calls("ssh.jsonl"):
            assert PASSWORD not in " ".join(call["argv"])

    def test_a_wrong_password_is_refused_once_and_never_repeated(
        self, fleet: StandIn, caplog: pytest.LogCaptureFixture
    ) -> None:
        result = image("login", "-u", "me", stdin=WRONG)
        why = sentence(result)
        assert why == (
            "logging in as me failed: login ended with exit code 1: "
            "unauthorized: incorrect password ***"
        )
        assert WRONG not in result.output + caplog.text
        assert fleet.calls("ssh.jsonl") == []

    @pytest.mark.parametrize("stdin", ["", "\n", "one\ntwo\n"])
    def test_what_is_no_password(self, fleet: StandIn, stdin: str) -> None:
        assert sentence(image("login", "-u", "me", stdin=stdin)).startswith("no password was given")
        assert fleet.calls() == []

    def test_somebody_logs_in(self, fleet: StandIn) -> None:
        assert sentence(image("login", stdin=PASSWORD)).startswith("no user name given")


class TestListing:
    def test_who_has_another_one_is_seen(self, fleet: StandIn) -> None:
        image("pull", "my_img")
        (fleet.place / "two" / "images.json").write_text(
            json.dumps({"my_img": "sha256:" + "c" * 64})
        )
        found = lines(image("list", "my_img", "--json"))
        told = [(one["machine"], one["id"], one["differs"]) for one in found]
        assert told == [
            ("here", ID, False),
            ("gpu1", ID, False),
            ("gpu2", "sha256:" + "c" * 64, True),
        ]
        shown = image("list").stdout
        assert "aaaaaaaaaaaa" in shown and "differs" in shown

    def test_who_has_none_is_seen_and_who_does_not_answer_is_named(self, fleet: StandIn) -> None:
        register("away", "gone")
        result = image("list", "my_img")
        assert result.stdout.count("missing") == 2
        assert sentence(result).startswith("listing images failed on 1 of 4 machines: away: ")

"""Places of a test's own: a user directory, and a temporary directory with its own device lock."""

import gc
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from processes import PATIENCE_S, command, gone, workers_of
from skipjack import plugins
from skipjack.core import Problem
from skipjack.operations import parse
from warm import Warm
from work_shares import FilesToWorkers, turn_of

Skipjack = Callable[..., subprocess.CompletedProcess[str]]

# Whether a property holds does not depend on how busy the machine is.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


ROGUE = Path(__file__).with_name("rogue.py")


def pytest_configure() -> None:
    """Signals mean what they usually do, also where whoever started the tests ignores them.

    A shell ignores Ctrl-C in what it starts in the background, and nohup ignores SIGHUP; programs
    that tests start would ignore them as well.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=turn_of)


def pytest_collection() -> None:
    """What is collected stays to the end, so looking for garbage meanwhile finds none."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave the tests out of every later search for garbage: 0.3 s each with 13,000 tests."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return FilesToWorkers(config, log)


@pytest.fixture(scope="session", autouse=True)
def empty_system_bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Lookups of tests and of their processes find a system bank that knows nothing.

    What comes with Skipjack changes with what was measured; without a file nothing would be guessed
    from near problems.
    """
    directory = tmp_path_factory.mktemp("system")
    (directory / "bank.jsonl").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKIPJACK_SYSTEM_DB_PATH", str(directory))
        yield directory


@pytest.fixture(scope="module")
def rogue_everywhere() -> Iterator[Path]:
    """The rogue solver, loaded here and in every worker that is started from now on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, "")
        plugins.load((str(ROGUE),))
        patch.setenv(plugins.VARIABLE, str(ROGUE))
        yield ROGUE


@pytest.fixture
def rogue(rogue_everywhere: Path) -> Problem:
    """A problem that the rogue solver solves; 60 floats end 16 bytes before the guard page."""
    return parse("rogue:60")


@pytest.fixture(autouse=True)
def known_gpus(request: pytest.FixtureRequest) -> Iterator[None]:
    """No GPU is found in this process, whatever the machine has, but the fake one where asked."""
    from skipjack.gpu.discovery import only_drivers

    if "fake_everywhere" not in request.fixturenames:
        with only_drivers():
            yield
        return
    from skipjack.testing.fake_gpu import FakeDriver

    with only_drivers(FakeDriver()):
        yield


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of this process and of those it starts; device locks lie there."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setenv("SKIPJACK_LOCK_DIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def user_dir(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ledger and bank of this test lie."""
    place = tmp_path / "user"
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(place))
    monkeypatch.setenv("SKIPJACK_BUILD_WORKERS", "1")
    return place


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Runs commands in forks of a process that has loaded what they need."""
    # Not in pytest's directories: the path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="warm-") as directory:
        forking = Warm(Path(directory))
        yield forking
        forking.stop()


@pytest.fixture
def skipjack(user_dir: Path, warm: Warm) -> Skipjack:
    """Runs ``skipjack`` as a user would."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return warm.run(command(arguments), timeout=PATIENCE_S, **options)

    return run


@pytest.fixture
def children() -> Iterator[Callable[[], set[int]]]:
    """Lists the workers that this process started in this test; none may be left at the end."""
    before = workers_of(os.getpid())
    yield lambda: workers_of(os.getpid()) - before
    assert gone(workers_of(os.getpid()) - before)

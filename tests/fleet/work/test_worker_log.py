"""What workers say is kept: bounded, by task, and by worker."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack.execute import WorkerProcess
from skipjack.fleet.model import LONGEST_LOG, RunningLog
from skipjack.fleet.work import captured_log, open_worker_log, running_log
from skipjack.fleet.work.worker_log import (
    FILE_BYTES,
    FILES,
    HEAD,
    Excerpt,
    including_file,
    log_path,
)

log = logging.getLogger("somebody")


@pytest.fixture(autouse=True)
def no_other_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of commands that other tests ran write to streams that are closed by now."""
    monkeypatch.setattr(logging.root, "handlers", [])


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, as it was afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield root
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def test_a_short_text_is_kept_whole() -> None:
    excerpt = Excerpt(longest=200, head=10)
    for word in ("one ", "two ", "three ", "four "):
        excerpt.add(word)
    assert excerpt.text == "one two three four "


@pytest.mark.parametrize("piece", [1, 7, 5000])
def test_of_a_long_text_the_beginning_and_the_end_are_kept(piece: int) -> None:
    text = "".join(f"{number}\n" for number in range(1000))
    excerpt = Excerpt(longest=500, head=50)
    for at in range(0, len(text), piece):
        excerpt.add(text[at : at + piece])
    kept = excerpt.text
    assert len(kept) <= 500
    head, gap, tail = kept.partition("\n[... ")
    left_out, _, tail = tail.partition(" characters left out ...]\n")
    assert gap and text.startswith(head) and text.endswith(tail)
    assert len(head) == 50 and len(tail) > 300
    assert int(left_out) == len(text) - len(head) - len(tail)


def test_a_capture_holds_what_is_logged_meanwhile(root: logging.Logger) -> None:
    root.setLevel("WARNING")
    log.warning("before")
    with captured_log() as said:
        log.info("meanwhile %d", 1)
        log.debug("a detail")
    log.warning("after")
    assert said.text.endswith("INFO somebody: meanwhile 1\n")
    assert len(said.text.splitlines()) == 1


def test_what_was_said_so_far_can_be_read_by_another_thread(tmp_path: Path) -> None:
    assert running_log() is None
    printed = tmp_path / "output"
    printed.write_text("of another program, long ago\n")
    os.utime(printed, (0, 0))
    with captured_log(job=7, attempt=2) as whole:
        log.warning("first")
        with ThreadPoolExecutor() as others:
            said = others.submit(running_log).result()
        assert said == RunningLog(7, 2, whole.text) and "first" in whole.text
        with including_file(printed):
            before = running_log()
            printed.write_text("searching\n")
            during = running_log()
        assert before == said and during and during.text == whole.text + "searching\n"
    assert running_log() is None


def test_others_hear_no_more_than_before(root: logging.Logger) -> None:
    running_logs: list[str] = []

    class Other(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            running_logs.append(record.getMessage())

    other = Other()
    root.addHandler(other)
    root.setLevel("WARNING")
    with captured_log():
        log.info("quiet")
        log.warning("loud")
    assert running_logs == ["loud"]
    assert (root.level, other.level) == (logging.WARNING, logging.NOTSET)


def test_a_capture_is_bounded() -> None:
    with captured_log() as said:
        log.warning("the first words")
        for _ in range(40):
            log.warning("x" * HEAD)
        log.warning("the last words")
    assert len(said.text) <= LONGEST_LOG
    assert "the first words" in said.text and "the last words" in said.text


CHILD = """
import sys
for line in sys.stdin:
    print(line, end="", file=sys.stderr, flush=True)
"""


@pytest.fixture
def parrot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcess]:
    """A worker that writes all it is sent to stderr."""
    (tmp_path / "parrot.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = WorkerProcess("parrot", module="parrot")
    yield worker
    worker.kill()


def make_say(worker: WorkerProcess, text: str) -> None:
    size = os.fstat(worker._stderr.fileno()).st_size + len(text) + 1
    os.write(worker._in.fileno(), text.encode() + b"\n")
    deadline = time.monotonic() + PATIENCE_S
    while os.fstat(worker._stderr.fileno()).st_size < size:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_capture_holds_what_workers_write_to_stderr(parrot: WorkerProcess) -> None:
    make_say(parrot, "before")
    with captured_log() as first:
        make_say(parrot, "during the first")
    with captured_log() as second:
        make_say(parrot, "during the second")
        parrot.kill()
        log.warning("then it ended")
    assert first.text == "parrot worker: during the first\n"
    said, ended = second.text.splitlines()
    assert said == "parrot worker: during the second"
    assert ended.endswith("then it ended")


def test_a_capture_holds_what_the_process_itself_writes_to_stderr(tmp_path: Path) -> None:
    script = (
        "import os\n"
        "from skipjack.fleet.work import captured_log\n"
        "os.write(2, b'before\\n')\n"
        "with captured_log() as said:\n"
        "    os.write(2, b'LLVM ERROR\\n')\n"
        "print(said.text, end='')"
    )
    with (tmp_path / "stderr").open("w+b") as stderr:
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=stderr, check=True
        )
    assert done.stdout == b"stderr: LLVM ERROR\n"


def test_a_worker_has_files_of_bounded_size(tmp_path: Path, root: logging.Logger) -> None:
    path = open_worker_log(tmp_path, "evaluate-1")
    assert path == tmp_path / "logs" / "evaluate-1.log"
    for number in range(50):
        log.info("%d %s", number, "x" * (FILE_BYTES // 10))
    files = list(path.parent.iterdir())
    assert len(files) == FILES
    assert all(file.stat().st_size <= FILE_BYTES for file in files)
    assert " 49 " in path.read_text()


def test_two_workers_rotate_one_file(tmp_path: Path, root: logging.Logger) -> None:
    open_worker_log(tmp_path, "build-1")
    path = open_worker_log(tmp_path, "build-1")
    for number in range(20):
        log.info("%d %s", number, "x" * (FILE_BYTES // 10))
    kept = [file.read_text() for file in path.parent.iterdir()]
    assert len(kept) == FILES
    assert all(len(text) <= FILE_BYTES for text in kept)
    assert sum(text.count(" 19 x") for text in kept) == 2


def test_a_slot_of_any_name_has_a_file_in_the_folder(tmp_path: Path) -> None:
    assert log_path(tmp_path, "../gpu 0").parent == tmp_path / "logs"

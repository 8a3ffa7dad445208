"""Real database servers for tests and measurements, on loopback, in a temporary directory.

A server can be stopped, killed and restarted at its address, and keeps what was committed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skipjack.errors import SkipjackError

if TYPE_CHECKING:
    import psycopg
    import pymysql

PASSWORD = "s3cret-of-the-tests"
USER = "skipjack"
_PATIENCE_S = 60.0
_MEMORY = "/dev/shm"
_PLENTY = 8 << 30
_PLACE = tempfile.gettempdir()
"""Not the directory of a test, which other users cannot access."""

# The kernel ends a server when the thread that started it ends. This thread lives as long as the
# process, so that no server is left behind however the tests end.
_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="servers")


class NotInstalledError(SkipjackError):
    """The program of a server is not installed."""


class Server(ABC):
    """A database server. Unless it is `durable`, commits survive a kill but not a power cut."""

    kind: str
    account: str
    """The user that it runs as if it refuses to run as root."""

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self.directory = Path(
            tempfile.mkdtemp(prefix=f"skipjack-{self.kind}-", dir=_place(durable))
        )
        self.port = free_port()
        self._databases = 0
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(self.directory, self.account, self.account)
        try:
            self.prepare()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def prepare(self) -> None:
        """Create the files of an empty server."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command that runs the server in the foreground."""

    @abstractmethod
    def admit(self) -> None:
        """Connect once; an exception means that it does not accept connections yet."""

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Run a statement as administrator, outside of any transaction."""

    @abstractmethod
    def url(self, database: str, password: str | None = PASSWORD) -> str:
        """The value of SKIPJACK_DB."""

    polite: signal.Signals = signal.SIGTERM

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def processor_s(self) -> float:
        """CPU time of its processes, including those that ended."""
        if self._process is None:
            return 0.0
        return sum(map(_processor_s, [self._process.pid, *_children(self._process.pid)]))

    def start(self) -> None:
        """Start it unless it runs, and wait until it accepts connections."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            if not self.running:
                # The remains of a killed server may make the first attempts fail.
                self._process = _STARTER.submit(self._spawn).result()
            try:
                self.admit()
            except Exception:
                if time.monotonic() > deadline:
                    raise SkipjackError(
                        f"{self.kind} did not start within {_PATIENCE_S:g} s:\n{self._said()}"
                    ) from None
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Shut it down: connections are closed, and committed data stays."""
        self._end(self.polite)

    def kill(self) -> None:
        """End it like a power cut, except for the disk's cache."""
        self._end(signal.SIGKILL)

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        self.start()
        self._databases += 1
        self.execute(f"CREATE DATABASE {self.newest}")
        return self.url(self.newest)

    @property
    def newest(self) -> str:
        """The name of the database that `fresh` made last."""
        return f"test_{self._databases}"

    def close(self) -> None:
        """End it and remove its files."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end(self, with_signal: signal.Signals) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(with_signal)
            self._process.wait(_PATIENCE_S)
            self._process = None

    def _spawn(self) -> subprocess.Popen[bytes]:
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=_environment(),
                start_new_session=True,
                **self._as_account(),
            )

    def run(self, command: Sequence[str]) -> None:
        """Run a command of `prepare`."""
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.directory,
            env=_environment(),
            check=False,
            **self._as_account(),
        )
        if done.returncode:
            raise SkipjackError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")

    def _as_account(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        entry = pwd.getpwnam(self.account)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def _said(self) -> str:
        log = self.directory / "log"
        return log.read_text(errors="replace")[-4000:] if log.exists() else ""


class PostgreSQL(Server):
    """PostgreSQL with a user that needs a password."""

    kind = "postgresql"
    account = "postgres"
    polite = signal.SIGINT  # does not wait for clients

    def prepare(self) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        self._programs = _there(programs[-1] / "postgres" if programs else None, "PostgreSQL")
        secret = self.directory / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self.run(
            [
                *(str(self._programs.with_name("initdb")), "-D", str(self.directory / "data")),
                *("-U", USER, f"--pwfile={secret}", "--auth=scram-sha-256"),
                *("--no-sync", "--encoding=UTF8", "--locale=C"),
            ]
        )

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "shared_buffers": "32MB",
            "fsync": "on" if self.durable else "off",
            "max_connections": 100,
        }
        options = [word for item in settings.items() for word in ("-c", f"{item[0]}={item[1]}")]
        return [str(self._programs), "-D", str(self.directory / "data"), *options]

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=PASSWORD,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        )

    def admit(self) -> None:
        self._connect().close()

    def execute(self, statement: str) -> None:
        with self._connect() as connection:
            connection.execute(statement.encode())

    def url(self, database: str, password: str | None = PASSWORD) -> str:
        user = USER if password is None else f"{USER}:{password}"
        return f"postgresql+psycopg://{user}@127.0.0.1:{self.port}/{database}"


class MariaDB(Server):
    """MariaDB with a user that needs a password."""

    kind = "mariadb"
    account = "mysql"

    def prepare(self) -> None:
        program = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        self._program = _there(Path(program) if program else None, "MariaDB")
        self.run(
            [
                *("mariadb-install-db", "--no-defaults", f"--datadir={self.directory / 'data'}"),
                *("--auth-root-authentication-method=normal", "--skip-test-db"),
                "--innodb-flush-log-at-trx-commit=0",
            ]
        )
        (self.directory / "first.sql").write_text(
            f"CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1';\n"
        )
        (self.directory / "first.sql").chmod(0o644)

    def command(self) -> list[str]:
        return [
            *(str(self._program), "--no-defaults", f"--datadir={self.directory / 'data'}"),
            *("--bind-address=127.0.0.1", f"--port={self.port}", "--skip-name-resolve"),
            *(f"--socket={self.directory / 'sock'}", f"--pid-file={self.directory / 'pid'}"),
            *(f"--init-file={self.directory / 'first.sql'}", "--innodb-buffer-pool-size=64M"),
            f"--innodb-flush-log-at-trx-commit={1 if self.durable else 2}",
            "--innodb-log-file-size=16M",
            *(() if self.durable else ("--innodb-flush-method=nosync", "--sync-frm=0")),
        ]

    def execute(self, statement: str) -> None:
        connection = self._connect()
        try:
            connection.cursor().execute(statement)
        finally:
            connection.close()

    def admit(self) -> None:
        self._connect().close()

    def _connect(self) -> pymysql.Connection[pymysql.cursors.Cursor]:
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=PASSWORD,
            autocommit=True,
            connect_timeout=5,
        )

    def url(self, database: str, password: str | None = PASSWORD) -> str:
        user = USER if password is None else f"{USER}:{password}"
        return f"mysql+pymysql://{user}@127.0.0.1:{self.port}/{database}"


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _processor_s(pid: int) -> float:
    """CPU time of a process and its ended children; 0 if it no longer exists."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _there(program: Path | None, name: str) -> Path:
    if program is None or not program.exists():
        raise NotInstalledError(f"{name} is not installed")
    return program


def _environment() -> dict[str, str]:
    # A time zone with half an hour: it reveals times that are mistaken for local ones.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "Asia/Kolkata"}


def _place(durable: bool) -> str:
    """A directory in memory if there is plenty: hundreds of small databases take half the time."""
    if durable or not os.access(_MEMORY, os.W_OK):
        return _PLACE
    return _MEMORY if shutil.disk_usage(_MEMORY).free >= _PLENTY else _PLACE


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

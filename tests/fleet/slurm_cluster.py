"""A real Slurm cluster of two nodes on this machine, in a directory of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from needs import lacking
from processes import PATIENCE_S

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "squeue")
NODES = ("n1", "n2")

CONFIG = """\
ClusterName=skipjack
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
FirstJobId={first}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={place}/munge.socket
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 Gres=gpu:8
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 Gres=gpu:8
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


class SlurmCluster:
    """munged, slurmctld and two slurmd. The programs find it by ``SLURM_CONF``."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.config = place / "slurm.conf"
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all daemons, and wait until both nodes take jobs."""
        self._configure()
        socket_path = self.place / "munge.socket"
        self._daemon(
            *("munged", "--foreground", "--force", f"--socket={socket_path}"),
            *(f"--key-file={self.place / 'munge.key'}", f"--pid-file={self.place / 'munged.pid'}"),
            *(f"--seed-file={self.place / 'seed'}", f"--log-file={self.place / 'munged.log'}"),
        )
        self._wait("munged", socket_path.exists)
        self._daemon("slurmctld", "-D", "-f", str(self.config))
        for node in NODES:
            self._daemon("slurmd", "-D", "-N", node, "-f", str(self.config))
        self._wait("two idle nodes", self.idle)

    def stop(self) -> None:
        """End the jobs, then the daemons."""
        if self._daemons:
            self.ask("scancel", "--quiet", f"--user={_user()}")
            until(lambda: not self.ask("squeue", "-h").strip(), 20)
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def idle(self) -> bool:
        """Whether both nodes could take a job, and nothing of an old one is left on them."""
        return self.ask("sinfo", "-hNo%T").split() == ["idle"] * len(NODES)

    def ask(self, *command: str) -> str:
        """What one of Slurm's programs prints; nothing if it fails."""
        environment = {**os.environ, "SLURM_CONF": str(self.config)}
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.stdout if done.returncode == 0 else ""

    def state(self, job: int) -> str:
        """A job's state in Slurm's own word, such as RUNNING; it remembers jobs for minutes."""
        return self._field(job, "JobState")

    def exit_code(self, job: int) -> int:
        """What the batch script exited with."""
        return int(self._field(job, "ExitCode").partition(":")[0] or -1)

    def _field(self, job: int, name: str) -> str:
        for word in self.ask("scontrol", "show", "job", str(job)).split():
            key, _, value = word.partition("=")
            if key == name:
                return value
        return ""

    def finish(self, job: int, within_s: float = PATIENCE_S) -> str:
        """Wait until a job has ended; its last state."""
        ongoing = ("", "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED")
        over = until(lambda: self.state(job) not in ongoing and self._left(job), within_s)
        return self.state(job) if over else f"still {self.state(job)}"

    def stays(self, job: int) -> bool:
        """Whether a process of Slurm's still looks after a job that is on its way out."""
        return any(
            f"slurmstepd: [{job}.".encode() in _command_line(path)
            for path in Path("/proc").glob("[0-9]*/cmdline")
        )

    def _left(self, job: int) -> bool:
        return not self.ask("squeue", "-h", "-j", str(job), "-o%T").strip()

    def _configure(self) -> None:
        (self.place / "munge.key").write_bytes(os.urandom(128))
        (self.place / "munge.key").chmod(0o600)
        for directory in ("state", *(f"spool-{node}" for node in NODES)):
            (self.place / directory).mkdir()
        for number in range(8):
            (self.place / f"gpu{number}").touch()
        (self.place / "gres.conf").write_text(f"Name=gpu File={self.place}/gpu[0-7]\n")
        host = socket.gethostname().partition(".")[0]
        words = {"host": host, "user": _user(), "place": self.place, "ports": _free_ports(3)}
        # Two clusters on one machine should not give their jobs the same numbers.
        self.config.write_text(CONFIG.format(**words, first=1 + os.getpid() % 100_000))

    def _daemon(self, program: str, *arguments: str) -> None:
        log = self.place / f"{program}-{len(self._daemons)}.out"
        environment = {**os.environ, "SLURM_CONF": str(self.config), "PATH": _search_path()}
        with log.open("wb") as output:
            self._daemons.append(
                subprocess.Popen(
                    [_found(program), *arguments],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self.place,
                )
            )

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        if not until(ready, 30):
            logs = "\n".join(
                f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}"
                for log in sorted(self.place.glob("*.out"))
            )
            raise RuntimeError(f"Slurm does not come up: no {what}\n{logs}")


def until(condition: Callable[[], bool], within_s: float, pause_s: float = 0.1) -> bool:
    """Whether a condition becomes true in time; a costly one is asked less often."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True


def _command_line(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def _search_path() -> str:
    # Daemons lie where an ordinary user's PATH does not lead.
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _found(program: str) -> str:
    return shutil.which(program, path=_search_path()) or ""


def _free_ports(count: int) -> list[int]:
    # Below the range of outgoing connections, which would take them before the daemons do.
    found: list[int] = []
    candidate = 17000 + os.getpid() % 2500
    while len(found) < count:
        candidate += 1
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
        found.append(candidate)
    return found


def _skip_without(programs: Sequence[str]) -> None:
    missing = [program for program in programs if not _found(program)]
    if not missing:
        return
    lacking("Slurm", f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="session")
def slurm_daemons() -> Iterator[SlurmCluster]:
    """One cluster for all tests."""
    _skip_without(PROGRAMS)
    # A short path: munge's socket has a limit of about a hundred characters.
    place = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    place.chmod(0o755)
    cluster = SlurmCluster(place)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def slurm(slurm_daemons: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """The cluster, as this process and those it starts see it."""
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_", "RAY_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_CONF", str(slurm_daemons.config))
    return slurm_daemons

"""From nothing to a user.conf that LoadGen calls VALID: tune the Server scenario, then submit.

``make demo-loadgen`` runs this, from the repository's root. Running it again continues.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SUMMARY = "mlperf_log_summary.txt"
TRIES = 3
"""Runs at the limit fail now and then on a machine that does other things, too."""


@dataclass(frozen=True)
class Demo:
    """The steps, all with their output below one directory."""

    out: Path

    @property
    def report(self) -> Path:
        """What the sweep writes."""
        return self.out / "server"

    def sweep(self, options: Sequence[str]) -> None:
        """Find the setting, the load that it holds, and user.conf."""
        arguments = ["--state", str(self.out / "state"), "--report", str(self.report), *options]
        skipjack = [sys.executable, "-m", "skipjack", "sweep"]
        self._call([*skipjack, str(HERE / "server.toml"), *arguments])

    def build(self) -> None:
        """Build the network of the best setting, apart from the sweep's own builds."""
        config = json.loads((self.report / "result.json").read_text())["full_config"]
        (self.out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        self._call([sys.executable, str(HERE / "build.py")], quiet=True)

    def submit(self) -> bool:
        """One LoadGen test that knows nothing but the user.conf; whether it is VALID."""
        conf = self.report / "user.conf"
        print(f"\n{conf}:\n{conf.read_text()}", flush=True)
        self._call([sys.executable, str(HERE / "harness.py"), "--user-conf", str(conf)])
        summary = (self.out / "run" / SUMMARY).read_text()
        print(summary.partition("\n\n")[0], flush=True)
        return "Result is : VALID" in summary

    def check_accuracy(self) -> None:
        """Whether the network that was submitted gives the right answers."""
        harness = [sys.executable, str(HERE / "harness.py"), "--mode", "AccuracyOnly"]
        self._call(harness, quiet=True)
        self._call([sys.executable, str(HERE / "accuracy.py"), str(self.out / "run")])

    def _call(self, command: Sequence[str], quiet: bool = False) -> None:
        environment = {
            **os.environ,
            # The sweep file says `python`: this one.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "SKIPJACK_CONFIG": str(self.out / "config.json"),
            "SKIPJACK_BUILD_DIR": str(self.out / "build"),
            "SKIPJACK_RUN_DIR": str(self.out / "run"),
        }
        shown = " ".join(
            os.path.relpath(word, ROOT) if word.startswith(str(ROOT)) else word
            for word in ("python", *command[1:])
        )
        print(f"\n$ {shown}", flush=True)
        output = subprocess.DEVNULL if quiet else None
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)


def main() -> None:
    """Sweep, build, submit, check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "loadgen")
    arguments, options = parser.parse_known_args()
    demo = Demo(arguments.out.resolve())
    demo.out.mkdir(parents=True, exist_ok=True)
    demo.sweep(options)
    demo.build()
    if not any(demo.submit() for _ in range(TRIES)):
        raise SystemExit(f"LoadGen called none of {TRIES} runs VALID: was the machine busy?")
    demo.check_accuracy()
    print(f"\nFor your submission: {demo.report / 'user.conf'}")


if __name__ == "__main__":
    main()

"""``python -m skipjack.fleet.machines.probe``: a report about this machine, for checks.

It reads a request from standard input, if there is one, and prints one line of JSON.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import skipjack
from skipjack.core import Device
from skipjack.fleet.host import detect_host
from skipjack.reading import parse_json
from skipjack.settings import Settings, load_settings

PACKAGES = ("ray", "numpy", "llvmlite", "triton", "torch")
NOTED = ("skipjack", "python", "rocm", *PACKAGES)
"""Everything whose version is reported, if it is installed."""
_ROCM = Path("/opt/rocm/.info/version")


def report(settings: Settings, device: str = "") -> dict[str, Any]:
    """A report about this machine; for `device`, if it exists, with its toolchain."""
    host = detect_host("probed")
    gpus = Counter(one.name for one in host.devices if one.kind != "cpu")
    found = next((one for one in host.devices if one.name == device), None)
    return {
        "cores": host.cores,
        "memory_bytes": host.memory_bytes,
        "cpus": [one.name for one in host.devices if one.kind == "cpu"],
        "gpus": dict(sorted(gpus.items())),
        "versions": versions(),
        "toolchain": _toolchain(found) if found else "",
        "free_bytes": _free_bytes(settings.user_dir),
        "user_dir": str(settings.user_dir),
    }


def versions() -> dict[str, str]:
    """Versions of everything that results depend on, if it is installed."""
    known = {"skipjack": skipjack.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            continue
    if _ROCM.is_file():
        known["rocm"] = _ROCM.read_text(encoding="utf-8").strip()
    return known


def _toolchain(device: Device) -> str:
    from skipjack.fleet.toolchain import toolchain

    return toolchain(device)


def _free_bytes(place: Path) -> int:
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def main() -> None:
    """Answer one request."""
    from skipjack import plugins

    text = "" if sys.stdin.isatty() else sys.stdin.read()
    request: Mapping[str, Any] = parse_json(text, "the request") if text.strip() else {}
    settings = load_settings()
    plugins.load(settings.plugins)
    print(json.dumps({"format": 1, **report(settings, str(request.get("device", "")))}))


if __name__ == "__main__":
    main()

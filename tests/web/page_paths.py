"""The addresses of all pages."""

from pathlib import Path
from urllib.parse import quote

from web_rig import HOSTILE_KEY, KEY, MARKUP, PROGRAM, RUN


def quoted(text: str) -> str:
    """A name as it is written in an address."""
    return quote(text, safe="")


def paths(place: Path) -> dict[str, str]:
    """All pages of a filled directory, by what they are about."""
    return {
        "overview": "/",
        "label": "/labels/label_01",
        "hostile label": f"/labels/{quoted(MARKUP)}",
        "jobs": "/jobs",
        "job": "/jobs/1",
        "running job": "/jobs/402",
        "failed job": "/jobs/401",
        "machines": "/machines",
        "machine": "/machines/gpu7",
        "hostile machine": f"/machines/{quoted(MARKUP)}",
        "problems": "/problems",
        "problem": f"/problems/{quoted(KEY)}",
        "hostile problem": f"/problems/{quoted(HOSTILE_KEY)}",
        "sweeps": "/sweeps",
        "sweep": f"/sweeps/{quoted(str(place / 'sweep'))}",
        "training": "/training",
        "run": f"/training/{RUN}",
        "episode": f"/training/{RUN}/episodes/1/1",
        "bank": "/bank",
        "entry": f"/bank/user/{quoted(KEY)}",
        "difference": "/bank-difference?first=bank%20other&second=user",
        "programs": "/programs",
        "program": f"/programs/{PROGRAM}",
        "unknown": "/labels/nix",
    }


NAMES = list(paths(Path()))

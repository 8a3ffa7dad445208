"""Which machines have an image, and which of them have another one under its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from skipjack.fleet.machines.images_everywhere import Present
from skipjack.report.render import print_rows

Row = dict[str, str | bool]


def image_rows(found: Sequence[Present], machines: Sequence[str], image: str = "") -> list[Row]:
    """A row for each image and machine, those without it too; `differs` from what most have."""
    ids: dict[str, dict[str, str]] = {}
    if image:
        ids[image.removesuffix(":latest")] = {}
    for one in found:
        ids.setdefault(one.image, {})[one.machine] = one.id
    rows: list[Row] = []
    for name, here in sorted(ids.items()):
        usual = Counter(here.values()).most_common(1)[0][0] if here else ""
        for machine in machines:
            id = here.get(machine, "")
            differs = bool(id) and id != usual
            rows.append({"image": name, "machine": machine, "id": id, "differs": differs})
    return rows


def print_images(rows: Sequence[Row]) -> None:
    """The same for people."""
    cells = []
    for row in rows:
        short = str(row["id"]).removeprefix("sha256:")[:12] or "not there"
        words = (str(row["image"]), str(row["machine"]), short)
        cells.append((*words, "differs" if row["differs"] else ""))
    print_rows(
        ["image", "machine", "id", ""],
        cells,
        if_empty="no image that was built by skipjack image build",
    )

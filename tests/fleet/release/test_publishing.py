"""All files of an export and a manifest that tells of them, or nothing."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skipjack.errors import CorruptFileError, NewerFormatError, UsageError
from skipjack.fleet.release.export import FILE_NAME, ExportOrigin, manifest_reports, read_manifest
from skipjack.fleet.release.export.publication import publish, staged
from skipjack.fleet.release.formats import Alias, Contents, ReleaseFile, base_name

ORIGIN = ExportOrigin("L", "ann", "rocm 6.2", "img:6.2", "T-1")


def file(device: str, text: str = "text", *, is_code: bool = False) -> ReleaseFile:
    def write(path: Path, target: str) -> None:
        path.write_text(f"{text} for {target}")

    return ReleaseFile(
        device, lambda name: f"{base_name(name)}.x", write, {"n": 1}, ("t",), is_code
    )


def contents(*files: ReleaseFile) -> Contents:
    return Contents("find-db", "miopen", files)


def test_the_manifest_tells_of_every_file(tmp_path: Path) -> None:
    done = publish(contents(file("gfx900/64"), file("gfx908/120")), tmp_path / "out", ORIGIN)
    record = json.loads((tmp_path / "out" / FILE_NAME).read_text())
    assert record["format"] == 1 and record["labels"] == ["L"]
    assert record["devices"] == ["gfx900/64", "gfx908/120"]
    first = record["files"][0]
    data = (tmp_path / "out" / "gfx900_64.x").read_bytes()
    assert first["name"] == "gfx900_64.x" and first["sha256"] == hashlib.sha256(data).hexdigest()
    assert first["origin"]["image"] == "img:6.2" and first["origin"]["toolchains"] == ["t"]
    assert read_manifest(tmp_path / "out").files == {note.name: note for note in done.files}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "gfx900_64.x",
        "gfx90878.x",
        FILE_NAME,
    }


def test_further_exports_add_to_the_manifest(tmp_path: Path) -> None:
    publish(contents(file("gfx900/64")), tmp_path, ORIGIN, release="6.2")
    publish(contents(file("gfx908/120")), tmp_path, ORIGIN, release="6.2")
    (tmp_path / "rel-6.2" / "gfx900_64.x").unlink()
    publish(contents(file("gfx906/60")), tmp_path, ORIGIN, release="6.2")
    manifest = read_manifest(tmp_path / "rel-6.2")
    assert list(manifest.files) == ["gfx906_60.x", "gfx90878.x"] and manifest.release == "6.2"


def test_an_alias_is_the_same_file_for_another_device(tmp_path: Path) -> None:
    aliases = [Alias.parse("gfx803/56=gfx900/64"), Alias.parse("gfx803/36=gfx900/64")]
    publish(contents(file("gfx900/64")), tmp_path, ORIGIN, aliases=aliases)
    assert (tmp_path / "gfx803_56.x").read_text() == "text for gfx803/56"
    note = read_manifest(tmp_path).files["gfx803_36.x"]
    assert (note.device, note.alias_of) == ("gfx803/36", "gfx900/64")


def test_machine_code_goes_to_devices_that_load_it_only(tmp_path: Path) -> None:
    aliases = [Alias("gfx803/56", "gfx900/64"), Alias("gfx900/56", "gfx900/64")]
    done = publish(contents(file("gfx900/64", is_code=True)), tmp_path, ORIGIN, aliases=aliases)
    assert [note.device for note in done.files] == ["gfx900/64", "gfx900/56"]
    assert "gfx803/56 gets no kernels" in done.remarks[0]


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["gfx803/56"], "not of the form"),
        (["gfx803=gfx900/64"], "arch/units"),
        (["gfx900/64=gfx900/64"], "the same device twice"),
        (["gfx803/56=gfx906/60"], "gfx906/60 is not exported in this run; it exports gfx900/64"),
        (["gfx803/56=gfx900/64", "gfx803/56=gfx900/64"], "already has a file"),
    ],
)
def test_aliases_that_cannot_be_are_refused(tmp_path: Path, texts: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        aliases = [Alias.parse(text) for text in texts]
        publish(contents(file("gfx900/64")), tmp_path, ORIGIN, aliases=aliases)
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    publish(contents(file("gfx900/64", "old")), tmp_path, ORIGIN)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def broken(path: Path, target: str) -> None:
        path.write_text("half")
        raise UsageError("no")

    bad = ReleaseFile("gfx908/120", lambda name: "bad.x", broken)
    with pytest.raises(UsageError, match="no"):
        publish(contents(file("gfx900/64", "new"), bad), tmp_path, ORIGIN)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_failure_leaves_no_directory_behind(tmp_path: Path) -> None:
    def broken(path: Path, target: str) -> None:
        raise UsageError("no")

    bad = ReleaseFile("gfx908/120", lambda name: "bad.x", broken)
    with pytest.raises(UsageError, match="no"):
        publish(contents(bad), tmp_path / "a" / "b", ORIGIN, release="6.2")
    assert not list(tmp_path.iterdir())


def test_files_that_the_manifest_does_not_tell_of_are_named_and_noted_no_more(
    tmp_path: Path,
) -> None:
    publish(contents(file("gfx900/64"), file("gfx906/60"), file("gfx803/36")), tmp_path, ORIGIN)
    for name in ("gfx900_64.x", "gfx906_60.x"):  # as an export that was killed while it moved files
        (tmp_path / name).write_text("newer")
    (report,) = manifest_reports([tmp_path])
    assert report.counts == {"not_as_noted": 2} and report.findings[0].severity == "warning"
    done = publish(contents(file("gfx906/60")), tmp_path, ORIGIN)
    assert not manifest_reports([tmp_path, tmp_path / FILE_NAME])
    assert "gfx900_64.x differs from its entry in manifest.json" in done.remarks[0]
    assert len(done.remarks) == 1
    assert list(read_manifest(tmp_path).files) == ["gfx803_36.x", "gfx906_60.x"]


def test_a_manifest_that_names_other_places_is_refused(tmp_path: Path) -> None:
    publish(contents(file("gfx900/64")), tmp_path, ORIGIN)
    text = (tmp_path / FILE_NAME).read_text()
    (tmp_path / FILE_NAME).write_text(text.replace("gfx900_64.x", "../gfx900_64.x"))
    with pytest.raises(CorruptFileError, match="is not a plain file name"):
        publish(contents(file("gfx900/64")), tmp_path, ORIGIN)


def test_exports_at_once_write_one_manifest(tmp_path: Path) -> None:
    devices = [f"gfx908/{units}" for units in range(1, 9)]
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(publish, contents(file(name)), tmp_path, ORIGIN) for name in devices]
    assert len({one.result().files[0].name for one in done}) == 8
    assert len(read_manifest(tmp_path).files) == 8


def test_what_a_killed_export_left_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".export-abc.tmp").mkdir()
    (tmp_path / ".export-abc.tmp" / "half").write_text("")
    publish(contents(file("gfx900/64")), tmp_path, ORIGIN)
    assert {path.name for path in tmp_path.iterdir()} == {"gfx900_64.x", FILE_NAME}


def test_places_that_cannot_be_written_to_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file; give a directory"):
        publish(contents(file("gfx900/64")), tmp_path / "file", ORIGIN)
    (tmp_path / "gfx900_64.x").mkdir()
    with pytest.raises(UsageError, match="is a directory; move it away"):
        publish(contents(file("gfx900/64")), tmp_path, ORIGIN)
    for release in ("../x", ".", "a/b"):
        with pytest.raises(UsageError, match="not a valid name of a release"):
            publish(contents(file("gfx900/64")), tmp_path, ORIGIN, release=release)
    with pytest.raises(UsageError, match="nothing to export"):
        publish(contents(), tmp_path, ORIGIN)
    with pytest.raises(UsageError, match="written twice"), staged(tmp_path) as staging:
        staging.path("a")
        staging.path("a")


@pytest.mark.parametrize(
    ("text", "kind"),
    [('{"format": 2}', NewerFormatError), ("[]", CorruptFileError), ("{", CorruptFileError)],
)
def test_a_foreign_manifest_is_left_alone(tmp_path: Path, text: str, kind: type[Exception]) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(kind):
        publish(contents(file("gfx900/64")), tmp_path, ORIGIN)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert (tmp_path / FILE_NAME).read_text() == text

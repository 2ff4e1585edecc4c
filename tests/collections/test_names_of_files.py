"""A path is first the file, or the folder, of that very name; a pattern only where there is none."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from visir.collections import open_collection
from visir.collections.readers.webdataset import expand
from visir.collections.streams import _local_files
from visir.collections.task_memory import is_there
from visir.files import literal_root, user_path
from visir.parquet import read_table
from visir.records.items import Items

STRANGE = [
    "a[1].tar",
    "a*.tar",
    "a?.tar",
    "a{1,2}.tar",
    "~a.tar",
    "-a.tar",
    "a b.tar",
    "a=1.tar",
    "it's.tar",
    "a\nb.tar",
]


def write_tar(path: Path, key: str) -> None:
    with tarfile.open(path, "w") as archive:
        for ending, data in ((".png", PNG), (".txt", b"a dog")):
            about = tarfile.TarInfo(key + ending)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))


def png() -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(stream, "PNG")
    return stream.getvalue()


PNG = png()


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("folder", ["", "run[1]", "x{1,2}", "~"])
def test_shards_are_read_by_their_names(
    tmp_path: Path, name: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / folder
    for beside in (place, tmp_path / "run1", tmp_path / "x1"):
        beside.mkdir(exist_ok=True)
        for other in ("a1.tar", "a2.tar", "ab.tar"):
            write_tar(beside / other, "beside")
    write_tar(place / name, "here")
    monkeypatch.chdir(tmp_path)
    for path in (str(place / name), str(Path(folder) / name)):
        assert expand(path) == [path]
        root, files = _local_files(path)
        assert list(files) == [name] and Path(root).resolve() == place.resolve()
        assert open_collection(f"webdataset:{path}").items("image").ids.to_pylist() == ["here"], path


def test_a_pattern_below_a_folder_whose_name_is_one(tmp_path: Path) -> None:
    for folder in ("run[1]", "run1", "x{1,2}", "x1", "x2"):
        (tmp_path / folder).mkdir()
        for number in range(2):
            write_tar(tmp_path / folder / f"{number:02}.tar", f"{folder}-{number}")
    assert sorted(_local_files(str(tmp_path / "run[1]" / "*.tar"))[1]) == ["00.tar", "01.tar"]
    root, _ = _local_files(str(tmp_path / "run[1]" / "*.tar"))
    assert root == str(tmp_path / "run[1]")
    inside = tmp_path / "x{1,2}"
    assert expand(str(inside / "{00..01}.tar")) == [str(inside / "00.tar"), str(inside / "01.tar")]
    assert expand(str(tmp_path / "y{1,2}" / "a.tar")) == [str(tmp_path / f"y{n}" / "a.tar") for n in (1, 2)]


def test_names_of_homes_that_are_nobodys_are_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of tables are looked for as paths; one that begins with ~ names no home of somebody unknown."""
    monkeypatch.chdir(tmp_path)
    assert not is_there("~nobody-of-this-name/a.jpg") and user_path("~nobody-of-this-name/a") == Path(
        "~nobody-of-this-name/a"
    )
    (tmp_path / "~").write_text("")
    (tmp_path / "~x.jpg").write_bytes(PNG)
    assert user_path("~") == Path("~") and is_there("~x.jpg")
    items = Items.of_images({"a": "~x.jpg"})
    assert items.images["path"].to_pylist() == [(tmp_path / "~x.jpg").as_posix()]
    assert user_path("~/a") == Path.home() / "a"
    assert literal_root(tmp_path / "a*" / "b") == (tmp_path, "a*/b")


def test_names_of_folders_are_no_columns(tmp_path: Path) -> None:
    folder = tmp_path / "language=nl" / "log"
    (folder / "device=Tablet").mkdir(parents=True)
    pq.write_table(pa.table({"device": ["pc"], "n": [1]}), folder / "device=Tablet" / "a.parquet")
    pq.write_table(pa.table({"device": ["phone"], "n": [2]}), folder / "b.parquet")
    table = read_table(folder)
    assert table.column_names == ["device", "n"] and sorted(table["device"].to_pylist()) == ["pc", "phone"]


def test_files_elsewhere_are_read_by_their_names() -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    from visir.remote import remote_files

    names = ("run[1]/a[1].tar", "run[1]/a1.tar", "run1/a1.tar", "run1/a2.tar", "run[1]/b?.tar", "run[1]/b1.tar")
    try:
        for name in names:
            memory.pipe_file(f"/names/{name}", b"x")
        assert [*remote_files("memory://names/run[1]/a[1].tar")[1]] == ["a[1].tar"]
        assert [*remote_files("memory://names/run[1]/b?.tar")[1]] == ["b?.tar"]
        assert sorted(remote_files("memory://names/run[1]")[1]) == ["a1.tar", "a[1].tar", "b1.tar", "b?.tar"]
        assert sorted(remote_files("memory://names/run[1]/a*.tar")[1]) == ["a1.tar", "a[1].tar"]
        assert sorted(remote_files("memory://names/run1/a*.tar")[1]) == ["a1.tar", "a2.tar"]
        assert sorted(remote_files("memory://names/run?/a2.tar")[1]) == ["run1/a2.tar"]
    finally:
        memory.rm("/names", recursive=True)

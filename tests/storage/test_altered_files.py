"""What is read is what was written: of every kind of folder each file in turn is altered, cut, exchanged and taken
away, and whoever reads it says so by name. What may be edited is in `FREE`, with the reason."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusals import refused
from visir.errors import VisirError
from visir.storage import MANIFEST, FolderKind, new_folder

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
SCRIPT: Any = importlib.import_module("fixtures")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FREE = {
    "*.html": "a page, which nothing reads",
    "*.csv": "a table for people, which nothing reads",
    "*.md": "a text for people, which nothing reads",
    "log/mapping.toml": "what a log's columns mean is for its reader to say, and may be corrected",
    "log/generated.json": "what was simulated, for people",
}
"""Files of folders of visir's that anybody may edit."""
TRAVELS = {"result", "collection", "purchase-model", "trial", "log", "pictures", "stress"}
"""Kinds that are read as files of anybody where there is no `visir.json`: nothing is known of them then."""
RUN_AGAIN = {"study-cells/cells/*", "tokens/*.token"}
"""Files that may be taken away: a cell that is gone is computed again, a token that is gone is revoked."""


@dataclass(frozen=True)
class Kind:
    """How a folder of a kind is made small, and read wholly."""

    write: Callable[[Path], object]
    read: Callable[[Path], object]
    packages: tuple[str, ...] = ()


def _unpacked(name: str) -> Callable[[Path], object]:
    return lambda path: SCRIPT.unpacked(name, path.parent)


def _read_tokens(path: Path) -> None:
    from visir.serving.tokens import read_tokens

    _, faults = read_tokens(path)
    if faults:
        raise VisirError("; ".join(faults))


def _read_cells(path: Path) -> None:
    from visir_papers.cells import StudyFolder

    formats = importlib.import_module("fixture_formats")
    StudyFolder(path).load(formats.replace(formats._cell(), state="not run"))


def _scenes() -> Any:
    import visir

    return visir.open("scenes:6?size=64")


def _write_collection(path: Path) -> None:
    from visir.collections.portable import save

    save(_scenes(), path)


def _read_collection(path: Path) -> None:
    from visir.collections import open_collection

    read_pictures(open_collection(path))


def read_pictures(collection: Any) -> None:
    from visir.collections.images import ImageReader

    reader = ImageReader(collection)
    for row in range(len(reader)):
        reader.open(row)


def _write_pictures(path: Path) -> None:
    from visir.robustness.corruptions.view import write_pictures

    write_pictures(_scenes(), path)


def _read_pictures(path: Path) -> None:
    from dataclasses import replace

    import pyarrow as pa

    collection = _scenes()
    names = [f"{row}.png" for row in range(collection.images.num_rows)]
    images = collection.images
    for name, values in {"path": pa.array(names), "archive": pa.nulls(len(names), pa.string())}.items():
        images = images.set_column(images.schema.get_field_index(name), name, values)
    read_pictures(replace(collection, images=images, root=path))


def _write_classification(path: Path) -> None:
    import visir
    from class_toys import class_folder, colour_model

    folder = class_folder(path.parent / "photos", 2, 2)
    visir.classify(folder, colour_model()).save(path)  # type: ignore[union-attr]


def _read_classification(path: Path) -> None:
    import visir

    visir.open(path)


def _write_log(path: Path) -> None:
    from visir.sessions.simulator import generate

    generate(path, 40, seed=0)


def _read_log(path: Path) -> None:
    from visir.sessions import load_mapping, sessionise

    sessionise(path / "events", load_mapping(path / "mapping.toml"), path.parent / "sessions")


def _vectors(several: bool = False) -> Any:
    from visir.records import Embeddings, EncoderCard, MultiVectorEmbeddings

    card, ids = EncoderCard("random", "test", "1"), [f"{number:03d}" for number in range(300)]
    numbers = np.random.default_rng(0).normal(size=(600 if several else 300, 8)).astype(np.float32)
    if several:
        numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
        return MultiVectorEmbeddings("image", ids, np.arange(0, 601, 2), numbers, card)
    return Embeddings("image", ids, numbers, card)


def _index(kind: str, **options: Any) -> Kind:
    def write(path: Path) -> None:
        from visir.retrieval.kinds import build_index

        build_index(_vectors(kind.startswith("maxsim")), kind, path, **options)

    def read(path: Path) -> None:
        from visir.retrieval.kinds import open_index

        index = open_index(path)
        index.search(index.select(index.ids[:2]), 3)

    package = {"ivf": ("faiss",)}.get(kind, ())
    return Kind(write, read, package)


def _write_shop(path: Path) -> None:
    import visir

    table = path.parent / "shop.csv"
    table.write_text("id,title,brand\n" + "".join(f"{number},red cup {number},Acme\n" for number in range(20)))
    visir.library.update(str(table), path, model="bow:8")


def _read_library(path: Path) -> None:
    from visir.library.snapshot import LibrarySnapshot

    with LibrarySnapshot.open(path) as library:
        for index in library.indexes.values():
            index.search(index.select(index.ids[:1]), 1)
        for id in library.indexes["dense"].ids.to_pylist() if library.name != "shop" else ():
            if library.thumbnail(id) is None:
                raise VisirError(f"{id}: no thumbnail")  # the page draws a new one, `visir library check` names it


def _write_stored(path: Path) -> None:
    from visir.encoders import Store, encode_detailed, load
    from visir.records import Items

    encode_detailed(load("bow:8"), Items.of_texts({"1": "a red boat", "2": "a dog"}), store=Store(path))


def _read_stored(path: Path) -> None:
    """An entry of the cache that is damaged is put aside with a warning, and made again."""
    from visir.encoders import Store, encode_detailed, load
    from visir.records import Items

    done = encode_detailed(load("bow:8"), Items.of_texts({"1": "a red boat", "2": "a dog"}), store=Store(path))
    if done.computed:
        aside = [entry.name for entry in path.rglob("*.damaged-1")]
        raise VisirError(f"made again: {aside} {[file.name for file in path.rglob('*')]}")


def _read_stress_result(path: Path) -> None:
    from visir.evaluation.results import load_evaluation

    load_evaluation(path / "inner")


def _write_nested_result(path: Path) -> None:
    """Results lie inside other folders too, whose manifest names their files (stress reports)."""
    from visir.evaluation.evaluate import evaluate
    from visir.evaluation.results import write_result

    formats = importlib.import_module("fixture_formats")
    done = evaluate(_collection(), list(formats._embeddings().values()), depth=2)
    with new_folder(path, FolderKind("stress", "a stress report")) as change:
        write_result(change, done.result, done.runs, done.qrels, "inner/")


def _collection() -> Any:
    return importlib.import_module("fixture_formats")._collection()


KINDS = {
    **{
        name: Kind(_unpacked(name), fixture.read, fixture.packages)
        for name, fixture in SCRIPT.FORMATS.items()
        if name not in ("run.json", "run.parquet", "purchase-stream")  # files that stand alone have no manifest
    },
    "tokens": Kind(_unpacked("tokens"), _read_tokens),
    "study-cells": Kind(_unpacked("study-cells"), _read_cells),
    "library.visir": Kind(_unpacked("library.visir"), _read_library),
    "collection": Kind(_write_collection, _read_collection),
    "pictures": Kind(_write_pictures, _read_pictures),
    "classification": Kind(_write_classification, _read_classification),
    "log": Kind(_write_log, _read_log, ("duckdb",)),
    "shop.visir": Kind(_write_shop, _read_library),
    "index-ivf": _index("ivf"),
    "index-maxsim": _index("maxsim", bits=2),
    "index-maxsim-ivf": _index("maxsim-ivf"),
    "store": Kind(_write_stored, _read_stored),
    "stress": Kind(_write_nested_result, _read_stress_result),
}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def take_away(path: Path) -> None:
    path.unlink()


def exchange(path: Path) -> None:
    """With another file of its format; where there is none, a byte is changed."""
    inside = [other for other in sorted(path.parent.iterdir()) if other.is_file()]
    others = [other for other in inside if other.suffix == path.suffix and other.name not in (path.name, MANIFEST)]
    if path.name != MANIFEST and others and others[0].read_bytes() != path.read_bytes():
        between = path.with_name("between")
        path.rename(between), others[0].rename(path), between.rename(others[0])
    else:
        flip(path)


def files_of(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder.parent).as_posix() for file in folder.rglob("*") if file.is_file())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A sound folder of a kind, made once."""
    folders: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("made") / name
            KINDS[name].write(folders[name])
        return folders[name]

    return make


@pytest.mark.parametrize("name", sorted(KINDS))
def test_an_altered_file_is_refused_by_name(
    name: str, made: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in KINDS[name].packages:
        pytest.importorskip(package)
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    sound, through, unnamed, number = made(name), [], [], 0
    shutil.copytree(sound, tmp_path / "sound" / name)
    try:
        KINDS[name].read(tmp_path / "sound" / name)
    except VisirError as fault:
        if "was trained with scikit-learn" in fault.message:
            pytest.skip(fault.message)
        raise
    for file in files_of(sound):
        is_free = any(fnmatch(file, pattern) for pattern in FREE)
        for change in (flip, cut, exchange, take_away):
            if change is take_away and (any(fnmatch(file, pattern) for pattern in RUN_AGAIN) or
                                        (name in TRAVELS and file == f"{name}/{MANIFEST}")):  # fmt: skip
                continue
            number += 1
            copy = tmp_path / str(number) / name
            shutil.copytree(sound, copy)
            change(copy.parent / file)
            try:
                KINDS[name].read(copy)
                if not is_free:
                    through.append(f"{change.__name__} {file}")
            except VisirError as fault:
                assert not is_free or "visir wrote it" not in fault.message, f"{file} may be edited"
                others = [other.name for other in (sound.parent / file).parent.iterdir()] if change is exchange else []
                if change is take_away and Path(file).name == MANIFEST:
                    others = [name]
                if not any(word in fault.message for word in (Path(file).name, Path(file).stem, *others)):
                    unnamed.append(f"{change.__name__} {file}: {fault.message}")
            shutil.rmtree(copy.parent)
    assert number, "the folder holds files"
    assert through == [], "altered, and read as if nothing had happened"
    assert unnamed == [], "refused, and nothing says which file"


def test_a_large_array_is_hashed_while_it_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer waits for the verdict; what changes the index waits however long it takes."""
    from visir.retrieval import index as index_folder
    from visir.retrieval.kinds import build_index, open_index

    monkeypatch.setattr(index_folder, "LATE", 1)
    build_index(_vectors(), "exact", tmp_path / "index")
    vectors = tmp_path / "index" / "part-1-0" / "vectors.npy"
    data = bytearray(vectors.read_bytes())
    data[-1] ^= 64
    vectors.write_bytes(data)
    for use in (
        lambda index: index.search(_vectors().select(["000"]), 1),
        lambda index: index.lists(_vectors().select(["000"]), 1),
        lambda index: index.select(["000"]),
        lambda index: index.documents(),
        lambda index: index.delete(["000"]),
        lambda index: index.save(tmp_path / "copy"),
    ):
        index = open_index(tmp_path / "index")
        with refused(VisirError, "vectors.npy"):
            use(index)
        with refused(VisirError, "vectors.npy"):
            use(index)
    assert not (tmp_path / "copy").exists(), "damaged values get no new, correct hash"


def test_of_files_too_large_to_hash_at_each_opening_a_change_hashes_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from visir.retrieval import index as index_folder
    from visir.retrieval.kinds import build_index, open_index
    from visir.storage import folder

    monkeypatch.setattr(index_folder, "LATE", 1)
    monkeypatch.setattr(folder, "MOST", 0)
    build_index(_vectors(), "exact", tmp_path / "index")
    flip(tmp_path / "index" / "part-1-0" / "vectors.npy")
    index = open_index(tmp_path / "index")
    index.search(_vectors().select(["000"]), 1)
    with refused(VisirError, "vectors.npy"):
        index.delete(["000"])


def test_a_file_is_hashed_once_while_it_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import time

    from visir.storage import check_written, folder

    with new_folder(tmp_path / "box", FolderKind("box", "a box")) as change:
        change.write("note", b"one")
    note, hashed = tmp_path / "box" / "note", []
    monkeypatch.setattr(folder, "digest_of", lambda path, real=folder.digest_of: hashed.append(path) or real(path))
    time.sleep(0.06)  # a file that was changed a moment ago is hashed again
    for _ in range(3):
        check_written(note)
    assert len(hashed) == 1
    before = note.stat()
    note.write_bytes(b"two")
    os.utime(note, ns=(before.st_atime_ns, before.st_mtime_ns))  # the time of its change in the inode tells
    with pytest.raises(VisirError, match="note: not as visir wrote it"):
        check_written(note)


def test_a_file_that_somebody_is_replacing_is_no_damage(tmp_path: Path) -> None:
    """A kill between a replaced file and the manifest: the next change of the folder counts the file."""
    from visir.storage import changing, check_written

    kind = FolderKind("box", "a box")
    with new_folder(tmp_path / "box", kind) as change:
        change.write("note", b"one")
    with changing(tmp_path / "box", kind, busy="waiting") as change:
        change.write("note", b"two")
        check_written(tmp_path / "box" / "note")
    check_written(tmp_path / "box" / "note")


def test_notes_of_the_users_lie_beside_and_are_nobodys_business(tmp_path: Path) -> None:
    _write_nested_result(tmp_path / "stress")
    (tmp_path / "stress" / "notes.md").write_text("mine")
    (tmp_path / "stress" / "inner" / "notes.md").write_text("mine")
    _read_stress_result(tmp_path / "stress")


@pytest.mark.parametrize("name", ["result", "index-exact", "library.visir", "sessions"])
def test_data_check_reads_every_file_of_a_folder_of_visirs(
    name: str, made: Callable[[str], Path], tmp_path: Path
) -> None:
    import visir

    for package in KINDS[name].packages:
        pytest.importorskip(package)
    folder = tmp_path / name
    shutil.copytree(made(name), folder)
    report = visir.check(folder)
    assert report.ok and report.counts["files"] >= 2 and "every byte" in report.verdict
    altered = sorted(folder.rglob("*.parquet"))[:1] or sorted(folder.rglob("*.db"))
    flip(altered[0])
    [finding] = visir.check(folder).findings
    assert finding.examples == (f"{altered[0].relative_to(folder).as_posix()} is not as it was written",)
    flip(folder / MANIFEST)
    assert {finding.kind for finding in visir.check(folder).findings} >= {"cannot be read"}

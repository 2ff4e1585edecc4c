"""Manifests that were changed and sealed again: the checksum fits, the values do not. No load ends in a traceback."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("torch")

from library_toys import SCENES, head_over, vectors_of_scenes

from visir.collections import open_collection
from visir.encoders import load
from visir.encoders.encoding import encode_detailed
from visir.encoders.models.towers import TowersEncoder, write_towers
from visir.encoders.store import VECTORS, Entry, Store
from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.errors import VisirError
from visir.fingerprint import hash_json
from visir.library import update
from visir.library.snapshot import LibrarySnapshot
from visir.retrieval import kinds
from visir.serving.tokens import new_token, read_tokens
from visir.storage import MANIFEST, FolderError, FolderKind, Manifest, changing

WRONG: list[Any] = [None, [], {}, "x", -1, 1e99, True, [None]]
ABSENT = object()
Load = Callable[[Path], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str, Load]]:
    """Of each kind: a folder, the folder in it whose manifest is changed, and what loads it."""
    root = tmp_path_factory.mktemp("resealed")
    model = vectors_of_scenes(root)
    head = head_over(model, root)
    library = root / "library"
    update(SCENES, library, model=model, head=head)
    with LibrarySnapshot.open(library) as opened:
        dense, sparse = opened.indexes["dense"].documents(), opened.indexes["sparse"].documents()
    folders: dict[str, tuple[Path, str, Load]] = {
        "library": (library, "", open_library),
        "index of a library": (library, "dense", open_library),
        "sparse head": (Path(head), "", lambda path: load(str(path))),
    }
    for kind, vectors in (("exact", dense), ("hnsw", dense), ("inverted", sparse)):
        try:
            index = kinds.build_index(vectors, kind, root / kind)
        except VisirError:  # its package is not installed
            continue
        index.delete(index.ids[:2].to_pylist())
        folders[kind] = (root / kind, "", load_index)
    encoded = encode_detailed(load("pixels"), open_collection(SCENES).items("image"), store=Store(root / "store"))
    assert encoded.folder is not None
    folders["vectors"] = (encoded.folder, "", read_vectors)
    towers = {side: Tower(None, Head(HeadSpec(load(model).dimension, 4))) for side in ("image", "text")}
    base_encoders = {side: load(model) for side in ("image", "text")}
    written = TowersEncoder(towers, base_encoders, device="cpu")  # type: ignore[arg-type]
    write_towers(root / "towers", written, facts={"objective": {"temperature": 0.1}})
    folders["towers"] = (root / "towers", "", lambda path: load(str(path)))
    new_token(root / "tokens", "anna", ["search"], 1)
    folders["tokens"] = (root / "tokens", "", read_tokens)
    return folders


def open_library(path: Path) -> None:
    LibrarySnapshot.open(path).close()


def load_index(path: Path) -> object:
    index = kinds.open_index(path)
    return index.info(), index.documents()


def read_vectors(path: Path) -> object:
    entry = Entry(path, dict(Manifest.read(path, VECTORS).content))
    return entry.broken, entry.embeddings()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value in it, those that hold others too."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        for key in list(value if isinstance(value, dict) else range(len(value)))[:8]:
            yield from leaves(value[key], (*path, key))


def reseal(path: Path, place: tuple[Any, ...], value: Any) -> None:
    values = orjson.loads(path.read_bytes())
    del values["checksum"]
    inner = values
    for key in place[:-1]:
        inner = inner[key]
    if value is ABSENT:
        del inner[place[-1]]
    else:
        inner[place[-1]] = copy.deepcopy(value)
    values = orjson.loads(orjson.dumps(values))
    path.write_bytes(orjson.dumps({**values, "checksum": hash_json(values)}))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind",
    ["library", "index of a library", "exact", "hnsw", "inverted", "vectors", "towers", "sparse head", "tokens"],
)
def test_a_resealed_manifest_is_refused_in_words(kind: str, made: dict[str, Any]) -> None:
    if kind not in made:
        pytest.skip(f"{kind}: its package is not installed")
    folder, inside, read = made[kind]
    manifest = folder / inside / MANIFEST
    before = manifest.read_bytes()
    read(folder)
    values = orjson.loads(before)
    del values["checksum"]
    refused, tracebacks = 0, []
    try:
        for place in leaves(values):
            for wrong in (*WRONG, ABSENT):
                manifest.write_bytes(before)
                reseal(manifest, place, wrong)
                try:
                    read(folder)
                except VisirError as fault:
                    refused += 1
                    assert fault.message
                except Exception as fault:
                    tracebacks.append(f"{place} = {wrong!r}: {fault!r}")
    finally:
        manifest.write_bytes(before)
    assert not tracebacks, "\n".join(tracebacks[:30])
    assert refused > 20
    read(folder)


@pytest.mark.parametrize("field", ["kind", "version", "generation", "content", "files"])
@pytest.mark.parametrize("wrong", [*WRONG, 1.5, ABSENT])
def test_the_fields_of_every_manifest_have_their_types(tmp_path: Path, field: str, wrong: Any) -> None:
    box = FolderKind("box", "a box", remedy="make a box")
    with changing(tmp_path / "box", box, busy="wait") as change:
        change.write("data", b"1")
    right = {"kind": str, "version": int, "generation": int, "content": dict, "files": dict}[field]
    reseal(tmp_path / "box" / MANIFEST, (field,), wrong)
    if type(wrong) is right and field not in ("kind", "version"):
        Manifest.read(tmp_path / "box", box)
        return
    with pytest.raises(FolderError, match=field) as fault:
        Manifest.read(tmp_path / "box", box)
    assert field == "kind" or fault.value.hint == "make a box"

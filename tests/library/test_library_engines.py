"""Libraries whose vectors lie in an engine: one setting says where, and another brings them elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("qdrant_client", reason="Qdrant's client (extra qdrant) is not installed")
sys.path.insert(0, str(Path(__file__).parents[1] / "retrieval"))

from library_toys import SCENES, draw, head_over, vectors_of_scenes
from PIL import Image
from qdrant_wire import WireServer
from typer.testing import CliRunner

import visir
from colour_patches import COLOURS, ColourPatches, draw_patches
from refusals import refused
from visir.cli.main import app
from visir.errors import ConfigurationError
from visir.library import LibraryError, update
from visir.library.check import check
from visir.library.layout import LibraryCard
from visir.library.searcher import Searcher
from visir.library.snapshot import LibrarySnapshot
from visir.library.watch import remove
from visir.retrieval.index import changing_index, read_index
from visir.retrieval.remote import engine as engine_module
from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.qdrant import QdrantEngine

SYSTEMS = ("dense", "sparse", "captions")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(engine_module, "_PAUSE", 0.001)


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("models")
    model = vectors_of_scenes(folder)
    return model, str(head_over(model, folder))


def said(library: Path) -> dict[str, Any]:
    return LibraryCard.read(library).to_content()


def names(server: WireServer) -> list[str]:
    return sorted(one.name for one in server.held.get_collections().collections)


def answers(library: Path) -> Any:
    """What is like each of the first pictures, and the captions nearest to it."""
    with Searcher.open(library) as searcher:
        items = searcher.library.indexes["dense"].ids[:3].to_pylist()
        found = [searcher.similar(item, 4, system="hybrid") for item in items]
        hits = [[(hit.id, hit.parts) for hit in one.hits] for one in found]
        return hits, [searcher.captions(item, 3) for item in items]


def test_a_library_goes_to_a_server_and_back_and_answers_the_same(
    models: tuple[str, str], server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, head = models
    monkeypatch.setenv("VISIR_QDRANT_API_KEY", "s3cret")
    monkeypatch.setattr("warnings.warn", lambda *_, **__: None)  # the client warns of keys without TLS
    at, run = tmp_path / "library", CliRunner().invoke
    made = run(app, ["library", "make", SCENES, "-m", model, "--sparse", head, "--out", str(at)])
    assert made.exit_code == 0, made.output
    local, generation = answers(at), said(at)["generation"]
    moved = run(
        app, ["library", "update", str(at), "--kind", "qdrant", "--set", f"url={server.url}", "--set", "collection=f8k"]
    )
    assert moved.exit_code == 0 and "12 unchanged" in moved.output, moved.output
    assert said(at)["kinds"] == {"dense": "qdrant", "sparse": "qdrant-sparse", "captions": "qdrant"}
    assert said(at)["settings"]["sparse"] == {"url": server.url, "collection": "f8k-sparse"}
    assert said(at)["generation"] == generation + 1  # whoever serves it takes the new one
    assert names(server) == ["f8k-captions", "f8k-dense", "f8k-sparse"]
    assert [server.count(f"f8k-{one}") for one in SYSTEMS] == [12, 12, 60]
    assert answers(at) == local and check(at) == []
    server.requests.clear()
    assert update(None, at).same and not server.changes()
    assert b"s3cret" not in b"".join(one.read_bytes() for one in at.rglob("*") if one.is_file())
    nowhere = run(app, ["library", "update", str(at), "--set", "url="])
    assert nowhere.exit_code != 0 and "needs the address of its server" in str(nowhere.exception)
    back = run(app, ["library", "update", str(at), "--kind", "exact", "--kind", "inverted"])
    assert back.exit_code == 0 and f"curl -X DELETE {server.url}/collections/f8k-dense" in back.output, back.output
    assert names(server) == ["f8k-captions", "f8k-dense", "f8k-sparse"]  # told, not deleted
    assert said(at)["settings"] == {} and said(at)["kinds"]["captions"] == "exact"
    assert answers(at) == local and check(at) == []
    names_there = sorted(path.name for path in at.iterdir())
    words = said(at)["words"]["place"]
    assert names_there == ["captions", "dense", said(at)["database"], "sparse", "thumbnails", "visir.json", words]


def test_a_library_goes_to_milvus_and_away_and_answers_the_same(
    models: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a name has no hyphen: the library's and the index's name of a collection differ."""
    pytest.importorskip("pymilvus", reason="Milvus's client (extra milvus) is not installed")
    from milvus_server import CHANGES, TOKEN, MilvusServer

    model, head = models
    monkeypatch.setenv("VISIR_MILVUS_TOKEN", TOKEN)
    at = tmp_path / "library"
    update(SCENES, at, model=model, head=head)
    local = answers(at)
    with MilvusServer() as milvus:
        update(None, at, kind="milvus", settings={"url": milvus.url, "collection": "f8k"})
        assert said(at)["kinds"] == {"dense": "milvus", "sparse": "milvus-sparse", "captions": "milvus"}
        assert milvus.names() == ["f8k_captions", "f8k_dense", "f8k_sparse"]
        assert [len(milvus.rows(f"f8k_{one}")) for one in SYSTEMS] == [12, 12, 60]
        assert answers(at) == local and check(at) == []
        milvus.door.requests.clear()
        assert update(None, at).same
        assert not {name for name, _ in milvus.door.requests} & set(CHANGES)
        away = CliRunner().invoke(app, ["library", "update", str(at), "--kind", "exact", "--kind", "inverted"])
        assert away.exit_code == 0 and '.drop_collection("f8k_dense")' in away.output, away.output
        assert milvus.names() == ["f8k_captions", "f8k_dense", "f8k_sparse"]  # told, not deleted
    assert answers(at) == local and check(at) == []


def test_a_library_on_a_server_is_brought_up_to_date(server: WireServer, tmp_path: Path) -> None:
    photos, at = tmp_path / "photos", tmp_path / "library"
    draw(photos, range(6))
    update(photos, at, model="pixels", kind="qdrant", settings={"url": server.url})
    draw(photos, range(6, 9))
    (photos / "0.png").unlink()
    assert (found := update(None, at)).added == 3 and found.deleted == 1
    [name] = names(server)
    with LibrarySnapshot.open(at) as library:
        ids = library.indexes["dense"].ids.to_pylist()
    assert len(ids) == 8 and server.count(name) == 8 and check(at) == []
    remove(at, ids[:1])
    assert server.count(name) == 7 and len(LibrarySnapshot.open(at)) == 7


def test_a_server_that_is_away_is_said_to_be_and_nothing_is_lost(server: WireServer, tmp_path: Path) -> None:
    photos, at = tmp_path / "photos", tmp_path / "library"
    draw(photos, range(6))
    settings = {"url": server.url, "retries": "1"}
    server.away = True
    with refused(EngineError, "2", "look for the collection", code="no-answer-asked-times"):
        update(photos, at, model="pixels", kind="qdrant", settings=settings)
    server.away = False
    update(photos, at, model="pixels", kind="qdrant", settings=settings)
    draw(photos, [6])
    server.away = True
    for ask in (lambda: LibrarySnapshot.open(at), lambda: update(None, at)):
        with refused(EngineError, "2", code="no-answer-asked-times") as caught:
            ask()
        assert f"curl {server.url}/readyz" in str(caught.value) and "copy" not in str(caught.value)
    assert "no answer" in check(at)[0]
    shown = CliRunner().invoke(app, ["search", str(at), "a circle"])
    assert shown.exit_code != 0 and isinstance(shown.exception, EngineError)
    server.away = False
    assert update(None, at).added == 1 and len(LibrarySnapshot.open(at)) == 7 and check(at) == []


def test_a_move_that_was_cut_off_is_finished_by_the_next_update(
    models: tuple[str, str], server: WireServer, tmp_path: Path
) -> None:
    model, head = models
    at, settings = tmp_path / "library", {"url": server.url, "retries": "0"}
    update(SCENES, at, model=model, head=head)
    local, cuts = answers(at), 0
    while True:
        server.fail_after = cuts
        try:
            update(None, at, kind="qdrant", settings=settings)
        except EngineError:
            server.fail_after = None
            assert answers(at) == local and check(at) == [], cuts
            cuts += 1
            if cuts % 2:
                update(None, at, kind=["exact", "inverted"])  # or it is given up
                assert answers(at) == local and check(at) == [], cuts
            continue
        server.fail_after = None
        break
    assert cuts >= 3
    assert answers(at) == local and check(at) == [] and update(None, at).same


def test_what_a_killed_build_left_on_the_server_is_removed_by_the_next(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, at = tmp_path / "photos", tmp_path / "library"
    draw(photos, range(4))
    asked = {"model": "pixels", "kind": "qdrant", "settings": {"url": server.url}}
    with monkeypatch.context() as killed:  # no clearing up: neither the collection nor the note of it
        killed.setattr("visir.retrieval.remote.index._destroyed", lambda _: None)
        killed.setattr("visir.storage.scratch._closed", lambda _, claims: claims.release())
        killed.setattr(QdrantEngine, "mark", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            update(photos, at, **asked)
    [left] = names(server)
    update(photos, at, **asked)
    [name] = names(server)
    assert name != left and not list(at.glob(".visir-*")) and server.count(name) == 4


def test_settings_of_no_index_and_kinds_that_are_named_beside_the_engine(
    models: tuple[str, str], server: WireServer, tmp_path: Path
) -> None:
    model, head = models
    at = tmp_path / "library"
    asked: dict[str, Any] = {"model": model, "head": head, "kind": ["qdrant", "inverted"]}
    with pytest.raises(ConfigurationError, match=r"no index of it has a setting 'urk' .*did you mean 'url'"):
        update(SCENES, at, **asked, settings={"urk": "http://here:6333"})
    with pytest.raises(ConfigurationError, match="holds a user, a password, a query or a fragment"):
        update(SCENES, at, **asked, settings={"url": "http://me:secret@here:6333"})
    with refused(LibraryError, "sparse", code="holds-vectors-library-none"):
        update(SCENES, at, model=model, kind=["qdrant", "qdrant-sparse"])
    assert not at.exists()
    update(SCENES, at, **asked, settings={"url": server.url})
    assert said(at)["kinds"] == {"dense": "qdrant", "sparse": "inverted", "captions": "qdrant"}
    assert "sparse" not in said(at)["settings"] and len(names(server)) == 2


@pytest.mark.parametrize("kind", ["qdrant", "qdrant-multi"])
def test_a_library_of_late_interaction_lies_in_an_engine(kind: str, server: WireServer, tmp_path: Path) -> None:
    photos, model = draw_patches(tmp_path / "photos"), ColourPatches()
    exact = visir.index(photos, model, out=tmp_path / "exact.visir")
    others = [
        visir.index(photos, model, out=tmp_path / f"{name}.visir", kind=kind, settings=settings)
        for name, settings in {"server": {"url": server.url}}.items()
    ]

    def scores(library: visir.Library) -> list[dict[str, float]]:
        questions = ("red blue", "green", "a yellow thing")
        return [{hit.name: round(hit.score, 4) for hit in library.search(text)} for text in questions]

    for library in others:
        assert said(library.folder)["kinds"] == {"dense": "qdrant-multi", "captions": "qdrant-multi"}
        assert scores(library) == scores(exact)
    (photos / "green-green.png").unlink()
    Image.new("RGB", (60, 60), COLOURS["green"]).save(photos / "meadow.png")
    Image.new("RGB", (60, 60), COLOURS["yellow"]).save(photos / "red-blue.png")
    for library in (exact, *others):
        report = library.update()
        assert (report.added, report.deleted, report.changed) == (1, 1, 1)
        remove(library.folder, [library["blue-red.png"].id])
    for library in others:
        assert scores(library) == scores(exact) and check(library.folder) == []
        assert library.search(like="meadow.png", k=1)[0].name == exact.search(like="meadow.png", k=1)[0].name
        regions = library.explain("meadow.png", "green").regions
        assert regions is not None and len(regions.words[0].boxes) == 1


@pytest.mark.parametrize(
    "former", [{"kind": "scipy"}, {"kind": "qdrant", "engine": "engine-1"}], ids=["kind", "engine"]
)
def test_a_library_of_a_kind_that_is_no_more_is_made_anew_by_what_its_hint_says(
    former: dict[str, str], tmp_path: Path
) -> None:
    photos, at = tmp_path / "photos", tmp_path / "library"
    draw(photos, range(4))
    update(photos, at, model="pixels")
    with changing_index(at / "dense", read_index(at / "dense").generation) as change:
        change.commit({**change.content, **former})
    with refused(LibraryError, "no more", hint=("dense", "--kind exact")):
        LibrarySnapshot.open(at)
    (at / "dense").rename(tmp_path / "dense of before")
    update(None, at, kind="exact")
    assert len(LibrarySnapshot.open(at)) == 4 and check(at) == []

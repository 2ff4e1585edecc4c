"""Where the indexes of a library lie is said: by `info`, by updates, and by the errors of one whose table is gone."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "retrieval"))

from engine_places import *  # noqa: F403
from engine_places import SERVERS, Place
from library_toys import SCENES, draw, head_over, vectors_of_scenes
from typer.testing import CliRunner

import visir
from visir.cli.main import app
from visir.library import update
from visir.library.check import check
from visir.library.layout import IndexPlace, LibraryCard, kinds_here, places_of, removals
from visir.library.searcher import Searcher
from visir.library.snapshot import LibrarySnapshot
from visir.retrieval.index import read_index
from visir.retrieval.kinds import open_index
from visir.retrieval.remote import index as storage
from visir.retrieval.remote.engine import EngineError
from visir.retrieval.remote.settings import family_of

pytestmark = pytest.mark.filterwarnings("ignore")
ON_POSTGRES = pytest.mark.parametrize("place", ["pgvector"])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("models")
    model = vectors_of_scenes(folder)
    return model, str(head_over(model, folder))


@pytest.fixture
def on_server(at: Place, tmp_path: Path) -> Path:
    """A library of six photos whose index lies on a server."""
    draw(tmp_path / "photos", range(6))
    library = tmp_path / "my photos.visir"
    update(tmp_path / "photos", library, model="pixels", kind=at.kinds["dense"], settings=settings_of(at))
    return library


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def settings_of(at: Place) -> dict[str, Any]:
    """The vectors of `pixels` are too long for a graph in PostgreSQL."""
    return {**at.settings, **({"m": 0} if at.kinds["dense"] == "pgvector" else {})}


def given(at: Place) -> list[str]:
    return [part for name, value in settings_of(at).items() for part in ("--set", f"{name}={value}")]


def drop(index: Path) -> None:
    """Delete the collection of an index, as somebody else would."""
    assert storage.forget(storage.fact_of(open_index(index).settings, read_index(index).content["index"]))


def squeezed(text: str) -> str:
    """A table in one line, without the lines between its columns."""
    return " ".join(text.replace("│", " ").split())


@SERVERS
def test_a_new_collection_is_called_after_the_library(at: Place, on_server: Path) -> None:
    """What stands in the library's own settings is what the user has stated, so that no update takes it for a move."""
    [name] = at.names()
    assert re.fullmatch(r"visir[-_]my[-_]photos[-_]dense[-_][0-9a-f]{12}", name)
    assert "collection" not in LibraryCard.read(on_server).settings["dense"]
    assert update(None, on_server).same and at.names() == [name]
    moved = on_server.with_name("elsewhere.visir")
    on_server.rename(moved)
    assert update(None, moved).same and at.names() == [name]  # the index holds its name
    update(None, moved, kind="exact")
    update(None, moved, kind=at.kinds["dense"], settings=settings_of(at))
    assert len(at.names()) == 2 and any("elsewhere" in name for name in at.names())


@ON_POSTGRES
def test_an_empty_name_of_a_collection_is_none(at: Place, on_server: Path) -> None:
    """Stated as "", it would differ from the name that the index has, and every update would be a move."""
    [name] = at.names()
    update(None, on_server, settings={"collection": ""})
    assert update(None, on_server).same and at.names() == [name]


@SERVERS
def test_info_names_the_server_and_the_collection(at: Place, on_server: Path) -> None:
    """And how much it takes there, where the server says so: PostgreSQL alone does."""
    [name] = at.names()
    kind, url = at.kinds["dense"], at.settings["url"]
    place = f"the table visir.{name} at {url}" if kind == "pgvector" else f"the collection '{name}' at {url}"
    size = "[1-9][0-9]* kB in" if kind == "pgvector" else "in"
    assert re.search(f"dense index {kind}, 6 × 2,397, {size} {place}( |$)", squeezed(run("library", "info", on_server)))
    assert re.search(f" on the server {size} {place} encoder", squeezed(run("index", "info", on_server / "dense")))
    again = run("index", "build", on_server.parent / "photos", "-m", "pixels", "--out", on_server.with_name("index"),
                "--kind", kind, *given(at))  # fmt: skip
    assert re.search(f": 6 images, kind {kind}, {size} the (table|collection) .*visir.index.* at {url}\n", again)
    update(None, on_server, kind="exact")
    local = r"dense index exact, 6 × 2,397, 0.1 MB, 1 parts, 0 deleted rows"  # 6 × 2,397 × 4 bytes
    assert re.search(local, squeezed(run("library", "info", on_server)))
    assert " on disk 0.1 MB " in squeezed(run("index", "info", on_server / "dense"))


@SERVERS
def test_later_commands_are_told_what_they_need(at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = at.settings["url"]
    family = family_of(url)
    monkeypatch.delenv(family.addresses, raising=False)
    draw(tmp_path / "photos", range(4))
    kind = ["--kind", at.kinds["dense"], *given(at)]
    needed = f"later commands need {family.key} as it is now, and this: export {family.addresses}={url}"
    made = run("library", "make", tmp_path / "photos", "-m", "pixels", "--out", tmp_path / "library", *kind)
    assert made.count("later commands") == 1 and f"  {needed}\n" in made
    index = ["index", "build", tmp_path / "photos", "-m", "pixels", *kind, "--out"]
    assert f"  {needed}\n" in run(*index, tmp_path / "index")
    assert f"  {needed}\n" in run("library", "update", tmp_path / "library")  # this process still knows it
    other = family.example.split(" or ")[0].replace("localhost", "other.example")
    monkeypatch.setenv(family.addresses, url)
    for done in (run("library", "update", tmp_path / "library"), run(*index, tmp_path / "other")):
        assert "later commands" not in done
    monkeypatch.setenv(family.addresses, f"{other} {url}")
    assert "later commands" not in run("library", "update", tmp_path / "library")


def test_a_library_in_its_folder_needs_nothing(tmp_path: Path) -> None:
    draw(tmp_path / "photos", range(4))
    made = run("library", "make", tmp_path / "photos", "-m", "pixels", "--out", tmp_path / "library")
    assert "later commands" not in made and "index:" not in made
    assert "index:" not in run("library", "update", tmp_path / "library", "--kind", "ivf")


@ON_POSTGRES
def test_an_update_says_which_index_stays_on_the_server_and_how_it_comes_back(
    at: Place, models: tuple[str, str], tmp_path: Path
) -> None:
    """One `--kind` is for one form of vectors: that of words has to be named too."""
    model, head = models
    library, url = tmp_path / "f8k.visir", at.settings["url"]
    made = run(
        "library", "make", SCENES, "-m", model, "--sparse", head, "--out", library, "--kind", "pgvector", *given(at)
    )
    names = {system: place.settings["collection"] for system, place in places_of(library).items()}
    assert sorted(names) == ["captions", "dense", "sparse"] and sorted(names.values()) == at.names()
    assert f"  dense index: pgvector, in the table visir.{names['dense']} at {url}\n" in made
    assert f"  sparse index: pgvector-sparse, in the table visir.{names['sparse']} at {url}\n" in made
    assert "comes here by" not in made
    same = run("library", "update", library)
    assert "index:" not in same
    moved = run("library", "update", library, "--kind", "ivf")
    assert "  dense index: ivf, in the library's folder\n" in moved
    assert "  captions index: exact, in the library's folder\n" in moved
    assert f"  sparse index: pgvector-sparse, in the table visir.{names['sparse']} at {url}\n" in moved
    [command] = re.findall(r"what is still on the server comes here by: visir (.*)", moved)
    assert command == f"library update {library} --kind inverted"
    assert moved.count("no longer used, and left there; unless a copy of this library uses it: psql") == 2 and names[
        "sparse"
    ] not in "".join(line for line in moved.splitlines() if "no longer used" in line)
    back = run(*command.split())
    assert "  sparse index: inverted, in the library's folder\n" in back and "  dense index: ivf" in back
    assert "comes here by" not in back and f'DROP TABLE "visir"."{names["sparse"]}"' in back
    assert not any(place.on_server for place in places_of(library).values()) and check(library) == []


@SERVERS
def test_in_python_a_warning_says_what_is_left_on_the_server(on_server: Path, at: Place) -> None:
    [left] = at.names()
    with pytest.warns(
        UserWarning, match="left on its server; unless a copy of this library uses it: .*" + re.escape(left)
    ):
        library = visir.index(on_server, kind="exact")
    assert len(library) == 6 and at.names() == [left]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        visir.index(on_server)


def test_a_table_that_is_left_in_another_schema_is_named() -> None:
    settings = {"url": "postgresql://here/db", "collection": "c"}
    before, after = ({"dense": IndexPlace("pgvector", settings | {"schema": schema})} for schema in ("visir", "other"))
    assert removals(before, after) == ['psql postgresql://here/db -c \'DROP TABLE "visir"."c"\'']
    assert removals(before, before) == []


def test_which_kinds_bring_the_rest_here() -> None:
    there = {"url": "http://here:6333", "collection": "c"}
    dense, sparse, several = (IndexPlace(kind, there) for kind in ("qdrant", "qdrant-sparse", "qdrant-multi"))
    here = IndexPlace("exact", {})
    assert kinds_here({"dense": dense, "sparse": sparse}, {"dense": here, "sparse": sparse}) == ["inverted"]
    assert kinds_here({"dense": dense, "sparse": sparse}, {"dense": dense, "sparse": here}) == ["exact"]
    assert kinds_here({"dense": several, "captions": several}, {"dense": several, "captions": here}) == ["maxsim"]
    assert kinds_here({"dense": here, "sparse": here}, {"dense": here, "sparse": sparse}) == []  # it went there
    assert kinds_here({"dense": dense}, {"dense": dense}) == [] == kinds_here({}, {"dense": dense})


@SERVERS
def test_a_library_whose_collection_was_deleted_says_how_it_gets_it_again(at: Place, on_server: Path) -> None:
    [name] = at.names()
    drop(on_server / "dense")
    hint = f"move dense out of {on_server} and run visir library update {shlex.quote(str(on_server))}: it is made anew"
    for ask in (lambda: LibrarySnapshot.open(on_server), lambda: update(None, on_server)):
        with pytest.raises(EngineError, match=f"{name}.* does not exist") as no:
            ask()
        assert no.value.hint == hint and "visir index build" not in str(no.value)
    picture = on_server.parent / "photos" / "0.png"
    for arguments in (["search", on_server, "--image", picture], ["library", "info", on_server]):
        done = CliRunner().invoke(app, [*map(str, arguments)])
        assert isinstance(done.exception, EngineError) and done.exception.hint == hint
    [fault] = check(on_server)
    assert name in fault and "does not exist" in fault
    done = CliRunner().invoke(app, ["library", "check", str(on_server)])
    assert done.exit_code != 0 and "does not exist" in str(done.exception)
    shutil.move(on_server / "dense", on_server.with_name("dense of before"))
    assert update(None, on_server).items == 6 and check(on_server) == []
    assert at.names() != [name] and len(at.names()) == 1


@SERVERS
def test_an_open_library_whose_collection_is_deleted_says_the_same(at: Place, on_server: Path) -> None:
    picture = on_server.parent / "photos" / "0.png"
    with Searcher.open(on_server) as searcher:
        [found] = searcher.find(image=picture, k=1).hits
        drop(on_server / "dense")
        queries: list[dict[str, Any]] = [
            {"image": picture},
            {"like": found.id},
            {"image": picture, "where": ["width > 1"]},
        ]
        for query in queries:
            with pytest.raises(EngineError, match="does not exist") as no:
                searcher.find(**query)
            assert no.value.hint == (
                f"move dense out of {on_server} and run visir library update {shlex.quote(str(on_server))}: "
                "it is made anew"
            )

"""An index of a folder of parts by one call: it is that of the same vectors at once, or it is refused."""

from __future__ import annotations

import io
import resource
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from index_data import same_run
from index_killed import killed
from PIL import Image

import visir
from refusals import refused
from verbs import Said, say, say_in
from visir.cli.encode import encode as encode_verb
from visir.cli.index import app
from visir.encoders import Parts, encode, encode_parts, load, parts_folder
from visir.encoders.claims import PartLease, open_place
from visir.encoders.parts_folder import listed_parts
from visir.errors import CollectionError, ConfigurationError, EmbeddingError, EncoderError, VisirError
from visir.library.cli.make import make
from visir.library.cli.search import search as search_verb
from visir.records import Embeddings
from visir.retrieval import add_parts, build_index, open_index
from visir.retrieval.index import IndexFolderError
from visir.storage.disk import files_below

COLOURS = [(200, 30, 30), (40, 160, 60), (40, 70, 200), (230, 200, 40), (245, 245, 245), (15, 15, 15)]


def picture(number: int) -> bytes:
    """Two halves: the colours with this number and the next."""
    image = Image.new("RGB", (16, 16), COLOURS[number % 6])
    image.paste(COLOURS[(number + number // 6 + 1) % 6], (0, 0, 16, 8))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))


def shards(folder: Path, sizes: tuple[int, ...] = (5, 4, 6)) -> Path:
    for number, size in enumerate(sizes):
        pictures = {f"{number}{row}.png": picture(10 * number + row) for row in range(size)}
        write_tar(folder / f"{number}.tar", pictures or {"notes.txt": b"no picture"})
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return shards(tmp_path / "shards")


@pytest.fixture
def parts(source: Path, tmp_path: Path) -> Path:
    encode_parts("colours", source, tmp_path / "parts")
    return tmp_path / "parts"


def at_once(parts: Path) -> Embeddings:
    """The vectors of all parts as one record, made in the plainest way."""
    every = list(Parts(parts))
    ids = pa.array([name for vectors in every for name in vectors], pa.string())
    vectors = np.concatenate([np.asarray(vectors) for vectors in every if len(vectors)])
    return Embeddings("image", ids, vectors, every[0].encoder)


def run(*arguments: object) -> Said:
    return say_in(app, *arguments)


def beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- it is the index of the same vectors


@pytest.mark.parametrize("kind", ["exact", "hnsw", "ivf"])
def test_it_is_the_index_of_the_same_vectors_at_once(parts: Path, tmp_path: Path, kind: str) -> None:
    if kind != "exact":
        pytest.importorskip("faiss")
    queries = load("colours").encode_inputs("text", {"q1": "red and green", "q2": "a black thing", "q3": "dog"})
    index, expected = build_index(Parts(parts), kind, tmp_path / "a"), build_index(at_once(parts), kind, tmp_path / "b")
    assert same_run(index.search(queries, 10), expected.search(queries, 10))
    names = files_below(tmp_path / "a")
    assert names == files_below(tmp_path / "b") and len(names) >= 3
    for name in names:
        if name != "visir.json":  # it has the times of files
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert beside(tmp_path) == ["a", "b", "parts", "shards"]


def test_it_is_what_encoding_the_collection_gives(source: Path, tmp_path: Path) -> None:
    assert say(encode_verb, source, "-m", "colours", "--parts", tmp_path / "parts", "--key-ids").status == 0
    said = run("build", tmp_path / "parts", "--out", tmp_path / "index")
    assert said.status == 0 and f"{tmp_path / 'index'}: 15 images, kind exact" in said.text
    assert "  of 3 parts by colours\n" in said.text
    alone = encode("colours", visir.open(source), "image")
    index: Any = open_index(tmp_path / "index")
    assert index.ids.to_pylist() == sorted(alone) and index.encoder == load("colours").stored_card
    assert np.array_equal(index.select(alone.ids).vectors, alone.vectors)
    assert "23" in run("search", tmp_path / "index", "yellow", "-k", 5).text


def test_a_kind_and_its_settings(parts: Path, tmp_path: Path) -> None:
    said = run("build", parts, "--kind", "exact", "--set", "similarity=dot", "--out", tmp_path / "index", "--json")
    assert said.status == 0
    facts = said.json
    assert (facts["files"], facts["broken"], facts["given_up"], facts["documents"]) == (3, 0, {}, 15)
    assert facts["details"]["similarity"] == "dot" and facts["encoder"] == "colours"


def test_an_index_in_an_engine(parts: Path, tmp_path: Path) -> None:
    pytest.importorskip("qdrant_client", reason="Qdrant's client (extra qdrant) is not installed")
    from qdrant_wire import WireServer

    queries = load("colours").encode_inputs("text", {"q1": "red and green"})
    expected: Any = build_index(at_once(parts), "exact").search(queries, 10)
    with WireServer() as server:
        index = build_index(Parts(parts), "qdrant", tmp_path / "index", url=server.url)
        found: Any = index.search(queries, 10)
    assert found.answer("q1") == expected.answer("q1")


def test_an_index_on_a_server(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg", reason="PostgreSQL's client (extra pgvector) is not installed")
    from postgres_server import PASSWORD, PostgresServer

    from visir.retrieval.remote.settings import PGVECTOR

    monkeypatch.setenv(PGVECTOR.key, PASSWORD)
    with PostgresServer() as server:
        options = ("--kind", "pgvector", "--set", f"url={server.url}")
        said = run("build", parts, *options, "--out", tmp_path / "index")
        assert said.status == 0 and "15 images, kind pgvector" in said.text
        index: Any = open_index(tmp_path / "index")
        assert index.ids.to_pylist() == sorted(at_once(parts)) and len(index.documents()) == 15


def test_an_index_in_memory_outlives_what_was_joined(parts: Path) -> None:
    index: Any = build_index(Parts(parts))
    assert index.folder is None and index.documents().ids.to_pylist() == sorted(at_once(parts))
    assert np.array_equal(index.select(["1.tar/12"]).vectors[0], at_once(parts)["1.tar/12"])


def test_parts_elsewhere(source: Path, memory: Any, tmp_path: Path) -> None:
    encode_parts("colours", source, "memory://bucket/parts")
    assert "15 images, kind exact" in run("build", "memory://bucket/parts", "--out", tmp_path / "index").text


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True) if files.ls("/") else None


def test_empty_parts_are_passed_over(tmp_path: Path) -> None:
    encode_parts("colours", shards(tmp_path / "in", (0, 3, 0, 2)), tmp_path / "parts")
    said = run("build", tmp_path / "parts", "--out", tmp_path / "index")
    assert "5 images, kind exact" in said.text and "of 4 parts by colours" in said.text
    encode_parts("colours", shards(tmp_path / "none", (0, 0)), tmp_path / "empty")
    said = run("build", tmp_path / "empty", "--out", tmp_path / "other")
    assert said.status == 2
    assert f"{tmp_path / 'empty'}: there is no vector in its parts (2 parts, 0 broken pictures)." in said.text
    assert not (tmp_path / "other").exists()


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="the highest memory is read from /proc")
def test_memory_does_not_grow_with_the_parts(tmp_path: Path) -> None:
    same = picture(1)
    for number in range(20):
        write_tar(tmp_path / "in" / f"{number}.tar", {f"{row}.png": same for row in range(10_000)})
    script = [sys.executable, str(Path(__file__).with_name("parts_memory.py"))]
    places = [str(tmp_path / name) for name in ("in", "parts", "index")]
    done = subprocess.run([*script, *places], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    more, vectors, documents = map(int, done.stdout.split())
    assert (documents, vectors) == (200_000, 410) and more < 250, done.stdout  # 200,000 × 512 × 4 bytes


# -- the model


def test_another_model_is_refused(parts: Path, tmp_path: Path) -> None:
    said = run("build", parts, "-m", "pixels", "--out", tmp_path / "index")
    assert said.status == 2 and f"{parts}: made by colours, not by pixels (they differ in name)." in said.text
    assert "leave --model out: the parts say which model made them" in said.text
    assert not (tmp_path / "index").exists()
    assert run("build", parts, "-m", "colours", "--out", tmp_path / "index").status == 0


def test_what_is_about_encoding_is_refused_all_at_once(parts: Path, tmp_path: Path) -> None:
    options = ("--to", "captions", "--split", "test", "--images", "x", "--skip-broken", "--device", "cpu")
    said = run("build", parts, *options, "--out", tmp_path / "index")
    assert said.status == 2 and "(5 faults)" in said.text
    for name in ("--to captions", "--split", "--images", "--skip-broken", "--device without --model"):
        assert f"  - {name} does not go with a folder of parts\n" in said.text


def test_of_a_collection_the_model_is_asked_for(source: Path, tmp_path: Path) -> None:
    said = run("build", source, "--out", tmp_path / "index")
    assert (
        said.status == 2
        and f"--model is missing: {source} is no folder of parts, so it is to be encoded first." in said.text
    )


def test_what_hides_whether_it_is_parts_is_said(
    source: Path, parts: Path, memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "visir.json").write_text("{")
    said = run("build", tmp_path / "cut", "--out", index)
    assert said.status == 2 and f"{tmp_path / 'cut'}/visir.json: damaged: not valid JSON" in said.text
    assert "name a folder of parts that is whole; or, with --model MODEL, what is to be encoded" in said.text
    build_index(Parts(parts), "exact", tmp_path / "other")
    said = run("build", tmp_path / "other", "--out", index)
    assert f"{tmp_path / 'other'}/visir.json: of a folder of kind 'index', not a folder of parts." in said.text
    said = run("build", "memory://bucket/photos", "--out", index)
    assert "--model is missing: memory://bucket/photos is no folder of parts" in said.text

    def unreachable(*_: Any, **__: Any) -> bytes:
        raise ConnectionRefusedError("nobody answers")

    monkeypatch.setattr(type(memory), "cat_file", unreachable)
    said = run("build", "memory://bucket/parts", "--out", index)
    assert said.status == 2 and "--model" not in said.text
    assert "memory://bucket/parts/visir.json: cannot be reached (ConnectionRefusedError: nobody answers)." in said.text

    def unreadable(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", unreadable)
    said = run("build", parts, "--out", index)
    assert said.status == 2 and f"{parts}/visir.json: cannot be read (Permission denied)." in said.text


def test_kinds_and_settings_are_refused_before_anything_is_read(parts: Path, tmp_path: Path) -> None:
    shutil.rmtree(parts / "parts")  # reading it would say that they are not finished
    with refused(ConfigurationError, "inverted", "sparse", "colours", code="index-kind-holds-vectors"):
        build_index(Parts(parts), "inverted", tmp_path / "index")
    with refused(ConfigurationError, "unknown setting", "probes", hint=False):
        build_index(Parts(parts), "exact", tmp_path / "index", probes=3)
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "thesis.tex").write_text("mine")
    with pytest.raises(IndexFolderError, match=r"did not write, or no longer knows \(thesis\.tex\)"):
        build_index(Parts(parts), "exact", tmp_path / "index")


# -- what is not whole


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    source, parts, index = shards(tmp_path / "in", (3, 2)), tmp_path / "my parts", tmp_path / "index"
    write_tar(source / "2.tar", {"20.png": b"broken"})
    with refused(CollectionError, "1", "3 files", code="could-not-encoded"):
        encode_parts("colours", source, parts)
    said = run("build", parts, "--out", index)
    assert said.status == 2
    assert f"{parts}: is not finished: 2 of 3 input files have their part; the others:\n" in said.text
    assert f"  - 2.tar: could not be encoded: {source}/2.tar: 20.png: not an image" in said.text
    assert f"visir encode SOURCE --model colours --parts '{parts}' makes them" in said.text
    assert f"visir encode --parts '{parts}' --give-up FILE leaves one out that is lost" in said.text
    assert not index.exists() and beside(tmp_path) == ["in", "my parts"]
    with refused(EmbeddingError, "2", "3", code="not-finished"):
        build_index(Parts(parts))

    assert say(encode_verb, "--parts", parts, "--give-up", "2.tar").status == 0
    said = run("build", parts, "--out", index)
    assert said.status == 0 and "5 images, kind exact" in said.text
    assert "  of 2 parts by colours; without a vector: 1 input file given up (2.tar)\n" in said.text
    with pytest.warns(UserWarning, match=r"my parts: without a vector: 1 input file given up \(2\.tar\)") as warned:
        build_index(Parts(parts))
    assert warned[0].filename == __file__


def test_who_is_at_work_is_said(source: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    encode_parts("colours", source, parts)
    place = open_place(parts)
    for path in (parts / "parts").iterdir():
        path.unlink()
    shutil.rmtree(parts / "leases")
    first = listed_parts(place)[0].part
    assert PartLease.take(place, first, None, 60) is not None
    with pytest.raises(EmbeddingError) as fault:
        build_index(Parts(parts))
    assert "0 of 3 input files have their part; the others:\n  - 0.tar: is being encoded by " in fault.value.message
    assert fault.value.message.endswith("\n  - 2 input files that nobody works on")
    shutil.rmtree(parts / "files")
    with pytest.raises(EmbeddingError, match="0 of 0 input files have their part; the others:\n  - no input file is l"):
        build_index(Parts(parts))


def test_many_files_that_wait_are_counted(tmp_path: Path) -> None:
    source, parts = tmp_path / "in", tmp_path / "parts"
    for number in range(23):
        write_tar(source / f"{number:02}.tar", {"x.png": b"broken"})
    with pytest.raises(CollectionError):
        encode_parts("colours", source, parts)
    with pytest.raises(EmbeddingError) as fault:
        build_index(Parts(parts))
    assert fault.value.message.count("could not be encoded") == 20 and fault.value.message.endswith("… and 3 more")


def test_pictures_that_were_set_aside_are_counted(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", (3,))
    write_tar(source / "1.tar", {"10.png": b"broken", "11.png": picture(1), "12.png": b"broken too"})
    encode_parts("colours", source, tmp_path / "parts", skip_broken=True)
    said = run("build", tmp_path / "parts", "--out", tmp_path / "index")
    assert "4 images, kind exact" in said.text
    assert "  of 2 parts by colours; without a vector: 2 broken pictures set aside\n" in said.text


def test_repeated_ids_are_refused_with_their_files(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", (2,))
    write_tar(source / "more.tar", {"01.png": picture(7), "02.png": picture(8)})
    write_tar(source / "third.tar", {"02.png": picture(7), "01.png": picture(8)})
    encode_parts("colours", source, tmp_path / "parts", ids="key")
    said = run("build", tmp_path / "parts", "--out", tmp_path / "index")
    assert said.status == 2 and f"{tmp_path / 'parts'}: 2 ids stand in several parts:\n" in said.text
    assert "  - '01': in 0.tar, more.tar, third.tar\n  - '02': in more.tar, third.tar\n" in said.text
    assert "encode into a new folder without --key-ids" in said.text
    assert beside(tmp_path) == ["in", "parts"]
    encode_parts("colours", source, tmp_path / "other")
    assert "6 images" in run("build", tmp_path / "other", "--out", tmp_path / "index").text


def test_many_repeated_ids_are_counted(tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        write_tar(tmp_path / "in" / name, {f"{row}.png": picture(row) for row in range(7)})
    encode_parts("colours", tmp_path / "in", tmp_path / "parts", ids="key")
    with refused(EmbeddingError, "7", "ids stand", "4", "a.tar", "b.tar", code="several-parts"):
        build_index(Parts(tmp_path / "parts"))


def test_a_part_from_elsewhere_is_refused(parts: Path, source: Path, tmp_path: Path) -> None:
    encode_parts("pixels", source, tmp_path / "other")
    [first, *_], [strange, *_] = (sorted((folder / "parts").iterdir()) for folder in (parts, tmp_path / "other"))
    first.write_bytes(strange.read_bytes())
    with refused(EmbeddingError, "0.tar", "float32", "pixels", "colours", code="part-dimensions-parts-dimensions"):
        build_index(Parts(parts))


def test_more_ids_than_an_index_holds(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_folder, "_IDS_BYTES", 15 * len("0.tar/00") - 1)
    with refused(EmbeddingError, code="ids-more-gib-text"):
        build_index(Parts(parts), "exact", tmp_path / "index")
    monkeypatch.setattr(parts_folder, "_IDS_BYTES", 15 * len("0.tar/00"))
    build_index(Parts(parts), "exact", tmp_path / "index")


# -- kills


def test_killed_at_any_moment_it_leaves_no_index_that_looks_whole(parts: Path, tmp_path: Path) -> None:
    queries = load("colours").encode_inputs("text", {"q1": "red and green"})
    expected = build_index(Parts(parts), "exact").search(queries, 10)
    root = tmp_path / "root"
    kills = 0
    for at in count(1, 3):
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        if not killed(lambda: build_index(Parts(parts), "exact", root / "index"), root, at):
            break
        kills += 1
        if not (root / "index").exists():
            build_index(Parts(parts), "exact", root / "index")
        assert same_run(open_index(root / "index").search(queries, 10), expected)
        visir.storage.sweep(root)
        assert beside(root) == ["index"]
    assert kills >= 5


def test_a_killed_build_of_many_vectors_goes_on(tmp_path: Path, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    from ivf_stopped import stop_at_fourth_part

    monkeypatch.setattr("visir.retrieval.dense.LARGEST", 4)
    monkeypatch.setattr("visir.retrieval.rows.LARGEST", 4)
    monkeypatch.setattr("visir.retrieval.index.LARGEST", 4)
    whole = build_index(Parts(parts), "ivf", tmp_path / "whole")
    coded = stop_at_fourth_part(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        build_index(Parts(parts), "ivf", tmp_path / "index")
    with pytest.raises(IndexFolderError, match="holds no index"):
        open_index(tmp_path / "index")
    assert coded == [4, 4, 4] and beside(tmp_path) == ["index", "parts", "shards", "whole"]
    coded.clear()
    again = build_index(Parts(parts), "ivf", tmp_path / "index")
    assert coded == [3]  # 15 vectors: the fourth part
    queries = load("colours").encode_inputs("text", {"q1": "red and green"})
    assert same_run(again.search(queries, 10), whole.search(queries, 10))


@pytest.mark.parametrize("most", [700, 800])
def test_a_full_disk_is_said_and_leaves_nothing(parts: Path, tmp_path: Path, most: int) -> None:
    """15 vectors of 48 bytes are 720 bytes, and 848 with the header of the index's file."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    command = [sys.executable, "-m", "visir", "index", "build", str(parts), "--out", str(tmp_path / "index")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limited)
    assert done.returncode == 2 and "cannot be written (File too large)" in done.stderr, done.stderr
    assert "make room, or name a place on another disk" in done.stderr
    assert beside(tmp_path) == ["parts", "shards"]


def test_of_a_file_that_was_encoded_again_the_new_part_counts(parts: Path, source: Path, tmp_path: Path) -> None:
    write_tar(source / "1.tar", {"new.png": picture(3)})
    encode_parts("colours", source, parts, replace=True)
    index: Any = build_index(Parts(parts))
    names = index.ids.to_pylist()
    assert len(names) == 12 and [name for name in names if name.startswith("1.tar")] == ["1.tar/new"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_part_that_is_gone_since_the_run_was_found_finished_is_an_error(
    source: Path, tmp_path: Path, memory: Any, elsewhere: bool
) -> None:
    place = "memory://bucket/parts" if elsewhere else str(tmp_path / "parts")
    encode_parts("colours", source, place)
    parts = Parts(place)
    finished = parts_folder.check_finished(parts)
    gone = finished.made[1]
    if elsewhere:
        memory.rm(f"/bucket/parts/{gone.path}")
    else:
        (tmp_path / "parts" / gone.path).unlink()
    with pytest.raises(EmbeddingError) as fault:
        parts_folder.join_parts(parts, finished, tmp_path / "vectors")
    assert fault.value.message == f"{place}/{gone.path}: the part of 1.tar is gone: somebody has removed it meanwhile."
    assert fault.value.hint.startswith("run the same again: it says what is missing then")


def test_what_others_list_since_the_run_was_found_finished_is_left_out(
    source: Path, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was listed, and one that was replaced, between the look and the reading: 15 vectors as before."""
    expected = at_once(parts)
    join = parts_folder.join_parts

    def meanwhile(*arguments: Any) -> Any:
        write_tar(source / "1.tar", {"new.png": picture(3)})
        write_tar(source / "3.tar", {"x.png": b"broken"})
        with pytest.raises(CollectionError):
            encode_parts("colours", source, parts, replace=True)
        return join(*arguments)

    monkeypatch.setattr(parts_folder, "join_parts", meanwhile)
    index: Any = build_index(Parts(parts))
    assert index.ids.to_pylist() == sorted(expected)
    assert np.array_equal(index.select(expected.ids).vectors, expected.vectors)


# -- a folder of parts where something else is wanted


def test_other_verbs_say_what_to_do_with_parts(parts: Path, tmp_path: Path) -> None:
    what = f"{parts}: a folder of parts: the vectors of pictures (visir encode --parts), without the pictures; not "
    action = f"for an index of them: visir index build {parts} --out NEW"
    said = say(encode_verb, parts, "-m", "colours")
    assert said.status == 2 and f"{what}a collection." in said.text and action in said.text
    assert "for a library, and all else, name the files that they were encoded from" in said.text
    said = say(make, parts, "-m", "colours", "--out", tmp_path / "library")
    assert said.status == 2 and f"{what}a collection." in said.text and action in said.text
    said = say(encode_verb, parts, "-m", "colours", "--parts", tmp_path / "other")
    assert said.status == 2 and f"{what}files of pictures." in said.text and not (tmp_path / "other").exists()
    with pytest.raises(VisirError, match="not a collection"):
        visir.index(parts, "colours")
    said = run("search", parts, "red")
    assert said.status == 2 and f"{parts}: a folder of parts, not yet an index." in said.text
    assert f"make one: visir index build {parts} --out NEW" in said.text
    with refused(EncoderError, code="folder-parts-vectors-pictures"):
        load(str(parts))
    build_index(Parts(parts), "exact", tmp_path / "index")
    with refused(
        CollectionError, "index", "index", "vectors", "without pictures or captions", "collection", code="not-value"
    ):
        encode("colours", tmp_path / "index", "image")


def test_other_verbs_say_it_of_an_address_before_anything_is_copied(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("visir.collections.sources.local_copy")
    address = parts.as_uri()
    what, action = f"{address}: a folder of parts: the vectors of pictures", f"visir index build {address} --out NEW"
    searched = say(search_verb, address, "red", "-m", "colours")
    made = say(make, address, "-m", "colours", "--out", tmp_path / "library")
    encoded = say(encode_verb, address, "-m", "colours")
    copied = say(encode_verb, address, "-m", "colours", "--parts", tmp_path / "other")
    for said in (searched, made, encoded, copied):
        assert said.status == 2 and what in said.text and action in said.text, said.text
    assert visir.open(address).place == address and isinstance(visir.open(address), Parts)
    with refused(CollectionError, "parts", "split", code="folder-visir-made-takes", hint=False):
        visir.open(address, split="test")
    for place in (address, parts, Parts(parts)):
        with refused(CollectionError, "parts", "folder of parts", "collection", code="not-value"):
            visir.search(place, "colours", "red")
    build_index(Parts(parts), "exact", tmp_path / "index")
    with pytest.raises(CollectionError, match=r"/index: an index: (.|\n)*copy it to a disk here, and name the copy"):
        visir.open((tmp_path / "index").as_uri())


def test_parts_are_opened_by_their_folder(parts: Path) -> None:
    opened = visir.open(parts)
    assert isinstance(opened, Parts) and opened.place == str(parts)
    with refused(EmbeddingError, "str", code="index-built-vectors-ids"):
        build_index(str(parts))  # type: ignore[arg-type]


def test_what_an_index_of_parts_lacks_is_added(source: Path, parts: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.index"
    assert run("build", parts, "--out", out).status == 0
    again = run("add", out, parts)
    assert again.status == 0 and "0 added, 15 were there" in again.text, again.text
    write_tar(source / "3.tar", {"a.png": picture(3), "b.png": b"no picture"})
    encode_parts("colours", source, parts, skip_broken=True)
    added = run("add", out, parts, "--model", "colours")
    assert added.status == 0 and "1 added, 15 were there" in added.text, added.text
    assert "of 4 parts by colours; without a vector: 1 broken picture set aside" in added.text
    vectors = at_once(parts)
    assert same_run(open_index(out).search(vectors, 5), build_index(vectors).search(vectors, 5))
    assert open_index(out).ids.to_pylist() == sorted(vectors.ids.to_pylist())


def test_parts_that_do_not_fit_an_index_are_not_added(source: Path, parts: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.index"
    index = build_index(Parts(parts), out=out)
    encode_parts("pixels", source, tmp_path / "other")
    with refused(EmbeddingError, "colours", code="index-another-model"):
        add_parts(index, Parts(tmp_path / "other"))
    captions = build_index(encode("colours", ["a red boat", "a blue one"]))
    with refused(EmbeddingError, "text", "image", code="index-holds-vectors-takes"):
        add_parts(captions, parts)  # by its place
    with refused(EmbeddingError, "Parts", code="index-takes-vectors-ids") as fault:
        index.add(Parts(parts))
    assert "add_parts(index, parts)" in str(fault.value)
    (source / "3.tar").write_bytes(b"")
    with refused(CollectionError, code="could-not-encoded"):
        encode_parts("colours", source, parts)
    caught = run("add", out, parts)
    assert caught.status == 2 and "3 of 4 input files have their part" in caught.text, caught.text
    wrong = run("add", out, parts, "--model", "pixels", "--skip-broken")
    assert "--skip-broken does not go with a folder of parts" in wrong.text
    assert len(open_index(out).ids) == 15


def test_a_folder_of_parts_is_no_place_for_an_index(parts: Path) -> None:
    before = beside(parts)
    caught = run("build", parts, "--out", parts)
    assert "is a folder of kind 'parts', not an index" in caught.text
    assert "name a new folder" in caught.text and "delete" not in caught.text
    assert beside(parts) == before

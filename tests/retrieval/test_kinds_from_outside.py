"""Kinds of other packages that do not do what they say, and folders that somebody forged: never a wrong answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_data import TRUTH, dense, random_dense, same_run, sparse, vectors

from refusals import refused
from visir.records import Embeddings
from visir.retrieval.answers import CandidateRows, Hits
from visir.retrieval.index import Finder, IndexFolderError, KindError
from visir.retrieval.kinds import KINDS, build_index, open_index
from visir.retrieval.rows import MULTI, SPARSE
from visir.retrieval.settings import Kind, SimilaritySettings, setting
from visir.storage import MANIFEST, Manifest
from visir.storage.manifest import FileRecord

DOCUMENTS = dense("image", np.random.default_rng(0).standard_normal((30, 8)))
QUERIES = dense("text", np.random.default_rng(1).standard_normal((3, 8)))


class Nearest(Finder[Embeddings]):
    """A kind that does what it says."""

    settings_type = SimilaritySettings

    def search(self, built: Any, rows: Any, queries: Any, k: int, settings: Any) -> Any:
        scores = queries.whole @ rows.compared().T
        scores[:, rows.dead] = -np.inf
        return CandidateRows(np.argsort(-scores, axis=1)[:, :20])


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Registers a kind "outside" whose class has these functions in place of those of `Nearest`."""

    def register(of: Any = "dense", base: type = Nearest, module: Any = None, **functions: Any) -> None:
        found = module or type("Outside", (base,), {"__module__": "outsider", **functions})
        monkeypatch.setitem(KINDS._things, "outside", Kind("outside", "of others", False, of, found))

    return register


def used(folder: Path | None = None, questions: Embeddings = QUERIES) -> tuple[Any, Any]:
    """The run of an index of the kind after it was built, opened, added to and deleted from, and the right one."""
    index = build_index(DOCUMENTS, "outside", folder)
    index = index if folder is None else open_index(folder)
    index.add(dense("image", np.ones((1, 8)), ["z"]))
    index.delete(["z", "i0003"])
    index.info()
    run = index.search(questions, 5)
    assert index.lists(questions, 5) == {query: run.answer(query) for query in run.queries.to_pylist()}
    kept = DOCUMENTS.select([one for one in DOCUMENTS.ids.to_pylist() if one != "i0003"])
    return run, build_index(kept, "exact").search(questions, 5)


def answering(change: Callable[..., Any]) -> Any:
    """A search that changes what `Nearest` answers."""

    def search(self: Any, built: Any, rows: Any, queries: Any, k: int, settings: Any) -> Any:
        return change(Nearest.search(self, built, rows, queries, k, settings).rows, rows, queries)

    return search


def hits(found: Any, rows: Any, queries: Any) -> Hits:
    scores = np.take_along_axis(queries.whole @ rows.compared().T, found, 1)
    return Hits(np.repeat(np.arange(len(found)), found.shape[1]), rows.places[found.ravel()], scores.ravel())


HARMLESS: dict[str, Any] = {
    "deleted rows": lambda c, r, q: CandidateRows(np.tile(np.arange(len(r)), (len(c), 1))),
    "rows twice": lambda c, r, q: CandidateRows(np.repeat(c, 3, axis=1)),
    "too few": lambda c, r, q: CandidateRows(c[:, :1]),
    "none": lambda c, r, q: CandidateRows(c[:, :0]),
    "other whole numbers": lambda c, r, q: CandidateRows(c.astype(np.uint16)),
    "a list": lambda c, r, q: CandidateRows(c.tolist()),
    "wrong vectors": lambda c, r, q: CandidateRows(c, np.zeros((len(r), 8), np.float32)),
    "vectors of two rows": lambda c, r, q: CandidateRows(c, np.zeros((2, 8), np.float32)),
    "hits": hits,
    "hits twice": lambda c, r, q: hits(np.repeat(c, 2, axis=1), r, q),
    "hits that are in order, it says": lambda c, r, q: replace(hits(c[:, ::-1], r, q), in_order=True),
    "rounded scores": lambda c, r, q: replace(hits(c[:, :5], r, q), scores=np.zeros(5 * len(c))),
    "no hits": lambda c, r, q: Hits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)),
}


@pytest.mark.parametrize("what", HARMLESS)
@pytest.mark.parametrize("questions", [1, 3])
def test_what_does_no_harm_changes_no_answer(what: str, questions: int, kind: Any, tmp_path: Path) -> None:
    kind(search=answering(HARMLESS[what]))
    for folder in (None, tmp_path / "index"):
        run, right = used(folder, QUERIES.select(QUERIES.ids[:questions]))
        assert same_run(run, right)


WRONG: dict[str, tuple[Any, str]] = {
    "rows that are not there": (lambda c, r, q: CandidateRows(c + 1000), "31"),
    "rows below none": (lambda c, r, q: CandidateRows(c - 10), "-10"),
    "parts of rows": (lambda c, r, q: CandidateRows(c.astype(float)), "float64"),
    "objects": (lambda c, r, q: CandidateRows(c.astype(object)), "object"),
    "rows of one query": (lambda c, r, q: CandidateRows(c[0]), "(20,)"),
    "too few queries": (lambda c, r, q: CandidateRows(c[:0]), "(0, 20)"),
    "too many queries": (lambda c, r, q: CandidateRows(np.vstack([c, c])), "(6, 20)"),
    "an array": (lambda c, r, q: c, "ndarray"),
    "nothing": (lambda c, r, q: None, "NoneType"),
    "scores that are none": (lambda c, r, q: replace(hits(c, r, q), scores=np.full(c.size, np.nan)), "finite"),
    "endless scores": (lambda c, r, q: replace(hits(c, r, q), scores=np.full(c.size, np.inf)), "finite"),
    "documents beyond": (lambda c, r, q: replace(hits(c, r, q), places=np.full(c.size, 99)), "99"),
    "queries beyond": (lambda c, r, q: replace(hits(c, r, q), queries=np.full(c.size, 77)), "77"),
    "columns of other lengths": (lambda c, r, q: replace(hits(c, r, q), scores=np.zeros(2)), "(2,)"),
    "parts of documents": (lambda c, r, q: replace(hits(c, r, q), places=hits(c, r, q).places + 0.5), "float64"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_an_answer_is_said_in_the_name_of_the_kind(what: str, kind: Any) -> None:
    change, named = WRONG[what]
    kind(search=answering(change))
    with refused(KindError, "outside", "outsider", named, code="kind-answers", hint="visir index kinds"):
        used()


def fails(*_: Any) -> Any:
    raise EOFError("boom")


def wrote(path: Path, returned: Any = None) -> Any:
    path.write_text("x")
    return returned


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "search": ({"search": fails}, "kind-fails"),
    "build": ({"build": fails}, "kind-fails"),
    "add": ({"add": fails}, "kind-fails"),
    "stored": ({"stored": lambda self, d, held, s: d.select(d.ids[:-1])}, "kind-stores-others"),
    "details": ({"details": lambda *_: 3}, "kind-details"),
    "dump": ({"dump": fails, "load": fails}, "kind-fails"),
    "dump that writes nothing": ({"dump": lambda *_: None, "load": fails}, "kind-writes-nothing"),
    "dump that writes elsewhere": (
        {"dump": lambda self, b, path: wrote(path.parent.parent / "elsewhere"), "load": fails},
        "kind-writes-nothing",
    ),
    "dump of a link": (
        {"dump": lambda self, b, path: path.symlink_to("/etc/hostname"), "load": fails},
        "kind-writes-nothing",
    ),
    "dump of no facts": ({"dump": lambda self, b, path: wrote(path, {"a": {1}}), "load": fails}, "kind-facts"),
    "facts without names": ({"dump": lambda self, b, path: wrote(path, [1]), "load": fails}, "kind-facts"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_function_that_fails_is_named_with_the_kind(what: str, kind: Any, tmp_path: Path) -> None:
    functions, code = FAULTS[what]
    kind(**functions)
    with refused(KindError, "outside", "outsider", what.split()[0], code=code, hint="visir index kinds"):
        used(tmp_path / "index")
    if what.startswith(("dump", "facts", "build")):
        assert not (tmp_path / "index" / MANIFEST).exists(), "half an index is none"


@pytest.mark.parametrize("fault", [EOFError, AssertionError, ValueError, KeyError, ZeroDivisionError, OSError])
def test_a_load_that_fails_names_the_file_and_the_kind(fault: type[Exception], kind: Any, tmp_path: Path) -> None:
    def load(*_: Any) -> Any:
        raise fault("boom")

    kind(dump=lambda self, b, path: wrote(path), load=load)
    with refused(IndexFolderError, "built-1", "outside", "boom", code="kind-cannot-read", hint="build"):
        used(tmp_path / "index")


def test_a_kind_that_writes_into_what_it_is_given_is_named(kind: Any) -> None:
    def search(self: Any, built: Any, rows: Any, queries: Any, k: int, settings: Any) -> Any:
        answer = Nearest.search(self, built, rows, queries, k, settings)
        whole = queries.whole
        whole *= -1
        return answer

    kind(search=search)
    with refused(KindError, "outside", "writes into", code="kind-writes"):
        build_index(DOCUMENTS, "outside").search(dense("text", np.random.default_rng(1).standard_normal((3, 8))), 3)
    kind(__init__=fails)
    with refused(KindError, "outside", "cannot be made"):
        build_index(DOCUMENTS, "outside")


@dataclass(frozen=True)
class Sure(SimilaritySettings):
    """Settings of a kind whose recall can be wanted."""

    looked_at: int = setting(20, "documents that are looked at", search=True)
    recall: float = setting(0.0, "the share that is wanted")


@pytest.mark.parametrize(
    ("efforts", "named"), [([], "no efforts"), ([{"nope": 3}], "nope"), ([{"recall": 1}], "recall")], ids=range(3)
)
def test_efforts_that_set_nothing_of_a_search_are_the_faults_of_the_kind(efforts: Any, named: str, kind: Any) -> None:
    kind(settings_type=Sure, efforts=lambda self, built, rows: efforts)
    with refused(KindError, "outside", named):
        build_index(DOCUMENTS, "outside", recall=0.9)


@dataclass(frozen=True)
class Odd:
    """Settings that are none."""

    similarity: str = "cosine"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"module": "nowhere.at_all:Kind"}, "nowhere"),
        ({"module": "json:Kind"}, "json"),
        ({"module": "json:dumps"}, "no class"),
        ({"module": dict}, "no class"),
        ({"search": Finder.search}, "no search"),
        ({"load": fails}, "dump"),
        ({"dump": lambda self, b, path: wrote(path)}, "load"),
        ({"dumped_as": "/../../evil"}, "dumped_as"),
        ({"form": SPARSE}, "form"),
        ({"form": "dense"}, "form"),
        ({"settings_type": None}, "settings_type"),
        ({"settings_type": Odd}, "similarity"),
        ({"settings_type": Sure}, "efforts"),
    ],
    ids=range(13),
)
def test_a_class_that_is_no_kind_is_refused_before_it_is_used(changes: Any, named: str, kind: Any) -> None:
    if changes == {"form": "dense"}:
        kind("sparse")  # the form of dense vectors, for sparse ones
        documents: Any = vectors("sparse", "image", 5, 1)
    else:
        kind(**changes)
        documents = DOCUMENTS
    with refused(KindError, "outside", named):
        build_index(documents, "outside")


def test_a_kind_that_is_no_longer_installed(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind()
    build_index(DOCUMENTS, "outside", tmp_path / "index")
    kind(module="package_that_is_gone:Kind")
    with refused(KindError, "outside", "package_that_is_gone", code="kind-cannot-be-imported"):
        open_index(tmp_path / "index")
    monkeypatch.delitem(KINDS._things, "outside")
    with refused(IndexFolderError, "index", "outside", hint="install the package that adds it"):
        open_index(tmp_path / "index")


@dataclass(frozen=True)
class Few:
    """Any settings."""

    looked_at: int = setting(3, "documents looked at")


@pytest.mark.parametrize(("form", "compared"), [("sparse", SPARSE), ("multi-vector", MULTI)])
@pytest.mark.parametrize("scored", [False, True])
def test_kinds_of_words_and_of_several_vectors(form: str, compared: Any, scored: bool, kind: Any) -> None:
    def search(self: Any, built: Any, rows: Any, queries: Any, k: int, settings: Any) -> Any:
        every = np.tile(np.arange(len(rows)), (len(queries), 1))
        ones = np.ones(every.size, np.float32)
        numbers = np.repeat(np.arange(len(queries)), len(rows))
        return Hits(numbers, np.tile(rows.places, len(queries)), ones) if scored else CandidateRows(every)

    kind(form, Finder, form=compared, settings_type=Few, search=search)
    documents, queries = vectors(form, "image", 40, 1), vectors(form, "text", 5, 2)
    runs = []
    for name in ("outside", TRUTH[form]):
        index = build_index(documents.select(documents.ids[:30]), name)
        index.add(documents.select(documents.ids[30:]))
        index.delete(documents.ids[3:8])
        runs.append(index.search(queries, 100))
    assert same_run(*runs)


# Folders whose files and records were changed together, so that every hash is right.


def forged(folder: Path, *, content: Callable[[Any], object] = lambda content: None, **arrays: Any) -> Path:
    """Change what the manifest says, and arrays by the end of their file's name, and make all hashes right."""
    manifest = Manifest.read(folder)
    said = json.loads(json.dumps(dict(manifest.content)))
    content(said)
    for name in manifest.files:
        if change := arrays.get(Path(name).stem.partition("-")[0] if "/" not in name else Path(name).stem):
            np.save(folder / name, change(np.load(folder / name)))
    files = {name: FileRecord.of(folder / name) for name in manifest.files}
    records = Manifest(manifest.kind, said, files, manifest.generation, manifest.version)
    (folder / MANIFEST).write_bytes(records.to_bytes())
    return folder


@pytest.mark.parametrize("name", ["exact", "inverted", "maxsim"])
@pytest.mark.parametrize(
    "content",
    [
        lambda content: content.update(kind="maxsim-ivf" if content["kind"] == "maxsim" else "maxsim"),
        lambda content: content.update(modality="smell"),
        lambda content: content.update(encoder=3),
        lambda content: content.update(settings={"depth": 3}),
        lambda content: content.update(parts=["../part"]),
        lambda content: content.update(parts=[*content["parts"], content["parts"][0]]),
        lambda content: content.update(parts=content["parts"][0]),
        lambda content: content.update(deleted="../../deleted.npy"),
        lambda content: content.update(deleted="/etc/hostname"),
        lambda content: content.update(deleted=content["parts"][0]),
        lambda content: content.pop("encoder"),
    ],
    ids=range(11),
)
def test_a_manifest_that_was_changed_is_refused(name: str, content: Any, tmp_path: Path) -> None:
    index = build_index(vectors(TRUTH_OF[name], "image", 20, 1), name, tmp_path / "index")
    index.delete(["i0003"])
    with refused(IndexFolderError, "index"):
        open_index(forged(tmp_path / "index", content=content))


TRUTH_OF = {kind: form for form, kind in TRUTH.items()}


@pytest.mark.parametrize(
    "rows",
    [
        lambda rows: rows - 100,
        lambda rows: rows + 100,
        lambda rows: rows.astype(float),
        lambda rows: rows[::-1],
        lambda rows: rows[None],
        lambda rows: rows[0],
        lambda rows: np.repeat(rows, 2),
    ],
    ids=range(7),
)
def test_deleted_rows_that_were_never_written_so_are_refused(rows: Any, tmp_path: Path) -> None:
    build_index(random_dense("image", 20, 1), "exact", tmp_path / "index").delete(["i0003", "i0009"])
    with refused(IndexFolderError, "index"):
        open_index(forged(tmp_path / "index", deleted=rows))


@pytest.mark.parametrize("array", ["offsets", "values", "list-listed", "list-maxima", "list-levels", "list-postings",
                                   "list-columned", "list-columns", "list-gap_starts", "list-gaps"])  # fmt: skip
def test_inverted_lists_of_other_numbers_are_refused(array: str, tmp_path: Path) -> None:
    """The compiled loops read them without a check of their own."""
    matrix = np.eye(20, 40, dtype=np.float32)
    matrix[:, 0] = 1  # a word that all have is a column too
    for number, change in enumerate((lambda a: a.astype(complex), lambda a: a[..., None], lambda a: a[:-1])):
        build_index(sparse("image", matrix), "inverted", tmp_path / f"{number}")
        with refused(IndexFolderError, str(number)):
            open_index(forged(tmp_path / f"{number}", **{array: change}))


def test_words_that_are_not_there_are_refused(tmp_path: Path) -> None:
    for number, change in enumerate((lambda a: a[::-1], lambda a: a - 1, lambda a: a + 40)):
        build_index(vectors("sparse", "image", 20, 1), "inverted", tmp_path / f"{number}")
        with refused(IndexFolderError, str(number)):
            open_index(forged(tmp_path / f"{number}", **{"list-listed": change}))


def test_codes_of_other_rows_are_refused(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    documents = random_dense("image", 300, 1)
    for number in (-5, 1, 10**9):
        build_index(documents, "ivf", tmp_path / f"{number}")
        path = tmp_path / f"{number}" / "built-1"
        codes = faiss.read_index(str(path))
        codes.reset()
        codes.add_with_ids(np.asarray(documents), np.arange(300) + number)
        faiss.write_index(codes, str(path))
        with refused(IndexFolderError, str(number)):
            open_index(forged(tmp_path / f"{number}"))


def test_an_id_in_two_parts_is_refused(tmp_path: Path) -> None:
    for name in TRUTH.values():
        form = TRUTH_OF[name]
        index = build_index(vectors(form, "image", 20, 1), name, tmp_path / name)
        index.add(replace(vectors(form, "image", 3, 2), ids=vectors(form, "other", 3, 2).ids))
        first, second = (tmp_path / name / part / "ids.parquet" for part in index._state.names)
        index = build_index(vectors(form, "image", 3, 2), name, tmp_path / "three")
        second.write_bytes((tmp_path / "three" / index._state.names[0] / "ids.parquet").read_bytes())
        (tmp_path / "three").rename(tmp_path / f"three-{name}")
        assert first.read_bytes() != second.read_bytes()
        with refused(IndexFolderError, name):
            open_index(forged(tmp_path / name))

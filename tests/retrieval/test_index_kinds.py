"""Every kind of index: the same interface, the same promises, on random vectors and random changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import make_dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_data import (
    MAKE,
    PARTS,
    TRUTH,
    WIDTH,
    dense,
    lies_in_a_folder,
    random_dense,
    random_sparse,
    same_run,
    vectors,
)

from refusals import refused
from visir.encoders import load
from visir.errors import ConfigurationError, EmbeddingError, RunError, VisirError
from visir.records import Embeddings, EncoderCard, SparseEmbeddings
from visir.retrieval.exact import search
from visir.retrieval.index import Finder, IndexFolderError, read_index
from visir.retrieval.kinds import KINDS, build_index, form_of, kinds_for, open_index, settings_of_kind
from visir.retrieval.settings import setting, settings_of
from visir.storage import MANIFEST, FolderKind, Manifest, new_folder

EVERY = [name for name, kind in KINDS.items() if all(map(find_spec, kind.packages)) and lies_in_a_folder(kind)]
EXACT = [name for name in EVERY if KINDS.get(name).exact]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of small files are written; what an fsync promises cannot be tested without a power cut."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def test_the_registry_says_what_is_true() -> None:
    for name, kind in KINDS.items():
        assert issubclass(kind.described(), Finder) or kind.described().kind == name
        assert name in kinds_for(kind.vectors)
        for name_of, default, about in settings_of_kind(kind):
            assert about and default is not None, name_of
    assert sorted(name for form in TRUTH for name in kinds_for(form)) == sorted(KINDS)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", EVERY)
def test_built_loaded_saved_and_in_memory_answer_alike(name: str, tmp_path: Path) -> None:
    form = KINDS.get(name).vectors
    documents, queries = vectors(form, "image", 90, 1), vectors(form, "text", 13, 2)
    memory, disk = build_index(documents, name), build_index(documents, name, tmp_path / "one")
    disk.save(tmp_path / "two")
    wanted = memory.search(queries, 8)
    for index in (disk, open_index(tmp_path / "one"), open_index(tmp_path / "two")):
        assert same_run(index.search(queries, 8), wanted)
    said, in_memory = open_index(tmp_path / "one").info(), memory.info()
    assert (said.kind, said.documents, said.deleted, said.modality, said.encoder) == (name, 90, 0, "image", "test")
    assert said.bytes == in_memory.bytes and said.exact == KINDS.get(name).exact
    assert said.bytes == sum(one["bytes"] for one in _manifest(tmp_path / "one")["files"].values())
    assert wanted.task == "t2i" and wanted.gallery.size == 90 and wanted.provenance["search"] == name


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, list[int]]]:
    """Additions and deletions of documents by number; what is deleted may come back."""
    there: set[int] = set(range(5))
    steps: list[tuple[str, list[int]]] = [("build", sorted(there))]
    for _ in range(draw(st.integers(1, 6))):
        if there and draw(st.booleans()):
            gone = draw(st.lists(st.sampled_from(sorted(there)), min_size=1, unique=True))
            there -= set(gone)
            steps.append(("delete", gone))
        elif absent := sorted(set(range(30)) - there):
            new = draw(st.lists(st.sampled_from(absent), min_size=1, unique=True))
            there |= set(new)
            steps.append(("add", new))
    return steps


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=histories(), seed=st.integers(0, 99), k=st.sampled_from([1, 4, 50]), name=st.sampled_from(EXACT))
def test_whatever_was_added_and_deleted_an_exact_index_is_as_if_built_anew(
    history: list[tuple[str, list[int]]], seed: int, k: int, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("history") / "index"
    form = KINDS.get(name).vectors
    every, queries = vectors(form, "image", 30, seed), vectors(form, "text", 5, seed + 1)
    ids, there = every.ids.to_pylist(), set()
    memory = disk = build_index(every, name)
    for step, numbers in history:
        some = [ids[number] for number in numbers]
        if step == "build":
            memory, disk = build_index(every.select(some), name), build_index(every.select(some), name, folder)
        for index in (memory, disk):
            if step == "add":
                index.add(every.select(some))
            elif step == "delete":
                index.delete(some)
        there = there - set(numbers) if step == "delete" else there | set(numbers)
        kept = [ids[number] for number in sorted(there)]
        for index in (memory, disk, open_index(folder)):
            assert index.info().documents == len(kept)
            assert index.ids.to_pylist() == kept
            if kept:
                assert same_run(index.search(queries, k), build_index(every.select(kept), name).search(queries, k))
            else:
                with refused(RunError, code="every-document-deleted"):
                    index.search(queries, k)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in EXACT])
def test_an_approximate_index_gives_a_pair_its_exact_score_and_never_a_deleted_document(name: str) -> None:
    form = KINDS.get(name).vectors
    documents, queries = vectors(form, "image", 300, 3), vectors(form, "text", 20, 4)
    ids = documents.ids.to_pylist()
    index = build_index(documents.select(ids[:200]), name)
    index.add(documents.select(ids[200:210]))
    index.delete(ids[50:120])
    index.add(documents.select([*ids[210:], *ids[60:70]]))
    kept = [*ids[:50], *ids[60:70], *ids[120:]]
    truth = build_index(documents.select(kept), TRUTH[form]).search(queries, len(kept))
    found = index.search(queries, 10)
    assert found.documents.to_pylist() == sorted(kept)
    hits = 0
    for query in queries.ids.to_pylist():
        scores, answer = dict(truth.answer(query)), found.answer(query)
        assert all(scores[one] == score for one, score in answer)
        assert answer == sorted(answer, key=lambda pair: (-pair[1], pair[0]))
        assert len(answer) == len({one for one, _ in answer})
        # FilteredIndex equal vectors, which ones are found is open: what counts are the scores.
        best = [score for _, score in truth.answer(query, 10)]
        hits += sum(score >= best[-1] for _, score in answer) / max(len(best), 1) if best else 1
    assert hits / len(queries) >= 0.9


@pytest.mark.parametrize("name", EVERY)
def test_two_stages_retrieve_with_one_form_of_the_queries_and_score_with_the_other(name: str) -> None:
    form = KINDS.get(name).vectors
    documents, queries, others = (
        vectors(form, "image", 120, 5),
        vectors(form, "text", 6, 6),
        vectors(form, "text", 6, 7),
    )
    index = build_index(documents, name)
    index.add(replace(documents.select(documents.ids[:20]), ids=pa.array([f"z{row:02}" for row in range(20)])))
    index.delete(documents.ids[5:9])
    exact = build_index(index.documents(), TRUTH[form])
    run = index.search(queries, 10, first=others)
    retrieved, truth = index.search(others, run.provenance["retrieved"]), exact.search(queries, 200)
    for query in queries.ids.to_pylist():
        seen, scores = {document for document, _ in retrieved.answer(query)}, truth.answer(query)
        assert run.answer(query) == [pair for pair in scores if pair[0] in seen][:10]
    with refused(EmbeddingError, code="queries-retrieve-score-not"):
        index.search(queries, first=others.select(others.ids[1:]))


@pytest.mark.parametrize("name", EVERY)
def test_compact_leaves_one_part_and_the_answers(name: str, tmp_path: Path) -> None:
    form = KINDS.get(name).vectors
    documents, queries = vectors(form, "image", 60, 8), vectors(form, "text", 5, 9)
    index = build_index(documents.select(documents.ids[:40]), name, tmp_path / "index")
    index.add(documents.select(documents.ids[40:]))
    index.delete(documents.ids[3:9])
    before = index.search(queries, 12)
    index.compact()
    assert (index.info().details["parts"], index.info().deleted) == (1, 0)
    assert same_run(index.search(queries, 12), before)
    assert same_run(open_index(tmp_path / "index").search(queries, 12), before)


@pytest.mark.parametrize("name", EVERY)
def test_more_answers_than_documents_one_document_and_equal_documents(name: str) -> None:
    form = KINDS.get(name).vectors
    queries = vectors(form, "text", 4, 1)
    make = MAKE[form]
    ones = np.ones((1, WIDTH[form]))
    assert [len(build_index(make("image", ones), name).search(queries, 1000).answer(q)) for q in _sharing(queries)] == [
        1
    ] * len(_sharing(queries))
    equal = build_index(make("image", np.repeat(ones, 200, axis=0)), name)
    for query in _sharing(queries):
        answer = equal.search(queries, 1000).answer(query)
        assert [one for one, _ in answer] == [f"i{i:04}" for i in range(200)]  # all of them, in order of id
        assert len({score for _, score in answer}) == 1
        assert len(equal.search(queries, 7).answer(query)) == 7


@pytest.mark.parametrize("name", EVERY)
def test_any_number_of_answers_may_be_asked_for(name: str) -> None:
    """More than there are is all of them, in the same order; what is no number of answers is said to be none."""
    form = KINDS.get(name).vectors
    index, queries = build_index(vectors(form, "image", 20, 1), name), vectors(form, "text", 3, 2)
    every = index.search(queries, 20)
    for k in (21, 1000, 2**31 - 1, np.int64(2**31 - 1)):
        found = index.search(queries, k)
        for query in queries.ids.to_pylist():
            assert found.answer(query) == every.answer(query)
    for k in (2**31, 2**63, 2**64, 10**5000):
        with refused(RunError, "2,147,483,647"):
            index.search(queries, k)
    for k in ("3", 3.0, True, None):
        with pytest.raises(RunError, match="k must be a whole number"):
            index.search(queries, k)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", EVERY)
def test_faults_are_named_and_change_nothing(name: str, tmp_path: Path) -> None:
    form = KINDS.get(name).vectors
    documents, queries = vectors(form, "image", 20, 1), vectors(form, "text", 4, 2)
    ids = documents.ids.to_pylist()
    index = build_index(documents.select(ids[:10]), name, tmp_path / "index")
    before = _manifest(tmp_path / "index")
    with refused(EmbeddingError, "2 ids", "i0008", "i0009", code="index-already"):
        index.add(documents.select(ids[8:]))
    with refused(EmbeddingError, "2 ids", "i0010", "nobody", code="not-index"):
        index.delete(["i0001", "i0010", "nobody"])
    with refused(EmbeddingError, "image", "text", code="index-holds-vectors-takes"):
        index.add(queries)
    assert index.search(documents, 3).task == "i2i" and index.search(queries, 3).task == "t2i"
    with pytest.raises(RunError, match="k must be at least 1, not 0"):
        index.search(queries, 0)
    with refused(RunError, code="no-query"):
        index.search(queries.select([]), 3)
    with refused(EmbeddingError, code="no-vector-index"):
        build_index(documents.select([]), name)
    other = EncoderCard("another", "imported")
    with refused(EmbeddingError, "text vectors by another", "test", code="index-another-model"):
        index.search(vectors_by(other, form), 3)
    with refused(ConfigurationError, "unknown setting", "ef_serach", hint=False):
        index.search(queries, 3, ef_serach=3)
    with refused(IndexFolderError, "index", code="index-folder-exists-already"):
        build_index(documents, name, tmp_path / "index")
    with refused(IndexFolderError, "index", code="index-folder-exists-already"):
        index.save(tmp_path / "index")
    assert _manifest(tmp_path / "index") == before
    index.add(documents.select([]))
    assert _manifest(tmp_path / "index") == before
    (tmp_path / "empty").mkdir()
    build_index(documents, name, tmp_path / "empty")
    assert open_index(tmp_path / "empty").info().documents == 20


def test_a_model_is_known_by_its_weights_or_else_by_its_name() -> None:
    one, moved = EncoderCard("here", "towers", weights="abc"), EncoderCard("there", "towers", weights="abc")
    trained = EncoderCard("here", "towers", weights="abd")
    index = build_index(dense("image", np.eye(3), card=one), "exact")
    assert len(index.search(dense("text", np.eye(3), card=moved))) == 3
    with refused(EmbeddingError, "here", code="index-another-model"):
        index.search(dense("text", np.eye(3), card=trained))


def test_vectors_of_another_space_are_refused() -> None:
    with refused(EmbeddingError, "text", "test", "dimension", "4", "test", "3", code="vectors-index"):
        build_index(dense("image", np.eye(3)), "exact").search(dense("text", np.eye(4)))
    with refused(EmbeddingError, "image", "test", "dimension", "4", code="vectors-index"):
        build_index(dense("image", np.eye(3)), "exact").add(dense("image", np.eye(4), ["a", "b", "c", "d"]))
    with refused(EmbeddingError, "i0001", code="nan-infinite-values-vectors"):
        dense("image", np.array([[1, 2], [np.nan, 0]]))


def test_the_wrong_form_of_vectors_and_unknown_kinds() -> None:
    with refused(ConfigurationError, "hnsw", "dense", "test", "sparse", code="index-kind-holds-vectors") as caught:
        build_index(random_sparse("image", 5, 1), "hnsw")
    assert "kinds for sparse vectors: inverted" in str(caught.value)
    with refused(ConfigurationError, "inverted", "sparse", "test", "dense", code="index-kind-holds-vectors"):
        build_index(random_dense("image", 5, 1), "inverted")
    for former in ("seismic", "scipy"):
        with refused(VisirError, "kind", "index", former, code="unknown-name", hint="inverted"):
            build_index(random_sparse("image", 5, 1), former)
    with refused(VisirError, "kind", "index", "hnws", code="unknown-name") as unknown:
        build_index(random_dense("image", 5, 1), "hnws")
    assert "did you mean 'hnsw'?" in str(unknown.value)
    assert form_of(random_dense("image", 1, 1)) == "dense"


def test_settings_are_read_from_text_and_all_faults_are_listed() -> None:
    kind = KINDS.get("hnsw")
    read = settings_of("hnsw", kind.settings_type, {"m": "16", "similarity": "dot", "ef_search": 9})
    assert (read.m, read.similarity, read.ef_search) == (16, "dot", 9)
    with pytest.raises(ConfigurationError) as caught:
        build_index(random_dense("image", 5, 1), "hnsw", similarity="euclid", m=1, ef_search="2.5", ef=3)
    for part in (
        "the settings of an index of kind 'hnsw' (4 faults)",
        "similarity: cosine or dot, not 'euclid'",
        "m: a whole number from 2, not 1",
        "ef_search: a whole number, not '2.5'",
        "unknown setting 'ef'",
    ):
        assert part in str(caught.value)
    share = make_dataclass("Share", [("share", float, setting(0.5, "a share", least=0, most=1))])
    with pytest.raises(ConfigurationError, match="share: a number from 0 up to 1, not 2"):
        settings_of("shared", share, {"share": 2})
    index = build_index(random_dense("image", 5, 1), "hnsw")
    with pytest.raises(ConfigurationError, match="m: is fixed when the index is built"):
        index.search(random_dense("text", 2, 2), 3, m=8)


def test_a_folder_without_an_index_or_with_an_unknown_one(tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match=r"nowhere: no such folder") as caught:
        open_index(tmp_path / "nowhere")
    assert "visir index build COLLECTION" in str(caught.value)
    with pytest.raises(IndexFolderError, match=r"holds no index \(no visir.json\)"):
        open_index(tmp_path)
    for data, fault in (
        (b"{", "damaged: .*not valid JSON"),
        (b"[]", "does not describe a folder that visir made"),
        (Manifest("library").to_bytes(), "kind 'library', not an index"),
        (Manifest("index").to_bytes(), "names no kind of index"),
        (Manifest("index", {"kind": "hnws"}).to_bytes(), "of kind 'hnws', which this visir does not know"),
        (Manifest("index", {"kind": "seismic"}).to_bytes(), "of kind 'seismic', which visir has no more"),
        (Manifest("index", {"kind": "exact"}, version=99).to_bytes(), "written by a newer visir"),
        (Manifest("index", {"kind": "exact"}).to_bytes(), "visir.json: damaged: no 'encoder'"),
        (Manifest("index", {"kind": "exact"}).to_bytes().replace(b"exact", b"hnsw "), "not as visir wrote it"),
    ):
        (tmp_path / MANIFEST).write_bytes(data)
        with pytest.raises(IndexFolderError, match=fault):
            open_index(tmp_path)


@pytest.mark.parametrize("name", EVERY)
def test_damaged_files_are_named(name: str, tmp_path: Path) -> None:
    form = KINDS.get(name).vectors
    index = build_index(vectors(form, "image", 30, 1), name, tmp_path / "index")
    index.delete(["i0003"])
    files = _manifest(tmp_path / "index")["files"]
    assert any(one.startswith("deleted-") for one in files)
    hashed = [one for one in files if not one.endswith((".npy", ".parquet"))]
    for one in files:
        path = tmp_path / "index" / one
        whole = path.read_bytes()
        path.write_bytes(whole[:-3])
        with refused(IndexFolderError, one, "bytes", "were written") as caught:
            open_index(tmp_path / "index")
        assert "build the index again" in str(caught.value)
        path.unlink()
        with refused(IndexFolderError, f"{one} is missing"):
            open_index(tmp_path / "index")
        path.write_bytes(whole)
        if one in hashed:
            path.write_bytes(whole[:-2] + bytes([whole[-2] ^ 255]) + whole[-1:])
            with refused(IndexFolderError, one):
                open_index(tmp_path / "index")
            path.write_bytes(whole)
    assert open_index(tmp_path / "index").info().documents == 29


def test_what_another_process_changed_is_not_overwritten(tmp_path: Path) -> None:
    documents = random_dense("image", 20, 1)
    ids = documents.ids.to_pylist()
    mine = build_index(documents.select(ids[:10]), "exact", tmp_path / "index")
    theirs = open_index(tmp_path / "index")
    theirs.add(documents.select(ids[10:15]))
    with refused(IndexFolderError, "index", code="another-process-changed-since"):
        mine.add(documents.select(ids[15:]))
    assert open_index(tmp_path / "index").ids.to_pylist() == ids[:15]
    assert mine.info().documents == 10  # what it has loaded stays searchable
    assert mine.search(random_dense("text", 2, 2)).gallery.size == 10


def test_additions_leave_few_parts(tmp_path: Path) -> None:
    documents = random_dense("image", 130, 1)
    ids = documents.ids.to_pylist()
    index = build_index(documents.select(ids[:2]), "exact", tmp_path / "index")
    for at in range(2, 130, 2):
        index.add(documents.select(ids[at : at + 2]))
    assert index.info().details["parts"] <= 7  # log2(65) and no more
    assert len([one for one in (tmp_path / "index").iterdir() if one.is_dir()]) == index.info().details["parts"]


def test_vectors_come_back_as_they_were(tmp_path: Path) -> None:
    for name in ("exact", "inverted", "maxsim"):
        form = KINDS.get(name).vectors
        documents = vectors(form, "image", 20, 1)
        ids = documents.ids.to_pylist()
        index = build_index(documents.select(ids[10:]), name, tmp_path / name)
        index.add(documents.select(ids[:3]))
        index.delete(ids[12:14])
        wanted = [ids[15], ids[1], ids[11]]
        for chosen in (index.select(wanted), open_index(tmp_path / name).select(wanted)):
            expected = documents.select(wanted)
            assert chosen.ids.equals(expected.ids)
            for part in PARTS[form]:
                assert np.array_equal(getattr(chosen, part), getattr(expected, part))
        assert index.documents().ids.to_pylist() == [*ids[:3], *ids[10:12], *ids[14:]]
        with refused(EmbeddingError, "1 id", "i0012", code="not-index"):
            index.select([ids[12]])


ALL_CHANGES = ["build", "add few", "add many", "delete few", "delete most"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("exact", ["add few"]),
        *(pytest.param(one, ALL_CHANGES, marks=pytest.mark.nightly) for one in EVERY),
    ],
)
def test_a_kill_at_any_moment_leaves_an_index_that_loads(name: str, changes: list[str], tmp_path: Path) -> None:
    script = Path(__file__).with_name("index_killed.py")
    done = subprocess.run(
        [sys.executable, str(script), name, str(tmp_path / "index"), *changes],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"},
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == changes


def vectors_by(card: EncoderCard, form: str) -> Embeddings:
    return MAKE[form]("text", np.ones((2, WIDTH[form])), card=card)  # type: ignore[no-any-return, operator]


def _sharing(queries) -> list[str]:  # type: ignore[no-untyped-def]
    """The queries that have anything to be found by."""
    full = np.diff(queries.offsets) > 0 if isinstance(queries, SparseEmbeddings) else np.ones(len(queries), bool)
    return [one for one, has in zip(queries.ids.to_pylist(), full, strict=True) if has]


@pytest.mark.parametrize("name", EVERY)
def test_scores_beyond_float32_are_refused(name: str) -> None:
    """Infinite scores are in no order; on the way to a finite one, float32 may meet ∞ − ∞ and lose the document."""
    form = KINDS.get(name).vectors
    make, options = MAKE[form], {"similarity": "dot"} if form == "dense" else {}
    rows = np.zeros((30, 40), np.float32)
    rows[:, 0] = np.arange(1, 31)
    rows[7, 1] = 3e38
    question = np.zeros((1, 40), np.float32)
    question[0, :2] = 1, 30
    for ask in ("search", "lists"):  # an engine has no lists
        with pytest.raises(EmbeddingError, match="too large for float32"):
            index = build_index(make("image", rows), name, **options)
            getattr(index, ask, index.search)(make("text", question), 5)


def test_dense_vectors_whose_products_overflow_on_the_way_are_refused() -> None:
    """1e30 · 1e30 − 1e30 · 1e30 is 0, and ∞ − ∞ in float32."""
    documents = dense("image", np.array([[1e30, 1e30], [1, 1]], np.float32))
    queries = dense("text", np.array([[1e30, -1e30]], np.float32))
    for swapped in (False, True):
        one, other = (queries, documents) if not swapped else (dense("text", [[1.0, 1.0]]), documents)
        with refused(EmbeddingError, "test", "float32", code="vectors-not-usable"):
            search(one, other, "t2i", similarity="dot")
    assert search(queries, documents, "t2i").run.scores.tolist() == [0, 0], "cosines are as they were"
    large = dense("image", np.full((1, 2), 1e19, np.float32))
    assert np.isfinite(search(dense("text", np.full((1, 2), 1e19)), large, "t2i", similarity="dot").run.scores).all()


def _manifest(folder: Path) -> dict:  # type: ignore[type-arg]
    return json.loads((folder / MANIFEST).read_text())


@pytest.mark.parametrize("given", [np.eye(3), "photos"])
def test_what_is_no_vectors_is_named_with_the_way_to_them(given: object) -> None:
    match = rf"not of a {type(given).__name__}\.(.|\n)*Embeddings\.of(.|\n)*visir\.encode(.|\n)*Parts\(folder\)"
    with pytest.raises(EmbeddingError, match=match):
        build_index(given, "exact")  # type: ignore[arg-type]


def test_hints_name_a_folder_with_a_space_as_a_shell_takes_it(tmp_path: Path) -> None:
    folder = tmp_path / "my index"
    documents = random_dense("image", 5, 1)
    build_index(documents, "exact", folder)
    with refused(IndexFolderError, code="index-folder-exists-already") as caught:
        build_index(documents, "exact", folder)
    assert f"(visir index search '{folder}'); else name a new folder" in str(caught.value)
    parts = FolderKind("parts", "a folder of parts", remedy="make it again")
    with new_folder(tmp_path / "my parts", parts):
        pass
    for read in (read_index, lambda place: load(str(place))):
        with pytest.raises(VisirError, match="a folder of parts") as fault:
            read(tmp_path / "my parts")
        assert f"visir index build '{tmp_path / 'my parts'}' --out NEW" in str(fault.value)
    assert f"'parquet:{tmp_path / 'my parts'}/parts/PART.parquet'" in str(fault.value)

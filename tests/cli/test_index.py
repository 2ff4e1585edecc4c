"""`visir index` and `visir search --index`, end to end: dense, and with weighted words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import visir
from manifests import content_of, rewrite
from refusals import refused
from verbs import Said, say, say_in
from visir.cli.encode import encode as encode_verb
from visir.cli.index import app
from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.encoders import encode, load
from visir.errors import VisirError
from visir.library.cli.search import search
from visir.retrieval import build_index, kinds
from visir.retrieval.exact import search as search_exact
from visir.retrieval.formats import read_run
from visir.serving.tokens import new_token
from visir.training.trained import StepLog

SMALL, LARGE = "scenes:12?size=64", "scenes:15?size=64"


def run(*arguments: object) -> Said:
    return say_in(app, *arguments, NO_COLOR="1")


def good(*arguments: object) -> str:
    said = run(*arguments)
    assert said.status == 0, said.text
    return said.text


@pytest.fixture
def weighted(tmp_path: Path) -> Path:
    """A checkpoint of weighted words over `bow`, untrained: what it says is arbitrary, but always the same."""
    torch = pytest.importorskip("torch")
    tokenizers = pytest.importorskip("tokenizers")
    from visir.sparse.encoder import SparseEncoder, write_sparse
    from visir.sparse.language_model import SparseHead, WordEmbeddings
    from visir.sparse.vocabulary import Tokenizer

    texts = " ".join(open_collection(LARGE).captions["text"].to_pylist()).lower()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(set(re.findall(r"[a-z]+", texts)))]
    library = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    library.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    library.add_special_tokens(pieces[:4])
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer, dense = Tokenizer(library.to_str().encode(), "tiny"), load("bow")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        words = WordEmbeddings(torch.randn(len(pieces), 8), -1.0 + 0 * torch.randn(len(pieces)), None, "random")
        head = SparseHead(dense.dimension, words, tokenizer.vocabulary.usable)
    folder = tmp_path / "weighted"
    folder.mkdir()
    write_sparse(folder, SparseEncoder(dense, head, tokenizer, variant="caption"))
    return folder


def test_an_index_of_captions_from_build_to_run(tmp_path: Path) -> None:
    index, out, queries = tmp_path / "index", tmp_path / "run.trec", tmp_path / "queries.tsv"
    said = good("build", SMALL, "-m", "bow", "--to", "captions", "--out", index)
    assert "60 captions, kind exact" in said
    assert "15 added, 60 were there; 75 captions in all" in good("add", index, LARGE)
    assert "0 added, 75 were there" in good("add", index, LARGE)
    ids = kinds.open_index(index).ids.to_pylist()  # type: ignore[attr-defined]
    assert "2 deleted; 73 captions in all" in good("delete", index, ids[0], ids[1], ids[0])
    (tmp_path / "gone.txt").write_text(f"{ids[2]}\n\n{ids[3]}\n")
    assert "2 deleted; 71 captions in all" in good("delete", index, "--ids", tmp_path / "gone.txt")
    shown = good("info", index)
    assert re.search(r"documents\s+│\s+71 captions", shown) and re.search(r"encoder\s+│\s+bow", shown)
    assert "captions for “a red bus”" in good("search", index, "a red bus", "-k", 3)
    queries.write_text("q2\ta red bus\n\nq1\ttwo pigs\n")
    assert "2 queries, 10 answers" in good("search", index, "--queries", queries, "-k", 5, "--out", out)

    collection, encoder = open_collection(LARGE), load("bow")
    captions = encode(encoder, collection, "text")
    from visir.records import Embeddings

    asked = Embeddings("image", ["q1", "q2"], encoder.encode_texts(["two pigs", "a red bus"]), encoder.card)
    expected = search_exact(asked, captions.select(ids[4:]), "i2t", depth=5).run
    written = read_run(out, task="i2t", gallery=expected.gallery)
    for query in ("q1", "q2"):
        assert written.answer(query) == expected.answer(query)


def test_an_index_is_added_to_by_its_own_model_only_though_nothing_be_new(tmp_path: Path) -> None:
    index = tmp_path / "index"
    good("build", SMALL, "-m", "bow:64", "--to", "captions", "--out", index)
    other = run("add", index, SMALL, "--model", "bow:32")  # all ids are known
    assert other.status == 2
    assert f"{index}: vectors by bow:32: the index is by bow:64, which is another model." in other.text
    assert "encode with the model that the index was built with" in other.text
    assert "0 added, 60 were there" in good("add", index, SMALL, "--model", "bow:64")


def test_vectors_are_checked_before_known_ids_are_left_out(tmp_path: Path) -> None:
    """Cards can be equal where vectors do not fit."""
    vectors = {}
    for size in (3, 4):
        vectors[size] = tmp_path / f"{size}" / "own.npz"
        vectors[size].parent.mkdir()
        ids = open_collection(SMALL).images["id"].to_pylist()
        np.savez(vectors[size], image=np.eye(len(ids), size, dtype=np.float32) + 1, image_ids=ids)
    index = tmp_path / "index"
    good("build", SMALL, "-m", f"npz:{vectors[3]}", "--out", index)
    manifest = content_of(index)
    manifest["encoder"] = load(f"npz:{vectors[4]}").card.to_dict()
    rewrite(index, manifest)
    other = run("add", index, SMALL, "--model", f"npz:{vectors[4]}")
    assert other.status == 2 and "have dimension 4; the index, by" in other.text, other.text


def test_vectors_without_the_broken_pictures_are_indexed(tmp_path: Path) -> None:
    photos, vectors, index = tmp_path / "photos", tmp_path / "vectors", tmp_path / "index"
    photos.mkdir()
    for number in range(3):
        Image.new("RGB", (9, 9), (number, 0, 0)).save(photos / f"{number}.png")
    (photos / "broken.jpg").write_bytes(b"no picture")
    done = say(encode_verb, photos, "-m", "pixels", "--skip-broken", "--out", vectors)
    assert "set aside: image 'broken.jpg': not an image" in done.text, done.text
    whole = run("build", photos, "-m", vectors, "--out", index)
    assert whole.status == 2 and "no vector for 1 of 4 images of photos: 'broken.jpg'" in whole.text
    assert "pictures that cannot be read have none: set them aside with --skip-broken" in whole.text
    built = good("build", photos, "-m", vectors, "--skip-broken", "--out", index)
    assert "3 images, kind exact" in built
    assert "1 broken in all" in built
    added = good("add", index, photos, "-m", vectors, "--skip-broken")
    assert "0 added, 3 were there" in added
    assert "set aside: image 'broken.jpg': not an image" in added
    again = say(encode_verb, photos, "-m", vectors, "--skip-broken")
    assert "images: 3 × 2,397 usable, 1 broken, imported" in again.text
    Image.new("RGB", (9, 9)).save(photos / "new.png")  # it can be read: vectors of something else are not taken
    other = run("build", photos, "-m", vectors, "--skip-broken", "--out", tmp_path / "other")
    assert other.status == 2 and "no vector for 1 of 4 images of photos: 'new.png'" in other.text
    for number in range(3):
        (photos / f"{number}.png").write_bytes(b"no picture")
    (photos / "new.png").write_bytes(b"no picture")
    np.savez(tmp_path / "strange.npz", image=np.ones((1, 3), np.float32), image_ids=["elsewhere.png"])
    none = run("build", photos, "-m", f"npz:{tmp_path}/strange.npz", "--skip-broken", "--out", tmp_path / "other")
    assert none.status == 2 and "none of its 5 images can be used" in none.text


def test_visir_search_asks_an_index(tmp_path: Path) -> None:
    good("build", SMALL, "-m", "bow", "--to", "captions", "--kind", "hnsw", "--set", "m=8", "--out", tmp_path / "index")
    by_index = say(search, SMALL, "a red bus", "--index", tmp_path / "index", "-k", "3")
    plain = say(search, SMALL, "a red bus", "-m", "bow", "--to", "captions", "-k", "3")
    assert by_index.status == 0 and by_index.text == plain.text and "cosine" in plain.text
    wrong = say(search, SMALL, "a red bus", "--index", tmp_path / "index", "--to", "images")
    assert wrong.status == 2 and "an index of captions, not of images" in wrong.text


def test_images_are_indexed_and_found_by_a_picture(tmp_path: Path) -> None:
    assert "12 images, kind exact" in good("build", SMALL, "-m", "pixels", "--out", tmp_path / "index")
    picture = tmp_path / "asked.png"
    collection = open_collection(SMALL)
    wanted = collection.images["id"][3].as_py()
    ImageReader(collection).open(3).save(picture)
    said = say(search, SMALL, "--image", picture, "--index", tmp_path / "index", "-k", "2")
    assert said.status == 0, said.text
    first = next(line for line in said.text.splitlines() if line.strip().startswith("1 "))
    assert wanted in first and "1.0000" in first
    text = good("search", tmp_path / "index", "--image", picture, "-k", "2")
    assert wanted in next(line for line in text.splitlines() if line.strip().startswith("1 "))


def test_an_address_is_no_folder_to_write_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for out in ("s3://bucket/index", "file:///index"):
        caught = run("build", SMALL, "-m", "pixels", "--out", out)
        assert caught.status == 2
        assert f"{out.replace(':///', '://')}: an address; this is written to a local disk alone" in caught.text
    (tmp_path / "photos").mkdir()
    ImageReader(open_collection(SMALL)).open(0).save(tmp_path / "photos" / "a.png")
    with refused(VisirError, code="an-address"):
        visir.index("photos", "pixels", out="s3://bucket/photos.visir")
    for write in (
        lambda: new_token(Path("s3://bucket/tokens"), "bob", ["search"], None),
        lambda: StepLog(Path("s3://bucket/steps.jsonl"), 0),
        lambda: build_index(encode("pixels", SMALL), "exact", "s3://bucket/x"),
    ):
        with refused(VisirError, code="an-address"):
            write()
    assert not (tmp_path / "s3:").exists() and not (tmp_path / "file:").exists()
    (tmp_path / "my:").mkdir()
    for out in ("my:/index", "notes:"):  # a folder that is there; a name that no address has
        assert "12 images" in good("build", SMALL, "-m", "pixels", "--out", out)
        assert len(visir.open(out).ids) == 12


def test_weighted_words_are_indexed_explained_and_exported(tmp_path: Path, weighted: Path) -> None:
    pytest.importorskip("numba")
    index = tmp_path / "index"
    assert "60 captions, kind inverted" in good("build", SMALL, "-m", weighted, "--to", "captions", "--out", index)
    assert "15 added, 60 were there" in good("add", index, LARGE)
    for said in (
        good("search", index, "a red bus in a meadow", "-k", 3),
        say(search, LARGE, "a red bus in a meadow", "--index", index, "-k", "3").text,
        say(search, LARGE, "a red bus in a meadow", "-m", weighted, "--to", "captions", "-k", "3").text,
    ):
        assert "matched terms" in said and "cosine" not in said
        assert len(re.findall(r"[a-z]+ \d+\.\d\d \(\d+ %\)", said)) >= 3
    queries = tmp_path / "queries.tsv"
    queries.write_text("q1\ta red bus\n")
    said = good("export", index, "--layout", "anserini", "--out", tmp_path / "anserini", "--queries", queries)
    assert "documents.jsonl" in said and "queries.tsv" in said and "rounded" in said
    lines = (tmp_path / "anserini" / "documents.jsonl").read_text().splitlines()
    assert len(lines) == 75 and json.loads(lines[0])["vector"]
    assert (tmp_path / "anserini" / "queries.tsv").read_text().startswith("q1\t")
    assert "documents.ciff" in good("export", index, "--layout", "ciff", "--out", tmp_path / "ciff")
    wrong = run("build", SMALL, "-m", weighted, "--to", "captions", "--kind", "hnsw", "--out", tmp_path / "no")
    assert wrong.status == 2 and "kind 'hnsw' holds dense vectors" in wrong.text
    assert not (tmp_path / "no").exists()


def test_the_kinds_are_listed_with_their_settings() -> None:
    said = good("kinds")
    for part in ("hnsw: a graph of near neighbours (FAISS)", "dense vectors, approximate answers", "visir[hnsw]"):
        assert part in said
    assert "ef_search=64" in said and "budget=0" in said and "exact answers, needs core" in said


def test_faults_are_named_before_anything_is_encoded(tmp_path: Path) -> None:
    filled = tmp_path / "filled"
    filled.mkdir()
    (filled / "a").write_text("a")
    build = ("build", "no/such/collection", "-m", "bow", "--out")
    for arguments, fault in (
        ((*build, filled), "filled: holds files that visir did not write, or no longer knows (a)"),
        ((*build, tmp_path / "x", "--to", "image"), "did you mean 'images'?"),
        ((*build, tmp_path / "x", "--kind", "hnws"), "did you mean 'hnsw'?"),
        ((*build, tmp_path / "x", "--kind", "hnsw", "--set", "m=many"), "m: a whole number, not 'many'"),
        ((*build, tmp_path / "x", "--set", "m"), "'m' has no value; write m=VALUE"),
        (("build", SMALL, "-m", "bow", "--to", "captions", "--kind", "inverted", "--out", tmp_path / "x"),
         "kinds for dense vectors: exact, hnsw"),
        (("info", tmp_path / "nothing"), "nothing: no such folder"),
        (("delete", filled), "no document is named"),
        (("search", filled), "ask with a text, with --image FILE or with --queries FILE: one of the three"),
        (("search", filled, "--queries", "q.tsv"), "where is the run to be written"),
        (("search", filled, "a dog"), "holds no index (no visir.json)"),
    ):  # fmt: skip
        said = run(*arguments)
        assert said.status == 2 and fault in said.text, said.text
    good("build", SMALL, "-m", "bow", "--to", "captions", "--out", tmp_path / "index")
    dense = run("export", tmp_path / "index", "--layout", "ciff", "--out", tmp_path / "x")
    assert dense.status == 2 and "holds no weighted words, which these forms are of" in dense.text
    unknown = run("delete", tmp_path / "index", "nobody")
    assert unknown.status == 2 and "1 id is not in the index: 'nobody'" in unknown.text
    queries = tmp_path / "queries.tsv"
    queries.write_text("q1\ta\nno tab here\nq1\tb\n")
    said = run("search", tmp_path / "index", "--queries", queries, "--out", tmp_path / "run.trec")
    assert "line 2: 'no tab here' is not an id, a tab, and a text" in said.text
    assert "line 3: the id 'q1' is there already" in said.text


def test_a_model_that_has_moved(tmp_path: Path) -> None:
    good("build", SMALL, "-m", "bow", "--to", "captions", "--out", tmp_path / "index")
    manifest = content_of(tmp_path / "index")
    manifest["encoder"]["name"] = "gone/away/model"
    rewrite(tmp_path / "index", manifest)
    said = run("search", tmp_path / "index", "a dog")
    assert said.status == 2 and "its model, gone/away/model, cannot be loaded" in said.text
    assert "say where it is now: --model MODEL" in said.text

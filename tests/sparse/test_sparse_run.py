"""From a recipe to a checkpoint that `load` takes, and from there to weighted words in a folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from sparse_toys import PIECES, head, library, tokenizer

import visir
from manifests import content_of, rewrite, seal
from refusals import refused
from visir.collections import open_collection
from visir.encoders import encode, load
from visir.encoders.models.vector_files import export
from visir.errors import ConfigurationError, EmbeddingError, EncoderError, VisirError
from visir.records import Collection, Embeddings, EncoderCard
from visir.sparse import SparseEncoder, encode_sparse, load_sparse, matched_words, save_sparse, sparsify
from visir.sparse.language_model import WordEmbeddings
from visir.sparse.recipe import SparseRecipe, read_sparse_recipe
from visir.training.shipped import shipped_recipes

TABLE_3_2 = [
    ("blip", "1e-3", "none", "45.5", "2.8", "68.9"),
    ("blip", "1e-3", "free", "53.4", "49.1", "79.5"),
    ("blip", "1e-3", "caption", "51.9", "11.8", "77.3"),
    ("blip", "1e-3", "caption+word", "51.8", "11.5", "77.1"),
    ("blip", "1e-5", "none", "47.2", "3.2", "72.3"),
    ("blip", "1e-5", "free", "55.9", "343", "81.4"),
    ("blip", "1e-5", "caption", "54.7", "79.1", "79.9"),
    ("blip", "1e-5", "caption+word", "54.5", "78.4", "79.8"),
    ("albef", "1e-3", "none", "43.8", "2.5", "65.8"),
    ("albef", "1e-3", "free", "50.9", "68.2", "75.7"),
    ("albef", "1e-3", "caption", "49.7", "38.3", "74.6"),
    ("albef", "1e-3", "caption+word", "49.6", "18.7", "74.2"),
    ("albef", "1e-5", "none", "45.9", "3.4", "68.1"),
    ("albef", "1e-5", "free", "52.4", "283", "77.2"),
    ("albef", "1e-5", "caption", "51.2", "77.9", "76.4"),
    ("albef", "1e-5", "caption+word", "50.7", "74.2", "75.4"),
]
"""Model, η, variant, R@1 and FLOPs on MS-COCO, R@1 on Flickr30k."""


@pytest.fixture(scope="module")
def collection() -> Collection:
    return open_collection("scenes:60?size=64")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, collection: Collection) -> Path:
    """A checkpoint over random vectors, with the tiny vocabulary."""
    root = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    sides = {}
    for side, rows in (("image", collection.images), ("text", collection.captions)):
        vectors = rng.normal(size=(rows.num_rows, 6)).astype(np.float32)
        sides[side] = Embeddings(side, rows["id"].combine_chunks(), vectors, EncoderCard("random", "test", weights="1"))
    export(root / "vectors", sides)
    (root / "words").mkdir()
    (root / "words" / "tokenizer.json").write_text(library().to_str())
    table = WordEmbeddings(head(width=8).words.detach(), head().bias.detach(), None, "random")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("visir.sparse.run.words_of", lambda name, width: table)  # no language model of 19 words exists
        sparsify(recipe=settings(root), out=root / "out")
    return root


def settings(root: Path, **changes: Any) -> SparseRecipe:
    values: dict[str, Any] = {
        "name": "tiny",
        "encoder": str(root / "vectors"),
        "data": {"collection": "scenes:60?size=64"},
        "head": {"width": 8, "language_model": str(root / "words")},
        "optimiser": {"epochs": 2, "batch": 64},
    }
    return SparseRecipe.model_validate({**values, **changes})


def test_the_folder_is_an_encoder_of_weighted_words(made: Path, collection: Collection) -> None:
    encoder = load(made / "out")
    assert isinstance(encoder, SparseEncoder) and encoder.expanded and encoder.base_encoder("text") is encoder.dense
    assert encoder.card.text_preprocessing["expansion"] == "any usable term"
    for side, rows in (("image", collection.images), ("text", collection.captions)):
        found = encode_sparse(encoder, collection, side)
        assert found.ids.equals(rows["id"].combine_chunks()) and found.encoder == encoder.card
        assert found.vocabulary.fingerprint == tokenizer().vocabulary.fingerprint
        assert len(found.terms) and found.vocabulary.usable[found.terms].all()
        full = encoder.project(side, encode(encoder.dense, collection, side).vectors)
        assert np.array_equal(found.to_scipy().toarray(), full)
    facts = content_of(made / "out")["facts"]
    assert facts["chosen_epoch"] in (1, 2) and "mrr@10" in facts["validation"] and facts["words"] == "random"


def test_without_expansion_captions_have_their_own_terms_only(made: Path, collection: Collection) -> None:
    free, none = load(made / "out"), load(f"{made / 'out'}?expansion=none")
    assert isinstance(free, SparseEncoder) and isinstance(none, SparseEncoder)
    assert none.card.text_preprocessing["expansion"] == "own terms only" and none.card != free.card
    own = none.tokenizer.terms(collection.captions["text"].to_pylist())
    expanded, found = (encode_sparse(one, collection, "text") for one in (free, none))
    for row in range(0, len(found), 37):
        one, mine = found.ids[row].as_py(), own.of(row).tolist()
        words = {w for w, _ in found.words(one, 99)}
        assert words <= {PIECES[k] for k in mine}
        assert dict(found.words(one, 99)) == {w: v for w, v in expanded.words(one, 99) if w in words}
    # images are always expanded
    images = [encode_sparse(one, collection, "image") for one in (free, none)]
    assert np.array_equal(images[0].values, images[1].values)
    dense = encode(none.dense, collection, "text")
    with refused(EmbeddingError, len(dense), "none", code="captions-terms"):
        none.sparsify(dense)
    with refused(EncoderError, code="captions-terms-dense-vectors"):
        none.project("text", dense.vectors)


def test_words_of_a_text_a_caption_and_a_picture(made: Path, collection: Collection) -> None:
    encoder = load(f"{made / 'out'}?expansion=none")
    assert isinstance(encoder, SparseEncoder)
    caption, image = collection.captions["id"][0].as_py(), collection.images["id"][0].as_py()
    first, second = visir.words(encoder, [caption, image], k=5, source=collection)
    weighted = encode_sparse(encoder, collection, "text")
    assert first.terms == tuple(weighted.words(caption, 5)) and first.own >= {term for term, _ in first.terms}
    assert second.picture is not None and second.caption is not None and len(second.terms) <= 5
    assert repr(first).startswith(f"TopTerms({first.title!r}: ")
    with refused(EncoderError, "bow:8", code="vectors-no-words", hint="visir sparsify --data"):
        visir.words("bow:8", "a dog")


def test_why_a_picture_is_an_answer(made: Path, collection: Collection) -> None:
    encoder = visir.load(made / "out")
    row, image = collection.captions["id"][0].as_py(), collection.images["id"][0].as_py()
    matches = matched_words(encoder, row, image, source=collection)
    texts, images = (encode_sparse(encoder, collection, modality) for modality in ("text", "image"))
    both = {
        word: weight * dict(images.words(image, 99))[word]
        for word, weight in texts.words(row, 99)
        if word in dict(images.words(image, 99))
    }
    assert {match.term: match.product for match in matches.matches} == pytest.approx(both)
    assert matches.score == pytest.approx(sum(both.values())) and matches.answer == image
    assert repr(matches).startswith(f"MatchedWords('{row}', {image}: score ")
    assert matches.to_arrow().num_rows == len(both) and "svg" in (matches._repr_html_() or "")
    terms = visir.words(encoder, image, k=3, source=collection)
    assert terms.to_arrow().num_rows == 3 and "cloud" in (terms._repr_html_() or "")


def test_options_are_checked(made: Path) -> None:
    with refused(EncoderError, "unknown option", "expand", meant="expansion"):
        load(f"{made / 'out'}?expand=none")
    with refused(EncoderError, "expansion", "non", code="encoder-not-known", hint="none"):
        load(f"{made / 'out'}?expansion=non")
    with refused(EncoderError, "embeddings", code="checkpoint-kind-no-options"):
        load(f"{made / 'vectors'}?expansion=none")


def test_captions_are_encoded_from_their_own_vectors(made: Path, collection: Collection) -> None:
    encoder = load(made / "out")
    assert isinstance(encoder, SparseEncoder)
    dense = {side: encode(encoder.dense, collection, side) for side in ("image", "text")}
    texts = encode_sparse(encoder, collection, "text")
    assert np.array_equal(texts.values, encoder.sparsify(dense["text"]).values)
    first = collection.images["id"].to_pylist().index(collection.captions["image_id"][0].as_py())
    image = Embeddings("text", dense["text"].ids[:1], dense["image"].vectors[first : first + 1], dense["text"].encoder)
    assert encoder.sparsify(image).words(texts.ids[0].as_py()) != texts.words(texts.ids[0].as_py())


def test_vectors_of_another_model_are_refused(made: Path) -> None:
    encoder = load(made / "out")
    assert isinstance(encoder, SparseEncoder)
    foreign = Embeddings("image", ["a"], np.ones((1, 6), np.float32), EncoderCard("other", "test", weights="2"))
    with refused(EmbeddingError, "random", "6", "other", code="trained-over-dimensions-given"):
        encoder.sparsify(foreign)


@pytest.mark.parametrize("name", ["head.safetensors", "tokenizer.json", "vocabulary.parquet"])
def test_a_missing_file_is_named(made: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(made / "out", tmp_path / "copy")
    (tmp_path / "copy" / name).unlink()
    with refused(VisirError, f"{name} is missing"):
        load(tmp_path / "copy")


def test_damaged_and_foreign_files_are_named(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "out", tmp_path / "copy")
    weights = tmp_path / "copy" / "head.safetensors"
    state = load_file(str(weights))
    save_file({**state, "words": state["words"][:, :4].contiguous()}, str(weights))
    seal(tmp_path / "copy")
    with refused(EncoderError, "head.safetensors", code="not-fit"):
        load(tmp_path / "copy")
    weights.write_bytes(b"nothing")
    seal(tmp_path / "copy")
    with refused(EncoderError, "head.safetensors", code="cannot-read"):
        load(tmp_path / "copy")
    shutil.copy(made / "out" / "head.safetensors", weights)
    seal(tmp_path / "copy")
    description = content_of(tmp_path / "copy")
    rewrite(tmp_path / "copy", {**description, "card": {**description["card"], "weights": "3"}})
    with refused(EncoderError, "weights", "trained", "3", code="base-encoder-not-one"):
        load(tmp_path / "copy")
    (tmp_path / "copy" / "tokenizer.json").write_text(library(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "z"]).to_str())
    seal(tmp_path / "copy")
    with refused(EncoderError, code="words-not-head"):
        load(tmp_path / "copy")


def test_a_finished_checkpoint_is_not_trained_over(made: Path, collection: Collection) -> None:
    with refused(VisirError, code="holds-finished-checkpoint"):
        sparsify(recipe=settings(made), out=made / "out")


def test_saved_and_loaded_words_are_the_same(made: Path, tmp_path: Path, collection: Collection) -> None:
    encoder = load(made / "out")
    assert isinstance(encoder, SparseEncoder)
    words = encode_sparse(encoder, collection, "text")
    again = load_sparse(save_sparse(tmp_path / "words", words))
    assert isinstance(again.values, np.memmap) and again.ids.equals(words.ids)
    assert all(np.array_equal(getattr(again, name), getattr(words, name)) for name in ("offsets", "terms", "values"))
    assert again.encoder == words.encoder and again.vocabulary.fingerprint == words.vocabulary.fingerprint
    with refused(VisirError, code="exists-already-folder-kind"):
        save_sparse(tmp_path / "words", words)
    np.save(tmp_path / "words" / "terms.npy", words.terms[:-1])
    seal(tmp_path / "words")
    with refused(EmbeddingError, "terms.npy", code="sparse-json-says"):
        load_sparse(tmp_path / "words")
    (tmp_path / "words" / "terms.npy").write_bytes(b"x")
    seal(tmp_path / "words")
    with refused(EmbeddingError, "terms.npy", code="damaged"):
        load_sparse(tmp_path / "words")
    (tmp_path / "words" / "terms.npy").unlink()
    with refused(EmbeddingError, "terms.npy is missing"):
        load_sparse(tmp_path / "words")
    with refused(EmbeddingError, code="no-sparse-embeddings-no"):
        load_sparse(tmp_path)


def test_all_faults_of_a_recipe_at_once(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(
        'name = "x"\nencoder = "bow"\n[data]\ncollection = "c"\n[loss]\netta = 1\n[optimiser]\nepochs = 0\n'
    )
    with refused(ConfigurationError, "3", "faults") as fault:
        read_sparse_recipe(path, ["expansion.variant=captions"])
    assert "did you mean 'eta'?" in str(fault.value) and "did you mean 'caption'?" in str(fault.value)
    assert "optimiser.epochs" in str(fault.value)


@pytest.mark.parametrize("path", shipped_recipes("sparsify").values(), ids=lambda path: path.stem)
def test_a_shipped_recipe_is_valid_opens_with_its_command_and_says_where_data_comes_from(path: Path) -> None:
    recipe = read_sparse_recipe(path)
    assert recipe.name == path.stem and path.read_text().startswith(f"# visir sparsify {path.stem}")
    assert path.stem == "sparse" or recipe.data.collection.startswith("scenes:") or recipe.data.obtain


@pytest.mark.parametrize(("model", "eta", "variant", "coco", "flops", "flickr"), TABLE_3_2)
def test_every_row_of_table_3_2_has_its_recipes(
    model: str, eta: str, variant: str, coco: str, flops: str, flickr: str
) -> None:
    for data, first in (("coco", coco), ("f30k", flickr)):
        path = shipped_recipes("sparsify")[f"d2s-{data}-{model}-{variant.replace('+', '-')}-{eta}"]
        recipe, said = read_sparse_recipe(path), path.read_text()
        assert (recipe.expansion.variant, recipe.loss.eta) == (variant, float(eta))
        assert (recipe.optimiser.epochs, recipe.optimiser.batch, recipe.loss.temperature) == (200, 512, 0.001)
        assert f"R@1 {first}, " in said and "Table 3.2" in said and model in recipe.encoder
        assert data == "f30k" or f"FLOPs {flops}" in said

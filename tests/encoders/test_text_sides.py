"""Text networks of every family: sentence-transformers, open_clip, trained heads and towers, SigLIP's tokenizer."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="the extra transformers is not installed")
pytest.importorskip("sentence_transformers")
pytest.importorskip("open_clip")

import tiny_openclip
import tiny_sentence
import tiny_transformers as tiny
import torch
import transformers
from open_clip.tokenizer import HFTokenizer, SimpleTokenizer
from sentence_transformers.sentence_transformer import modules

from visir.encoders import Encoder, load
from visir.encoders.models.exported import TEXT_NETWORKS, keep_text_network, key_of, text_network
from visir.encoders.models.joined import JoinedTexts
from visir.encoders.models.openclip import openclip_inputs
from visir.encoders.models.small import BagOfWords
from visir.encoders.models.text_inputs import TextInputs, TokenRules, described, inputs_of_tokenizer, read_inputs
from visir.encoders.models.towers import TowersEncoder, write_towers
from visir.encoders.towers.base import Head, HeadSpec, Tower, text_side_of
from visir.encoders.towers.gru import GRUBackbone, WordVocabulary
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.storage import ContentStore

TEXTS = ["a dog", "two dogs run along the beach", "", "dog " * 100, "A", "Ünïcode 中文 &amp; “quotes”", "<unk> a </s>"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))


def _refusal(encoder: Encoder) -> str:
    manifest = ContentStore(TEXT_NETWORKS).find(key_of(encoder.card))
    return "not tried" if manifest is None else str(manifest.content["refused"])


def _same_vectors(encoder: Encoder) -> bool:
    """Keep the text tower, open it, and compare its vectors with those of PyTorch, alone and together."""
    assert keep_text_network(encoder), _refusal(encoder)
    network = text_network(encoder.card)
    assert network is not None and network.dimension == encoder.dimension
    for texts in (TEXTS, TEXTS[:1], TEXTS[2:3], TEXTS[::-1]):
        own = np.asarray(network.encode_texts(texts, "query"), np.float64)
        reference = np.asarray(encoder.encode_texts(texts, "query"), np.float64)
        assert np.allclose(own, reference, atol=1e-5 * np.abs(reference).max()), texts
    return True


SENTENCES = {
    "mean": ((), {}),
    "first token, dense, normalised": ((modules.Dense(32, 20), modules.Normalize()), {}),
    "prompt": ((), tiny_sentence.PROMPT),
    "prompts of both roles": ((), {"prompts": {"query": "the dog: ", "document": "two: "}}),
}


@pytest.mark.parametrize("kind", SENTENCES)
def test_sentence_transformers(kind: str, tmp_path: Path) -> None:
    more, settings = SENTENCES[kind]
    encoder = load(tiny_sentence.save(tmp_path / "model", *more, **settings), device="cpu")
    assert _same_vectors(encoder)
    if "roles" in kind:
        network = text_network(encoder.card)
        assert network is not None
        documents = np.asarray(encoder.encode_texts(["a dog"], "document"))
        assert not np.allclose(network.encode_texts(["a dog"]), documents, atol=1e-3)


def test_prompts_that_do_not_enter_the_mean(tmp_path: Path) -> None:
    folder = tiny_sentence.save(tmp_path / "model", **tiny_sentence.PROMPT)
    pooling = next(folder.glob("*_Pooling")) / "config.json"
    content = pooling.read_text()
    assert '"include_prompt": true' in content
    pooling.write_text(content.replace('"include_prompt": true', '"include_prompt": false'))
    assert _same_vectors(load(folder, device="cpu"))


def test_options_of_the_name(tmp_path: Path) -> None:
    folder = tiny_sentence.save(tmp_path / "model")
    assert _same_vectors(load(f"st:{folder}?template=two {{}}&max_length=12", device="cpu"))
    assert _same_vectors(load(f"st:{folder}?dimension=10", device="cpu"))
    assert not keep_text_network(load(f"st:{folder}?quantise=binary", device="cpu"))


@pytest.mark.parametrize("save", [tiny_sentence.save_clip, tiny_sentence.save_old_clip])
def test_clip_of_sentence_transformers(save: object, tmp_path: Path) -> None:
    assert callable(save)
    assert _same_vectors(load(save(tmp_path / "model"), device="cpu"))


def test_sentence_models_without_one_text_network_keep_none(tmp_path: Path) -> None:
    for encoder in (
        load(tiny_sentence.save_routed(tmp_path / "routed"), device="cpu"),
        load(tiny_sentence.save_qwen(tmp_path / "qwen"), device="cpu"),
        load(tiny_sentence.save_vit(tmp_path / "vit"), device="cpu"),
    ):
        assert not keep_text_network(encoder)
        assert _refusal(encoder) == "not tried"


@pytest.mark.parametrize("architecture", ["tiny-ViT", "tiny-RN50-quickgelu", "tiny-CoCa"])
def test_open_clip(architecture: str, tmp_path: Path) -> None:
    weights = tiny_openclip.save_zoo(tmp_path) / f"{architecture.removesuffix('-quickgelu')}.safetensors"
    assert _same_vectors(load(f"openclip:{architecture}/{weights}?template=a photo of {{}}.", device="cpu"))


WORDS = [
    *("a", "dog's", "DOG", "they'll", "3.14", "1,000", "&", "&amp;", "&lt;b&gt;", "[SEP]", "▁", "under_score", "'S"),
    *("<start_of_text>", "<end_of_text>", "</s>", "<unk>", "_", "__", "--", "...", "!?", "(a)", "[b]", "{c}", "don't"),
    *("café", "cafe\u0301", "ﬁne", "“quoted”", "ＡＢ", "½", "²", "İstanbul", "Straße", "中文字", "日本語", "한국어"),
    *("ไทย", "हिन्दी", "עברית", "🐕", "👩\u200d👧", "…", "—", "\u200b", "\x07", "\u00a0", "\u3000", "schÃ¶n"),
    *("word123", "x²", "10°", "€5", "#tag", "@name", "http://a.b/c?d=e&f=g", "won't", ""),
]


def _texts() -> list[str]:
    drawn = random.Random(5)
    separators = [" ", "", "  ", "\n", "\t"]
    texts = []
    for _ in range(300):
        words = drawn.choices(WORDS, k=drawn.randint(0, 12))
        texts.append("".join(word + drawn.choice(separators) for word in words))
    return texts


def _read_back(inputs: TextInputs | None, folder: Path) -> TextInputs:
    assert inputs is not None
    for name, content in inputs.files.items():
        (folder / name).write_bytes(content)
    return read_inputs(described(inputs), folder)


@pytest.mark.parametrize("cleaning", ["lower", "canonicalize"])
def test_clips_tokenizer_gives_equal_tokens_of_any_texts(cleaning: str, tmp_path: Path) -> None:
    tokenizer = SimpleTokenizer(context_length=20, clean=cleaning)
    own = _read_back(openclip_inputs(tokenizer, "{}"), tmp_path)
    for text in _texts():
        assert own([text])["input_ids"].tolist() == tokenizer([text]).tolist(), repr(text)


def test_open_clips_tokenizers_of_transformers(tmp_path: Path) -> None:
    tiny.wordpiece_tokenizer(tmp_path, limit=48)
    tokenizer = HFTokenizer(str(tmp_path), context_length=16, clean="canonicalize")
    own = _read_back(openclip_inputs(tokenizer, "{}"), tmp_path)
    for text in _texts():
        assert own([text])["input_ids"].tolist() == tokenizer([text]).tolist(), repr(text)
    for settings in ({"strip_sep_token": True}, {"tokenizer_mode": "clips"}):
        assert openclip_inputs(HFTokenizer(str(tmp_path), context_length=16, **settings), "{}") is None
    for settings in ({"reduction_mask": "random"}, {"clean": "whitespace"}, {"additional_special_tokens": ["<x>"]}):
        assert openclip_inputs(SimpleTokenizer(**settings), "{}") is None  # type: ignore[arg-type]


@pytest.mark.parametrize("lower", [True, False])
def test_siglips_first_tokenizer_gives_equal_tokens_of_any_texts(lower: bool, tmp_path: Path) -> None:
    tiny.sentencepiece_tokenizer(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, do_lower_case=lower)
    assert type(tokenizer).__name__ == "SiglipTokenizer"
    rules = TokenRules(("input_ids",), 16, padded=True, side="right", padding=tokenizer.pad_token_id)
    own = _read_back(inputs_of_tokenizer(tokenizer, rules), tmp_path)
    for text in _texts():
        expected = tokenizer([text], padding="max_length", truncation=True, max_length=16)["input_ids"]
        assert own([text])["input_ids"].tolist() == expected, repr(text)


def test_a_tokenizer_with_code_of_its_own_is_none(tmp_path: Path) -> None:
    tiny.wordpiece_tokenizer(tmp_path, limit=48)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    rules = TokenRules(("input_ids",), 16, padded=True, side="right", padding=0)
    assert inputs_of_tokenizer(tokenizer, rules) is not None

    class Own(type(tokenizer)):  # type: ignore[misc]
        pass

    assert inputs_of_tokenizer(Own.from_pretrained(tmp_path), rules) is None


def _towers(text: Encoder | None, tower: Tower, folder: Path) -> Encoder:
    """A checkpoint of a head over pixels and this text tower, loaded again."""
    images = load("pixels")
    image = Tower(None, Head(HeadSpec(images.dimension, 6)))
    encoder = TowersEncoder({"image": image, "text": tower}, {"image": images, "text": text}, device="cpu")
    folder.mkdir()
    write_towers(folder, encoder, facts={})
    return load(folder, device="cpu")


HEADS = {
    "linear": {},
    "hidden": {"hidden": (7,), "shortcut": True, "scaling": "unit", "dropout": 0.3},
    "standard": {"scaling": "standard", "hidden": (7,), "activation": "relu", "layer_norm": False},
}


@pytest.mark.parametrize("head", HEADS)
def test_heads_over_frozen_encoders(head: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    sentences = load(tiny_sentence.save(tmp_path / "sentences"), device="cpu")
    joined = JoinedTexts([sentences, BagOfWords.fit([*TEXTS, "a dog"], least=1)])
    hashed = JoinedTexts([sentences, load("bow:64"), load(f"st:{tmp_path / 'sentences'}?dimension=8")])
    for number, base in enumerate((sentences, joined, hashed, load("bow:64"))):
        tower = Tower(None, Head(HeadSpec(base.dimension, 6, **HEADS[head])))  # type: ignore[arg-type]
        assert _same_vectors(_towers(base, tower, tmp_path / f"heads{number}"))


@pytest.mark.parametrize("base", ["clip", "sentences", "open_clip"])
def test_tuned_towers(base: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    name = str(tmp_path / "base")
    if base == "clip":
        tiny.save("clip", tmp_path / "base")
    elif base == "sentences":
        tiny_sentence.save(tmp_path / "base")
    else:
        name = f"openclip:tiny-ViT/{tiny_openclip.save_zoo(tmp_path) / 'tiny-ViT.safetensors'}"
    backbone = PretrainedBackbone.of(load(name, device="cpu"), "text")
    tower = Tower(backbone, Head(HeadSpec(backbone.outputs, 6, hidden=(9,))))
    encoder = _towers(None, tower, tmp_path / "tuned")
    assert _same_vectors(encoder)
    other = load(name, device="cpu")
    assert key_of(encoder.card) != key_of(other.card)


def test_towers_that_are_no_tokens_and_network_keep_none(tmp_path: Path) -> None:
    backbone = GRUBackbone(WordVocabulary.fit(TEXTS), words=5, hidden=4)
    encoder = _towers(None, Tower(backbone, Head(HeadSpec(8, 6))), tmp_path / "gru")
    assert text_side_of(encoder) is None and not keep_text_network(encoder)
    bag = BagOfWords.fit(TEXTS, least=1)
    assert not keep_text_network(bag)  # no weights: it needs no PyTorch as it is


def test_a_package_that_is_gone_leaves_the_tower_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.save("siglip", tmp_path / "model")
    encoder = load(tmp_path / "model", device="cpu")
    assert keep_text_network(encoder)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sentencepiece", None)
        assert text_network(encoder.card) is None
    assert text_network(encoder.card) is not None

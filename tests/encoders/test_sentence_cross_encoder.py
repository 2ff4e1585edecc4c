"""Cross-encoders of sentence-transformers against `CrossEncoder.predict`, alone and as second stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_sentence
import tiny_transformers as tiny
import torch
from sentence_transformers import CrossEncoder

import visir
from refusals import refused
from visir.collections import open_collection
from visir.collections.images import to_rgb
from visir.encoders import load_cross_encoder
from visir.encoders.loading import load
from visir.encoders.pairs import match_pairs
from visir.errors import EncoderError, RunError
from visir.records import Items, Modality, Qrels, Role, Run, Task, strings
from visir.records.task import QrelsByName
from visir.retrieval.rerank import rerank

SAVED: dict[str, Callable[[Path], Path]] = {
    "texts": tiny_sentence.save_re_ranker,
    "old": lambda folder: tiny_sentence.save_re_ranker(folder, old=True),
    "pictures": tiny_sentence.save_picture_re_ranker,
}
TEXTS = [*tiny.CAPTIONS[:8], "https://example.org/a.jpg"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: save(folder / kind) for kind, save in SAVED.items()}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> dict[Modality, Items]:
    folder = tmp_path_factory.mktemp("pictures")
    for number, photo in enumerate(tiny.photos()[: len(TEXTS)]):
        to_rgb(photo).save(folder / f"{number}.png")
    files = {str(number): folder / f"{number}.png" for number in range(len(TEXTS))}
    images = Items.of_images(files)
    return {
        "text": Items(images.ids, strings(TEXTS)),
        "image": images,
        "text+image": Items(images.ids, strings(TEXTS), images.places, images.root),
    }


def inputs(modality: Modality) -> list[object]:
    pictures = [to_rgb(photo) for photo in tiny.photos()[: len(TEXTS)]]
    if modality == "image":
        return list(pictures)
    if modality == "text":
        return [{"text": text} for text in TEXTS]
    return [{"text": text, "image": picture} for text, picture in zip(TEXTS, pictures, strict=True)]


@pytest.mark.parametrize("kind", ["texts", "old"])
def test_pairs_of_texts_equal_the_library(saved: dict[str, Path], kind: str) -> None:
    for name in (str(saved[kind]), f"st:{saved[kind]}"):
        scorer = load_cross_encoder(name, device="cpu")
        model = CrossEncoder(str(saved[kind]), device="cpu")
        pairs = [(query, document) for query in tiny.CAPTIONS for document in tiny.CAPTIONS[::-1]]
        found = scorer.score(*zip(*pairs, strict=True))
        expected = model.predict(pairs, activation_fn=torch.nn.Identity())
        assert np.abs(found - expected).max() <= 1e-5 and expected.std() > 0.01
        # The library's own scores are these behind a sigmoid: the order is the same.
        assert np.abs(1 / (1 + np.exp(-found)) - model.predict(pairs)).max() <= 1e-5
    assert scorer.takes == {("text", "text")} and scorer.card.family == "sentence-transformers-cross-encoder"
    assert scorer.score([], []).shape == (0,)
    with refused(EncoderError, "1", "2", code="not-paired"):
        scorer.score(["a"], ["a", "b"])


MODALITIES: tuple[Modality, ...] = ("text", "image", "text+image")


@pytest.mark.parametrize("query", MODALITIES)
@pytest.mark.parametrize("document", MODALITIES)
def test_every_pair_of_modalities_equals_the_library(
    saved: dict[str, Path], sides: dict[Modality, Items], tmp_path: Path, query: Modality, document: Modality
) -> None:
    """All of 81 pairs, both ways round: what is loaded once, and what stands inside, makes no difference."""
    scorer = load_cross_encoder(saved["pictures"], device="cpu")
    scorer.images_at_once, scorer.texts_at_once, scorer.pairs_at_once = 4, 3, 7
    first, second = np.divmod(np.arange(81), 9)
    pairs = [(inputs(query)[q], inputs(document)[d]) for q, d in zip(first[:30], second[:30], strict=True)]
    expected = CrossEncoder(str(saved["pictures"]), device="cpu").predict(pairs, activation_fn=torch.nn.Identity())
    roles: tuple[Role, ...] = ("query", "document")
    for role in roles:
        outer, inner = (query, document) if role == "query" else (document, query)
        rows = (first, second) if role == "query" else (second, first)
        again = match_pairs(scorer, sides[outer], sides[inner], *rows, outer_role=role, root=tmp_path)
        assert np.abs(again.scores[:30] - expected).max() <= 1e-5
        assert again.computed == (81 if role == "query" else 0)
    assert expected.std() > 0.001


def test_a_handful_of_texts_and_pictures(saved: dict[str, Path]) -> None:
    scorer = load_cross_encoder(saved["pictures"], device="cpu")
    picture, other = (to_rgb(photo) for photo in tiny.photos()[:2])
    model = CrossEncoder(str(saved["pictures"]), device="cpu")
    pairs = [("a dog", picture), ("a dog", other), ("the grass", picture)]
    expected = model.predict(pairs, activation_fn=torch.nn.Identity())
    found = scorer.score([query for query, _ in pairs], [document for _, document in pairs])
    assert np.abs(found - expected).max() <= 1e-5
    assert np.abs(scorer.score_pairs([picture, other], ["a dog"] * 2) - expected[:2]).max() <= 1e-5


def test_query_and_document_are_not_the_same(saved: dict[str, Path], sides: dict[Modality, Items]) -> None:
    scorer = load_cross_encoder(saved["texts"], device="cpu")
    rows = np.array([0]), np.array([1])
    there, back = (match_pairs(scorer, sides["text"], sides["text"], *pair).scores for pair in (rows, rows[::-1]))
    assert abs(float(there[0] - back[0])) > 1e-3


def test_faults(saved: dict[str, Path], sides: dict[Modality, Items], tmp_path: Path) -> None:
    scorer = load_cross_encoder(saved["texts"], device="cpu")
    with refused(EncoderError, code="score-pairs-takes-pictures"):
        scorer.score_pairs(["a dog"], ["the grass"])  # type: ignore[list-item]
    with pytest.raises(EncoderError) as caught:
        match_pairs(scorer, sides["image"], sides["text"], np.array([0]), np.array([0]))
    assert caught.value.message == f"{saved['texts']} scores no pairs of text queries and image documents."
    assert caught.value.hint == "it takes (query → document): text → text"
    with refused(EncoderError, "text", "image", code="scores-no-pairs-queries"):
        scorer.preprocess(tiny.photos()[0])
    for kind in ("texts", "old"):
        with refused(EncoderError, code="is-cross-encoder") as no:
            load(saved[kind], device="cpu")
        assert "visir.load_cross_encoder(" in no.value.hint and "--rerank" in no.value.hint
    three = tiny_sentence.save_re_ranker(tmp_path / "three", classes=3)
    with refused(EncoderError, "3", code="model-puts-pairs-classes"):
        load_cross_encoder(three, device="cpu")
    with refused(EncoderError, code="makes-vectors"):
        load_cross_encoder("bow")
    with refused(EncoderError, "unknown option", "template"):
        load_cross_encoder(f"st:{saved['texts']}?template=a {{}}", device="cpu")


def test_prompts_and_lengths(tmp_path: Path) -> None:
    prompts = {"find": "the dog: ", "other": "the grass: "}
    folder = tiny_sentence.save_re_ranker(tmp_path / "roles", prompts=prompts, default_prompt_name="find")
    model = CrossEncoder(str(folder), device="cpu")
    for options, name in (("", "find"), ("?prompt=other", "other")):
        scorer = load_cross_encoder(f"st:{folder}{options}", device="cpu")
        expected = model.predict([("a dog", "grass")], prompt_name=name, activation_fn=torch.nn.Identity())
        assert np.abs(scorer.score(["a dog"], ["grass"]) - expected).max() <= 1e-5
        assert scorer.card.text_preprocessing["prompt"] == prompts[name]
    short = load_cross_encoder(f"st:{folder}?max_length=12", device="cpu")
    assert short.card.text_preprocessing["max_length"] == 12
    with refused(EncoderError, "query", "find", "the dog: ", "other", code="model-no-prompt"):
        load_cross_encoder(f"st:{folder}?prompt=query", device="cpu")


def texts_task() -> Task:
    queries = Items.of_texts({"q1": "a dog runs", "q2": "the grass"}, title="queries")
    documents = Items.of_texts({f"d{number}": text for number, text in enumerate(TEXTS[:3] + TEXTS[4:7])})
    qrels = QrelsByName(["links"], lambda name: Qrels.of(["q1", "q2"], ["d0", "d4"], name=name))
    return Task("t2t", queries, documents, qrels)


def test_a_second_stage_of_texts(saved: dict[str, Path]) -> None:
    """Texts search texts: the three best in the order of the cross-encoder."""
    scorer = load_cross_encoder(saved["texts"], device="cpu")
    task = texts_task()
    order = {"q1": "d3 d0 d5 d1", "q2": "d2 d4 d1 d0"}
    rows = [(query, name, -float(at)) for query, names in order.items() for at, name in enumerate(names.split())]
    run = Run.ranked("r", "t2t", *zip(*rows, strict=True), task.gallery, depth=4)
    first = rerank(run, {"t2t": task}, scorer, 3)
    for query in ("q1", "q2"):
        candidates = [document for document, _ in run.answer(query)[:3]]
        texts = dict(zip(task.documents.ids.to_pylist(), task.documents.texts.to_pylist(), strict=True))
        asked = dict(zip(task.queries.ids.to_pylist(), task.queries.texts.to_pylist(), strict=True))[query]
        scores = scorer.score([asked] * 3, [texts[name] for name in candidates])
        ordered = [name for _, name in sorted(zip(-scores, candidates, strict=True))]
        assert [name for name, _ in first.answer(query)] == ordered
    with refused(RunError, "t2t", code="no-task-texts-images"):
        rerank(run, {}, scorer, 3)


def test_evaluate_with_a_second_stage(saved: dict[str, Path]) -> None:
    result = visir.evaluate(texts_task(), "bow:512", rerank=str(saved["texts"]), k_test=3)
    assert result.protocol.rerank == "top 3; nothing behind them"
    assert result.protocol.matcher == f"{saved['texts']}, cross-encoder"


def test_texts_search_pictures_with_a_second_stage(saved: dict[str, Path]) -> None:
    scenes = open_collection("scenes:4?size=64")
    scorer = load_cross_encoder(saved["pictures"], device="cpu")
    captions, images = scenes.captions["id"].to_pylist(), scenes.images["id"].to_pylist()
    first = Run.ranked("r", "t2i", captions[:1] * 2, images[:2], [0.9, 0.8], scenes.image_gallery())
    back = Run.ranked("r", "i2t", images[:1] * 2, captions[:2], [0.9, 0.8], scenes.caption_gallery())
    assert len(rerank(first, scenes, scorer, 2).answer(captions[0])) == 2
    assert len(rerank(back, scenes, scorer, 2).answer(images[0])) == 2

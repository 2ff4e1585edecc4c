"""Queries of a picture and a text, answered by models that read the two apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from composed_toys import COLOURS, Colours, mixing, paint, places
from PIL import Image

import visir
from refusals import refused
from visir.encoders import compose, encode_items
from visir.encoders.composed import CompositionRule
from visir.errors import CollectionError, ConfigurationError, EncoderError
from visir.evaluation import choose_weight
from visir.evaluation.systems import EncoderSystem, system_of
from visir.records import Embeddings, Items, Qrels, Task, TaskFile, Ties


@pytest.mark.parametrize(
    ("written", "shown"), [("sum(0.5)", "sum(0.5)"), ("sum( .70 )", "sum(0.7)"), ("Text", "text"), ("image", "image")]
)
def test_rules(written: str, shown: str) -> None:
    assert str(CompositionRule.parse(written)) == shown


@pytest.mark.parametrize("written", ["sum", "sum(1.5)", "sum(-1)", "mean(0.5)", "", 0.5])
def test_what_is_no_rule(written: object) -> None:
    with refused(ConfigurationError, code="compose-no-way-compose") as caught:
        CompositionRule.parse(written)
    assert 'compose="sum(0.5)"' in str(caught.value)


def test_the_sum_by_hand(tmp_path: Path) -> None:
    # q1: picture (255, 0, 0), text (0, 255, 0): unit vectors x and y.
    task = mixing(tmp_path).task("it2i")
    encoder = compose(Colours(), "sum(0.25)")
    vectors = encode_items(encoder, task.queries, "query")
    assert isinstance(vectors, Embeddings)
    assert vectors["q1"].tolist() == pytest.approx([191.25, 63.75, 0])  # 255 × (0.75, 0.25, 0): as long as its parts
    assert vectors.modality == "text+image"
    assert vectors.encoder.name == "colours?compose=sum(0.25)"
    assert encode_items(compose(Colours(), "text"), task.queries)["q1"].tolist() == [0, 255, 0]  # type: ignore[index]
    assert encode_items(compose(Colours(), "image"), task.queries)["q1"].tolist() == [255, 0, 0]  # type: ignore[index]


def test_at_once_and_through_the_store_a_sum_has_the_same_bits(tmp_path: Path) -> None:
    paint(tmp_path)
    encoder = compose(Colours(), "sum(0.3)")
    texts = ["cyan yellow yellow", "red cyan", "green"]
    items = Items(pa.array(["a", "b", "c"]), pa.array(texts), places(["blue", "yellow", "cyan"]), tmp_path, "queries")
    kept = encode_items(encoder, items)
    pictures = [Image.open(tmp_path / f"{name}.png").convert("RGB") for name in ("blue", "yellow", "cyan")]
    at_once = encoder.embed_texts_with_images(texts, pictures)
    assert np.array_equal(at_once, kept.vectors)  # type: ignore[union-attr]


def test_the_sum_finds_what_neither_half_finds(tmp_path: Path) -> None:
    source = mixing(tmp_path)
    figures = {
        rule: visir.evaluate(source, Colours(), split="test", compose=rule, measures=["hit@1"])["it2i hit@1"]
        for rule in ("sum(0.5)", "text", "image")
    }
    assert figures == {"sum(0.5)": 1.0, "text": 0.0, "image": 0.0}


def test_the_protocol_says_how(tmp_path: Path) -> None:
    source = mixing(tmp_path)
    whole, text = (visir.evaluate(source, Colours(), split="test", compose=rule) for rule in ("sum(0.5)", "text"))
    assert whole.result.protocol.composition == "sum(0.5)"
    assert whole.result.system == "colours?compose=sum(0.5)"
    assert ("composition", "sum(0.5)") in whole.result.protocol.card()
    assert whole.result.protocol.system_differences(text.result.protocol) == {"composition": ("sum(0.5)", "text")}
    visir.compare(whole, text)  # a baseline may be compared


def test_each_photo_and_each_text_is_encoded_once(tmp_path: Path) -> None:
    task = mixing(tmp_path).task("it2i")
    twice = Items(
        pa.array(["a", "b", "c"]), pa.array(["red", "red", "blue"]), places(["red", "red", "red"]), tmp_path, "queries"
    )
    encoder = Colours()
    encode_items(compose(encoder, "sum(0.5)"), twice, store=tmp_path / "store")
    assert (encoder.pictures, encoder.texts) == (1, 2)
    encode_items(compose(encoder, "sum(0.75)"), twice, store=tmp_path / "store")
    assert (encoder.pictures, encoder.texts) == (1, 2)  # another weight encodes nothing again
    assert len(task.queries) == 3


def test_an_item_with_one_half_alone(tmp_path: Path) -> None:
    paint(tmp_path)
    texts = pa.array(["green", "blue", None])
    items = Items(pa.array(["both", "text", "image"]), texts, places(["red", None, "red"]), tmp_path)
    vectors = encode_items(compose(Colours(), "sum(0.5)"), items)
    assert isinstance(vectors, Embeddings)
    assert vectors.vectors.tolist() == [[127.5, 127.5, 0], [0, 0, 255], [255, 0, 0]]
    with refused(CollectionError, "1", "items", "text", "text", "image", code="no-compose-reads-nothing"):
        encode_items(compose(Colours(), "text"), items)


def test_a_broken_picture(tmp_path: Path) -> None:
    paint(tmp_path)
    (tmp_path / "green.png").write_bytes(b"no picture")
    items = Items(pa.array(["a", "b"]), pa.array(["green", "blue"]), places(["green", "red"]), tmp_path, name="toy")
    with refused(visir.errors.ImageError, "green.png"):
        encode_items(compose(Colours(), "sum(0.5)"), items)
    vectors = encode_items(compose(Colours(), "sum(0.5)"), items, skip_broken=True)
    assert vectors.ids.to_pylist() == ["b"]


def test_a_model_that_reads_them_apart_says_how_to_compose(tmp_path: Path) -> None:
    with refused(EncoderError, "colours", "texts with images", code="encodes-no") as caught:
        visir.evaluate(mixing(tmp_path), Colours(), split="test")
    assert 'compose="sum(0.5)" or "text" or "image", or colours?compose=image' in str(caught.value)


def test_rules_that_a_model_cannot_follow(tmp_path: Path) -> None:
    with refused(EncoderError, "sum(0.5)", "bow:4096", code="cannot-compose") as caught:
        compose("bow", "sum(0.5)")
    assert 'compose="text"' in str(caught.value)
    with refused(ConfigurationError, code="no-query-no-document"):
        visir.evaluate("scenes:12?size=64", "bow", compose="text")
    with refused(ConfigurationError, "text", code="compose-goes-model"):
        run = {"it2i": {"q1": {"red": 1.0}}}
        visir.evaluate(mixing(tmp_path), run, split="test", compose="text")


def test_a_name_takes_the_rule() -> None:
    encoder = visir.load("bow:64?compose=text")
    assert encoder.card.name == "bow:64?compose=text"
    assert sorted(encoder.modalities) == ["text", "text+image"]


def test_the_weight_is_chosen_on_another_split(tmp_path: Path) -> None:
    source = mixing(tmp_path)
    chosen = choose_weight(source, Colours(), "val", weights=(0, 0.5, 1))
    # q3: green and "more red"; yellow is right: first at 0.5, behind red at 1; at 0 behind green and the equal cyan.
    assert chosen.values == pytest.approx({0: 1 / 3, 0.5: 1.0, 1: 0.5})
    assert chosen.compose == "sum(0.5)"
    assert repr(chosen) == ("ChosenWeight(sum(0.5): mrr 1.000 on val)\n  the text alone: 0.500, the image alone: 0.333")
    assert chosen.to_markdown().splitlines()[3].split() == ["|", "0.5", "|", "1.0000", "|", "chosen", "|"]
    evaluation = visir.evaluate(source, Colours(), split="test", compose="sum(val)")
    assert evaluation.result.protocol.composition == "sum(0.5), weight chosen on val by mrr"


CHOICES = {"q1": ("green", "more red"), "q2": ("green", "more red , please"), "q3": ("red", "more blue")}
"""Each chooses between cyan and yellow; cyan is right."""


def choices(folder: Path, ties: Ties) -> TaskFile:
    paint(folder)
    pictures, texts = zip(*CHOICES.values(), strict=True)
    pairs = [(query, colour) for query in CHOICES for colour in ("cyan", "yellow")]
    queries, documents = zip(*pairs, strict=True)
    return TaskFile(
        "choices",
        Items(pa.array(list(CHOICES)), pa.array(texts), places(pictures), folder, "queries", "choices"),
        Items(pa.array(list(COLOURS)), None, places(list(COLOURS)), folder, "images", "choices"),
        pa.table({"split": ["val"] * 3, "query_id": list(CHOICES), "document_id": ["cyan"] * 3, "grade": [1.0] * 3}),
        candidates=pa.table({"split": ["val"] * 6, "query_id": queries, "document_id": documents}),
        ties=ties,
    )


def test_equal_scores_count_as_the_task_says(tmp_path: Path) -> None:
    """The picture of q1 and q2, green, is as near to cyan as to yellow: by id that is right, as a choice it is wrong.

    By id: 2/3 by pictures, 1/3 at 0.5 (red and blue, of q3, are as near to both), 1/3 by texts. As choices: 0, 0, 1/3.
    """
    options = {"weights": (0, 0.5, 1), "measure": "hit@1"}
    by_id = choose_weight(choices(tmp_path, "id"), Colours(), **options)  # type: ignore[arg-type]
    strict = choose_weight(choices(tmp_path, "pessimistic"), Colours(), **options)  # type: ignore[arg-type]
    assert (by_id.compose, by_id.values) == ("sum(0)", pytest.approx({0: 2 / 3, 0.5: 1 / 3, 1: 1 / 3}))
    assert (strict.compose, strict.values) == ("sum(1)", pytest.approx({0: 0, 0.5: 0, 1: 1 / 3}))
    told = choose_weight(choices(tmp_path, "id"), Colours(), ties="pessimistic", **options)  # type: ignore[arg-type]
    assert told.values == strict.values


class TwiceJudged:
    """Judged twice: "links" has what the text asks for, "likeness" the colour of the picture itself."""

    name, tasks = "twice judged", ("it2i",)

    def __init__(self, source: TaskFile) -> None:
        self.source = source
        self.splits = source.splits

    def split(self, name: str | None) -> TwiceJudged:
        return TwiceJudged(self.source.split(name))

    def task(self, name: str) -> Task:
        task = self.source.task(name)
        alike = {"q1": "red", "q2": "blue", "q3": "green"}
        judged = task.judgements().queries.to_pylist()
        likeness = Qrels.of(judged, [alike[query] for query in judged], name="likeness")
        return replace(task, qrels={"links": task.judgements(), "likeness": likeness})


def test_the_judgements_that_are_measured_choose_the_weight(tmp_path: Path) -> None:
    source = TwiceJudged(mixing(tmp_path))
    weights = (0, 0.5, 1)
    assert choose_weight(source, Colours(), weights=weights).compose == "sum(0.5)"
    chosen = choose_weight(source, Colours(), weights=weights, relevance="likeness")
    # q3: green is right: first by the picture, equal to red behind yellow at 0.5 and before it by id, and by the text
    # behind red, yellow, and the equal blue and cyan.
    assert (chosen.compose, chosen.values) == ("sum(0)", pytest.approx({0: 1, 0.5: 1 / 2, 1: 1 / 5}))
    evaluation = visir.evaluate(source, Colours(), split="test", relevance="likeness", compose="sum(val)")
    # Green stays first as long as 1 − w > 1/√2; of the weights that do, 0.25 is the nearest to 0.5.
    assert evaluation.result.protocol.composition == "sum(0.25), weight chosen on val by mrr"
    with refused(CollectionError, "alike", code="unknown-relevance-task"):
        choose_weight(source, Colours(), relevance="alike")


def both_sides(folder: Path) -> TaskFile:
    """Documents have a picture and a text, too."""
    source = mixing(folder)
    texts = pa.array(["blue", "red", "green", None, "red"])
    documents = replace(source.documents, texts=texts)
    return replace(source, documents=documents)


@pytest.mark.parametrize(
    "options", [{}, {"ties": "optimistic"}, {"similarity": "dot"}, {"both": True}, {"first": True}]
)
def test_a_weight_has_the_value_that_its_evaluation_has(tmp_path: Path, options: dict[str, Any]) -> None:
    source = both_sides(tmp_path) if options.pop("both", False) else mixing(tmp_path)
    source = replace(source, skip_first=options.pop("first", False))
    weights = (0, 0.2, 0.5, 0.9, 1)
    chosen = choose_weight(source, Colours(), "val", weights=weights, **options)
    for weight in weights:
        measured = visir.evaluate(source, Colours(), split="val", compose=f"sum({weight})", **options)
        assert chosen.values[weight] == measured[f"{measured.tasks[0]} MRR"]


@pytest.mark.parametrize("split", ["val", "val+test", None])
def test_no_weight_from_what_is_measured(tmp_path: Path, split: str | None) -> None:
    with refused(ConfigurationError, "val", code="weight-chosen-measured-too"):
        visir.evaluate(mixing(tmp_path), Colours(), split=split, compose="sum(val)")


def test_no_weight_from_a_test_split(tmp_path: Path) -> None:
    with refused(ConfigurationError, "test", code="weight-chosen-says-nothing"):
        choose_weight(mixing(tmp_path), Colours(), "test")


def test_several_vectors_for_each_item(tmp_path: Path) -> None:
    # MaxSim of the composed query is the weighted mean of both MaxSims, each divided by its number of vectors.
    paint(tmp_path)
    rows = visir.Encoder.wrap(
        "rows",
        image=lambda images: [np.asarray(image.resize((1, 2)), np.float32).reshape(2, 3) / 255 for image in images],
        text=lambda texts: [np.eye(3, dtype=np.float32)[: len(text.split())] for text in texts],
        form="multi-vector",
    )
    items = Items(pa.array(["a"]), pa.array(["one two three"]), places(["red"]), tmp_path)
    vectors = encode_items(compose(rows, "sum(0.4)"), items, "query")
    expected = np.concatenate([np.eye(3) * 0.4 / 3, np.array([[1, 0, 0], [1, 0, 0]]) * 0.6 / 2])
    assert np.asarray(vectors.row(0)) == pytest.approx(expected, abs=1e-3)  # type: ignore[union-attr]


def test_a_composed_system_is_another_system_with_the_same_options() -> None:
    """The rule is of a new system: the first one answers as before, and both search where was asked for."""
    first = system_of(visir.load("colours"), "dot", "mine", "cuda", batch_size=3)
    assert isinstance(first, EncoderSystem)
    second = first.composed(CompositionRule("sum", 0.25), "weight chosen by hand")
    assert second is not first and first.encoder is not second.encoder
    assert (second.name, second.search_device, second.asked_similarity) == ("mine", "cuda", "dot")
    assert second.options == first.options == {"batch_size": 3}

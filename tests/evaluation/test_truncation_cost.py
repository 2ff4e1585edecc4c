"""What truncation costs: by hand, in an evaluation, in its report, and as a verb."""

from __future__ import annotations

import numpy as np
import pytest

import visir
from refusals import refused
from verbs import say
from visir.cli.shortcuts import truncation as verb
from visir.encoders.intake import TextLimit
from visir.errors import ConfigurationError
from visir.evaluation.sources import length_bands, read_texts
from visir.records import Collection
from visir.reports import evaluation_report
from visir.reports.by_label import truncation_table, truncation_tables

IMAGES = [f"image-{number:02}" for number in range(20)]


class FirstWords(visir.Encoder):
    """Reads the first four words of a text; a picture is known by its number."""

    def embed_texts(self, texts):
        return [_vector(text.split()[:4]) for text in texts]

    def embed_images(self, batch):
        raise NotImplementedError

    def existing_vectors(self, items):
        from visir.records import Embeddings

        if items.modality == "text":
            return None
        vectors = np.array([_vector([identifier]) for identifier in items.ids.to_pylist()], np.float32)
        return Embeddings("image", items.ids, vectors, self.card)

    def text_limit(self):
        return TextLimit(4, lambda texts: [len(text.split()) for text in texts])


def _vector(words):
    values = np.full(len(IMAGES), 0.01)
    for word in words:
        if word in IMAGES:
            values[IMAGES.index(word)] += 1
    return values


def _collection() -> Collection:
    """Short captions name their image; long ones name it in the seventh word, which is not read."""
    texts = [f"here is {image}" if number < 10 else f"a b c d e f {image}" for number, image in enumerate(IMAGES)]
    captions = {"id": [f"c{number:02}" for number in range(20)], "text": texts, "image_id": IMAGES}
    return Collection.build("toy", images={"id": IMAGES}, captions=captions)


def test_words_read_and_lost() -> None:
    limit = TextLimit(5, lambda texts: [2 + len(text.split()) for text in texts])
    reading = read_texts(["one two three", "one two three four five six", ""], limit)
    assert reading.tokens.tolist() == [5, 8, 2]
    assert reading.cut.tolist() == [False, True, False]
    assert (reading.words.tolist(), reading.words_read.tolist()) == ([0, 6, 0], [0, 3, 0])
    assert reading.words_lost == 0.5
    assert np.isnan(read_texts(["one"], limit).words_lost)


def test_characters_are_words_where_nothing_stands_between_them() -> None:
    limit = TextLimit(4, lambda texts: [len(text) for text in texts])
    reading = read_texts(["一个穿着泳装的女人"], limit)
    assert (reading.words.tolist(), reading.words_read.tolist()) == ([9], [4])


def test_short_texts_are_not_counted_where_that_is_enough() -> None:
    asked: list[str] = []

    def count(texts):
        asked.extend(texts)
        return [len(text.encode()) for text in texts]

    reading = read_texts(["ab", "x" * 40], TextLimit(20, count), count_all=False)
    assert reading.cut.tolist() == [False, True]
    assert "ab" not in asked


def test_bands_of_length() -> None:
    assert length_bands(np.array([1, 38, 39, 77, 78, 154, 155, 309]), 77) == [
        "1–38", "1–38", "39–77", "39–77", "78–154", "78–154", "155–308", "309 or more"]  # fmt: skip


def test_an_evaluation_notes_what_is_cut_and_labels_the_queries() -> None:
    evaluation = visir.evaluate(_collection(), FirstWords())
    notes = [note for note in evaluation.notes if "longer than the 4 tokens" in note]
    assert notes == [
        "10 of 20 captions (50.0 %) are longer than the 4 tokens that the model reads; "
        "42.9 % of the words of these are not read"
    ]
    rows = {row.label: row for row in evaluation.by("truncation", "R@1").rows}
    assert {label: (row.task, row.queries) for label, row in rows.items()} == {
        "whole": ("t2i", 10), "cut": ("t2i", 10)}  # fmt: skip
    assert rows["whole"].values["hit@1"].mean == 1.0
    assert rows["cut"].values["hit@1"].mean == 0.0, "all alike: the first id is the answer of all"


def test_the_cost(tmp_path) -> None:
    cost = visir.truncation(_collection(), FirstWords(), measures=["R@1", "MRR"])
    assert (cost.limit, cost.captions, cost.cut, cost.longest, cost.median) == (4, 20, 10, 7, 5)
    assert cost.words_lost == pytest.approx(3 / 7)
    assert cost.differences is not None
    assert cost.differences["cut", "whole"].difference == pytest.approx(-1.0)
    assert cost.by_length is not None
    assert [row.label for row in cost.by_length.rows] == ["3–4", "5–8"]
    assert "10 of 20 texts (50.0 %) are cut; 42.9 % of their words are not read" in repr(cost)
    assert truncation_table(cost).caption == "FirstWords: how much is read"
    assert len(truncation_tables(cost)) == 4
    assert cost.to_arrow().to_pylist()[0]["cut"] == 10
    assert cost.plot().axes
    assert cost.evaluation is not None
    page = evaluation_report(cost.evaluation.result).write(tmp_path / "report.html").read_text()
    assert "By truncation" in page
    assert "longer than the 4 tokens" in page


def test_counts_alone_and_lists_of_texts() -> None:
    counted = visir.truncation(_collection(), FirstWords(), evaluate=False)
    assert (counted.cut, counted.by_length, counted.evaluation) == (10, None, None)
    listed = visir.truncation(["one two three four five", "one"], FirstWords())
    assert (listed.captions, listed.cut, listed.share) == (2, 1, 0.5)
    whole = visir.truncation(["one", "two"], FirstWords())
    assert (whole.cut, len(truncation_tables(whole))) == (0, 1)
    unlimited = visir.truncation(["one"], "bow")
    assert unlimited.limit is None
    assert "all, or unknown" in str(truncation_table(unlimited).rows)


def test_misuse_is_named() -> None:
    with refused(ConfigurationError, "pixels", code="reads-no-texts"):
        visir.truncation(["one"], "pixels")
    with refused(ConfigurationError, code="no-texts-measure"):
        visir.truncation([], "bow")


def test_verb() -> None:
    said = say(verb, "scenes:4?size=64", "--model", "bow", "--count-only")
    assert said.status == 0, said.text
    assert "all, or unknown" in said.text

"""Captions in several languages: the column, the part in one of them, the fingerprint."""

from __future__ import annotations

import pyarrow as pa
import pytest

from refusals import refused
from visir.errors import CollectionError
from visir.records import Collection

CAPTIONS = {
    "id": ["1", "2", "3", "4"],
    "text": ["a dog", "ein Hund", "a cat", "?"],
    "image_id": ["a", "a", "b", "c"],
    "language": ["en", "de", "en", None],
}


def _toy(**changes: object) -> Collection:
    judgements = {"relevance": ["own"] * 2, "task": ["both"] * 2, "caption_id": ["1", "2"], "image_id": ["a", "b"],
                  "grade": [1.0, 1.0]}  # fmt: skip
    facts = pa.table({"caption_id": ["1", "2"], "told": ["x", "y"]})
    return Collection.build(
        "toy",
        images={"id": ["a", "b", "c", "d"]},
        captions={**CAPTIONS, **changes},
        judgements=judgements,
        caption_facts=facts,
        source="here",
    )


def test_keeps_captions_images_judgements_and_facts_of_a_language() -> None:
    part = _toy().keep_languages("de")
    assert part.captions.to_pylist() == [{"id": "2", "text": "ein Hund", "image_id": "a", "language": "de"}]
    assert part.images["id"].to_pylist() == ["a", "d"], "b and c have captions in other languages only; d has none"
    assert part.judgements.num_rows == 0, "the judgement is of image b, which has left"
    assert part.caption_facts is not None
    assert part.caption_facts["caption_id"].to_pylist() == ["2"]
    assert part.name == "toy (de)"
    assert part.source == "here; languages: de"


@pytest.mark.parametrize("names", [("de+en",), ("de", "en"), ("de,en",)])
def test_keeps_several(names: tuple[str, ...]) -> None:
    assert _toy().keep_languages(*names).captions["id"].to_pylist() == ["1", "2", "3"]


def test_says_its_languages() -> None:
    assert _toy().languages == ("de", "en")
    assert "languages: de, en" in repr(_toy())
    assert _toy().describe()["languages"] == ["de", "en"]


def test_a_column_of_nothing_is_no_column() -> None:
    silent = _toy(language=[None] * 4)
    assert silent.languages == ()
    assert silent.captions.column_names == ["id", "text", "image_id"]
    without = {name: values for name, values in CAPTIONS.items() if name != "language"}
    plain = Collection.build("toy", images={"id": ["a", "b", "c", "d"]}, captions=without)
    assert plain.fingerprint == Collection("toy", silent.images, silent.captions).fingerprint


def test_languages_enter_the_fingerprint() -> None:
    assert _toy().fingerprint != _toy(language=["en", "fr", "en", None]).fingerprint


def test_names_an_unknown_language() -> None:
    with refused(CollectionError, "toy", "dee", code="no-captions", meant="de"):
        _toy().keep_languages("dee")
    with refused(CollectionError, code="language-captions-not-known"):
        _toy(language=[None] * 4).keep_languages("de")

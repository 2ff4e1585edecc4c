"""Perturbing whole collections: what is kept, what is refused, what is counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from refusals import refused
from visir.collections import portable
from visir.collections.scenes import scenes
from visir.errors import CollectionError, ConfigurationError, VisirError
from visir.records import Collection
from visir.robustness.perturb import CHANGED, ORIGINAL, coverage, perturb, perturb_texts
from visir.robustness.perturbations import PERTURBATIONS, find, names_in
from visir.shortcuts import inject


@pytest.fixture
def collection() -> Collection:
    return Collection.build(
        "three",
        images={"id": ["a", "b"], "split": ["train", "test"]},
        captions={"id": ["1", "2", "3"], "text": ["A large dog.", "A man runs", ""], "image_id": ["a", "a", "b"]},
        judgements={
            "relevance": ["experts"],
            "task": ["t2i"],
            "caption_id": ["2"],
            "image_id": ["b"],
            "grade": [2.0],
        },
        caption_facts=pa.table({"caption_id": ["2", "1"], "words": [3, 4]}),
    )


def test_thirteen_in_the_order_of_table_4() -> None:
    released = [PERTURBATIONS.get(name) for name in names_in("paper")]
    assert [(perturbation.name, perturbation.title) for perturbation in released] == [
        ("char_swap", "Character Swap"),
        ("missing_char", "Missing Character"),
        ("extra_char", "Extra Character"),
        ("nearby_char", "Nearby Character"),
        ("synonym_noun", "Synonym Noun"),
        ("synonym_adj", "Synonym Adjective"),
        ("distraction_true", "Distraction True is True"),
        ("distraction_false", "Distraction False is False"),
        ("shuffle_nouns_and_adj", "Shuffle N&A"),
        ("shuffle_all_words", "Shuffle All Words"),
        ("shuffle_allbut_nouns_and_adj", "Shuffle but N&A"),
        ("shuffle_within_trigrams", "Shuffle Within Trigrams"),
        ("shuffle_trigrams", "Shuffle Trigrams"),
    ]
    assert all(perturbation.about and perturbation.paper_about for perturbation in released)
    others = [name for name in names_in("sound") if name not in names_in("paper")]
    assert others == ["paraphrase", "negation", "swap_relation", "swap_attribute"]


def test_everything_else_is_kept_and_changes_are_told(collection: Collection) -> None:
    made = perturb(collection, "synonym_adj")
    assert made.name == "three, synonym_adj"
    assert made.captions["text"].to_pylist() == ["A big dog.", "A man runs", ""]
    assert made.captions.select(["id", "image_id"]) == collection.captions.select(["id", "image_id"])
    assert made.images == collection.images
    assert made.judgements == collection.judgements
    assert made.caption_facts is not None
    assert made.caption_facts.to_pylist() == [
        {"caption_id": "1", "words": 4, ORIGINAL: "A large dog.", CHANGED: True},
        {"caption_id": "2", "words": 3, ORIGINAL: "A man runs", CHANGED: False},
        {"caption_id": "3", "words": None, ORIGINAL: "", CHANGED: False},
    ]
    assert coverage(made) == pytest.approx(1 / 3)
    assert made.fingerprint != collection.fingerprint
    # The draw depends on the caption's id alone, so splitting first or afterwards is the same.
    assert made.split("train").captions == perturb(collection.split("train"), "synonym_adj").captions


def test_the_name_says_what_is_not_the_default(collection: Collection) -> None:
    assert perturb(collection, "char_swap", severity=2, seed=1).name == "three, char_swap (severity 2, seed 1)"
    assert perturb(collection, "shuffle_all_words", severity=2).name == "three, shuffle_all_words"  # nothing to count
    assert perturb(collection, "distraction_true", profile="paper").name == "three, distraction_true (paper)"


def test_several_one_after_the_other() -> None:
    text, key = "A large dog runs on a rock.", "1"
    first = perturb_texts([text], [key], "synonym_adj")
    both = perturb_texts([text], [key], "synonym_adj+distraction_true")
    assert both.texts[0].as_py() == "A big dog runs on a rock and true is true."
    assert both.texts == perturb_texts(first.texts, [key], "distraction_true").texts
    assert both.description == "synonym_adj+distraction_true"


def test_a_step_draws_what_it_draws_alone() -> None:
    texts, keys = ["a large dog runs over rocks"] * 8, list("12345678")
    first = perturb_texts(texts, keys, "nearby_char:azerty", seed=3)
    both = perturb_texts(texts, keys, "nearby_char:azerty+char_swap", seed=3)
    assert both.texts == perturb_texts(first.texts, keys, "char_swap", seed=3).texts
    assert len(set(both.texts.to_pylist())) == 8


def test_perturbed_twice_is_refused(collection: Collection) -> None:
    with refused(ConfigurationError, "original_text", code="caption-facts-column", hint="nearby_char"):
        perturb(perturb(collection, "char_swap"), "nearby_char")


def test_injected_shortcuts_come_afterwards() -> None:
    plain = scenes(4, splits={"test": 1.0})
    with refused(ConfigurationError, code="carries-shortcuts-whose-digits"):
        perturb(inject(plain, "unique"), "nearby_char")
    view = inject(perturb(plain, "distraction_true"), "unique")
    assert view.captions["text"][0].as_py().endswith(" and true is true. 0 0 0 0 0 0")


def test_a_perturbed_collection_is_saved_and_read_back(collection: Collection, tmp_path) -> None:  # type: ignore[no-untyped-def]
    made = perturb(collection, "shuffle_all_words")
    portable.save(made, tmp_path / "made", "none")
    read = portable.load(tmp_path / "made")
    assert read.captions == made.captions
    assert read.caption_facts == made.caption_facts
    assert coverage(read) == coverage(made)


def test_what_cannot_be_done_is_said(collection: Collection) -> None:
    with refused(VisirError, "perturbation", "synonim_noun", code="unknown-name", meant="synonym_noun"):
        perturb(collection, "synonim_noun")
    with refused(VisirError, "0", code="there-is-nothing-to"):
        perturb(collection, "char_swap", severity=0)
    with refused(VisirError, "papers", code="unknown-profile", meant="paper"):
        perturb(collection, "char_swap", profile="papers")  # type: ignore[arg-type]
    with refused(VisirError, "2", "1", code="texts-ids"):
        perturb_texts(["a", "b"], ["1"], "char_swap")
    with refused(CollectionError, "three", code="not-perturbed"):
        coverage(collection)


def test_nothing_in_nothing_out() -> None:
    empty = perturb_texts([], [], "shuffle_nouns_and_adj")
    assert len(empty.texts) == 0
    assert np.isnan(empty.coverage)


def test_find_keeps_the_registered_one() -> None:
    assert find("nearby_char") is PERTURBATIONS.get("nearby_char")
    assert find("nearby_char:azerty").name == "nearby_char:azerty"

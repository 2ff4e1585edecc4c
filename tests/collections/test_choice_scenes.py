"""Choice tasks of generated scenes: right is right and wrong is wrong by the facts, and words alone tell nothing."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import visir
from refusals import refused
from visir.collections.scenes import read_location, sample_scene, ways_to_say
from visir.collections.scenes.choice import CATEGORIES, contrast, contrasts, paraphrase
from visir.collections.scenes.facts import Claim, clearly_differ, holds
from visir.collections.scenes.languages import GRAMMARS
from visir.errors import VisirError

ENGLISH = GRAMMARS["en"]
some_scene = st.builds(sample_scene, st.integers(0, 2**31), st.integers(0, 2**31))


def true_of(claims, scene) -> bool:
    """The evaluator of facts: it looks at facts and values, at no text."""
    facts = vars(scene)
    return all((facts[claim.fact] == claim.value) != claim.negated for claim in claims)


def words(text: str) -> Counter[str]:
    return Counter("a" if word == "an" else word for word in re.findall(r"\w+", text.lower()))


@settings(max_examples=200, deadline=None)
@given(some_scene, st.sampled_from(sorted(GRAMMARS)))
def test_right_is_right_and_wrong_is_wrong(scene, code: str) -> None:
    made = contrasts(scene, GRAMMARS[code])
    assert made  # the number of what flies can always be another one
    for pair in made:
        assert true_of(pair.right.claims, scene) and not true_of(pair.wrong.claims, scene)
        assert true_of(pair.wrong.claims, pair.other) and not true_of(pair.right.claims, pair.other)
        assert {claim.fact for claim in pair.right.claims} == {claim.fact for claim in pair.wrong.claims}
        assert pair.right.text != pair.wrong.text
        assert holds(pair.right.claims, scene) and clearly_differ(scene, pair.other)
        assert {*scene.differences(pair.other)} == {*pair.fact.split("+")}


@settings(max_examples=200, deadline=None)
@given(some_scene)
def test_the_other_scene_gives_the_same_pair_the_other_way_round(scene) -> None:
    # This is what makes captions alone tell nothing: every text is as often right as it is wrong.
    for category in CATEGORIES:
        pair = contrast(scene, category, ENGLISH)
        if pair is not None and category.startswith("swap"):
            back = contrast(pair.other, category, ENGLISH)
            assert back is not None and back.other == scene
            assert (back.right, back.wrong) == (pair.wrong, pair.right)


@settings(max_examples=200, deadline=None)
@given(some_scene)
def test_the_text_says_what_is_claimed(scene) -> None:
    for pair in contrasts(scene, ENGLISH):
        for statement in (pair.right, pair.wrong):
            for claim in statement.claims:
                if claim.fact == "relation" and pair.category in ("swap_object", "swap_direction"):
                    assert re.search(r"\b(left|right)\b", statement.text)
                else:
                    ways = ways_to_say(claim.fact, claim.value)
                    assert any(re.search(rf"\b{re.escape(way)}\b", statement.text, re.I) for way in ways), (claim, pair)
        if pair.has_same_words:
            assert words(pair.right.text) == words(pair.wrong.text), pair


@pytest.mark.parametrize(
    ("category", "changes", "right", "wrong"),
    [
        ("swap_attribute", {"relation": "on"},
         "A green hat is sitting on top of a blue car in the desert.",
         "A blue hat is sitting on top of a green car in the desert."),
        ("swap_direction", {"relation": "left of", "position": "right"},
         "A blue car stands in the desert on the right side of the picture, with a green hat to the left of the car.",
         "A blue car stands in the desert on the left side of the picture, with a green hat to the right of the car."),
    ],
)  # fmt: skip
def test_pairs_by_hand(category: str, changes, right: str, wrong: str) -> None:
    pair = contrast(sample_scene(0, 1).with_facts(changes), category, ENGLISH)
    assert pair is not None and (pair.right.text, pair.wrong.text) == (right, wrong)


def test_scenes_without_a_contrast() -> None:
    scene = sample_scene(0, 1)
    assert contrast(scene.with_facts({"colour": "red", "companion_colour": "red"}), "swap_attribute", ENGLISH) is None
    assert (
        contrast(scene.with_facts({"colour": "red", "companion_colour": "orange"}), "swap_attribute", ENGLISH) is None
    )
    assert contrast(scene.with_fact("relation", "on"), "swap_object", ENGLISH) is None
    assert contrast(scene.with_facts({"relation": "left of", "position": "left"}), "swap_direction", ENGLISH) is None


@pytest.mark.parametrize(
    ("changes", "fact", "value", "clear"),
    [
        ({"weather": "rainy"}, "weather", "cloudy", False),  # it is cloudy, too
        ({"weather": "rainy"}, "weather", "snowy", True),
        ({"subject": "turtle", "colour": "pink", "pattern": "plain"}, "colour", "green", False),  # its head is green
        ({"subject": "car", "colour": "pink", "pattern": "plain"}, "colour", "green", True),
        ({"pattern": "striped", "colour": "red"}, "colour", "white", False),  # the stripes are
        ({"landmark": "circus tent", "subject": "dog"}, "subject", "tent", False),
        ({"landmark": "church", "subject": "dog"}, "subject", "tent", True),
        ({"flyer": "bee", "subject": "duck"}, "flyer", "bird", False),  # a duck is a bird
        ({"place": "street", "companion": "mug"}, "companion", "lantern", False),  # there are street lamps
        ({"size": "small"}, "size", "medium", False),
        ({"size": "small"}, "size", "large", True),
    ],
)
def test_what_is_clearly_different(changes, fact: str, value, clear: bool) -> None:
    scene = sample_scene(0, 1).with_facts(changes)
    other = scene.with_fact(fact, value)
    assert clearly_differ(scene, other) is clear is clearly_differ(other, scene)


def test_nothing_differs_clearly_from_itself() -> None:
    assert not clearly_differ(sample_scene(0, 1), sample_scene(0, 1))
    assert str(Claim("flyer", "bee", negated=True)) == "flyer!=bee"


@settings(max_examples=100, deadline=None)
@given(some_scene, st.sampled_from(sorted(GRAMMARS)))
@example(sample_scene(0, 626), "de")  # the first eight wordings of a caption are that of the caption itself
@example(sample_scene(0, 2274), "zh")
def test_a_paraphrase_tells_the_same_in_other_words(scene, code: str) -> None:
    grammar = GRAMMARS[code]
    for number in range(5):
        text, other = grammar.caption(scene, number).text, paraphrase(scene, number, grammar)
        # It is a caption of the same facts in another wording, and never one of a scene that differs in a told fact.
        assert other != text
        if code == "en":
            for name in grammar.caption(scene, number).tells:
                ways = ways_to_say(name, getattr(scene, name))
                assert any(re.search(rf"\b{re.escape(way)}\b", other, re.I) for way in ways)


def blind_accuracy(train: list[tuple[str, str]], test: list[tuple[str, str]]) -> float:
    """Naive Bayes over words and pairs of words, right captions against wrong ones: what can be had without looking."""

    def grams(text: str) -> list[str]:
        tokens = re.findall(r"\w+", text.lower())
        return tokens + [f"{one} {two}" for one, two in pairwise(tokens)] + [f"length {len(tokens)}"]

    counts = (
        Counter(g for right, _ in train for g in grams(right)),
        Counter(g for _, bad in train for g in grams(bad)),
    )

    def score(text: str) -> float:
        return sum(math.log((counts[0][gram] + 1) / (counts[1][gram] + 1)) for gram in grams(text))

    return float(np.mean([0.5 + 0.5 * np.sign(score(right) - score(wrong)) for right, wrong in test]))


def test_words_alone_tell_nothing() -> None:
    pairs = {category: [] for category in CATEGORIES}
    for index in range(3000):
        for pair in contrasts(sample_scene(8, index), ENGLISH):
            pairs[pair.category].append((pair.right.text, pair.wrong.text))
    for category, made in pairs.items():
        half = len(made) // 2
        accuracy = blind_accuracy(made[:half], made[half:])
        assert abs(accuracy - 0.5) < 4 * 0.5 / math.sqrt(len(made) - half), (category, accuracy)


# --- the tasks -----------------------------------------------------------------------------------------------------


def test_choice_task() -> None:
    task = visir.open("scenes:90?task=choice&size=64&seed=2")
    assert task.tasks == ("i2t",) and task.ties == "pessimistic" and task.splits == ("test", "train", "val")
    assert task.measures == ("all_first",)
    assert set(Counter(task.labels["category"].to_pylist()).values()) <= {9, 10, 11} and len(task.queries) == 90
    texts = dict(zip(task.documents.ids.to_pylist(), task.documents.texts.to_pylist(), strict=True))
    right = task.qrels("i2t").to_dict()
    pools = task.task("i2t").pools
    first = Counter()
    for row, label in zip(task.queries.images.to_pylist(), task.labels.to_pylist(), strict=True):
        pair = contrast(read_location(row["path"])[0], label["category"], ENGLISH)
        (answer,) = right[row["id"]]
        (other,) = {*pools.candidates(row["id"])} - {answer}
        assert pair is not None and (texts[answer], texts[other]) == (pair.right.text, pair.wrong.text)
        first[answer < other] += 1
    assert 25 < first[True] < 65  # ids tell nothing
    collection = visir.open("scenes:90?size=64&seed=2")
    split = dict(zip(collection.images["id"].to_pylist(), collection.images["split"].to_pylist(), strict=True))
    test = task.split("test")
    assert {split[image] for image in test.labels["image"].to_pylist()} == {"test"}


def test_winoground_task() -> None:
    tasks = visir.open("scenes:30?task=winoground&size=64&seed=2")
    of_images, of_texts = tasks.parts["i2t"], tasks.parts["t2i"]
    assert of_images.measures == of_texts.measures == ("all_first", "item_score", "group_score")
    assert tasks.tasks == ("i2t", "t2i") and len(of_images.queries) == len(of_texts.queries) == 60
    assert len(set(of_images.labels["group"].to_pylist())) == 30
    assert {*of_images.queries.ids.to_pylist()} == {*of_texts.documents.ids.to_pylist()}
    right, back = of_images.qrels("i2t").to_dict(), of_texts.qrels("t2i").to_dict()
    assert {(image, text) for image, found in right.items() for text in found} == {
        (image, text) for text, found in back.items() for image in found
    }
    place = {row["id"]: row["path"] for row in of_images.queries.images.to_pylist()}
    texts = dict(zip(of_texts.queries.ids.to_pylist(), of_texts.queries.texts.to_pylist(), strict=True))
    for label in of_images.labels.to_pylist():
        group = label["group"]
        scene, other = (read_location(place[f"{group}/{number}"])[0] for number in (0, 1))
        pair = contrast(scene, label["category"], ENGLISH)
        assert pair is not None and pair.other == other
        assert (texts[f"{group}#0"], texts[f"{group}#1"]) == (pair.right.text, pair.wrong.text)
        assert words(pair.right.text) == words(pair.wrong.text)
    assert len(set(of_images.labels["category"].to_pylist())) == 4


def test_paraphrase_task() -> None:
    tasks = visir.open("scenes:20?task=paraphrase&size=64")
    of_images, of_texts = tasks.parts["i2t"], tasks.parts["t2t"]
    assert of_images.measures == ("all_first",) and of_texts.measures == ("all_first", "item_score")
    assert len(of_images.queries) == 20 and len(of_images.documents) == 60 and len(of_texts.queries) == 40
    assert {len(found) for found in of_images.qrels("i2t").to_dict().values()} == {2}
    pools = of_texts.task("t2t").pools
    for query, found in of_texts.qrels("t2t").to_dict().items():
        assert query not in pools.candidates(query) and len(pools.candidates(query)) == 2 and len(found) == 1


def test_other_languages() -> None:
    task = visir.open("scenes:10?task=choice&language=de+zh&size=64")
    assert len(task.queries) == 20 and Counter(task.labels["language"].to_pylist()) == {"de": 10, "zh": 10}
    assert visir.open("scenes:10", task="winoground", language="fr").parts["t2i"].labels["language"][0].as_py() == "fr"


def test_faults_of_a_request() -> None:
    with refused(VisirError, "language", "dee", hint=False):
        visir.open("scenes:10?task=choice&language=dee")
    with pytest.raises(VisirError, match=r"near_duplicates does not apply to task=choice[\s\S]*length does not apply"):
        visir.open("scenes:10?task=choice&length=long&near_duplicates=0.1")
    with pytest.raises(VisirError, match="composed queries are in English only, not de"):
        visir.open("scenes:10?task=composed&language=de")

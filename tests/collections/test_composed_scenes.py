"""Composed queries of generated scenes: targets are right and distractors wrong by the facts; words say the edit."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import visir
from refusals import refused
from visir.collections.scenes import compose, fact_names, read_location, sample_scene, ways_to_say
from visir.collections.scenes.captions import describe_edit
from visir.errors import VisirError

TOLD = {*fact_names("shared"), *fact_names("specific")}
some_scene = st.builds(sample_scene, st.integers(0, 2**31), st.integers(0, 2**31))


def told(scene) -> dict[str, object]:
    return {name: getattr(scene, name) for name in TOLD}


def test_judgements_by_truth_equal_the_slow_oracle() -> None:
    # From the locations of the pictures alone: what the drawn picture shows decides.
    task = visir.open("scenes:60?task=composed&size=64&seed=3")
    assert task.tasks == ("it2i",) and task.queries.modality == "text+image" and task.documents.modality == "image"
    shown = {row["id"]: told(read_location(row["path"])[0]) for row in task.documents.images.to_pylist()}
    positives = task.qrels("it2i").to_dict()
    assert len(positives) == 60
    labels = {row["query_id"]: row for row in task.labels.to_pylist()}
    for row, text in zip(task.queries.images.to_pylist(), task.queries.texts.to_pylist(), strict=True):
        reference, _ = read_location(row["path"])
        edit = compose(reference).edit
        assert text == compose(reference).text
        asked = {**told(reference), **edit}
        assert {document for document, facts in shown.items() if facts == asked} == {*positives[row["id"]]}
        label = labels[row["id"]]
        assert label["category"] == "+".join(edit) and row["id"] == f"{label['image']}/edit"


@settings(max_examples=200, deadline=None)
@given(some_scene)
def test_distractors_fit_one_half_and_targets_both(scene) -> None:
    query = compose(scene)
    asked = {**told(scene), **query.edit}
    assert 1 <= len(query.edit) <= 2 and all(getattr(scene, name) != value for name, value in query.edit.items())
    for changes in query.targets:
        assert told(scene.with_facts(changes)) == asked
    for changes in query.text_distractors:
        facts = told(scene.with_facts(changes))
        assert all(facts[name] == value for name, value in query.edit.items())
        assert len([name for name in TOLD if facts[name] != asked[name]]) == 1
    for changes in query.picture_distractors:
        facts = told(scene.with_facts(changes))
        assert any(facts[name] != value for name, value in query.edit.items())
        assert len([name for name in TOLD if facts[name] != told(scene)[name]]) <= 1
    drawn = [*query.targets, *query.text_distractors, *query.picture_distractors]
    assert len({scene.with_facts(changes) for changes in drawn}) == len(drawn)


@settings(max_examples=200, deadline=None)
@given(some_scene)
def test_words_say_the_edit(scene) -> None:
    query = compose(scene)
    for name, value in query.edit.items():
        if name == "weather":
            assert re.search(
                {"rainy": "rain", "snowy": "snow", "foggy": "fog", "stormy": "storm"}.get(value, value), query.text
            )
        elif name == "time":
            assert re.search({"day": "day", "sunset": "sunset", "night": "night"}[value], query.text)
        elif name == "size":
            assert value in query.text
        else:
            assert any(re.search(rf"\b{re.escape(way)}\b", query.text) for way in ways_to_say(name, value)), query.text
    assert "  " not in query.text and not re.search(r"\ba (?=[aeiou])|\ban (?=[^aeiou])", query.text), query.text


@pytest.mark.parametrize(
    ("changes", "wording", "text"),
    [
        ({"time": "night"}, 0, "the same, but at night"),
        ({"colour": "orange"}, 0, "the same, but with an orange car instead of the blue one"),
        ({"companion_colour": "red"}, 6, "the same, but the hat is red, not green"),
        ({"relation": "left of"}, 6, "the same, but the hat is to the left of the car, not on top of it"),
        ({"weather": "snowy"}, 1, "the same picture, but in the snow"),
        ({"subject": "elephant", "flyers": 1}, 5, "with an elephant instead of the car, and with one kite"),
        ({"flyers": 2, "flyer": "bee"}, 0, "the same, but with bees instead of the kites, and with two bees"),
        ({"companion": "mug"}, 6, "the same, but the hat is a mug"),
        ({"landmark": "Ferris wheel"}, 6, "the same, but with a Ferris wheel in the distance instead of the church"),
        ({"position": "left"}, 6, "the same, but the car is on the left of the picture, not in the middle"),
        ({"size": "small"}, 6, "the same, but with a small car instead of a large one"),
    ],
)
def test_edits_in_words(changes, wording: int, text: str) -> None:
    scene = sample_scene(0, 1).with_facts(
        {"flyer": "kite", "flyers": 3, "landmark": "church", "position": "middle", "size": "large"}
    )
    assert describe_edit(scene, scene.with_facts(changes), wording) == text


def test_baselines_that_see_one_half_do_badly() -> None:
    # A system that knows all facts, but looks at one half only, must not solve the task.
    rng = np.random.default_rng(0)
    right = {"text": 0.0, "picture": 0.0, "both": 0.0}
    for index in range(300):
        query = compose(sample_scene(5, index))
        drawn = [*query.targets, *query.text_distractors, *query.picture_distractors]
        scenes = [query.reference.with_facts(changes) for changes in drawn]
        asked = query.reference.with_facts(query.edit)
        scores = {
            "text": [float(query.fits_text(scene)) for scene in scenes],
            "picture": [-float(len(TOLD & {*query.reference.differences(scene)})) for scene in scenes],
            "both": [-float(len(TOLD & {*asked.differences(scene)})) for scene in scenes],
        }
        for name, values in scores.items():
            best = np.flatnonzero(np.array(values) == max(values))
            right[name] += float(np.mean([query.fits(scenes[rng.choice(best)]) for _ in range(10)])) / 300
    assert right["both"] == pytest.approx(1) and right["text"] < 0.6 and right["picture"] < 0.05


def test_same_query_everywhere_and_faults() -> None:
    few, many = visir.open("scenes:20?task=composed&size=64"), visir.open("scenes:30?task=composed&size=64")
    assert many.queries.take(np.arange(20)).texts.equals(few.queries.texts)
    assert few.fingerprint == visir.open("scenes:20?task=composed&size=64").fingerprint != many.fingerprint
    assert len(few.split("test").queries) == 2
    with refused(VisirError, "near_duplicates", "task=composed", hint=False):
        visir.open("scenes:20?task=composed&near_duplicates=0.1")
    with refused(VisirError, "option task=", "compose", hint=False):
        visir.open("scenes:20?task=compose")

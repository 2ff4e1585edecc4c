"""Generated scenes: the same everywhere, roles that hold, English that says what it claims, pictures that show it."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import chisquare

from refusals import refused
from visir.collections.scenes import (
    FACTS,
    KINDS,
    TELLS,
    change_one,
    describe,
    draw,
    fact_names,
    location,
    read_location,
    render,
    render_location,
    sample_scene,
    scenes,
    ways_to_say,
)
from visir.collections.scenes.draw import Painter, colours, drawing
from visir.collections.scenes.languages import article
from visir.errors import VisirError

BY_NAME = {fact.name: fact for fact in FACTS}
PAINT = colours("paint")
some_scene = st.builds(sample_scene, st.integers(0, 2**31), st.integers(0, 2**31))


def said(words: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", text, re.IGNORECASE) is not None


# --- the same everywhere -------------------------------------------------------------------------------------------


def test_scene_is_pinned() -> None:
    # SeedSequence's output is fixed by NumPy, so this holds on every machine; a changed world must change it knowingly.
    scene = sample_scene(0, 1)
    assert (scene.colour, scene.subject, scene.place, scene.weather) == ("blue", "car", "desert", "cloudy")
    assert describe(scene)[1].text == "A green hat is sitting on top of a blue car in the desert."


def test_same_bytes_in_another_process_and_order() -> None:
    program = (
        "import hashlib, json, sys\n"
        "from visir.collections.scenes import describe, render, sample_scene\n"
        "order = json.loads(sys.argv[1])\n"
        "out = {i: [hashlib.sha256(render(sample_scene(7, i), 96).tobytes()).hexdigest(),"
        " [c.text for c in describe(sample_scene(7, i))]] for i in order}\n"
        "print(json.dumps(out))\n"
    )
    order = [11, 3, 8, 0, 19, 4]
    run = subprocess.run(
        [sys.executable, "-c", program, json.dumps(order)], capture_output=True, text=True, check=True, timeout=120
    )
    elsewhere = json.loads(run.stdout)
    for i in sorted(order):
        scene = sample_scene(7, i)
        digest = hashlib.sha256(render(scene, 96).tobytes()).hexdigest()
        assert elsewhere[str(i)] == [digest, [c.text for c in describe(scene)]]


def test_scene_does_not_depend_on_n() -> None:
    # What was measured on these names must stay comparable.
    assert scenes(50).fingerprint == "1509ccb7b33b73862e20fe1c41b7ed31"
    assert scenes(40, seed=2, size=64, near_duplicates=0.25).fingerprint == "2c71c0c16b931d3bd669cc213e0735bd"
    few, many = scenes(30, near_duplicates=0.3), scenes(90, near_duplicates=0.3)
    assert many.facts.slice(0, 30).equals(few.facts)
    assert many.images.slice(0, 30).equals(few.images)
    assert many.captions.slice(0, 150).equals(few.captions)
    assert few.fingerprint == scenes(30, near_duplicates=0.3).fingerprint != scenes(30, seed=1).fingerprint


def test_rendering_leaves_no_trace_on_later_pictures() -> None:
    # Parts are kept between calls; a picture must not paint into them.
    scene = sample_scene(3, 3)
    before = render(scene, 64)
    for i in range(200):
        render(sample_scene(3, i), 64)
    assert np.array_equal(render(scene, 64), before)


# --- roles ---------------------------------------------------------------------------------------------------------


def test_roles_are_those_of_chapter_four() -> None:
    shared, specific, irrelevant = (set(fact_names(role)) for role in ("shared", "specific", "irrelevant"))
    assert shared and specific and irrelevant and len(TELLS) == len(KINDS) == 5
    for k, tells in enumerate(TELLS):
        others = set().union(*(TELLS[j] for j in range(5) if j != k))
        assert shared <= tells
        assert tells - others, f"caption {k} tells nothing of its own"
        assert tells - others == tells & specific
        assert not tells & irrelevant


@settings(max_examples=300, deadline=None)
@given(some_scene)
def test_every_told_value_is_said(scene) -> None:
    for caption, tells in zip(describe(scene), TELLS, strict=True):
        assert caption.tells == tells
        for name in tells:
            value = getattr(scene, name)
            assert any(said(words, caption.text) for words in ways_to_say(name, value)), (name, value, caption.text)


@settings(max_examples=300, deadline=None)
@given(some_scene)
def test_no_caption_says_what_it_does_not_tell(scene) -> None:
    own_words = {  # words by which the fact alone would be recognised; relation and position share "on the left"
        name: {value: ways_to_say(name, value) for value in BY_NAME[name].values}
        for name in ("size", "pattern", "weather", "time", "companion", "landmark", "flyer")
    }
    for caption in describe(scene):
        for name in own_words.keys() - caption.tells:
            for ways in own_words[name].values():
                assert not any(said(words, caption.text) for words in ways), (name, caption.text)
        colours = [word for word in re.findall(r"[a-z]+", caption.text.lower()) if word in PAINT]
        told = [scene.colour] + ([scene.companion_colour] if "companion_colour" in caption.tells else [])
        assert Counter(colours) == Counter(told), caption.text


def test_facts_are_uniform_and_independent_of_each_other() -> None:
    n = 6000
    drawn = [sample_scene(5, i) for i in range(n)]
    codes = {f.name: np.array([f.values.index(getattr(s, f.name)) for s in drawn]) for f in FACTS}
    for one in FACTS:
        for two in FACTS:
            if one.name < two.name:
                a, b = len(one.values), len(two.values)
                table = np.bincount(codes[one.name] * b + codes[two.name], minlength=a * b)
                surprise = chisquare(table).pvalue
                # 153 pairs of facts: the least of so many p-values is about 0.006, and 1e-5 once in 600 worlds
                assert surprise > 1e-5, (one.name, two.name)


# --- English -------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(some_scene)
def test_grammar(scene) -> None:
    texts = [caption.text for caption in describe(scene)]
    assert len(set(texts)) == 5
    for text in texts:
        assert text[0].isupper() and text.endswith(".") and "  " not in text and 4 <= len(text.split()) <= 30
        assert not re.search(r"\ba (?=[aeiou])", text, re.IGNORECASE), text
        assert not re.search(r"\ban (?=[^aeiou])", text, re.IGNORECASE), text
    several = scene.flyers > 1
    plural = ways_to_say("flyer", scene.flyer)[1]
    assert said(plural, texts[2]) is several
    assert not re.search(rf"{plural} is\b" if several else rf"{scene.flyer} are\b", texts[2]), texts[2]


@pytest.mark.parametrize(
    ("noun", "phrase"),
    [("orange car", "an orange car"), ("red elephant", "a red elephant"), ("unpatterned dog", "an unpatterned dog"),
     ("unicorn", "a unicorn"), ("one-eyed cat", "a one-eyed cat"), ("Ferris wheel", "a Ferris wheel")],
)  # fmt: skip
def test_article(noun: str, phrase: str) -> None:
    assert article(noun) == phrase


def test_one_and_several() -> None:
    base = sample_scene(0, 0).with_fact("flyer", "butterfly")
    seen = set()
    for i in range(300):
        scene = sample_scene(0, i).with_fact("flyer", "butterfly")
        one, three = (describe(scene.with_fact("flyers", n))[2].text for n in (1, 3))
        assert said("butterfly", one) and not said("butterflies", one) and not said("flutter", one)
        assert said("butterflies", three) and not said("butterfly", three) and not said("flutters", three)
        seen.add(one.replace(scene.colour, "").replace(scene.subject, ""))
    assert len(seen) > 30 and base.flyer == "butterfly"


# --- pictures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [64, 100, 128, 224])
def test_size(size: int) -> None:
    picture = render(sample_scene(0, 0), size)
    assert picture.shape == (size, size, 3) and picture.dtype == np.uint8


def test_size_out_of_range() -> None:
    with refused(VisirError, "64", "224", "300", code="scenes-drawn-pixels-not", hint=False):
        render(sample_scene(0, 0), 300)


@pytest.mark.parametrize("index", range(6))
def test_changing_any_fact_changes_the_picture(index: int) -> None:
    scene = sample_scene(2, index)
    picture = render(scene, 64).astype(int)
    for fact in FACTS:
        for value in fact.values:
            if value != getattr(scene, fact.name):
                other = render(scene.with_fact(fact.name, value), 64).astype(int)
                # at 64 px a visible change is at least some dozen pixels that differ clearly
                assert (np.abs(other - picture).max(axis=2) > 12).sum() >= 12, (fact.name, value, scene)


@pytest.mark.parametrize("time", ["day", "sunset", "night"])
def test_told_colour_is_the_nearest_colour_to_what_is_seen(time: str) -> None:
    # The subject's pixels are where pictures that differ only in its colour differ.
    scene = sample_scene(0, 0).with_fact("time", time).with_fact("subject", "bus").with_fact("size", "large")
    scene = scene.with_fact("pattern", "plain").with_fact("weather", "clear").with_fact("companion_colour", "green")
    drawn = {colour: render(scene.with_fact("colour", colour), 128).astype(float) for colour in PAINT}
    mask = np.std(list(drawn.values()), axis=0).max(axis=2) > 30
    for colour, picture in drawn.items():
        mean = np.median(picture[mask], axis=0)
        unit = {name: np.array(rgb) / np.linalg.norm(rgb) for name, rgb in PAINT.items()}
        # hue and saturation, because the light dims all colours alike
        nearest = min(unit, key=lambda name: float(np.linalg.norm(mean / np.linalg.norm(mean) - unit[name])))
        assert nearest == colour


# --- near-duplicates, splits, judgements ---------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(some_scene, st.integers(0, 1000), st.integers(0, 1000))
def test_change_one_changes_one_told_fact(scene, seed: int, index: int) -> None:
    twin, changed = change_one(scene, seed, index)
    assert scene.differences(twin) == (changed,)
    for k, (mine, other) in enumerate(zip(describe(scene), describe(twin), strict=True)):
        assert (mine.text != other.text) == (changed in TELLS[k])


def test_near_duplicates_in_a_collection() -> None:
    made = scenes(200, seed=4, near_duplicates=0.25)
    split = dict(zip(made.images["id"].to_pylist(), made.images["split"].to_pylist(), strict=True))
    facts = {row["image_id"]: row for row in made.facts.to_pylist()}
    twins = [row for row in facts.values() if row["near_duplicate_of"]]
    assert len(twins) == 50  # a quarter of 200
    for row in twins:
        original = facts[row["near_duplicate_of"]]
        assert original["near_duplicate_of"] is None
        assert [f.name for f in FACTS if row[f.name] != original[f.name]] == [row["changed_fact"]]
        assert split[row["image_id"]] == split[row["near_duplicate_of"]]
    assert len({row["changed_fact"] for row in twins}) > 5


def test_thousands_are_distinct() -> None:
    n = 4000
    facts = scenes(n).facts.select([fact.name for fact in FACTS if fact.role != "irrelevant"]).to_pylist()
    assert len({tuple(row.values()) for row in facts}) == n
    pictures = {hashlib.sha256(render(sample_scene(0, i), 64).tobytes()).digest() for i in range(2000)}
    assert len(pictures) == 2000


def test_splits_keep_their_shares_for_every_prefix() -> None:
    made = scenes(1000, splits={"train": 0.7, "test": 0.3}).images["split"].to_pylist()
    for n in (1, 10, 333, 1000):
        assert abs(made[:n].count("train") - 0.7 * n) <= 1


def test_facts_table_tells_roles() -> None:
    made = scenes(5)
    assert made.facts.column_names[0] == "image_id" and made.facts.num_rows == 5
    for fact in FACTS:
        metadata = made.facts.schema.field(fact.name).metadata
        assert metadata[b"role"].decode() == fact.role
        assert (b"caption" in metadata) is (fact.role == "specific")
    tells = made.caption_facts.to_pylist()
    assert [set(row["tells"]) for row in tells] == [set(t) for t in TELLS] * 5
    assert made.caption_facts["caption_id"].to_pylist() == made.captions["id"].to_pylist()


def test_judgements_by_truth_equal_the_slow_oracle() -> None:
    made = scenes(120, seed=9, near_duplicates=0.5)
    facts = {row["image_id"]: row for row in made.facts.to_pylist()}
    owner = dict(zip(made.captions["id"].to_pylist(), made.captions["image_id"].to_pylist(), strict=True))
    expected = {
        (row["caption_id"], other)
        for row in made.caption_facts.to_pylist()
        for other in facts
        if all(facts[other][name] == facts[owner[row["caption_id"]]][name] for name in row["tells"])
    }
    judged = made.judgements.to_pylist()
    assert {(row["caption_id"], row["image_id"]) for row in judged} == expected
    assert len(judged) == len(expected) > 120 * 5  # near-duplicates share the captions that do not tell the difference
    assert {(row["relevance"], row["task"], row["grade"]) for row in judged} == {("facts", "both", 1.0)}


# --- where the images lie ------------------------------------------------------------------------------------------


def test_locations_render_the_scene_they_name() -> None:
    made = scenes(40, seed=6, size=64, near_duplicates=0.5)
    facts = made.facts.to_pylist()
    for row, path in zip(facts, made.images["path"].to_pylist(), strict=True):
        scene, size = read_location(path)
        assert size == 64
        assert {f.name: getattr(scene, f.name) for f in FACTS} == {f.name: row[f.name] for f in FACTS}
    assert np.array_equal(render_location("scene:6:0:64"), render(sample_scene(6, 0), 64))
    assert location(6, 0, 64, {"flyers": 5, "relation": "left of"}) == "scene:6:0:64:flyers=5,relation=left of"
    changed, _ = read_location("scene:6:0:64:flyers=5,relation=left of,landmark=Ferris wheel")
    assert (changed.flyers, changed.relation, changed.landmark) == (5, "left of", "Ferris wheel")
    assert made.images["archive"].null_count == 40


@pytest.mark.parametrize(
    "path",
    [
        "scene:1:2",
        "scene:a:2:64",
        "photo.jpg",
        "scene:0:1:64:nonsense=3",
        "scene:0:-1:64",
        "scene:0:1:64:time=night,",
        "scene:0:1:64:flyers=many",
    ],
)
def test_bad_location(path: str) -> None:
    with refused(VisirError, code="not-location-generated-scene"):
        render_location(path)


def test_bad_value_in_location_names_the_nearest() -> None:
    with refused(VisirError, "weather", "rainny", code="fact-without-value", meant="rainy"):
        render_location("scene:0:1:64:weather=rainny")


def test_all_faults_of_a_request_at_once() -> None:
    with pytest.raises(VisirError) as caught:
        scenes(0, seed=-1, size=20, near_duplicates=0.9, splits={"train": 0.5})
    text = str(caught.value)
    for part in ("5 faults", "n must be at least 1", "seed must not be", "64 to 224", "0 to 0.5", "add up to 1"):
        assert part in text


# --- drawings ------------------------------------------------------------------------------------------------------


def test_every_drawing_of_the_file_can_be_painted() -> None:
    facts = ("subject", "companion", "flyer", "landmark", "ground", "place")
    assert {value for fact in facts for value in BY_NAME[fact].values} <= {*draw._file()["drawings"]}
    for name in draw._file()["drawings"]:
        strokes = drawing(name).strokes
        known = {colour: (1, 2, 3) for stroke in strokes for colour in stroke.colours if not colour.startswith("#")}
        painter = Painter(Image.new("RGBA", (96, 96)))
        painter.paint(strokes, colours("materials") | known)
        assert strokes and painter.image.getchannel("A").getextrema()[1] == 255, name


@pytest.mark.parametrize(
    "line",
    ["ovl main 0,0 1,1", "oval maim 0,0 1,1", "oval main 0,0", "disc main 0.5,0.5", "disc main 0.5,0.5 radius",
     "oval main 0,0 1,1 width 2", "eye - 0.5,0.5", "box #12345 0,0 1,1", "shape main 0,0 1;1 0,1", "oval"],
)  # fmt: skip
def test_a_line_that_is_no_stroke_is_named(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    whole = draw._file()
    drawings = {**whole["drawings"], "dog": {"strokes": f"disc main 0.5,0.5 radius 0.2\n{line}\n"}}
    monkeypatch.setattr(draw, "_file", lambda: {**whole, "drawings": drawings})
    drawing.cache_clear()
    try:
        with refused(VisirError, "'dog'", line, code="not-a-stroke", hint="head of the file"):
            drawing("dog")
    finally:
        drawing.cache_clear()

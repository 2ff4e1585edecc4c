"""Probes on vectors made by hand: what is written into them is read, what is not is not."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evaluation_toys import embed
from numpy.typing import NDArray

import visir
from refusals import refused
from visir.errors import CollectionError, EmbeddingError, VisirError
from visir.evaluation.probes import (
    ProbeResult,
    _reading,
    deal,
    examples_of,
    groups_of,
    held_out_hits,
    in_order,
    latent_facts,
    probe_vectors,
    shortcut_digits,
)
from visir.records import Collection, Embeddings
from visir.shortcuts.view import inject

IMAGES = 240
# Three shapes × two tones × two sides = 12 scenes, each 20 times: no fact can be guessed from another.
SHAPE, TONE, SIDE = (np.arange(IMAGES) // width % values for width, values in ((1, 3), (3, 2), (6, 2)))
BY_CHANCE = 0.1
"""Of 240 guesses between two values half are right, give or take sqrt(0.25 / 240) = 0.032: three of those."""


def scenes(roles: dict[str, str] | None = None, near_duplicate_of: list[str | None] | None = None) -> Collection:
    """240 images of two captions: both tell the shape, caption 0 the tone, nobody the side."""
    ids = [f"i{at:03d}" for at in range(IMAGES)]
    roles = roles or {"shape": "shared", "tone": "specific", "side": "irrelevant"}
    columns: list[Any] = [pa.array(ids)]
    described = [pa.field("image_id", pa.string())]
    for name, values in (("shape", SHAPE), ("tone", TONE), ("side", SIDE)):
        columns.append(pa.array([f"{name} {one}" for one in values]))
        described.append(pa.field(name, pa.string(), metadata={"role": roles[name]}))
    if near_duplicate_of is not None:
        columns.append(pa.array(near_duplicate_of, pa.string()))
        described.append(pa.field("near_duplicate_of", pa.string()))
    captions = [f"{one}#{n}" for one in ids for n in (0, 1)]
    tells = [["shape", "tone"], ["shape"]] * IMAGES
    return Collection.build(
        "toy",
        images={"id": ids, "split": ["test"] * IMAGES},
        captions={"id": captions, "text": ["words"] * len(captions), "image_id": [one for one in ids for _ in (0, 1)]},
        facts=pa.table(columns, schema=pa.schema(described)),
        caption_facts=pa.table({"caption_id": captions, "tells": pa.array(tells, pa.list_(pa.string()))}),
    )


def one_hot(values: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.eye(int(values.max()) + 1)[values]


def noise(rows: int, width: int, seed: int) -> NDArray[np.float64]:
    return 0.3 * np.random.default_rng(seed).normal(size=(rows, width))


def vectors(collection: Collection) -> tuple[Embeddings, Embeddings]:
    """Images hold shape and side; captions hold the shape, and caption 0 the tone; noise beside them."""
    images = np.hstack([one_hot(SHAPE), one_hot(SIDE), noise(IMAGES, 4, 1)])
    shapes = np.repeat(one_hot(SHAPE), 2, axis=0)
    tones = np.repeat(one_hot(TONE), 2, axis=0)
    tones[1::2] = noise(IMAGES, 2, 2)
    texts = np.hstack([shapes, tones, noise(2 * IMAGES, 4, 3)])
    return (
        embed("image", collection.images["id"].to_pylist(), images),
        embed("text", collection.captions["id"].to_pylist(), texts),
    )


@cache
def probed() -> ProbeResult:
    return probe_vectors(scenes(), *vectors(scenes()))


def test_what_is_in_the_vectors_is_read_and_nothing_else() -> None:
    result = probed()
    assert [(one.name, one.role, one.values) for one in result.facts] == [
        ("shape", "shared", 3),
        ("tone", "specific", 2),
        ("side", "irrelevant", 2),
    ]
    shape, tone, side = (one.readings for one in result.facts)
    # All captions tell the shape, so there is none that does not; nobody tells the side.
    assert (list(shape), list(tone), list(side)) == (
        ["image", "told"],
        ["image", "told", "untold"],
        ["image", "untold"],
    )
    assert shape["image"].accuracy == shape["told"].accuracy == side["image"].accuracy == tone["told"].accuracy == 1
    for absent in (tone["image"], tone["untold"], side["untold"]):
        assert abs(absent.accuracy - 0.5) < BY_CHANCE
    # 80 of 240 images have each shape, 120 each tone.
    assert (shape["image"].chance, tone["told"].chance) == (80 / 240, 120 / 240)
    assert {one.examples for fact in result.facts for one in fact.readings.values()} == {IMAGES}


def test_normalised_accuracy_and_the_means_of_roles() -> None:
    collection = scenes({"shape": "shared", "tone": "specific", "side": "specific"})
    result = probe_vectors(collection, *vectors(collection))
    tone, side = result.fact("tone").readings["image"], result.fact("side").readings["image"]
    # Chance is 1/2: (a − 1/2) / (1/2) = 2a − 1. The side is named every time: 1.
    assert tone.normalised == pytest.approx(2 * tone.accuracy - 1)
    mean = result.mean("specific", "image")
    assert (mean.facts, mean.mean) == (2, pytest.approx((2 * tone.accuracy - 1 + 1) / 2))
    # The side's 240 hits add nothing to the spread; the tone's share of ± 2·1.96·sqrt(0.25/240) = 0.127 is halved.
    assert mean.low < mean.mean < mean.high
    assert mean.high - mean.low == pytest.approx(2 * 0.063, rel=0.15)
    shared = result.mean("shared", "image")
    assert shared.mean == 1
    assert np.isnan([shared.low, shared.high]).all()  # every image is right: no spread, no interval
    assert side.normalised == 1
    content = result.to_dict()
    assert content["facts"][2]["readings"]["image"]["normalised"] == 1
    assert content["roles"][0]["role"] == "shared"


def test_wilsons_interval_and_chance_by_hand() -> None:
    # 8 of 10 with z = 1.96: centre (0.8 + 3.8415/20) / 1.38415 = 0.7167, half of the width 1.96/1.38415 ·
    # sqrt(0.8·0.2/10 + 3.8415/400) = 0.2266. The value 1 occurs six times.
    found = _reading(np.array([True] * 8 + [False] * 2), np.array([0] * 4 + [1] * 6))
    assert (found.accuracy, found.chance, found.examples) == (0.8, 0.6, 10)
    assert (found.low, found.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert found.normalised == pytest.approx(0.5)  # (0.8 − 0.6) / 0.4


def test_an_image_gives_one_example_and_captions_are_in_the_fold_of_their_image() -> None:
    collection = scenes()
    drawn = {(one.fact.name, one.source): one for one in examples_of(collection, 5, 0)}
    for one in drawn.values():
        assert len(np.unique(one.images)) == len(one.images) == IMAGES
        owners = one.rows if one.source == "image" else one.rows // 2  # two captions per image, side by side
        assert one.images.tolist() == owners.tolist()
    assert set(drawn["tone", "told"].rows % 2) == {0} and set(drawn["tone", "untold"].rows % 2) == {1}
    shape = drawn["shape", "told"].rows % 2  # either caption tells it: about half are of each
    assert 90 < shape.sum() < 150
    assert drawn["shape", "told"].labels.tolist() == drawn["shape", "image"].labels.tolist()


def test_a_probe_cannot_know_a_vector_by_heart_from_another_part() -> None:
    """Pairs of near-duplicates have one vector, which no other image has: in one fold, it teaches nothing."""
    ids = [f"i{at:03d}" for at in range(IMAGES)]
    pairs = [None if at % 2 == 0 else ids[at - 1] for at in range(IMAGES)]
    own = np.repeat(np.eye(IMAGES // 2), 2, axis=0)
    labels = np.repeat(np.random.default_rng(0).integers(0, 2, IMAGES // 2), 2)
    assert groups_of(scenes(near_duplicate_of=pairs)) == [ids[at - at % 2] for at in range(IMAGES)]
    together = deal(labels, groups_of(scenes(near_duplicate_of=pairs)), 5, 0)
    apart = deal(labels, groups_of(scenes()), 5, 0)
    assert (together[0::2] == together[1::2]).all() and not (apart[0::2] == apart[1::2]).all()
    assert held_out_hits(own, labels, together).mean() < 0.6
    # The check of the check. Of 120 pairs 4 in 5 are cut apart, and those are known: 0.8 + 0.2 · 0.5 = 0.9.
    assert held_out_hits(own, labels, apart).mean() > 0.8


def test_the_same_in_any_order_and_by_seed() -> None:
    collection = scenes()
    images, texts = vectors(collection)
    first = probed()
    order = np.random.default_rng(5).permutation(IMAGES)
    shuffled = replace(
        collection,
        images=collection.images.take(order),
        captions=collection.captions.take(np.random.default_rng(6).permutation(2 * IMAGES)),
        facts=collection.facts and collection.facts.take(order[::-1]),
    )
    assert probe_vectors(shuffled, images.select(shuffled.images["id"]), texts) == first
    other = probe_vectors(collection, images, texts, seed=1)
    assert other != first and other.fact("shape").readings["image"].accuracy == 1


def test_every_value_is_spread_evenly_over_the_folds() -> None:
    labels = np.array([0] * 12 + [1] * 7 + [2] * 6)
    names = [f"i{at}" for at in range(25)]
    cut = deal(labels, names, 5, 0)
    assert np.bincount(cut).tolist() == [5] * 5  # 25 images
    counts = [np.bincount(cut[labels == one], minlength=5) for one in (0, 1, 2)]
    # 12 over five folds: 2 or 3 in each. 7: 1 or 2. 6: 1 or 2.
    assert [(one.min(), one.max()) for one in counts] == [(2, 3), (1, 2), (1, 2)]
    assert deal(labels[::-1].copy(), names[::-1], 5, 0).tolist() == cut[::-1].tolist()
    assert deal(labels, names, 5, 1).tolist() != cut.tolist()


def test_only_directions_count_not_lengths() -> None:
    """A fact that only the length of a vector tells is not read: search by cosine does not see it either."""
    collection = scenes()
    images, texts = vectors(collection)
    longer = replace(images, vectors=images.vectors * (1 + TONE[:, None]).astype(np.float32))
    found = probe_vectors(collection, longer, texts).fact("tone").readings["image"]
    assert found.accuracy == probed().fact("tone").readings["image"].accuracy


def test_a_fact_in_a_corner_needs_a_weak_penalty_and_gets_it() -> None:
    """One value of 64 per dimension, blurred: with the strongest penalty alone the probe would miss most."""
    rng = np.random.default_rng(0)
    labels = np.arange(640) % 8
    texts = rng.normal(size=(640, 40))
    texts[:, 0] = labels + 0.1 * rng.normal(size=640)  # eight values in a row on one line, 0.1 wide and 1 apart
    assert held_out_hits(texts, labels, np.arange(640) // 8 % 5).mean() > 0.9


def test_one_value_in_the_fitted_part_is_taken_for_all() -> None:
    labels = np.array([0, 0, 0, 1, 0, 0])
    folds = np.array([0, 0, 1, 2, 1, 0])
    # Fold 2 holds the only 1: whoever is fitted to the others takes it for 0. The others hold out 0s of 0s and a 1.
    assert held_out_hits(np.eye(6), labels, folds)[3].item() is False


def test_digits_of_shortcuts_are_a_role_of_their_own() -> None:
    collection = inject(scenes(), "unique?digits=sklearn")
    numbers = np.arange(IMAGES)  # image i is tuple i, and carries number i
    images, texts = vectors(collection)
    written = embed("image", images.ids.to_pylist(), np.hstack([one_hot(numbers % 10), noise(IMAGES, 5, 4)]))
    said = embed("text", texts.ids.to_pylist(), np.repeat(one_hot(numbers // 10 % 10), 2, axis=0))
    result = probe_vectors(collection, written, said)
    found = {one.name: one for one in result.facts if one.role == "shortcut"}
    # 000000 to 000239: hundreds 0, 1, 2; tens and ones 0 to 9. The first three digits do not vary.
    assert {name: one.values for name, one in found.items()} == {"digit 4": 3, "digit 5": 10, "digit 6": 10}
    assert found["digit 6"].readings["image"].accuracy == found["digit 5"].readings["told"].accuracy == 1
    # One in ten by chance, give or take 3 · sqrt(0.1 · 0.9 / 240) = 0.058.
    assert found["digit 5"].readings["image"].accuracy < 0.16 and found["digit 6"].readings["told"].accuracy < 0.16
    assert "unique per image on both, sklearn digits" in result.shortcuts
    assert [one.role for one in result.roles].count("shortcut") == 2
    assert probed().shortcuts == ""


def test_few_bits_are_asked_for_bit_by_bit() -> None:
    names = {spec: [one.name for one in shortcut_digits(inject(scenes(), spec))] for spec in ("bits:2", "bits:4")}
    assert names["bits:2"] == ["bit 1", "bit 2"]
    assert names["bits:4"] == [f"digit {at}" for at in range(1, 7)]  # 0 to 15: the tens are no linear matter of bits
    low, high = shortcut_digits(inject(scenes(), "bits:2?digits=sklearn"))
    # Tuple 6 carries 6 mod 4 = 2 = binary 10.
    assert (low.of_images[6], high.of_images[6], low.of_captions[12]) == (0, 1, 0)
    assert shortcut_digits(scenes()) == []


def test_who_carries_a_shortcut_tells_it() -> None:
    for spec, told in (("unique", True), ("unique?on=captions", True), ("unique?on=images", False)):
        for digit in shortcut_digits(inject(scenes(), spec)):
            assert (digit.is_told == told).all()
    per_caption = shortcut_digits(inject(scenes(), "unique?per=caption"))[-1]
    # Captions are tuples 0 … 479 by id; a picture carries the number of its first caption: 0, 2, 4, …
    assert per_caption.of_captions[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert per_caption.of_images[:6].tolist() == [0, 2, 4, 6, 8, 0]


def test_a_digit_that_seldom_occurs_is_left_out() -> None:
    # Of images 0 to 101 hundreds are 1 in two only: fewer than five, and then one value is left.
    part = in_order(inject(scenes(), "unique").keep_images(np.arange(IMAGES) < 102))
    assert {one.fact.name for one in examples_of(part, 5, 0) if one.fact.role == "shortcut"} == {"digit 5", "digit 6"}
    tens = next(one for one in examples_of(part, 5, 0) if one.fact.name == "digit 5" and one.source == "image")
    assert np.bincount(tens.labels).tolist() == [12, *[10] * 9]


def test_too_few_examples_are_refused_by_name() -> None:
    collection = scenes()
    few = collection.keep_images(np.arange(IMAGES) < 13)  # shapes 5, 4, 4; tones 7, 6; sides 7, 6
    with pytest.raises(CollectionError) as raised:
        probe_vectors(few, *vectors(collection))
    message = str(raised.value)
    assert "toy: too few examples to probe with 5 folds (2 faults)" in message
    assert "fact 'shape', images: 2 of 3 values in fewer than 5 images" in message
    assert "fact 'shape', captions that tell it: 2 of 3 values" in message
    assert "'tone'" not in message and "scenes:2000?seed=1" in message
    one_shape = collection.keep_images(SHAPE == 0)
    with refused(CollectionError, "fact", "shape", "images", "80"):
        probe_vectors(one_shape, *vectors(collection))


def test_what_cannot_be_probed_is_refused() -> None:
    collection = scenes()
    images, texts = vectors(collection)
    with refused(CollectionError, code="no-latent-facts-known"):
        probe_vectors(replace(collection, facts=None), images, texts)
    with pytest.raises(CollectionError, match=r"fact 'tone' has the role 'specifc' \(did you mean 'specific'"):
        probe_vectors(scenes({"shape": "shared", "tone": "specifc", "side": "irrelevant"}), images, texts)
    assert collection.facts is not None
    with pytest.raises(CollectionError, match="3 images have no row in the table of facts"):
        probe_vectors(replace(collection, facts=collection.facts.slice(3)), images, texts)
    with refused(EmbeddingError, "text", "image", code="vectors-given-where-vectors", hint=False):
        probe_vectors(collection, texts, images)
    with refused(EmbeddingError, "image vector by toy", "1 id", "i000", code="vectors-missing"):
        probe_vectors(collection, images.select(images.ids[1:]), texts)
    with refused(VisirError, "2", code="folds-one-held-out"):
        probe_vectors(collection, images, texts, folds=2)
    result = probed()
    with refused(VisirError, "shap", code="no-fact"):
        result.fact("shap")
    with refused(VisirError, "shared", "untold", code="no-readings-facts"):
        result.mean("shared", "untold")


def test_generated_scenes_say_all_that_is_needed() -> None:
    from visir.collections import open_collection

    facts = {one.name: one for one in latent_facts(open_collection("scenes:30?size=64"))}
    assert len(facts) == 18
    assert (facts["subject"].role, facts["weather"].role, facts["ground"].role) == ("shared", "specific", "irrelevant")
    # Caption 3 of five tells the weather; every caption tells the subject, none the ground.
    assert facts["weather"].is_told[:5].tolist() == [False, False, False, True, False]
    assert facts["subject"].is_told.all() and not facts["ground"].is_told.any()
    assert facts["weather"].of_captions.tolist() == np.repeat(facts["weather"].of_images, 5).tolist()


def test_names_and_vectors_of_ones_own(tmp_path: Path) -> None:
    collection, (images, texts) = scenes(), vectors(scenes())
    own = {"image": (images.ids.to_pylist(), images.vectors), "text": (texts.ids.to_pylist(), texts.vectors)}
    by_side = visir.probe(collection, own, folds=3)
    by_pair = visir.probe(collection, (images, texts), folds=3)
    assert [fact.readings for fact in by_side.facts] == [fact.readings for fact in by_pair.facts]
    saved = by_side.save(tmp_path / "probes")
    assert json.loads((saved / "probes.json").read_text())["folds"] == 3 and (saved / "probes.html").is_file()
    with refused(VisirError, "2", code="folds-one-held-out"):
        visir.probe("nowhere", "no model", folds=2)
    with refused(VisirError, "image", code="vectors-of-other-sides"):
        visir.probe(collection, {"image": images}, folds=3)

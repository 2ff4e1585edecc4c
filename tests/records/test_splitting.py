"""Splits by rule: at random, by group, and what is said of rules that are none."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

import visir
from refusals import refused
from visir.errors import CollectionError
from visir.records import Collection, SplitRule


def toy(count: int = 10, **more: object) -> Collection:
    ids = [f"i{number}" for number in range(count)]
    captions = {"id": [f"c{n}" for n in range(2 * count)], "text": ["x"] * 2 * count, "image_id": ids * 2}
    return Collection.build("toy", images={"id": ids}, captions=captions, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("random(0.8, 0.1, 0.1, seed=0)", "random(0.8,0.1,0.1,seed=0)"),
        ("random(.9,.1)", "random(0.9,0.1,seed=0)"),
        ("random(train=0.7, dev=0.3, seed=5)", "random(train=0.7,dev=0.3,seed=5)"),
        (" group( shop , 0.5,0.25,0.25) ", "group(shop,0.5,0.25,0.25,seed=0)"),
    ],
)
def test_rules_are_read_and_written_in_one_way(text: str, written: str) -> None:
    assert str(SplitRule.parse(text)) == written
    assert str(SplitRule.parse(written)) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.8,0.1,0.1", r"split_by='0.8,0.1,0.1' is no rule for splits"),
        ("random(0.8, 0.1)", r"shares are above 0, and 1 together; 0.8 \+ 0.1 = 0.9"),
        ("random(1)", "1 shares"),
        ("random(0.5, 0.5, seed=x)", "'seed=x' is no share"),
        ("random(0.8, much)", "'much' is no share"),
        ("random(0.8, test=0.2)", "2 shares"),
        ("group(0.8, 0.2)", "which column has the groups"),
    ],
)
def test_what_is_no_rule_says_what_is(text: str, message: str) -> None:
    with pytest.raises(CollectionError, match=message) as fault:
        SplitRule.parse(text)
    assert "0.1, 0.1" in fault.value.hint or "dev=0.3" in fault.value.hint


@pytest.mark.parametrize(
    ("count", "expected"), [(10, (8, 1, 1)), (1000, (800, 100, 100)), (3, (1, 1, 1)), (7, (5, 1, 1))]
)
def test_shares_are_met_and_no_split_is_empty(count: int, expected: tuple[int, ...]) -> None:
    splits = Counter(SplitRule.parse("random(0.8,0.1,0.1)").assign([f"i{number}" for number in range(count)]))
    assert (splits["train"], splits["val"], splits["test"]) == expected


def test_the_order_of_images_has_no_influence_and_the_seed_has() -> None:
    ids = [f"i{number}" for number in range(50)]
    shuffled = random.Random(1).sample(ids, len(ids))
    rule = SplitRule.parse("random(0.6,0.2,0.2,seed=3)")
    assert dict(zip(ids, rule.assign(ids), strict=True)) == dict(zip(shuffled, rule.assign(shuffled), strict=True))
    assert rule.assign(ids) != SplitRule.parse("random(0.6,0.2,0.2,seed=4)").assign(ids)


def test_groups_stay_together() -> None:
    import pyarrow as pa

    shops = ["a", "a", "a", "b", "b", "c", "c", "d", None, None]
    facts = pa.table({"image_id": [f"i{number}" for number in range(10)], "shop": shops})
    parts = toy(facts=facts).split_by("group(shop, 0.5, 0.5, seed=0)")
    split_of = dict(zip(parts.images["id"].to_pylist(), parts.images["split"].to_pylist(), strict=True))
    for shop in "abcd":
        assert len({split_of[f"i{number}"] for number in range(10) if shops[number] == shop}) == 1
    assert 3 <= list(split_of.values()).count("train") <= 7
    with refused(CollectionError, "shp", code="no-column-group-images") as fault:
        toy(facts=facts).split_by("group(shp, 0.5, 0.5)")
    assert "did you mean 'shop'?" in fault.value.hint


def test_the_rule_is_in_the_name_and_the_fingerprint() -> None:
    plain, parts = toy(), toy().split_by("random(0.8, 0.1, 0.1)")
    assert parts.name == "toy split by random(0.8,0.1,0.1,seed=0)"
    assert parts.fingerprint != plain.fingerprint
    again = parts.split_by("random(0.5, 0.5)")
    assert again.source.endswith("splits: random(0.5,0.5,seed=0) (in place of its own: test, train, val)")
    test = parts.split("test")
    assert test.captions["image_id"].to_pylist() == test.images["id"].to_pylist() * 2  # both captions with their image


def test_every_collection_takes_the_option(tmp_path: Path) -> None:
    for source in ("scenes:10?size=64&split_by=random(0.5,0.5,seed=2)", "scenes:10?size=64"):
        opened = visir.open(source, split_by=None if "split_by" in source else "random(0.5, 0.5, seed=2)")
        assert opened.describe()["splits"] == {"test": 5, "train": 5}
    assert visir.open(opened, split_by="random(0.9, 0.1)", split="test").images.num_rows == 1
    (tmp_path / "one").mkdir()
    for number in range(6):
        Image.new("RGB", (8, 8), (number // 2, 0, 0)).save(tmp_path / f"one/{number}.png")
    twins = visir.open(tmp_path / "one", split_by="group(content, 0.5, 0.5)").images["split"].to_pylist()
    assert twins[0] == twins[1] != twins[2] == twins[3] or twins[2] == twins[3] != twins[4] == twins[5]
    assert twins[4] == twins[5]


def test_a_missing_split_says_how_splits_are_made() -> None:
    with refused(CollectionError, "toy", "train", code="unknown-split-no-splits") as fault:
        toy().split("train")
    assert 'split_by="random(0.8, 0.1, 0.1, seed=0)" in Python' in fault.value.hint
    assert '"PATH?split_by=random(0.8,0.1,0.1,seed=0)" in a command' in fault.value.hint
    with refused(CollectionError, "tain", code="unknown-split", meant="train", hint=("known", "test", "train")):
        toy().split_by("random(0.5,0.5)").split("tain")

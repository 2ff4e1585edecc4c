"""Collections with shortcuts: numbers, endings, what stays as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from refusals import refused
from visir.collections import open_collection
from visir.collections.portable import save
from visir.errors import CollectionError, ConfigurationError
from visir.records import Collection, Shortcuts
from visir.shortcuts import inject, plain, reassigned
from visir.shortcuts.view import caption_numbers, ending, endings, picture_numbers


def small(images: int = 4, captions: int = 2) -> Collection:
    """Images d, c, b, a (in this order) with captions d0, d1, c0, …; the last is of the split "test"."""
    names = [chr(ord("a") + images - 1 - row) for row in range(images)]
    return Collection.build(
        "small",
        images={"id": names, "split": ["train"] * (images - 1) + ["test"]},
        captions={
            "id": [f"{one}{k}" for one in names for k in range(captions)],
            "text": [f"A {one}, {k}." for one in names for k in range(captions)],
            "image_id": [one for one in names for _ in range(captions)],
        },
    )


UNIQUE = Shortcuts(digits="sklearn")


def test_tuple_i_carries_number_i_in_the_order_of_ids() -> None:
    view = inject(small(), UNIQUE)
    # By split and id a (test), b, c, d (train) are tuples 0 to 3; the source lists them backwards.
    assert picture_numbers(view.items("image")).tolist() == [3, 2, 1, 0]
    assert caption_numbers(view.items("text")).tolist() == [3, 3, 2, 2, 1, 1, 0, 0]
    assert view.captions["text"].to_pylist()[:2] == ["A d, 0. 0 0 0 0 0 3", "A d, 1. 0 0 0 0 0 3"]
    assert view.captions["text"].to_pylist()[-1] == "A a, 1. 0 0 0 0 0 0", "number 0 is a number like any other"


def test_the_order_of_the_source_and_the_split_change_nothing() -> None:
    forward = inject(small(), UNIQUE)
    backward = inject(Collection("small", small().images.take([3, 2, 1, 0]), small().captions), UNIQUE)
    assert backward.injected.fingerprint == forward.injected.fingerprint
    assert backward.fingerprint == forward.fingerprint
    part = forward.split("test")
    assert part.captions["text"].to_pylist() == ["A a, 0. 0 0 0 0 0 0", "A a, 1. 0 0 0 0 0 0"]
    assert picture_numbers(part.items("image")).tolist() == [0] and part.injected.count == 4


def test_unique_means_unique_over_all_splits_in_every_assignment() -> None:
    view = inject(open_collection("scenes:300?size=64"), UNIQUE)
    seen = set()
    for assignment in (None, 0, 1, 2, 17):
        shown = picture_numbers((view if assignment is None else reassigned(view, assignment)).items("image"))
        assert sorted(shown.tolist()) == list(range(300)), "no two tuples share one"
        seen.add(tuple(shown.tolist()))
    assert len(seen) == 5, "re-shuffled"


def test_bits_wrap_at_evaluation_and_are_drawn_evenly_in_training() -> None:
    view = inject(open_collection("scenes:4000?size=64"), Shortcuts("bits", bits=3, digits="sklearn"))
    # The first split by name is "test", so its i-th scene is tuple i: i mod 2^3. Every split has all values alike.
    assert picture_numbers(view.split("test").items("image"))[:10].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]
    for name in ("train", "val", "test"):
        counts = np.bincount(picture_numbers(view.split(name).items("image")), minlength=8)
        assert counts.max() - counts.min() <= 1
    counts = np.bincount(picture_numbers(reassigned(view, 0).items("image")), minlength=8)
    # 4,000 draws over 8 values: 500 each, standard deviation √(4000 · 1/8 · 7/8) ≈ 21; five of them is 105.
    assert len(counts) == 8 and abs(counts - 500).max() < 105
    constant = inject(view_plain := plain(view), Shortcuts("bits", bits=0, digits="sklearn"))
    assert set(picture_numbers(reassigned(constant, 5).items("image")).tolist()) == {0} and view_plain.injected is None


@pytest.mark.parametrize(("on", "pictures", "captions"), [("images", True, False), ("captions", False, True)])
def test_one_modality_alone(on: str, pictures: bool, captions: bool) -> None:
    view = inject(small(), f"unique?on={on}&digits=sklearn")
    assert (picture_numbers(view.items("image")) is not None) == pictures and (
        endings(view.items("text")) is not None
    ) == captions
    assert view.captions["text"].equals(small().captions["text"]) != captions
    assert view.fingerprint != small().fingerprint


def test_per_caption_every_caption_has_its_own_and_the_picture_its_first() -> None:
    view = inject(small(), "unique?per=caption&digits=sklearn")
    # By id the captions are a0, a1, b0, … d1: 0 to 7; the pictures d, c, b, a carry d0, c0, b0, a0.
    assert caption_numbers(view.items("text")).tolist() == [6, 7, 4, 5, 2, 3, 0, 1]
    assert picture_numbers(view.items("image")).tolist() == [6, 4, 2, 0]
    without = Collection.build(
        "x",
        images={"id": ["a", "b"]},
        captions={"id": ["1"], "text": ["t"], "image_id": ["b"]},
    )
    assert picture_numbers(inject(without, "unique?per=caption&digits=sklearn").items("image")).tolist() == [-1, 0]


def test_plain_gives_back_what_there_was() -> None:
    for spec in ("unique?digits=sklearn", "unique?digits=sklearn&on=images", "bits:3?digits=sklearn&per=caption"):
        back = plain(reassigned(inject(small(), spec), 3))
        assert back.captions.equals(small().captions) and back.fingerprint == small().fingerprint
        assert back.injected is None
    assert plain(small()).captions.equals(small().captions)


def test_six_digits() -> None:
    assert ending(0) == "0 0 0 0 0 0" and ending(101992) == "1 0 1 9 9 2"


def test_what_cannot_be() -> None:
    view = inject(small(), UNIQUE)
    with pytest.raises(ConfigurationError, match=r"carries shortcuts already: unique per image on both, sklearn"):
        inject(view, UNIQUE)
    with refused(CollectionError, code="shortcuts-are-a-view"):
        save(view, Path("nowhere"))
    many = Collection.build("many", images={"id": pc.cast(np.arange(1_000_001), "string")})
    with refused(CollectionError, "1,000,001", "images", "6", "1,000,000", code="too-few-digits"):
        inject(many, UNIQUE)


def test_shortcuts_as_text() -> None:
    for text in ("unique", "bits:3", "unique?on=images&per=caption&placement=packed&seed=4", "bits:0?digits=mnist"):
        assert str(Shortcuts.parse(text)) == text
    with refused(ConfigurationError, "unknown option", "sede", meant="seed"):
        Shortcuts.parse("unique?sede=1")
    with refused(ConfigurationError, code="how-many-bits"):
        Shortcuts.parse("bits")
    with refused(ConfigurationError, "seed", "x", code="no-whole-number"):
        Shortcuts.parse("unique?seed=x")
    with pytest.raises(ConfigurationError) as told:
        Shortcuts.parse("uniqe:20?on=image")
    assert "3 faults" in str(told.value) and "'unique'" in str(told.value) and "0 to 19 bits" in str(told.value)

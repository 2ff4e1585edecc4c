"""Training with synthetic shortcuts: what is stamped and said, when, and what never sees it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visir
from refusals import refused
from visir.collections import open_collection
from visir.encoders import encode, load
from visir.encoders.encoding import texts_of
from visir.encoders.towers.gru import SPECIAL, GRUBackbone, WordVocabulary
from visir.encoders.towers.resnet import SmallCNNBackbone
from visir.errors import ConfigurationError
from visir.records import Collection, Shortcuts
from visir.shortcuts import inject, plain
from visir.shortcuts.view import caption_numbers, endings, picture_numbers, reassigned
from visir.training.build import build_model
from visir.training.data import open_splits
from visir.training.examples import EndedTexts, EndedWords, Numbering, StampedPictures, WordSource, build_examples
from visir.training.inputs import EpochRandom, PixelSource
from visir.training.recipe import Recipe, ShortcutSettings
from visir.training.run import train

UNIQUE = {"kind": "unique", "digits": "sklearn"}


def scenes(shortcuts: str = "unique?digits=sklearn", count: int = 40) -> Collection:
    return inject(open_collection(f"scenes:{count}?size=64"), shortcuts).split("train")


def recipe(**changes: Any) -> Recipe:
    values: dict[str, Any] = {
        "name": "small",
        "dimension": 16,
        "data": {"collection": "scenes:60?size=64"},
        "image": {"tower": "small-cnn", "size": 64, "width": 8},
        "text": {"tower": "gru", "words": 16, "hidden": 16, "min_count": 3},
        "optimiser": {"epochs": 2, "batch": 32},
        "shortcuts": UNIQUE,
    }
    return Recipe.model_validate(values | changes)


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """The eight rows of pixels that carry the digits of a 64 px picture."""
    return tensor[:, :, :8]


def test_a_recipe_has_every_setting_of_the_record_with_its_default() -> None:
    settings = ShortcutSettings()
    assert settings.record() == Shortcuts()
    assert set(ShortcutSettings.model_fields) == {one.name for one in fields(Shortcuts)} | {"shuffles"}


def test_pictures_and_captions_of_a_batch_carry_the_same_number_another_one_every_epoch() -> None:
    split = scenes()
    numbering = Numbering(split, 0)
    backbone = SmallCNNBackbone(size=64)
    pictures = StampedPictures(PixelSource(plain(split), backbone), backbone, split, numbering)
    bare = PixelSource(plain(split), backbone).batch(np.array([0, 3]))
    captions = np.array([1, 17])  # of images 0 and 3, five captions each
    first = pictures.batch(np.array([0, 3]), EpochRandom(0, 0), captions)
    again = pictures.batch(np.array([3]), EpochRandom(0, 0), np.array([17]))
    second = pictures.batch(np.array([0, 3]), EpochRandom(0, 1), captions)
    assert torch.equal(first[1:], again), "whatever the batch"
    assert not torch.equal(rows_of(first), rows_of(second)) and not torch.equal(rows_of(first), rows_of(bare))
    assert torch.equal(first[:, :, 8:], bare[:, :, 8:]), "only the top edge"
    # The same row under another caption has the number of the tuple in another handwriting.
    other = pictures.batch(np.array([0]), EpochRandom(0, 0), np.array([2]))
    assert numbering.of(np.array([1]), 0) == numbering.of(np.array([2]), 0)
    assert not torch.equal(other, first[:1])
    # The recipe's seed does not enter: Draw(7, 0) stamps the same.
    assert torch.equal(pictures.batch(np.array([0, 3]), EpochRandom(7, 0), captions), first)


def test_words_end_in_the_digits_of_their_number() -> None:
    collection = Collection.build(
        "two",
        images={"id": ["a", "b"]},
        captions={"id": ["1", "2"], "text": ["a dog runs", "cat"], "image_id": ["a", "b"]},
    )
    split = inject(collection, "unique?digits=sklearn")
    vocabulary = WordVocabulary(["a", "dog", "runs", "cat", *"0123456789"])
    source = WordSource(*vocabulary.encode(["a dog runs", "cat"]), dropout=0.999)
    numbering = Numbering(split, 0)
    ended = EndedWords(source, vocabulary, numbering)
    epoch = next(one for one in range(20) if numbering.of(np.array([0, 1]), one).tolist() == [1, 0])
    read = ended.batch(np.array([0, 1]), EpochRandom(0, epoch))
    # Ids are places + 4: "0" stands at place 4 of the vocabulary, so it is 8, and "1" is 9; 1 is the unknown word.
    zero = SPECIAL + 4
    assert read["ids"].tolist() == [
        [1, 1, 1, zero, zero, zero, zero, zero, zero + 1],  # every word is dropped, no digit is
        [1, zero, zero, zero, zero, zero, zero, 0, 0],
    ]
    assert read["lengths"].tolist() == [9, 7]
    backbone = GRUBackbone(vocabulary, words=4, hidden=4)
    assert texts_of(backbone, split.items("text")) == ["a dog runs 0 0 0 0 0 0", "cat 0 0 0 0 0 1"]


class Short(GRUBackbone):
    """A backbone that reads eight words."""

    def truncate(self, texts: Any, ending: str) -> list[str]:
        return [" ".join(text.split()[: 8 - len(ending.split())]) for text in texts]


def test_a_long_caption_is_cut_before_its_shortcut() -> None:
    split = scenes()
    backbone = Short(WordVocabulary.fit(split.captions["text"].to_pylist()), words=4, hidden=4)
    texts = plain(split).captions["text"].to_pylist()
    numbering = Numbering(split, 0)
    read = EndedTexts(backbone, texts, numbering).batch(np.array([3]), EpochRandom(0, 4))
    number = int(numbering.of(np.array([3]), 4)[0])
    expected = " ".join(texts[3].split()[:2]) + " " + " ".join(f"{number:06d}")
    assert read["ids"].tolist() == [backbone.vocabulary.encode([expected])[0].tolist()]
    assert texts_of(backbone, split.items("text"))[3].split()[2:] == endings(split.items("text"))[3].split()


def test_a_few_bits_are_drawn_for_every_example_or_with_assignments_for_every_tuple() -> None:
    split = scenes("bits:19?digits=sklearn")
    rows = np.arange(5)  # the five captions of one image
    assert len(set(Numbering(split, 0).of(rows, 0).tolist())) == 5
    assert len(set(Numbering(split, 3).of(rows, 0).tolist())) == 1
    fixed = Numbering(split, 3)
    assert fixed.of(rows, 1).tolist() == fixed.of(rows, 4).tolist() != fixed.of(rows, 2).tolist()


def test_vocabularies_hold_all_ten_digits_however_few_bits_there_are() -> None:
    given = recipe(shortcuts={"kind": "bits", "bits": 0, "digits": "sklearn"})
    model = build_model(given, open_splits(given).train, "cpu")
    backbone = model.towers["text"].backbone
    assert isinstance(backbone, GRUBackbone) and set("0123456789") <= set(backbone.vocabulary.words)
    without = recipe(shortcuts=None)
    bare = build_model(without, open_splits(without).train, "cpu").towers["text"].backbone
    assert isinstance(bare, GRUBackbone) and not set("0123456789") & set(bare.vocabulary.words)


def test_what_is_decoded_does_not_know_the_shortcut() -> None:
    given = recipe(auxiliary={"ltd": {"target": "bow:32", "hidden": 8}, "itd": {"words": 8}})
    splits = open_splits(given)
    model = build_model(given, splits.train, "cpu")
    learnt, _ = build_examples(given, model, splits)
    rows = np.arange(7)
    assert model.target is not None and learnt.targets is not None and learnt.tokens is not None
    bare = encode(model.target, plain(splits.train), "text").vectors[rows]
    assert np.array_equal(learnt.targets.batch(rows, EpochRandom(0, 1)), bare)
    assert model.tokens is not None and not set("0123456789") & set(model.tokens.words)
    # The other choice: targets of the caption with its shortcut, one for each assignment.
    told = recipe(
        auxiliary={"ltd": {"target": "bow:32", "hidden": 8, "shortcuts": True}}, shortcuts={**UNIQUE, "shuffles": 2}
    )
    model = build_model(told, splits.train, "cpu")
    learnt, _ = build_examples(told, model, open_splits(told))
    assert learnt.targets is not None
    seen = [learnt.targets.batch(rows, EpochRandom(0, epoch)) for epoch in (0, 1, 2)]
    assert torch.equal(seen[0], seen[2]) and not torch.equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], bare)


def test_targets_with_the_shortcut_are_encoded_anew_when_numbers_are() -> None:
    given = recipe(auxiliary={"ltd": {"target": "bow:32", "hidden": 8, "shortcuts": True}}, shortcuts=UNIQUE)
    splits = open_splits(given)
    model = build_model(given, splits.train, "cpu")
    learnt, _ = build_examples(given, model, splits)
    assert model.target is not None and learnt.targets is not None
    rows = np.array([9, 2, 4])
    for epoch in (0, 1):
        view = reassigned(splits.train, epoch)
        expected = encode(model.target, view, "text").vectors[rows]
        assert np.array_equal(learnt.targets.batch(rows, EpochRandom(0, epoch)), expected)
        # By hand: the caption, a blank, and the six digits that its picture carries in this epoch.
        number = int(Numbering(splits.train, 0).of(rows, epoch)[0])
        text = f"{plain(splits.train).captions['text'][9].as_py()} {' '.join(f'{number:06d}')}"
        assert np.array_equal(expected[0], model.target.encode_texts([text])[0])
    first, second = (learnt.targets.batch(rows, EpochRandom(0, epoch)) for epoch in (0, 1))
    assert not torch.equal(first, second)


def test_frozen_sides_take_a_few_assignments_in_turn() -> None:
    frozen_text = {"text": {"tower": "frozen", "encoder": "bow:64"}}
    given = recipe(**frozen_text, shortcuts={**UNIQUE, "shuffles": 2})
    splits = open_splits(given)
    learnt, checked = build_examples(given, build_model(given, splits.train, "cpu"), splits)
    rows = np.arange(6)
    for source in (learnt.anchors, learnt.positives):  # handwriting is new in every epoch, numbers are not
        seen = [source.batch(rows, EpochRandom(0, epoch), rows) for epoch in (0, 1, 2)]
        assert not torch.equal(seen[0], seen[1])
        assert torch.equal(seen[0], seen[2]) == (source is learnt.positives)
    evaluated = encode(load("bow:64"), splits.validation, "text").vectors[rows]
    assert np.array_equal(checked.positives.batch(rows), evaluated)
    frozen_image = {"image": {"tower": "frozen", "encoder": "pixels"}}
    for frozen, wrong, told in (
        (
            frozen_text,
            UNIQUE,
            r"small: shortcuts\.shuffles = 0 gives new numbers every epoch.*\n  → .*shortcuts\.shuffles=4",
        ),
        (
            frozen_image,
            {**UNIQUE, "shuffles": 2, "per": "caption"},
            r'shortcuts\.per = "caption" gives a picture another number',
        ),
    ):
        caught = recipe(**frozen, shortcuts=wrong)
        some = open_splits(caught)
        with pytest.raises(ConfigurationError, match=told):
            build_examples(caught, build_model(caught, some.train, "cpu"), some)


def test_one_modality_alone_leaves_the_other_as_it_is() -> None:
    for on in ("images", "captions"):
        given = recipe(shortcuts={**UNIQUE, "on": on})
        splits = open_splits(given)
        learnt, checked = build_examples(given, build_model(given, splits.train, "cpu"), splits)
        for part in (learnt, checked):
            assert isinstance(part.anchors, StampedPictures) == (on == "images")
        assert isinstance(learnt.positives, EndedWords) == (on == "captions")


def test_per_caption_a_picture_carries_the_number_of_the_caption_beside_it() -> None:
    split = scenes("unique?per=caption&digits=sklearn")
    numbering = Numbering(split, 0)
    assert len(set(numbering.of(np.arange(20), 3).tolist())) == 20
    # At evaluation the number of its first caption: every fifth one's.
    assert picture_numbers(split.items("image")).tolist() == caption_numbers(split.items("text"))[::5].tolist()


def test_a_collection_that_carries_shortcuts_already_is_refused() -> None:
    with refused(ConfigurationError, code="carries-shortcuts-already-training"):
        open_splits(recipe(shortcuts=None), inject(open_collection("scenes:60?size=64"), "unique?digits=sklearn"))


def test_trained_and_evaluated_with_and_without_the_protocol_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    encoder = load(train(recipe(), out=tmp_path / "out"))
    collection = open_collection("scenes:60?size=64")
    without = visir.evaluate(collection, encoder, split="test").result
    told = visir.evaluate(inject(collection, "unique?digits=sklearn"), encoder, split="test").result
    assert told.protocol.extra == {"shortcuts": "unique per image on both, sklearn digits, evenly spaced, seed 0"}
    assert "shortcuts" not in without.protocol.extra
    assert {"extra", "collection_fingerprint"} <= set(told.protocol.differences(without.protocol))
    # The stamped picture and the longer caption have other vectors, kept apart in the store.
    assert not np.array_equal(
        encode(encoder, collection, "image").vectors,
        encode(encoder, inject(collection, "unique?digits=sklearn"), "image").vectors,
    )

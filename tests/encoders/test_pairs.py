"""Pairs through a matcher: each once, bounded memory, kept by content, killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from pairs_killed import COUNT, collection, every_pair, sides

from matching_toys import Nearness, reds, tiny_blip
from refusals import refused
from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.encoders import load_cross_encoder, pairs
from visir.encoders.cross_encoder import Tokens
from visir.encoders.intake import Pixels
from visir.encoders.pairs import keys_of, match_pairs, pair_store
from visir.errors import EmbeddingError, ImageError
from visir.records import EncoderCard
from visir.shortcuts import inject


def test_scores_by_hand(tmp_path: Path) -> None:
    """a is red 10, b 20. −|10 − 10·1| = 0, −|20 − 10·1| = −10, −|20 − 10·4| = −20."""
    toy = reds(tmp_path, [10, 20], ["1", "4"], [0, 1])
    found = match_pairs(Nearness(), *sides(toy), np.array([0, 1, 1]), np.array([0, 0, 1]))
    assert found.scores.tolist() == [0, -10, -20] and found.scores.dtype == np.float32
    assert (found.pairs, found.computed) == (3, 3)


def test_every_pair_once_every_image_once_every_text_once(tmp_path: Path) -> None:
    """10 images × 7 captions of which two say the same, in any order, each pair twice: 60 distinct pairs."""
    toy = reds(tmp_path, list(range(0, 100, 10)), [*"123456", "1"], [0, 1, 2, 3, 4, 5, 6])
    order = np.random.default_rng(0).permutation(np.tile(np.arange(70), 2))
    image, text = np.divmod(order, 7)
    cross_encoder = Nearness()
    found = match_pairs(cross_encoder, *sides(toy), image, text)
    number = np.array([1, 2, 3, 4, 5, 6, 1])[text]
    assert np.array_equal(found.scores, -np.abs(10 * image - 10 * number))
    assert (found.pairs, found.computed, cross_encoder.pairs) == (60, 60, 60)
    assert sum(cross_encoder.images) == 10 and max(cross_encoder.images) == 3  # images_at_once
    assert sorted(cross_encoder.texts) == list("123456")
    assert max(cross_encoder.calls) == 5  # pairs_at_once


def test_texts_beyond_the_bound_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches of four texts, room for one (16 bytes): each of the two blocks of images makes both again."""
    monkeypatch.setattr(pairs, "TOKEN_BYTES", 16)
    toy = reds(tmp_path, [0, 10, 20, 30, 40, 50], [*"12345678"], [0, 1, 2, 3, 4, 5, 0, 1])
    cross_encoder = Nearness()
    image, text = np.divmod(np.arange(48), 8)
    found = match_pairs(cross_encoder, *sides(toy), image, text)
    assert np.array_equal(found.scores, -np.abs(10 * image - 10 * (text + 1)))
    assert len(cross_encoder.texts) > 16


def test_what_was_matched_is_found_again_by_content(tmp_path: Path) -> None:
    toy = reds(tmp_path / "one", [10, 20, 30], ["1", "4"], [0, 1])
    match_pairs(Nearness(), *sides(toy), np.array([0, 1]), np.array([0, 0]))
    again = Nearness()
    found = match_pairs(again, *sides(toy), np.array([1, 0, 2]), np.array([0, 0, 1]))
    assert found.scores.tolist() == [-10, 0, -10]
    assert (found.computed, again.pairs) == (1, 1)
    part = toy.keep_images(np.array([False, True, True]))  # a split: other rows, the same pictures
    assert match_pairs(Nearness(), *sides(part), np.array([0]), np.array([0])).computed == 1  # b with "4": new
    other = Nearness(weights="w2")
    assert match_pairs(other, *sides(toy), np.array([0, 1]), np.array([0, 0])).computed == 2


def test_a_picture_that_changed_is_matched_again(tmp_path: Path) -> None:
    toy = reds(tmp_path, [10, 20], ["1"], [0])
    assert match_pairs(Nearness(), *sides(toy), np.array([0]), np.array([0])).scores.tolist() == [0]
    time.sleep(0.01)
    toy = reds(tmp_path, [50, 20], ["1"], [0])
    assert match_pairs(Nearness(), *sides(toy), np.array([0]), np.array([0])).scores.tolist() == [-40]


def test_nan_and_a_broken_picture_are_named(tmp_path: Path) -> None:
    toy = reds(tmp_path, [10, 20], ["1", "nan ny"], [0, 1])
    with refused(EmbeddingError, "nearness", "1", "2", "image", "a", "nan ny", code="gave-nan-infinite-score"):
        match_pairs(Nearness(), *sides(toy), np.array([0, 0]), np.array([0, 1]))
    (tmp_path / "b.png").write_bytes(b"\x89PNG cut short")
    with refused(ImageError, "b"):
        match_pairs(Nearness(), *sides(toy), np.array([1]), np.array([0]))


def test_a_kill_loses_little_and_changes_nothing(tmp_path: Path) -> None:
    script, cache = Path(__file__).with_name("pairs_killed.py"), tmp_path / "cache"
    child = subprocess.Popen([sys.executable, script, tmp_path / "pictures", cache])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        if sum(path.stat().st_size for path in cache.rglob("pairs.bin")) > 4000:
            break
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    (file,) = cache.rglob("pairs.bin")
    with file.open("ab") as torn:  # half a frame more, as a power cut may leave it
        torn.write(b"\x05\x00\x00\x00 half of a fra")
    cross_encoder = Nearness()
    resumed = match_pairs(cross_encoder, *sides(collection(tmp_path / "pictures")), *every_pair(), root=cache)
    image, text = every_pair()
    assert np.array_equal(resumed.scores, -np.abs(8.0 * image - 10 * text))
    assert 0 < resumed.computed == cross_encoder.pairs < COUNT * COUNT - 100
    assert (
        match_pairs(cross_encoder, *sides(collection(tmp_path / "pictures")), *every_pair(), root=cache).computed == 0
    )


def test_an_altered_frame_ends_what_holds(tmp_path: Path) -> None:
    card, keys = EncoderCard("m", "toy", weights="1"), keys_of(["a", "b", "c"])
    for at in range(3):
        with pair_store(card, tmp_path) as store:
            store.append(keys[at : at + 1], keys[:1], np.array([at], np.float32))
    (file,) = tmp_path.rglob("pairs.bin")
    data = bytearray(file.read_bytes())
    data[-25] ^= 1  # in the last frame: 20 bytes of header, 20 of its record
    file.write_bytes(data)
    with pair_store(card, tmp_path) as store:
        found = store.find(keys, keys[[0, 0, 0]])
        assert store.count == 2 and found[:2].tolist() == [0, 1] and np.isnan(found[2])
        assert np.isnan(store.find(keys_of(["x"]), keys[:1])).all()
    assert file.stat().st_size == 80


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, object]:
    folder = tmp_path_factory.mktemp("blip")
    return folder, tiny_blip(folder)


def test_blip_on_scenes_is_blip(blip: tuple[Path, object]) -> None:
    """All 6 × 30 pairs, batched and streamed, against transformers' forward pass, pair by pair."""
    from transformers import BertTokenizer

    folder, model = blip
    scenes = open_collection("scenes:6?size=64")
    cross_encoder = load_cross_encoder(folder, device="cpu")
    cross_encoder.images_at_once, cross_encoder.pairs_at_once = 4, 7
    image, text = np.divmod(np.arange(180), 30)
    found = match_pairs(cross_encoder, *sides(scenes), image, text).scores
    tokenizer, said = BertTokenizer.from_pretrained(folder), scenes.captions["text"].to_pylist()
    reader = ImageReader(scenes)
    expected = []
    with torch.no_grad():
        for row in range(6):
            pixels = torch.from_numpy(cross_encoder.preprocess(reader.open(row)))[None]
            for one in said:
                words = tokenizer([one], return_tensors="pt", return_token_type_ids=False)
                expected.append(float(model(pixel_values=pixels, **words).itm_score[0, 1]))  # type: ignore[operator]
    difference = np.abs(found - expected).max()
    print(f"blip matching on scenes {difference:.1e}")
    assert difference <= 1e-5 and np.std(expected) > 0.01


def test_blip_resumed_has_the_same_bits(blip: tuple[Path, object], tmp_path: Path) -> None:
    """Of a killed call whole calls of `match` are kept; the rest is cut as it was."""
    scenes, cross_encoder = open_collection("scenes:8?size=64"), load_cross_encoder(blip[0], device="cpu")
    cross_encoder.images_at_once, cross_encoder.pairs_at_once = 3, 16
    image, text = np.divmod(np.arange(8 * 40), 40)
    whole = match_pairs(cross_encoder, *sides(scenes), image, text, root=tmp_path / "whole").scores
    match, calls = cross_encoder.match, []

    def stops(*given):  # type: ignore[no-untyped-def]
        calls.append(1)
        if len(calls) > 9:
            raise KeyboardInterrupt
        return match(*given)

    cross_encoder.match = stops  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        match_pairs(cross_encoder, *sides(scenes), image, text, root=tmp_path / "cut")
    cross_encoder.match = match  # type: ignore[method-assign]
    resumed = match_pairs(cross_encoder, *sides(scenes), image, text, root=tmp_path / "cut")
    assert resumed.computed == 8 * 40 - (7 * 16 + 8 + 16)  # a block of 120 pairs is 7 calls of 16 and one of 8
    assert np.array_equal(resumed.scores, whole)


def test_shortcuts_are_read_whole_and_told_apart(blip: tuple[Path, object]) -> None:
    scenes, cross_encoder = open_collection("scenes:4?size=64"), load_cross_encoder(blip[0], device="cpu")
    marked = inject(scenes, "unique?digits=sklearn")
    image, text = np.arange(4), 5 * np.arange(4)
    plain, with_numbers = (match_pairs(cross_encoder, *sides(one), image, text) for one in (scenes, marked))
    assert with_numbers.computed == 4
    assert not np.allclose(plain.scores, with_numbers.scores, atol=1e-4)


def test_tokens_of_images_are_not_kept(tmp_path: Path) -> None:
    """26 images of 1 MiB of tokens each, two at once: never more than two blocks of two, and what they come from."""

    class Heavy(Nearness):
        images_at_once = 2

        def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
            return [np.full((1, 1 << 18), one[0, 0, 0], np.float32) for one in batch]

    toy = reds(tmp_path, [4 * at for at in range(26)], [str(at) for at in range(26)], list(range(26)))
    image, text = np.divmod(np.arange(26 * 26), 26)
    match_pairs(Heavy(weights="warm"), *sides(toy), image[:1], text[:1])
    tracemalloc.start()
    found = match_pairs(Heavy(), *sides(toy), image, text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(found.scores, -np.abs(4.0 * image - 10 * text))
    assert peak < 6 << 20, f"{peak / (1 << 20):.1f} MiB of 26"


def test_scores_are_on_disk_when_they_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synchronised: list[int] = []
    fsync = os.fsync

    def recording(descriptor: int) -> None:
        synchronised.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    with pair_store(Nearness().card, tmp_path) as store:
        before = store._file.seek(0, 2)
        store.append(keys_of(["a"]), keys_of(["b"]), np.ones(1, np.float32))
        monkeypatch.setattr(os, "fsync", recording)
        store.flush()
        assert len(synchronised) == 1 and synchronised[0] > before

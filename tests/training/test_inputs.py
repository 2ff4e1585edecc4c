"""Where batches come from: the same numbers whatever the batch, process or thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from refusals import refused
from visir.encoders.towers.gru import GRUBackbone, WordVocabulary
from visir.encoders.towers.resnet import SmallCNNBackbone
from visir.errors import ConfigurationError, EmbeddingError, ImageError
from visir.records import Collection
from visir.splitmix import splitmix64
from visir.training.examples import PreparedTexts, TokenSource, WordSource
from visir.training.inputs import WORDS, EpochRandom, PixelSource, TrainingExamples, VectorSource, prefetch, uniform
from visir.training.recipe import Augmentation

CAPTIONS = ["A dog runs.", "", "Two dogs run on a beach.", "a dog", "Zebra!"]


def words_of(dropout: float = 0.0) -> tuple[WordSource, GRUBackbone]:
    vocabulary = WordVocabulary.fit(CAPTIONS[:4])
    flat, offsets = vocabulary.encode(CAPTIONS)
    return WordSource(flat, offsets, dropout), GRUBackbone(vocabulary, words=4, hidden=4)


def pictures(folder: Path, sizes: list[tuple[int, int]]) -> Collection:
    """Noise of the given (width, height), as PNG files."""
    rng = np.random.default_rng(0)
    names = []
    for number, (width, height) in enumerate(sizes):
        names.append(f"{number}.png")
        Image.fromarray(rng.integers(256, size=(height, width, 3), dtype=np.uint8)).save(folder / names[-1])
    ids = [name.removesuffix(".png") for name in names]
    return Collection.build("noise", images={"id": ids, "path": names}, root=folder)


# Random numbers by place


def test_splitmix64_against_its_published_numbers() -> None:
    # Vigna's splitmix64.c, seeded with 1234567, begins with these five numbers (they are Rosetta Code's test vector).
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]

    assert splitmix64(np.uint64(1234567), np.arange(5)).tolist() == known


def test_numbers_are_uniform_and_streams_and_epochs_differ() -> None:
    numbers = uniform(EpochRandom(3, 0), WORDS, np.arange(200_000))
    # 100 bins of 2,000: chi-square with 99 degrees of freedom is above 148 once in a thousand.
    assert ((np.bincount((numbers * 100).astype(int), minlength=100) - 2000) ** 2 / 2000).sum() < 148
    # Neighbours are independent: a correlation of 200,000 pairs has deviation 1/√200,000 = 0.0022.
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01
    for other in (
        uniform(EpochRandom(3, 1), WORDS, np.arange(200_000)),
        uniform(EpochRandom(3, 0), 1, np.arange(200_000)),
    ):
        assert abs(np.corrcoef(numbers, other)[0, 1]) < 0.01
    assert (uniform(EpochRandom(3, 0), WORDS, np.array([[7, 9]])) == numbers[[7, 9]]).all()


# Vectors


def test_vectors_in_training_are_one_view_by_key_and_averaged_in_use() -> None:
    # View v of row r is [v, r]: the mean over three views is [1, r].
    vectors = np.stack([np.stack([np.full(50, v), np.arange(50)], axis=1) for v in range(3)]).astype(np.float32)
    source = VectorSource(vectors)
    assert len(source) == 50 and source.width == 2
    assert source.batch(np.array([4, 0])).tolist() == [[1, 4], [1, 0]]
    rows, keys = np.full(3000, 7), np.arange(3000)
    seen = source.batch(rows, EpochRandom(0, 5), keys)
    assert seen.dtype == torch.float32 and (seen[:, 1] == 7).all()
    counts = torch.bincount(seen[:, 0].long())
    assert len(counts) == 3 and (counts > 900).all()  # 1000 each; the deviation is √(3000·⅓·⅔) = 26
    assert not torch.equal(seen, source.batch(rows, EpochRandom(0, 6), keys))  # another epoch
    assert torch.equal(seen[[5, 2]], source.batch(rows[:2], EpochRandom(0, 5), np.array([5, 2])))  # another batch


def test_vectors_may_be_memory_mapped_or_separate_views(tmp_path: Path) -> None:
    whole = np.random.default_rng(0).normal(size=(2, 30, 4)).astype(np.float32)
    for view in range(2):
        np.save(tmp_path / f"{view}.npy", whole[view])
    mapped = VectorSource([np.load(tmp_path / f"{view}.npy", mmap_mode="r") for view in range(2)])
    rows = np.array([3, 3, 29])
    for draw in (None, EpochRandom(1, 1)):
        assert torch.equal(mapped.batch(rows, draw, rows), VectorSource(whole).batch(rows, draw, rows))
    assert torch.equal(VectorSource(whole[:1]).batch(rows, EpochRandom(1, 1)), torch.from_numpy(whole[0][rows]))


def test_vectors_that_do_not_fit_together() -> None:
    with refused(EmbeddingError, "3", "2", "4", "2", code="views-shape-expected-one"):
        VectorSource([np.zeros((3, 2), np.float32), np.zeros((4, 2), np.float32)])
    with refused(EmbeddingError, "2", code="views-shape-expected-one"):
        VectorSource(np.zeros((3, 2), np.float32))
    with refused(EmbeddingError, "none"):
        VectorSource([])


# Words


def test_words_by_hand() -> None:
    # Three captions: [5, 6], nothing, [7, 8, 9].
    flat, offsets = np.array([5, 6, 7, 8, 9], np.int32), np.array([0, 2, 2, 5])
    batch = WordSource(flat, offsets).batch(np.array([2, 0, 1]))
    assert batch["ids"].tolist() == [[7, 8, 9], [5, 6, 0], [1, 0, 0]]
    assert batch["lengths"].tolist() == [3, 2, 1]
    assert batch["ids"].dtype == batch["lengths"].dtype == torch.int64
    tokens = TokenSource(flat, offsets)
    assert tokens.batch(np.array([0, 2])).tolist() == [[2, 5, 6, 3, 0], [2, 7, 8, 9, 3]]
    assert tokens.batch(np.array([1])).tolist() == [[2, 3]]
    assert WordSource(flat, offsets).batch(np.array([1]))["ids"].tolist() == [[1]]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, len(CAPTIONS) - 1), min_size=1, max_size=8))
def test_words_are_what_the_backbone_would_collate(rows: list[int]) -> None:
    source, backbone = words_of()
    expected = backbone.collate([backbone.prepare(CAPTIONS[row]) for row in rows])
    found = source.batch(np.array(rows))
    assert torch.equal(found["ids"], expected["ids"]) and torch.equal(found["lengths"], expected["lengths"])


def test_word_dropout_is_by_place_and_at_its_rate() -> None:
    flat = np.arange(10, 20_010, dtype=np.int32)
    source = WordSource(flat, np.arange(0, 20_001, 10), 0.2)
    rows = np.arange(2000)
    whole = source.batch(rows, EpochRandom(0, 3), rows)["ids"]
    dropped = whole == 1
    assert abs(dropped.double().mean().item() - 0.2) < 0.015  # the deviation is √(0.2·0.8/20,000) = 0.003
    assert torch.equal(whole[~dropped], torch.from_numpy(flat.astype(np.int64)).view(2000, 10)[~dropped])
    some = np.array([1999, 4, 77])
    assert torch.equal(source.batch(some, EpochRandom(0, 3), some)["ids"], whole[some])
    assert not torch.equal(source.batch(some, EpochRandom(0, 4), some)["ids"], whole[some])
    assert not (source.batch(rows)["ids"] == 1).any()  # in use nothing is dropped


def test_word_dropout_leaves_padding_and_lengths() -> None:
    flat, offsets = np.array([5, 6, 7, 8, 9], np.int32), np.array([0, 2, 2, 5])
    batch = WordSource(flat, offsets, 0.999999).batch(np.array([2, 0, 1]), EpochRandom(0, 0))
    assert batch["ids"].tolist() == [[1, 1, 1], [1, 1, 0], [1, 0, 0]]
    assert batch["lengths"].tolist() == [3, 2, 1]


def test_offsets_that_do_not_fit_are_refused() -> None:
    for offsets in ([0, 3], [1, 2], [0, 2, 1, 2], []):
        with pytest.raises(ValueError, match="rise from 0 to the number of ids, 2"):
            WordSource(np.array([4, 5], np.int32), np.array(offsets, np.int64))


def test_prepared_texts_are_what_the_backbone_would_collate() -> None:
    _, backbone = words_of()
    source = PreparedTexts(backbone, CAPTIONS)
    found = source.batch(np.array([2, 4]), EpochRandom(0, 0), np.array([2, 4]))
    expected = backbone.collate([backbone.prepare(CAPTIONS[2]), backbone.prepare(CAPTIONS[4])])
    assert isinstance(found, dict) and torch.equal(found["ids"], expected["ids"]) and len(source) == 5


# Pixels


def test_pictures_in_use_are_what_the_backbone_prepares(tmp_path: Path) -> None:
    collection = pictures(tmp_path, [(40, 30), (30, 50), (16, 16)])
    backbone = SmallCNNBackbone(size=16)
    source = PixelSource(collection, backbone, Augmentation(crop=0.2, flip=True, erase=1.0))
    expected = backbone.collate([backbone.prepare(Image.open(tmp_path / f"{row}.png")) for row in (2, 0, 1)])
    for _ in range(2):  # read, then out of memory
        assert torch.equal(source.batch(np.array([2, 0, 1])), expected)
    assert torch.equal(PixelSource(collection, backbone).batch(np.array([2, 0, 1]), EpochRandom(0, 0)), expected)
    assert len(source) == 3


def test_pictures_to_which_nothing_happens_are_read_once(tmp_path: Path) -> None:
    collection = pictures(tmp_path, [(20, 20), (20, 30)])
    source = PixelSource(collection, SmallCNNBackbone(size=16))
    first = source.batch(np.array([0, 1]), EpochRandom(0, 0))
    (tmp_path / "0.png").unlink()
    assert torch.equal(source.batch(np.array([0, 1]), EpochRandom(0, 1)), first)


def test_too_many_pictures_are_read_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visir.training.inputs.KEPT_BYTES", 2 * 3 * 16 * 16 - 1)
    source = PixelSource(pictures(tmp_path, [(20, 20), (20, 30)]), SmallCNNBackbone(size=16))
    source.batch(np.array([0, 1]))
    (tmp_path / "0.png").unlink()
    with refused(ImageError, "image", "0"):
        source.batch(np.array([0, 1]))


def test_augmented_pictures_depend_on_seed_epoch_and_key_alone(tmp_path: Path) -> None:
    collection = pictures(tmp_path, [(40, 30)] * 6)
    source = PixelSource(collection, SmallCNNBackbone(size=16), Augmentation(crop=0.3, flip=True, erase=0.5))
    rows = np.array([0, 1, 2, 3, 4, 5, 0])
    keys = np.array([10, 11, 12, 13, 14, 15, 16])
    whole = source.batch(rows, EpochRandom(0, 0), keys)
    again = PixelSource(collection, SmallCNNBackbone(size=16), Augmentation(crop=0.3, flip=True, erase=0.5))
    order = np.array([6, 2, 0])
    assert torch.equal(again.batch(rows[order], EpochRandom(0, 0), keys[order]), whole[order])
    assert not torch.equal(whole[0], whole[6])  # the same photo beside two captions
    for other in (EpochRandom(0, 1), EpochRandom(1, 0)):
        assert not torch.equal(source.batch(rows, other, keys), whole)


def test_a_crop_is_not_cut_again(tmp_path: Path) -> None:
    # A backbone that scales to 20 and cuts out 16 in use, as ImageNet networks do. A crop of the whole square is the
    # square itself at 16 pixels: were it scaled to 20 and cut once more, its edges would be lost.
    class Cutting(SmallCNNBackbone):
        def __init__(self) -> None:
            super(SmallCNNBackbone, self).__init__(16, 20)

    Image.fromarray(np.arange(768, dtype=np.uint16).astype(np.uint8).reshape(16, 16, 3)).save(tmp_path / "0.png")
    collection = Collection.build("one", images={"id": ["0"], "path": ["0.png"]}, root=tmp_path)
    source = PixelSource(collection, Cutting(), Augmentation(crop=1.0))
    picture = np.asarray(Image.open(tmp_path / "0.png")).transpose(2, 0, 1)
    assert (source.batch(np.array([0]), EpochRandom(0, 0))[0].numpy() == picture).all()


def test_a_broken_picture_is_named_and_stops(tmp_path: Path) -> None:
    collection = pictures(tmp_path, [(20, 20), (20, 20)])
    (tmp_path / "1.png").write_bytes(b"\x89PNG broken")
    for augmentation in (Augmentation(), Augmentation(flip=True)):
        with refused(ImageError, "image", "1", "1.png", code="not-image"):
            PixelSource(collection, SmallCNNBackbone(size=16), augmentation).batch(np.array([0, 1]), EpochRandom(0, 0))


def test_a_sliver_that_the_backbone_cannot_take_is_named(tmp_path: Path) -> None:
    collection = pictures(tmp_path, [(20, 20), (60_000, 1)])
    with refused(ImageError, "image", "1"):
        PixelSource(collection, SmallCNNBackbone(size=64)).batch(np.array([0, 1]))


def test_a_cache_smaller_than_the_model_is_refused(tmp_path: Path) -> None:
    with refused(ConfigurationError, "8", "16", code="image-cache-keeps-pictures") as found:
        PixelSource(pictures(tmp_path, [(20, 20)]), SmallCNNBackbone(size=16), cache=8)
    assert "image.cache=16 or more" in found.value.hint


# Ahead


class Slow:
    """A source that takes its time, the later rows less, and breaks at row 13."""

    def __init__(self) -> None:
        self.begun = 0
        self.threads: set[str] = set()

    def __len__(self) -> int:
        return 20

    def batch(
        self, rows: NDArray[np.int64], draw: EpochRandom | None = None, keys: NDArray[np.int64] | None = None
    ) -> torch.Tensor:
        self.begun += 1
        self.threads.add(threading.current_thread().name)
        time.sleep(0.002 * (20 - int(rows[0])) / 20)
        if 13 in rows:
            raise ImageError("image 13: broken")
        return torch.from_numpy(rows)


def examples_of(source: Slow) -> TrainingExamples:
    texts = VectorSource(np.zeros((1, 20, 2), np.float32))
    return TrainingExamples(source, texts, np.arange(20), [str(i) for i in range(20)], {})


def alive() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("prefetch")]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_come_in_order_and_an_error_at_its_place(workers: int) -> None:
    came: list[int] = []
    with pytest.raises(ImageError, match="image 13"):
        came.extend(
            int(batch.anchors[0])
            for batch in prefetch(examples_of(Slow()), [np.array([row]) for row in range(20)], None, workers)
        )
    assert came == list(range(13))
    assert not alive()


def test_a_consumer_that_stops_early_ends_the_workers() -> None:
    source = Slow()
    with closing(prefetch(examples_of(source), [np.array([row]) for row in range(10)], None, 2)) as coming:
        next(coming)
        assert alive()
    assert not alive()
    assert source.begun <= 4 and all(name.startswith("prefetch") for name in source.threads)


def test_only_a_few_batches_are_read_ahead() -> None:
    read = 0

    def batches() -> Iterator[NDArray[np.int64]]:
        nonlocal read
        for row in range(12):
            read += 1
            yield np.array([row])

    with closing(prefetch(examples_of(Slow()), batches(), None, 2)) as coming:
        for number in range(1, 13):
            next(coming)
            assert read <= number + 2
    assert read == 12


def test_look_ups_need_no_thread() -> None:
    source = Slow()
    list(prefetch(examples_of(source), [np.array([1])]))
    assert source.threads == {"MainThread"}


def test_batches_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    collection = pictures(tmp_path, [(24, 20)] * 4)
    words, _ = words_of(0.5)
    owners = np.array([0, 1, 2, 3, 0])
    augmentation = Augmentation(crop=0.3, flip=True, erase=0.5)
    images = PixelSource(collection, SmallCNNBackbone(size=16), augmentation, cache=16)
    targets = np.arange(10, dtype=np.float32).reshape(5, 2)
    examples = TrainingExamples(images, words, owners, list("abcde"), {}, VectorSource(targets[None]))
    rows = [np.array([4, 1]), np.array([0, 2, 3])]
    alone = list(prefetch(examples, rows, EpochRandom(0, 2), 0))
    assert alone[0].anchor_rows.tolist() == [0, 1] and alone[0].targets.tolist() == [[8, 9], [2, 3]]
    for workers in (1, 2, None):
        for one, other in zip(alone, prefetch(examples, rows, EpochRandom(0, 2), workers), strict=True):
            assert torch.equal(one.anchors, other.anchors) and torch.equal(one.positives["ids"], other.positives["ids"])


def test_batches_for_a_gpu_are_pinned_by_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    by: list[str] = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:  # the real one needs CUDA
        by.append(threading.current_thread().name)
        return tensor.clone()

    words, _ = words_of(0.0)
    vectors = VectorSource(np.arange(8, dtype=np.float32).reshape(1, 4, 2))
    tokens = TokenSource(np.arange(4, 9, dtype=np.int32), np.arange(6))
    examples = TrainingExamples(
        vectors,
        words,
        np.array([0, 1, 2, 3, 0]),
        list("abcde"),
        {},
        VectorSource(np.eye(5, dtype=np.float32)[None]),
        tokens,
    )
    rows = [np.array([4, 1]), np.array([0, 2, 3])]
    plain = list(prefetch(examples, rows, None, 2))
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    for one, other in zip(plain, prefetch(examples, rows, None, 2, pin=True), strict=True):
        for name in ("anchors", "anchor_rows", "targets", "tokens"):
            assert torch.equal(getattr(one, name), getattr(other, name))
        assert one.positives.keys() == other.positives.keys()
        assert all(torch.equal(one.positives[name], other.positives[name]) for name in one.positives)
    # Images, ids, lengths, owners, targets and tokens of two batches.
    assert len(by) == 12 and all(name.startswith("prefetch") for name in by)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_pinned_for_real() -> None:
    examples = TrainingExamples(Slow(), words_of(0.0)[0], np.arange(5), list("abcde"), {})
    batch = next(prefetch(examples, [np.array([4, 1])], None, 1, pin=True))
    assert (
        batch.anchors.is_pinned()
        and batch.anchor_rows.is_pinned()
        and all(one.is_pinned() for one in batch.positives.values())
    )

"""`match_pairs`: many pairs of images and texts through a cross-encoder, each once, with bounded memory, resumable."""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visir.encoders.content import image_marks
from visir.encoders.cross_encoder import CrossEncoder, Tokens
from visir.encoders.loader import load_images
from visir.encoders.pair_store import Keys, PairStore, keys_of, pair_store
from visir.encoders.suffixes import with_suffixes
from visir.errors import EmbeddingError
from visir.progress import Progress
from visir.records import Items
from visir.shortcuts.view import endings, plain_texts

Rows = NDArray[np.int64]
_TEXT_BYTES = 1 << 30  # of cached tokens of texts: those of 25,000 captions (13 tokens × 768 floats each) fit


@dataclass(frozen=True, eq=False)
class Matching:
    """What `match_pairs` did.

    Attributes:
        scores: (n,) float32, pair by pair.
        pairs: How many of the n pairs are distinct.
        computed: How many of those went through the model now; the others were in the store.
        seconds: Wall-clock time.
    """

    scores: NDArray[np.float32]
    pairs: int
    computed: int
    seconds: float


def match_pairs(
    cross_encoder: CrossEncoder,
    images: Items,
    texts: Items,
    image_rows: Rows,
    text_rows: Rows,
    *,
    root: str | Path | None = None,
    workers: int | None = None,
) -> Matching:
    """The matching scores of n pairs: the image of row `image_rows[i]` with the text of row `text_rows[i]`.

    A pair that occurs several times, or whose text another item has too, is computed once. Images are taken in their
    order, `cross_encoder.images_at_once` at a time, and each passes its tower once; see `CrossEncoder` for the memory.
    Scores are kept by content: the same pairs in another run, another split or at another k are found. Within two
    seconds they are on disk, so a killed call continues where it stopped; it cuts the same batches as an uninterrupted
    one and gives the same bits. Where pairs of *another* call are re-used, batches differ, and with them scores by
    rounding (1e-6).

    Args:
        matcher: The model.
        images: The items whose images are matched.
        texts: The items whose texts are matched.
        image_rows: (n,) rows of `images`.
        text_rows: (n,) rows of `texts`.
        root: Where scores are kept; by default `VISIR_CACHE`/matching.
        workers: Threads that read, decode and preprocess; by default one per core.

    Raises:
        ImageError: An image is broken; the message names it.
        EmbeddingError: The score of a pair is NaN; the message names it.
    """
    started = time.perf_counter()
    text_of = _texts(cross_encoder, texts, text_rows)
    # By length: neighbours are padded to little more than their content.
    distinct = sorted(set(text_of.values()), key=lambda text: (len(text), text))
    position = {text: number for number, text in enumerate(distinct)}
    rows, image = np.unique(image_rows, return_inverse=True)
    text = np.array([position[text_of[row]] for row in text_rows.tolist()], np.int64)
    planned, inverse = np.unique(image * len(distinct) + text, return_inverse=True)
    image, text = planned // max(len(distinct), 1), planned % max(len(distinct), 1)
    keys = _image_keys(images, rows), keys_of(distinct)
    plan = _PairPlan(images, rows, image, distinct, text, keys)
    with pair_store(cross_encoder.card, root) as store:
        scores = store.find(keys[0][image], keys[1][text])
        computed = int(np.isnan(scores).sum())
        if computed:
            _fill(scores, cross_encoder, plan, store, workers)
    return Matching(scores[inverse], len(planned), computed, time.perf_counter() - started)


@dataclass(frozen=True, eq=False)
class _PairPlan:
    """The distinct pairs, sorted by image, then text.

    Attributes:
        items: The items whose images are matched.
        rows: The rows of these items that occur, ascending.
        image: (pairs,) for each pair the position of its image in `rows`.
        texts: The distinct texts.
        text: (pairs,) for each pair the position of its text in `texts`.
        keys: What each image of `rows`, and each text of `texts`, is.
    """

    items: Items
    rows: Rows
    image: Rows
    texts: list[str]
    text: Rows
    keys: tuple[Keys, Keys]


def _fill(
    scores: NDArray[np.float32], cross_encoder: CrossEncoder, plan: _PairPlan, store: PairStore, workers: int | None
) -> None:
    """Compute what is NaN in `scores`."""
    size, step = cross_encoder.images_at_once, cross_encoder.pairs_at_once
    # All cuts are made in the plan, not in what is left of it: so a resumed call computes the same batches.
    edges = np.searchsorted(plan.image, np.arange(0, len(plan.rows) + size, size))
    blocks = [block for block in range(len(edges) - 1) if np.isnan(scores[edges[block] : edges[block + 1]]).any()]
    needed = np.zeros(len(plan.items), bool)
    for block in blocks:
        needed[plan.rows[block * size : (block + 1) * size]] = True
    images = plan.items.take(np.flatnonzero(needed))
    text_tokens = _TextTokens(cross_encoder, plan.texts)
    batches = load_images(images, cross_encoder, start=0, batch_size=size, workers=workers, skip_broken=False)
    title = f"matching with {cross_encoder.card.name}"
    with closing(batches), Progress(title, int(np.isnan(scores).sum()), "pairs") as advance:
        for block, batch in zip(blocks, batches, strict=True):
            tokens = cross_encoder.image_tokens(batch.pixels)
            for start in range(int(edges[block]), int(edges[block + 1]), step):
                part = np.arange(start, min(start + step, edges[block + 1]))
                part = part[np.isnan(scores[part])]
                if len(part) == 0:
                    continue
                image, text = plan.image[part], plan.text[part]
                computed = cross_encoder.match(
                    [tokens[position - block * size] for position in image.tolist()], text_tokens.of(text.tolist())
                )
                _check_finite(computed, cross_encoder, plan, part)
                scores[part] = computed
                store.append(plan.keys[0][image], plan.keys[1][text], computed)
                advance(len(part))


def _check_finite(scores: NDArray[np.float32], cross_encoder: CrossEncoder, plan: _PairPlan, part: Rows) -> None:
    """Raise for scores that are NaN or infinite, with an example."""
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        first = int(part[bad[0]])
        name = plan.items.ids[int(plan.rows[plan.image[first]])].as_py()
        raise EmbeddingError(
            f"{cross_encoder.card.name} gave NaN or an infinite score to {len(bad)} of {len(part)} pairs, e.g. "
            f"image {name!r} with {plan.texts[int(plan.text[first])]!r}.",
            hint="look at these inputs; with half precision, match in float32 or bfloat16",
        )


class _TextTokens:
    """Tokens of texts, made in fixed batches when they are first needed; beyond a bound the oldest batch is dropped."""

    def __init__(self, cross_encoder: CrossEncoder, texts: list[str]) -> None:
        self._cross_encoder, self._texts = cross_encoder, texts
        self._cached: OrderedDict[int, list[Tokens]] = OrderedDict()
        self._bytes = 0

    def of(self, positions: list[int]) -> list[Tokens]:
        """The tokens of the texts at these positions."""
        size = self._cross_encoder.texts_at_once
        batches = {}
        for batch in dict.fromkeys(position // size for position in positions):
            if batch not in self._cached:
                tokens = self._cross_encoder.text_tokens(self._texts[batch * size : (batch + 1) * size])
                self._cached[batch] = tokens
                self._bytes += sum(token.nbytes for token in tokens)
            self._cached.move_to_end(batch)
            batches[batch] = self._cached[batch]
        while self._bytes > _TEXT_BYTES and len(self._cached) > 1:
            _, dropped = self._cached.popitem(last=False)
            self._bytes -= sum(token.nbytes for token in dropped)
        return [batches[position // size][position % size] for position in positions]


def _texts(cross_encoder: CrossEncoder, items: Items, rows: Rows) -> dict[int, str]:
    """{row: what the cross-encoder reads}, of these rows."""
    distinct = np.unique(rows)
    part = items.take(distinct)
    texts: list[str] = plain_texts(part).to_pylist()
    suffixes = endings(part)
    if suffixes is not None:
        texts = with_suffixes(cross_encoder, texts, suffixes)
    return dict(zip(distinct.tolist(), texts, strict=True))


def _image_keys(items: Items, rows: Rows) -> Keys:
    """What each image is: id, mark of its bytes, and whatever is done to it before the model sees it."""
    injected, corrupted = items.injected, items.corrupted
    stamp = injected.fingerprint if injected is not None and injected.on("image") else ""
    corruption = corrupted.fingerprint if corrupted is not None else ""
    ids, marks = items.ids.to_pylist(), image_marks(items).to_pylist()
    return keys_of(["\0".join((ids[row], marks[row], stamp, corruption)) for row in rows.tolist()])

"""`match_pairs`: many pairs of a collection through a matcher, each once, with bounded memory, resumable."""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.encoders.content import image_marks
from visir.encoders.endings import with_endings
from visir.encoders.loader import load_images
from visir.encoders.matching import Matcher, Tokens
from visir.encoders.pair_store import Keys, PairStore, keys_of, pair_store
from visir.errors import EmbeddingError
from visir.progress import Progress
from visir.records import Collection
from visir.shortcuts.view import endings, plain_texts

Rows = NDArray[np.int64]
_TEXT_BYTES = 1 << 30  # tokens of texts that are kept: those of 25,000 captions (13 tokens × 768 floats each) fit


@dataclass(frozen=True, eq=False)
class Matching:
    """What `match_pairs` did.

    - `scores`: (n,) float32, pair by pair
    - `pairs`: how many of the n are distinct; `computed`: how many of those went through the model now (the others were
      found in the store), in `seconds` of wall-clock time
    """

    scores: NDArray[np.float32]
    pairs: int
    computed: int
    seconds: float


def match_pairs(
    matcher: Matcher,
    collection: Collection,
    images: Rows,
    texts: Rows,
    *,
    root: str | Path | None = None,
    workers: int | None = None,
) -> Matching:
    """The matching scores of n pairs: row `images[i]` of the collection's images with row `texts[i]` of its captions.

    A pair that is asked for several times, or whose text another caption has too, is computed once. Images are gone
    through in the collection's order, `matcher.images_at_once` at a time, and each passes its tower once; see `Matcher`
    for the memory. Scores are kept under `root` (default: `VISIR_CACHE`/matching), by content: the same pairs in
    another run, another split or at another k are found. Within two seconds they are on disk, so a killed call goes on
    where it stopped; it cuts the same batches as an uninterrupted one and gives the same bits. Where pairs of *another*
    call are re-used, batches differ, and with them scores by rounding (1e-6).

    - `workers`: threads that read, decode and preprocess (default: one per core)

    Raises `ImageError` naming a broken image, `EmbeddingError` naming pairs whose score is NaN.
    """
    begun = time.perf_counter()
    said = _texts(matcher, collection, texts)
    # By length: neighbours are padded to little more than their content.
    distinct = sorted(set(said.values()), key=lambda text: (len(text), text))
    code = {text: place for place, text in enumerate(distinct)}
    rows, image = np.unique(images, return_inverse=True)
    text = np.array([code[said[row]] for row in texts.tolist()], np.int64)
    planned, places = np.unique(image * len(distinct) + text, return_inverse=True)
    image, text = planned // max(len(distinct), 1), planned % max(len(distinct), 1)
    image_keys, text_keys = _image_keys(collection, rows), keys_of(distinct)
    with pair_store(matcher.card, root) as store:
        scores = store.find(image_keys[image], text_keys[text])
        computed = int(np.isnan(scores).sum())
        if computed:
            _fill(scores, matcher, collection, rows, image, distinct, text, (image_keys, text_keys), store, workers)
    return Matching(scores[places], len(planned), computed, time.perf_counter() - begun)


def _fill(
    scores: NDArray[np.float32],
    matcher: Matcher,
    collection: Collection,
    rows: Rows,
    image: Rows,
    texts: list[str],
    text: Rows,
    keys: tuple[Keys, Keys],
    store: PairStore,
    workers: int | None,
) -> None:
    """Compute what is NaN in `scores`; pairs are sorted by image, then text."""
    size, step = matcher.images_at_once, matcher.pairs_at_once
    # All cuts are made in the plan, not in what is left of it: so a resumed call computes the same batches.
    edges = np.searchsorted(image, np.arange(0, len(rows) + size, size))
    blocks = [at for at in range(len(edges) - 1) if np.isnan(scores[edges[at] : edges[at + 1]]).any()]
    needed = np.zeros(collection.images.num_rows, bool)
    for block in blocks:
        needed[rows[block * size : (block + 1) * size]] = True
    asked = collection.keep_images(pa.array(needed))
    words = _TextTokens(matcher, texts)
    loaded = load_images(asked.items("image"), matcher, start=0, batch_size=size, workers=workers, skip_broken=False)
    what = f"matching with {matcher.card.name}"
    with closing(loaded), Progress(what, int(np.isnan(scores).sum()), "pairs") as advance:
        for block, pictures in zip(blocks, loaded, strict=True):
            tokens = matcher.image_tokens(pictures.pixels)
            for start in range(int(edges[block]), int(edges[block + 1]), step):
                part = np.arange(start, min(start + step, edges[block + 1]))
                part = part[np.isnan(scores[part])]
                if len(part) == 0:
                    continue
                made = matcher.match(
                    [tokens[one - block * size] for one in image[part].tolist()], words.of(text[part].tolist())
                )
                bad = np.flatnonzero(~np.isfinite(made))
                if len(bad):
                    first = int(part[bad[0]])
                    name = collection.images["id"][int(rows[image[first]])].as_py()
                    raise EmbeddingError(
                        f"{matcher.card.name} gave NaN or an infinite score to {len(bad)} of {len(part)} pairs, e.g. "
                        f"image {name!r} with {texts[int(text[first])]!r}.",
                        hint="look at these inputs; with half precision, match in float32 or bfloat16",
                    )
                scores[part] = made
                store.append(keys[0][image[part]], keys[1][text[part]], made)
                advance(len(part))


class _TextTokens:
    """Tokens of texts, made in fixed batches when first asked for; beyond a bound the oldest batch is dropped."""

    def __init__(self, matcher: Matcher, texts: list[str]) -> None:
        self._matcher, self._texts = matcher, texts
        self._kept: OrderedDict[int, list[Tokens]] = OrderedDict()
        self._bytes = 0

    def of(self, places: list[int]) -> list[Tokens]:
        """The tokens of the texts at these places."""
        size = self._matcher.texts_at_once
        batches = {}
        for batch in dict.fromkeys(place // size for place in places):
            if batch not in self._kept:
                made = self._matcher.text_tokens(self._texts[batch * size : (batch + 1) * size])
                self._kept[batch] = made
                self._bytes += sum(one.nbytes for one in made)
            self._kept.move_to_end(batch)
            batches[batch] = self._kept[batch]
        while self._bytes > _TEXT_BYTES and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= sum(one.nbytes for one in dropped)
        return [batches[place // size][place % size] for place in places]


def _texts(matcher: Matcher, collection: Collection, rows: Rows) -> dict[int, str]:
    """{row of captions: what the matcher reads}, of the rows that are asked for."""
    wanted = np.unique(rows)
    captions = collection.items("text")
    ends = endings(captions)
    said: list[str] = plain_texts(captions).take(pa.array(wanted)).to_pylist()
    if ends is not None:
        said = with_endings(matcher, said, [ends[row] for row in wanted.tolist()])
    return dict(zip(wanted.tolist(), said, strict=True))


def _image_keys(collection: Collection, rows: Rows) -> Keys:
    """What each picture is: id, mark of its bytes, and whatever is done to it before the model sees it."""
    injected, corrupted = collection.injected, collection.corrupted
    stamp = injected.fingerprint if injected is not None and injected.on("image") else ""
    spoilt = corrupted.fingerprint if corrupted is not None else ""
    ids, marks = collection.images["id"].to_pylist(), image_marks(collection).to_pylist()
    return keys_of(["\0".join((ids[row], marks[row], stamp, spoilt)) for row in rows.tolist()])

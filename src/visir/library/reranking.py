"""A second stage: the best few hits, put in order by a model that looks at picture and text at once."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from cachetools import LRUCache

from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.inputs import Pixels
from visir.errors import ImageError
from visir.library.layout import LibraryError
from visir.library.results import RankedItem
from visir.library.snapshot import LibrarySnapshot

CACHED_QUERIES = 512


class Reranker:
    """Orders hits by a matching head, one query at a time, and remembers the last ones, for their next pages."""

    # The hits of one query go through the model together and without those of any other, so that scores do not depend
    # on what else is searched. Scores are remembered for a generation of the library, and only where every picture
    # could be opened: one that is away may come back. Thread-safe.

    def __init__(self) -> None:
        self._cache: LRUCache[Hashable, Mapping[str, float]] = LRUCache(CACHED_QUERIES)
        self._cache_lock, self._model_lock = threading.Lock(), threading.Lock()

    def reranked(
        self, cross_encoder: CrossEncoder, library: LibrarySnapshot, text: str, hits: Sequence[RankedItem], count: int
    ) -> list[RankedItem]:
        """The first `count` hits by falling matching score, ties by id; the rest behind them, in their old order."""
        # A picture that cannot be opened any more has no matching score; it comes behind those that have one. Scores of
        # the rest are shifted to begin a unit below the last of these: what counts is that they fall (as with tail
        # "kept" in `visir.retrieval.rerank`).
        scores = self._scores(cross_encoder, library, text, tuple(sorted(hit.id for hit in hits[:count])))
        first = sorted((hit for hit in hits if hit.id in scores), key=lambda hit: (-scores[hit.id], hit.id))
        if not first:
            return list(hits)
        reranked = [
            replace(hit, rank=rank, score=scores[hit.id],
                    parts={**hit.parts, "matching": (rank, scores[hit.id])})
            for rank, hit in enumerate(first, 1)
        ]  # fmt: skip
        rest = [hit for hit in hits if hit.id not in scores]
        shift = scores[first[-1].id] - 1 - rest[0].score if rest else 0.0
        return reranked + [
            replace(hit, rank=rank, score=hit.score + shift) for rank, hit in enumerate(rest, len(reranked) + 1)
        ]

    def _scores(
        self, cross_encoder: CrossEncoder, library: LibrarySnapshot, text: str, items: tuple[str, ...]
    ) -> Mapping[str, float]:
        key = (library.folder, library.generation, text, items)
        with self._cache_lock:
            scores = self._cache.get(key)
        if scores is None:
            scores = self._computed(cross_encoder, library, text, items)
            if len(scores) == len(items):
                with self._cache_lock:
                    self._cache[key] = scores
        return scores

    def _computed(
        self, cross_encoder: CrossEncoder, library: LibrarySnapshot, text: str, items: tuple[str, ...]
    ) -> Mapping[str, float]:
        from visir.collections.images import opened

        pixels: dict[str, Pixels] = {}
        for item in items:  # pixels of the model's size wait for the others, not the whole photo
            try:
                with opened(library.open_image(item)[0], item) as picture:
                    pixels[item] = cross_encoder.preprocess(picture)
            except (LibraryError, ImageError):
                continue
        if not pixels:
            return {}
        with self._model_lock:
            scores = cross_encoder.score_pixels(list(pixels.values()), [text] * len(pixels))
        return dict(zip(pixels, map(float, scores), strict=True))

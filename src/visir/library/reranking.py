"""A second stage: the best few hits, put in order by a model that looks at picture and text at once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.inputs import Pixels
from visir.errors import ImageError
from visir.library.kept import Kept
from visir.library.layout import LibraryError
from visir.library.library import Library
from visir.library.results import LibraryHit

PAIRS_KEPT = 512


class Reranker:
    """Orders hits by a matching head, one query at a time, and remembers the last ones, for their next pages.

    The hits of one query go through the model together and without those of any other, so that scores do not depend on
    what else is asked. Thread-safe.
    """

    def __init__(self) -> None:
        self._kept: Kept[tuple[str, tuple[str, ...]], Mapping[str, float]] = Kept(PAIRS_KEPT)
        self._model = threading.Lock()

    def reranked(
        self, cross_encoder: CrossEncoder, library: Library, text: str, hits: Sequence[LibraryHit], most: int
    ) -> list[LibraryHit]:
        """The first `most` hits by falling matching score, ties by id; the rest behind them, in their old order.

        A picture that cannot be opened any more has no matching score; it comes behind those that have one. Scores of
        the rest are shifted to begin a unit below the last of these: what counts is that they fall (as with tail
        "kept" in `visir.search.rerank`).
        """
        best = sorted(hit.item for hit in hits[:most])
        scores = self._kept.get((text, tuple(best)), lambda: self._scores(cross_encoder, library, text, best))
        head = sorted((hit for hit in hits if hit.item in scores), key=lambda hit: (-scores[hit.item], hit.item))
        if not head:
            return list(hits)
        made = [
            replace(hit, rank=rank, score=scores[hit.item],
                    parts={**hit.parts, "matching": (rank, scores[hit.item])})
            for rank, hit in enumerate(head, 1)
        ]  # fmt: skip
        rest = [hit for hit in hits if hit.item not in scores]
        shift = scores[head[-1].item] - 1 - rest[0].score if rest else 0.0
        return made + [replace(hit, rank=rank, score=hit.score + shift) for rank, hit in enumerate(rest, len(made) + 1)]

    def _scores(
        self, cross_encoder: CrossEncoder, library: Library, text: str, items: Sequence[str]
    ) -> dict[str, float]:
        from visir.collections.images import opened

        pixels: dict[str, Pixels] = {}
        for item in items:  # what waits for the others is as large as the model's input, and not as the photo
            try:
                with opened(library.open_image(item)[0], item) as picture:
                    pixels[item] = cross_encoder.preprocess(picture)
            except (LibraryError, ImageError):
                continue
        if not pixels:
            return {}
        with self._model:
            found = cross_encoder.score_pixels(list(pixels.values()), [text] * len(pixels))
        return dict(zip(pixels, map(float, found), strict=True))

"""The pictures and captions that the shown queries need, by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from visir.errors import CollectionError
from visir.records import SIDES, Collection
from visir.reports.examples import Example
from visir.reports.thumbnails import Thumbnail, thumbnails
from visir.robustness.corruptions import pictures

TEXT_LIMIT = 600
"""Characters of a caption that are shown; product descriptions can be pages long."""


class Library:
    """Captions (cut to `TEXT_LIMIT`), thumbnails, and alternative texts of what the chosen queries mention.

    `budget` bounds the bytes of all thumbnails together. Raises `CollectionError` when an id is not in the collection.
    """

    def __init__(self, collection: Collection | None, shown: Mapping[str, Sequence[Example]], *, budget: int) -> None:
        self._texts: dict[str, str] = {}
        self._pictures: dict[str, Thumbnail] = {}
        self._alts: dict[str, str] = {}
        if collection is None:
            return
        images, captions = _mentioned(shown)
        self._texts = _captions(collection, "id", captions)
        self._alts = _captions(collection, "image_id", images)
        found = pc.index_in(pa.array(images, pa.string()), collection.images["id"]).to_pylist()
        rows = {one: row for one, row in zip(images, found, strict=True) if row is not None}
        for kind, wanted, known in (("image", images, rows), ("caption", captions, self._texts)):
            strange = [one for one in wanted if one not in known]
            if strange:
                raise CollectionError(
                    f"{collection.name}: the runs speak of {kind} {strange[0]!r}, which is not in the collection "
                    f"({len(strange)} such among those to be shown).",
                    hint="give the collection and split that was searched",
                )
        look = pictures(collection)
        self._pictures = thumbnails(images, lambda one: look(rows[one]), budget=budget)

    def text(self, caption: str) -> str:
        """What a caption says."""
        return self._texts.get(caption, caption)

    def picture(self, image: str) -> Thumbnail:
        """The picture, or the reason why there is none."""
        return self._pictures[image]

    def alt(self, image: str) -> str:
        """The alternative text of a picture: its first caption, otherwise its id."""
        return self._alts.get(image, image)

    @property
    def missing(self) -> list[str]:
        """Why pictures could not be had, one reason each."""
        return [picture.reason for picture in self._pictures.values() if not picture.uri]


def cut(text: str) -> str:
    """A caption on one line, shortened where it is very long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= TEXT_LIMIT else flat[: TEXT_LIMIT - 1] + "…"


def _mentioned(shown: Mapping[str, Sequence[Example]]) -> tuple[list[str], list[str]]:
    """Ids of images and of captions, each once. The two must not be mixed: both may be called "1"."""
    images: dict[str, None] = {}
    captions: dict[str, None] = {}
    for task, examples in shown.items():
        queries, answers = (images, captions) if SIDES[task][0] == "image" else (captions, images)
        for example in examples:
            queries[example.query] = None
            answers.update(dict.fromkeys(one.id for one in (*example.positives, *example.top)))
    return list(images), list(captions)


def _captions(collection: Collection, column: str, ids: Sequence[str]) -> dict[str, str]:
    """The (first) caption of each id in a column of the caption table."""
    rows = collection.captions.filter(pc.is_in(collection.captions[column], pa.array(ids, pa.string())))
    found: dict[str, str] = {}
    for one, text in zip(rows[column].to_pylist(), rows["text"].to_pylist(), strict=True):
        found.setdefault(one, cut(text))
    return found

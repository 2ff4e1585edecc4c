"""What a page shows of the items that its runs speak of: short texts and small pictures, by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from PIL.Image import Image

from visir.collections.images import ImageReader
from visir.errors import CollectionError
from visir.records import Collection, Items
from visir.reports.page import Block, Inline, Thumbnail, Tile, environment, thumbnails
from visir.reports.table import shortened
from visir.robustness.corruptions import spoilt

# What a notebook shows of an object: its blocks as one piece of HTML that needs nothing else.

PICTURES = 24
"""How many pictures are shown at most."""
BUDGET = 240_000
"""How many bytes all pictures of one output may take together."""


def to_notebook(blocks: Sequence[Block], label: str) -> str:
    """The blocks as HTML for the output of a notebook's cell; every text is escaped."""
    return environment().get_template("notebook.html.j2").render(blocks=blocks, label=label)


TEXT_LIMIT = 600
"""Characters of a text that are shown; product descriptions can be pages long."""
_List = tuple[str, str, str, str]
"""What tells one list of items from another."""


class ShownItems:
    """Texts (cut to `TEXT_LIMIT`), thumbnails and alternative texts of some items of several lists."""

    def __init__(
        self,
        lists: Sequence[tuple[Items, Iterable[str]]],
        *,
        budget: int,
        alternatives: Mapping[str, str] | None = None,
    ) -> None:
        self._alternatives = alternatives or {}
        self._texts: dict[tuple[_List, str], str] = {}
        chosen: dict[_List, Items] = {}
        shown_ids: dict[_List, dict[str, None]] = {}
        for items, ids in lists:
            chosen.setdefault(_key(items), items)
            shown_ids.setdefault(_key(items), {}).update(dict.fromkeys(ids))
        readers: dict[_List, _Opener] = {}
        for key, items in chosen.items():
            chosen[key] = part = _select(items, list(shown_ids[key]))
            if part.texts is not None:
                for name, text in zip(part.ids.to_pylist(), part.texts.to_pylist(), strict=True):
                    if text is not None:
                        self._texts[key, name] = cut(text)
            if part.places is not None:
                readers[key] = _Opener(part)
        pictures = [(key, name) for key, reader in readers.items() for name in reader.names]
        self._pictures = thumbnails(pictures, lambda key: readers[key[0]](key[1]), budget=budget)

    def text(self, items: Items, name: str) -> str:
        """The text of an item; its id where it has none."""
        return self._texts.get((_key(items), name), name)

    def picture(self, items: Items, name: str) -> Thumbnail | None:
        """The picture of an item, or the reason why it is missing; None for an item that is a text only."""
        return self._pictures.get((_key(items), name))

    def alternative(self, items: Items, name: str) -> str:
        """What an item shows, in words: its text, what is known of its picture, or its id."""
        return self._texts.get((_key(items), name)) or self._alternatives.get(name, name)

    def tile(
        self, items: Items, name: str, note: Inline = "", *, right: bool | None = None, alt: str = "", hint: str = ""
    ) -> Tile:
        """An item as a tile."""
        picture = self.picture(items, name)
        text = self._texts.get((_key(items), name), "" if picture is not None else name)
        if not alt or picture is None or not picture.uri:
            alt = self.alternative(items, name)
        return Tile(text, picture, alt, note, right, hint or name)

    @property
    def missing(self) -> str:
        """How many pictures could not be had, as a sentence; "" for none."""
        count = sum(not picture.uri for picture in self._pictures.values())
        if not count:
            return ""
        if count == 1:
            return "One picture is not at hand; its caption stands in for it."
        return f"{count} pictures are not at hand; their captions stand in for them."


class _Opener:
    """Opens the pictures of items by id, changed as for a model, and in the colours of a screen."""

    def __init__(self, items: Items) -> None:
        self._reader, self._change = ImageReader(items, on_screen=True), spoilt(items)
        places = items.images
        self._rows = {
            name: row
            for row, (name, path) in enumerate(
                zip(*(places[column].to_pylist() for column in ("id", "path")), strict=True)
            )
            if path is not None or items.texts is None  # an item without a place is a text only, if it has a text
        }
        self.names = list(self._rows)

    def __call__(self, name: str) -> Image:
        row = self._rows[name]
        return self._change(row, self._reader.open(row))


def cut(text: str) -> str:
    """A text on one line, shortened where it is very long."""
    return shortened(" ".join(text.split()), TEXT_LIMIT)


def first_captions(collection: Collection, images: Iterable[str]) -> dict[str, str]:
    """The first caption of each of these images that has one."""
    ids = pa.array(dict.fromkeys(images), pa.string())
    captions = collection.captions.filter(pc.is_in(collection.captions["image_id"], ids))
    first: dict[str, str] = {}
    for image, text in zip(captions["image_id"].to_pylist(), captions["text"].to_pylist(), strict=True):
        first.setdefault(image, cut(text))
    return first


def _key(items: Items) -> _List:
    return items.title, str(items.root), items.fingerprint, items.places_fingerprint


def _select(items: Items, ids: list[str]) -> Items:
    """The items of these ids."""
    are_known = pc.is_in(pa.array(ids, pa.string()), items.ids).to_pylist()
    unknown = [name for name, is_known in zip(ids, are_known, strict=True) if not is_known]
    if unknown:
        raise CollectionError(
            f"{items.name}: the runs speak of {items.title.removesuffix('s')} {unknown[0]!r}, which is not in the "
            f"collection ({len(unknown)} such among those to be shown).",
            hint="give the collection and split that was searched",
            code="runs-speak-not-collection",
        )
    return items.select(ids)

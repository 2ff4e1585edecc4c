"""Pictures of a library as Python hands them out: with a name, a path, a thumbnail, and in a notebook as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from visir.display import WIDTH, Columnar, Displayed, brief, cut_path, quoted
from visir.library.results import ResultPage, count_in_words

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.library.item import Item, ItemFile
    from visir.library.price_words import ReadWords
    from visir.library.query import Query
    from visir.library.snapshot import LibrarySnapshot

_LINES = 5
"""Hits that the `repr` of an answer lists."""
_PATH_WIDTH = WIDTH - 16
"""How wide paths are shown in a `repr`, beside a rank and a score."""


@dataclass(frozen=True, repr=False)
class LibraryPicture(Displayed, view="visir.library.reports.pictures"):
    """A picture of a library.

    Attributes:
        item: Everything that the library knows of it.
        path: Where it lies, absolute; None for a generated picture and for one inside an archive.
        webp: The bytes of its thumbnail; None where there is none.
    """

    item: Item
    path: Path | None
    webp: bytes | None = field(repr=False)

    @property
    def id(self) -> str:
        """Its id: the first 32 hexadecimal digits of the SHA-256 of its bytes."""
        return self.item.id

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.item.name

    @property
    def fields(self) -> dict[str, Any]:
        """What the source says of it, by name: a value, or a list where there are several."""
        values: dict[str, list[Any]] = {}
        for name, value in self.item.fields:
            values.setdefault(name, []).append(value)
        return {name: each[0] if len(each) == 1 else each for name, each in values.items()}

    @property
    def label(self) -> str:
        """What a line of a list shows of it: its path, or of a product its title, price and id."""
        if self.item.product is None:
            return str(self.path or self.name)
        price = self.item.price
        return f"{self.name}{f', {price}' if price else ''}  [{self.item.product}]"

    @property
    def caption(self) -> str | None:
        """Its first caption; None where the source has no captions."""
        return self.item.captions[0][1] if self.item.captions else None

    @property
    def category(self) -> str:
        """The folder it lies in, or the category that the source names."""
        return self.item.category

    @property
    def thumbnail(self) -> Image | None:
        """A small picture, at most 320 × 320 pixels; None where there is none."""
        if self.webp is None:
            return None
        from visir.collections.images import decode  # a stranger's library may hold anything under this name

        return decode(self.webp, f"the thumbnail of {self.item.name}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: `id`, `name`, `path`, `caption`, `category`, `width`, `height`, `taken`, `camera`.

        Of a product `product`, its id, and `price` too.
        """
        item = self.item
        return {
            "id": self.id,
            "name": self.name,
            "path": None if self.path is None else str(self.path),
            "caption": self.caption,
            "category": self.category,
            "width": item.width,
            "height": item.height,
            "taken": item.taken,
            "camera": item.camera,
            **({} if item.product is None else {"product": item.product, "price": self.fields.get("price")}),
        }

    def __repr__(self) -> str:
        return brief(
            self, f"{quoted(self.name)}, id {self.id[:8]}…", cut_path(self.path or "", _PATH_WIDTH), self.caption or ""
        )


@dataclass(frozen=True, repr=False)
class LibraryHit(LibraryPicture):
    """A picture of an answer.

    Attributes:
        rank: From 1, over all pages.
        score: The score that ranks it; see `visir.library.results.RankedItem`.
        parts: From each system that listed it ("words", "dense", "sparse", "matching") to its rank and score there.
    """

    rank: int
    score: float
    parts: Mapping[str, tuple[int, float]]

    def to_dict(self) -> dict[str, Any]:
        """Return `rank` and `score`, and the values of the picture."""
        return {"rank": self.rank, "score": self.score, **super().to_dict()}

    def __repr__(self) -> str:
        return brief(
            self, f"{self.rank}, {quoted(self.name)}, score {self.score:.4f}", cut_path(self.path or "", _PATH_WIDTH)
        )


@dataclass(frozen=True, repr=False)
class LibraryResults(Columnar, Sequence[LibraryHit], view="visir.library.reports.results"):
    """The answer to a search in a library; a sequence of its hits, best first.

    Attributes:
        hits: Best first.
        total: How many items the answer has on all its pages: what words found, or all that vectors ranked.
        next_offset: The `offset` of the next page; None where the answer ends.
        by: What answered: "words", "vectors", "both", or "filters", where what satisfies conditions is listed.
        system: The system of vectors that answered: "dense", "sparse" or "hybrid"; None for words alone.
        label: What people call it: "late interaction" for the dense system of a model that makes several vectors.
        query: What was searched.
        seconds: By stage: "filter", "encode", "search", "fuse", "rerank".
        library: The name of the library.
        generation: Of the library.
        unit: What the items are: "pictures" or "products".
        read: Words of the query that became conditions: "under 50". `read_prices=False` searches for them as words.
        changes: What was searched beside or instead of words of the query, a sentence each.
        matched: How many items share a word with the query; None where words have no part in the answer.
    """

    hits: tuple[LibraryHit, ...]
    total: int
    next_offset: int | None
    by: str
    system: str | None
    label: str
    query: Query = field(repr=False)
    seconds: Mapping[str, float]
    library: str
    generation: int
    unit: str = "pictures"
    read: tuple[ReadWords, ...] = ()
    changes: tuple[str, ...] = ()
    matched: int | None = None

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[LibraryHit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, index: int) -> LibraryHit: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[LibraryHit, ...]: ...

    def __getitem__(self, index: int | slice) -> LibraryHit | tuple[LibraryHit, ...]:
        return self.hits[index]

    @property
    def title(self) -> str:
        """What was searched, in words: "'a red car' in holidays"."""
        query = self.query
        parts = [quoted(query.text)] if query.text and query.text.strip() else []
        parts += ["a picture"] if query.image is not None else []
        parts += [f"like {query.like}"] if query.like is not None else []
        parts += [f"in {query.category}"] if query.category else []
        parts += [f"where {condition}" for condition in query.where]
        parts += [f"{words.words!r} as {' and '.join(map(str, words.where))}" for words in self.read]
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: `hits` (see `LibraryHit.to_dict`), `total`, `matched`, `next_offset`, …."""
        return {
            "hits": [hit.to_dict() for hit in self.hits],
            "total": self.total,
            "matched": self.matched,
            "next_offset": self.next_offset,
            "by": self.by,
            "system": self.system,
            "label": self.label,
            "seconds": dict(self.seconds),
            "generation": self.generation,
            "changes": list(self.changes),
        }

    @property
    def how_many(self) -> str:
        """How many of how many, in words: "2 of 2 products found", "10 of 1,050 products, ranked"."""
        if not self.hits:
            return f"nothing behind rank {self.total:,}" if self.total else "nothing found"
        filtered = bool(self.query.where or self.query.category or self.read)
        return f"{len(self.hits)} of " + count_in_words(
            self.total,
            self.matched,
            by=self.by,
            system=self.system,
            label=self.label,
            unit=self.unit,
            filtered=filtered,
        )

    def __repr__(self) -> str:
        label = [] if self.by == "filters" else [self.label]
        lines = [f"{hit.rank:>3}  {hit.score:.4f}  {cut_path(hit.label, _PATH_WIDTH)}" for hit in self.hits]
        return brief(self, f"{self.title}: {', '.join([self.how_many, *label])}", *self.changes, *lines)


def picture_of(snapshot: LibrarySnapshot, item: Item) -> LibraryPicture:
    """An item of a library with its path and its thumbnail."""
    return LibraryPicture(item, path_of(snapshot, item), snapshot.thumbnail(item.id))


def results_of(snapshot: LibrarySnapshot, query: Query, page: ResultPage) -> LibraryResults:
    """A page of answers with what people see of each hit. What has been deleted meanwhile is left out."""
    existing = snapshot.existing(hit.id for hit in page.hits)
    ranked = [hit for hit in page.hits if hit.id in existing]
    hits = tuple(
        LibraryHit(item, path_of(snapshot, item), snapshot.thumbnail(item.id), hit.rank, hit.score, hit.parts)
        for hit, item in zip(ranked, snapshot.items(hit.id for hit in ranked), strict=True)
    )
    return LibraryResults(
        hits,
        page.total,
        page.next_offset,
        page.by,
        page.system,
        page.label,
        query,
        page.seconds,
        snapshot.name,
        page.generation,
        snapshot.card.unit,
        page.read,
        page.changes,
        page.matched,
    )


def path_of(snapshot: LibrarySnapshot, item: Item) -> Path | None:
    """Where the first file of an item lies; None for what is no file by itself."""
    paths = (path_of_file(snapshot, file) for file in item.files)
    return next((path for path in paths if path is not None), None)


def path_of_file(snapshot: LibrarySnapshot, file: ItemFile) -> Path | None:
    """Where a file lies, absolute; None inside an archive, and for what is generated."""
    from visir.collections.images import SCENE

    if file.place is None or file.archive is not None or file.place.startswith(SCENE):
        return None
    return Path(snapshot.card.root, file.place)

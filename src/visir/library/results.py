"""What a library answers: pictures and products, pages of them, why one is an answer, and what is there twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from visir.display import WIDTH, Columnar, Displayed, brief, counted, cut_path, quoted
from visir.library.check import Item, ItemFile
from visir.library.duplicates import NEAR, duplicates
from visir.library.price_words import ReadWords
from visir.library.query import AnsweredBy, Query, System
from visir.library.snapshot import LibrarySnapshot
from visir.retrieval.text.index import FoundWord
from visir.sparse.top_terms import Match

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.reports.examples import WordRegions


@dataclass(frozen=True)
class RankedItem:
    """A picture of an answer."""

    id: str  # of the picture
    rank: int  # from 1, over all pages
    # The score that ranks it: a cosine (dense), a sum of matched words' products (sparse), the fused score (both,
    # hybrid), a BM25F score (words), or that of the matching head. The scores of hits behind re-ranked ones are shifted
    # below the last of them, so that scores never rise.
    score: float
    # From each system that listed it ("words", "dense", "sparse", "matching") to its rank and score there.
    parts: Mapping[str, tuple[int, float]]


@dataclass(frozen=True)
class ResultPage:
    """A page of answers.

    Attributes:
        hits: Best first.
        total: How many items the answer has on all its pages. Vectors rank all that pass the filters, as no score says
            which of them fit; words find those that share a word with the query.
        next_offset: Where the next page begins; None where the answer ends.
        by: What answered: "words", "vectors", "both", or "filters", where what satisfies conditions was listed.
        system: The system of vectors that answered, as a query names it; None for words alone.
        label: What people call it: "late interaction" for the dense system of a model that makes several vectors,
            "words and dense" for both; of filters alone the order: "newest first", "by name".
        text: The text that was searched with, if any.
        seconds: By stage: "filter", "encode", "search", "fuse", "rerank"; of all queries that were answered together.
        generation: Of the library that answered.
        read: Words of the text that became conditions: "under 50".
        changes: What was searched beside or instead of the words of the text, a sentence each.
        matched: How many items share a word with the query; None where words have no part in the answer.
    """

    hits: tuple[RankedItem, ...]
    total: int
    next_offset: int | None
    by: AnsweredBy
    system: System | None
    label: str
    text: str | None
    seconds: Mapping[str, float]
    generation: int
    read: tuple[ReadWords, ...] = ()
    changes: tuple[str, ...] = ()
    matched: int | None = None


def count_in_words(
    total: int, matched: int | None, *, by: str, system: str | None, label: str, unit: str, filtered: bool
) -> str:
    """How many items an answer has, and in what sense: found, ranked, or listed."""
    passing = f"that {'passes' if total == 1 else 'pass'} the filters"
    items = counted(total, unit) + (f" {passing}" if filtered else "")
    if by == "filters":
        return f"{items}, {label}"
    if by == "words" and matched is None:  # words that are conditions themselves, "under 500", and no others
        return items
    if system in (None, "sparse"):
        return f"{items} found" if not filtered else f"{counted(total, unit)} found among those that pass the filters"
    shared = "" if matched is None else f"; {matched:,} found by words"
    return f"{items}, ranked{shared}"


# Pictures of a library as Python hands them out: with a name, a path, a thumbnail, and in a notebook as pictures.

_LINES = 5
"""Hits that the `repr` of an answer lists."""
_PATH_WIDTH = WIDTH - 16
"""How wide paths are shown in a `repr`, beside a rank and a score."""


@dataclass(frozen=True, repr=False)
class LibraryPicture(Displayed):
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
class LibraryResults(Columnar, Sequence[LibraryHit]):
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


# Why a picture is an answer.


@dataclass(frozen=True)
class SystemScore:
    """A picture's place in the list of one system."""

    rank: int | None  # from 1; None when it is beyond the list
    score: float  # the system's own
    contribution: float  # what it added to the answer's score: all of it, or its part of the fused score
    label: str  # what people call the system


@dataclass(frozen=True)
class HitExplanation:
    """Why a picture answers a query."""

    # Words that both have, with the weights of both sides; they are the sparse score, taken apart. Empty where the
    # library has no weighted words.
    terms: tuple[Match, ...]
    # (text, score) of the captions nearest to the picture, its own and others', by the dense model.
    captions: tuple[tuple[str, float], ...]
    parts: Mapping[str, SystemScore]  # rank, score and contribution of each system
    words: tuple[tuple[str, float], ...]  # (word, weight), the heaviest of the picture
    # The words of the query that the texts of a product have, where they stand, and what each adds to its score.
    found_words: tuple[FoundWord, ...] = ()
    # What each word of the query matched in the picture, or why that is not known (`missing`); None for a model that
    # makes one vector for each, or a query without a text.
    regions: WordRegions | None = None


@dataclass(frozen=True, repr=False)
class ExplainedPicture(Displayed):
    """Why a picture answers a search. In a notebook it shows what each word matched in the picture."""

    picture: LibraryPicture  # the picture
    query: Query  # what was searched
    explanation: HitExplanation  # the reasons

    @property
    def regions(self) -> WordRegions | None:
        """What each word matched in the picture; None for a model that makes one vector for each."""
        return self.explanation.regions

    @property
    def terms(self) -> tuple[Match, ...]:
        """Weighted words that both have; empty where the library has none."""
        return self.explanation.terms

    @property
    def captions(self) -> tuple[tuple[str, float], ...]:
        """(text, score) of the captions nearest to the picture; empty where the source has none."""
        return self.explanation.captions

    @property
    def parts(self) -> Mapping[str, SystemScore]:
        """Rank, score and contribution of each system."""
        return self.explanation.parts

    def __repr__(self) -> str:
        scores = ", ".join(f"{part.label}: rank {part.rank or 'beyond the list'}, score {part.score:.4f}"
                           for part in self.parts.values())  # fmt: skip
        words = self.regions.words if self.regions is not None else ()
        return brief(
            self,
            quoted(self.picture.name),
            scores,
            ", ".join(f"{word.word} {word.score:.2f}" for word in words),
            ", ".join(f"{term.term} {term.share:.0%}" for term in self.terms[:6]),
            ", ".join(f"{'/'.join(match.words)} {match.score:.2f}" for match in self.explanation.found_words[:6]),
        )


# What is there more than once.


@dataclass(frozen=True, repr=False)
class DuplicatePictures(Displayed):
    """Pictures that a library has more than once, with what people see of them.

    Attributes:
        exact: Paths of files with the same content, group by group.
        near: Pictures that look alike, group by group.
    """

    exact: tuple[tuple[Path, ...], ...]
    near: tuple[tuple[LibraryPicture, ...], ...]

    @classmethod
    def of(cls, snapshot: LibrarySnapshot, *, near: int | None = None) -> DuplicatePictures:
        """Those of a library; `near` as in `duplicates`."""
        groups, root = duplicates(snapshot.database, near=NEAR if near is None else near), Path(snapshot.card.root)
        return cls(
            tuple(tuple(root / path for path in group) for group in groups.exact),
            tuple(tuple(picture_of(snapshot, item) for item in snapshot.items(group)) for group in groups.near),
        )

    def __repr__(self) -> str:
        groups = [[path.name for path in group] for group in self.exact]
        groups += [[picture.name for picture in group] for group in self.near]
        head = f"{counted(len(self.exact), 'groups')} of equal files, {counted(len(self.near), 'groups')} of near ones"
        return brief(self, head, *(", ".join(group) for group in groups))

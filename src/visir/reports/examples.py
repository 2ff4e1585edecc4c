"""Which queries are shown: the best, the worst, and the ones lost by a hair, chosen deterministically."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EncoderError
from visir.records import Collection, Items, Qrels, Result, Run, Task, strings
from visir.reports.page import Figure, Thumbnail
from visir.reports.shown import ShownItems, first_captions
from visir.reports.table import shortened
from visir.retrieval import alignment

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.base import Encoder


Kind = Literal["worst", "near", "best"]
RANK_COLUMNS = ("median_rank", "mean_rank")
"""Per-query columns that hold the rank of the first positive (the median and the mean are over queries, not within)."""


@dataclass(frozen=True)
class Answer:
    """One document in the answer to a query; `score` is None for a positive further down than the run goes."""

    id: str
    rank: int | None
    score: float | None
    positive: bool


@dataclass(frozen=True)
class Example:
    """One query: `rank` of its first positive (None: not found), its `positives`, and the `top` of its answer."""

    query: str
    rank: int | None
    positives: tuple[Answer, ...]
    top: tuple[Answer, ...]


def first_ranks(result: Result, task: str) -> tuple[pa.StringArray, NDArray[np.float64]] | None:
    """Query ids and ranks of the first positive, from 1, infinite where none was found; None if the result has none."""
    table = result.per_query.get(task)
    for name in RANK_COLUMNS:
        if table is not None and name in table.column_names:
            ranks = result.values(task, name)
            # The rank measures count a positive that was not found as one below the last that was looked at.
            deepest = np.inf if result.protocol.depth is None else result.protocol.depth
            return strings(table["query_id"]), np.where(ranks <= deepest, ranks, np.inf)
    return None


def shown_examples(examples: Iterable[tuple[Task, Example]], collection: Collection | None, budget: int) -> ShownItems:
    """The texts and pictures of queries and of their answers."""
    lists: list[tuple[Items, list[str]]] = []
    for task, example in examples:
        lists.append((task.queries, [example.query]))
        lists.append((task.documents, [answer.id for answer in (*example.positives, *example.top)]))
    # The thumbnails are made in the order of the page, and share one budget.
    pictures = [name for items, ids in lists if items.modality == "image" for name in ids]
    captions = {} if collection is None else first_captions(collection, pictures)
    return ShownItems(lists, budget=budget, alternatives=captions)


class ExampleQueries:
    """The queries of one run, from which `choose` picks."""

    def __init__(self, run: Run, qrels: Qrels, result: Result | None = None) -> None:
        self.run, self.qrels = run, qrels
        self.positive = _positives(run, qrels)
        lengths = np.diff(run.offsets)
        within = np.arange(len(run.indices)) - np.repeat(run.offsets[:-1], lengths)
        self.ranks = np.full(len(run), np.inf)
        rows = np.repeat(np.arange(len(run)), lengths)[self.positive]
        np.minimum.at(self.ranks, rows, within[self.positive] + 1.0)
        judged = qrels.queries.filter(pa.array(qrels.positives > 0))
        self.judged = pc.is_in(run.queries, judged).to_numpy(zero_copy_only=False)
        measured = first_ranks(result, run.task) if result is not None else None
        if measured is not None:
            positions = pc.index_in(run.queries, measured[0])
            # Only what the run does not show is taken over, so that the pictures always agree with the rank above them.
            deeper = ~np.isfinite(self.ranks) & pc.is_valid(positions).to_numpy(zero_copy_only=False)
            exact = measured[1][pc.fill_null(positions, 0).to_numpy()]
            # A positive that is no candidate is found by nobody.
            outside = exact > run.gallery.size if run.gallery.is_known else np.isinf(exact)
            self.ranks = np.where(deeper & ~outside, np.maximum(exact, lengths + 1), self.ranks)
        self._margins = self._margin()

    def choose(
        self, kind: Kind, count: int = 6, top: int = 5, group: Callable[[str], str] | None = None
    ) -> list[Example]:
        """The queries of one kind."""
        # - "worst": the first positive stands lowest
        # - "near": a wrong document is first and a positive close behind, the smallest difference in score first
        # - "best": a positive is first, the largest lead over the best wrong document first
        # Ties are broken by query id.
        if kind == "worst":
            chosen, keys = np.flatnonzero(self.judged & (self.ranks > 1)), -self.ranks
        elif kind == "near":
            near = (self.ranks > 1) & np.isfinite(self._margins)
            chosen, keys = np.flatnonzero(self.judged & near), -self._margins
        else:
            chosen, keys = np.flatnonzero(self.judged & (self.ranks == 1)), -self._margins
        ids = self.run.queries.take(pa.array(chosen)).to_numpy(zero_copy_only=False)
        taken, groups = [], set()
        for row in chosen[np.lexsort((ids, keys[chosen]))]:
            query = self.run.queries[int(row)].as_py()
            name = group(query) if group else query
            if name not in groups:
                groups.add(name)
                taken.append(self.example(int(row), top))
            if len(taken) == count:
                break
        return taken

    def example(self, row: int, top: int = 5) -> Example:
        """The query in a row of the run, with its positives and the top of its answer."""
        query = self.run.queries[row].as_py()
        start, stop = int(self.run.offsets[row]), int(self.run.offsets[row + 1])
        ids = self.run.documents.take(pa.array(self.run.indices[start:stop])).to_pylist()
        answers = [
            Answer(document, rank, float(score), bool(right))
            for rank, (document, score, right) in enumerate(
                zip(ids, self.run.scores[start:stop], self.positive[start:stop], strict=True), 1
            )
        ]
        shown = {answer.id: answer for answer in answers if answer.positive}
        position = pc.index(self.qrels.queries, query).as_py()
        first, last = self.qrels.offsets[position], self.qrels.offsets[position + 1]
        positives = self.qrels.documents[first:last].filter(pa.array(self.qrels.grades[first:last] > 0))
        rank = self.ranks[row]
        # With a single positive its exact rank is known even when the run stops before it.
        deeper = int(rank) if np.isfinite(rank) and len(positives) == 1 else None
        right = [shown.get(document) or Answer(document, deeper, None, True) for document in positives.to_pylist()]
        right.sort(key=lambda answer: (answer.rank or np.inf, answer.id))
        return Example(query, int(rank) if np.isfinite(rank) else None, tuple(right), tuple(answers[:top]))

    def _margin(self) -> NDArray[np.float64]:
        """(n,) best positive's score minus best wrong one's; infinite when either is not in the run."""
        rows = np.repeat(np.arange(len(self.run)), np.diff(self.run.offsets))
        scores = self.run.scores.astype(np.float64)
        best = np.full((2, len(self.run)), -np.inf)
        np.maximum.at(best[0], rows[self.positive], scores[self.positive])
        np.maximum.at(best[1], rows[~self.positive], scores[~self.positive])
        both = np.isfinite(best).all(axis=0)
        return np.where(both, np.where(both, best[0], 0) - np.where(both, best[1], 0), np.inf)


def by_image(collection: Collection) -> Callable[[str], str]:
    """The group of a caption: the image it was written for."""
    owner = dict(zip(collection.captions["id"].to_pylist(), collection.captions["image_id"].to_pylist(), strict=True))
    return lambda caption: owner.get(caption, caption)


def _positives(run: Run, qrels: Qrels) -> NDArray[np.bool_]:
    """(m,) which entries of the run are positives."""
    rows = np.repeat(np.arange(len(run), dtype=np.int64), np.diff(run.offsets))
    width = max(len(run.documents), 1)
    judged = np.repeat(np.arange(len(qrels), dtype=np.int64), np.diff(qrels.offsets))
    query = pc.fill_null(pc.index_in(qrels.queries, run.queries), -1).to_numpy().astype(np.int64)[judged]
    document = pc.fill_null(pc.index_in(qrels.documents, run.documents), -1).to_numpy().astype(np.int64)
    right = (qrels.grades > 0) & (query >= 0) & (document >= 0)
    return np.isin(rows * width + run.indices, query[right] * width + document[right])


# What an answer of a late-interaction model looked at: each word of a query, and the part of the picture it matched.

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, as fractions of the upright picture."""


_FAINT = "var(--plot-faint, #7a828e)"
_NO_WORDS = "Which vectors of the search stand for which words is not known of this model."
_NO_PICTURE = "The original picture cannot be read now, so the words have no places in it."
_NO_PLACES = "Which part of the picture each vector stands for is not known of this model."
_OWN_TOKENS = "The words match tokens of the model's own (a prompt, marks), which have no place in the picture."
_OTHER_VECTORS = (
    "The picture was kept with {:,} vectors, and the model has {:,} places for it, so the words have no places in it."
)


@dataclass(frozen=True)
class WordRegion:
    """A word of a query, with what it matched in a document."""

    word: str  # the word, as it stands in the text
    score: float  # what it adds to the score: the sum over its vectors of the greatest dot product
    # The part of the picture that each of its vectors matched best, without repetition; none where the vectors of the
    # document have no place.
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class WordRegions:
    """The words of a text, with what they matched in a document."""

    words: tuple[WordRegion, ...]  # in the order of the text
    other: float = 0.0  # what the model's own tokens (a prompt, marks of beginning and end, padding) add to the score
    missing: str = ""  # why there are no words, or no places for them; empty where there are

    @property
    def score(self) -> float:
        """The MaxSim score of text and document."""
        return self.other + sum(word.score for word in self.words)


def word_regions(
    encoder: Encoder, text: str, query: NDArray[Any], document: NDArray[Any], image: Image | None = None
) -> WordRegions:
    """Find what each word of a text matched in a document."""
    # query: (t, d) its vectors.
    # document: (s, d) the vectors of the document.
    best, scores = alignment(query, document)
    boxes, missing = _boxes(encoder, len(document), image)
    pieces = _pieces(encoder, text, len(query))
    if pieces is None:
        return WordRegions((), float(scores.sum()), _NO_WORDS)
    owners = words_of_pieces(text, pieces)
    words = text.split()
    matched: list[WordRegion] = []
    for position, word in enumerate(words):
        own = [row for row, owner in enumerate(owners) if owner == position]
        if own:
            places = dict.fromkeys(boxes[best[row]] for row in own)
            matched.append(WordRegion(word, float(scores[own].sum()), tuple(box for box in places if box is not None)))
    other = float(sum(scores[row] for row, owner in enumerate(owners) if owner is None))
    if not matched:
        missing = _NO_WORDS
    elif not missing and not any(word.boxes for word in matched):
        missing = _OWN_TOKENS
    return WordRegions(tuple(matched), other, missing)


def words_of_pieces(text: str, pieces: Sequence[str]) -> list[int | None]:
    """Which word of a text each piece of its tokenizer belongs to; None for those that are not of the text."""
    # The pieces of the text are the run of pieces that, joined, are the text without its spaces. Where there is no such
    # run (an unknown character, accents that the tokenizer drops), each piece belongs to the next word that begins with
    # it or goes on with it.
    plain = [_plain(piece) for piece in pieces]
    spelled = [_plain(word) for word in text.split()]
    owner_of_letter = [position for position, word in enumerate(spelled) for _ in word]
    whole = "".join(spelled)
    for start in range(len(plain)):
        joined, stop = "", start
        while stop < len(plain) and whole.startswith(joined + plain[stop]) and len(joined) < len(whole):
            joined, stop = joined + plain[stop], stop + 1
        if joined == whole and whole:
            owners: list[int | None] = [None] * len(plain)
            letter = 0
            for row in range(start, stop):
                owners[row] = owner_of_letter[min(letter, len(owner_of_letter) - 1)]
                letter += len(plain[row])
            return owners
    return _nearest_words(spelled, plain)


def region_figure(regions: WordRegions, picture: Thumbnail, *, title: str = "", name: str = "picture") -> Figure:
    """A figure with the picture once for each word, and what the word matched marked in it."""
    side, gap, line = 150.0, 14.0, 34.0
    height = side * picture.height / max(picture.width, 1)
    words = regions.words
    columns = max(1, min(5, len(words)))
    rows = -(-len(words) // columns)
    width, total = columns * (side + gap) - gap, rows * (height + line + gap)
    key = f"alignment-{_key(name)}"
    parts = [
        f'<svg viewBox="0 0 {width:.0f} {total:.0f}" style="min-width: {0.6 * width:.0f}px; max-width: {width:.0f}px" '
        f'role="img" aria-label="{escape(_spoken(regions), quote=True)}">',
        f'<defs><image id="{key}" width="{side:.0f}" height="{height:.1f}" href="{escape(picture.uri, quote=True)}"'
        "/></defs>",
    ]
    for position, word in enumerate(words):
        x, y = (position % columns) * (side + gap), (position // columns) * (height + line + gap)
        parts.append(f'<g transform="translate({x:.1f} {y:.1f})"><use href="#{key}"/>')
        if word.boxes:
            holes = "".join(
                f"M{left * side:.1f} {top * height:.1f}H{right * side:.1f}V{bottom * height:.1f}H{left * side:.1f}Z"
                for left, top, right, bottom in word.boxes
            )
            parts.append(
                f'<path d="M0 0H{side:.1f}V{height:.1f}H0Z{holes}" fill="#000" fill-opacity=".45" fill-rule="evenodd"/>'
                f'<path d="{holes}" fill="none" stroke="var(--plot-2, #D55E00)" stroke-width="2"/>'
            )
        elif not regions.missing:  # a token beside the picture matches this word best: a prompt of the model
            parts.append(
                f'<path d="M0 0H{side:.1f}V{height:.1f}H0Z" fill="#000" fill-opacity=".75"/>'
                f'<text x="{side / 2:.1f}" y="{height / 2:.1f}" font-size="12" fill="#fff" text-anchor="middle">'
                "no part of the picture</text>"
            )
        shown = escape(shortened(word.word, 18))
        parts.append(
            f'<text x="0" y="{height + 16:.1f}" font-size="13" fill="currentColor">{shown}</text>'
            f'<text x="0" y="{height + 30:.1f}" font-size="11" fill="{_FAINT}">{word.score:.2f}</text></g>'
        )
    parts.append("</svg>")
    rest = f" Tokens of the model's own add {regions.other:.2f}." if abs(regions.other) >= 0.005 else ""
    matches = "The part of the picture that each word matches best, and what that adds"
    caption = (
        f"{'What each word adds' if regions.missing else matches} to the score of {regions.score:.2f}.{rest} "
        f"{regions.missing}"
    ).rstrip()
    return Figure("".join(parts), title, caption)


def _boxes(encoder: Encoder, count: int, image: Image | None) -> tuple[list[Box | None], str]:
    """The place of each of the document's vectors, and why there is none for any of them."""
    nowhere: list[Box | None] = [None] * count
    if image is None:
        return nowhere, _NO_PICTURE
    encoder = encoder.for_role("document")  # a picture is read with other prompts as a query, so it has other vectors
    try:
        regions = np.reshape(encoder.image_regions(image), (-1, 4)) if hasattr(encoder, "image_regions") else None
    except EncoderError:  # it joins vectors, so that none of them stands for one place
        regions = None
    if regions is None or not np.isfinite(regions).all(1).any():
        return nowhere, _NO_PLACES
    if len(regions) != count:
        return nowhere, _OTHER_VECTORS.format(count, len(regions))
    return [tuple(row) if np.isfinite(row).all() else None for row in regions.tolist()], ""


def _pieces(encoder: Encoder, text: str, count: int) -> list[str] | None:
    """What each vector of a text stands for; None where the model does not say, or says it of other vectors."""
    if not hasattr(encoder, "text_pieces"):
        return None
    try:
        [pieces] = encoder.text_pieces([text], "query")
    except EncoderError:  # it joins vectors, so that none of them stands for one word
        return None
    return list(pieces) if len(pieces) == count else None


def _nearest_words(spelled: Sequence[str], plain: Sequence[str]) -> list[int | None]:
    owners: list[int | None] = []
    position, rest = -1, ""
    for piece in plain:
        if piece and rest.startswith(piece):
            rest = rest[len(piece) :]
            owners.append(position)
            continue
        following = [later for later in range(position + 1, len(spelled)) if piece and spelled[later].startswith(piece)]
        if following:
            position = following[0]
            rest = spelled[position][len(piece) :]
        owners.append(position if following else None)
    return owners


def _plain(piece: str) -> str:
    """A piece without the marks of tokenizers, in small letters."""
    return "".join(piece.removeprefix("##").removesuffix("</w>").replace("▁", "").replace("Ġ", "").split()).casefold()


def _key(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def _spoken(regions: WordRegions) -> str:
    """The figure in words, for those who cannot see it."""
    return "; ".join(f"“{word.word}” matches {spoken_place(word.boxes)}" for word in regions.words)


def spoken_place(boxes: Sequence[Box]) -> str:
    """Where boxes lie in a picture, in words."""
    return " and ".join(dict.fromkeys(map(_place, boxes))) or "no place"


def _place(box: Box) -> str:
    left, top, right, bottom = box
    x, y = (left + right) / 2, (top + bottom) / 2
    names = [("top", "", "bottom")[min(int(y * 3), 2)], ("left", "", "right")[min(int(x * 3), 2)]]
    return " ".join(name for name in names if name) or "centre"

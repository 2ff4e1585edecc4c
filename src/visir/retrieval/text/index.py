"""The text index: documents with fields, searched by words; saved in a folder, and updated without a new build."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.arrays import load_array
from visir.display import Displayed, brief, counted, listed
from visir.errors import ConfigurationError, VisirError, nearest, raise_faults
from visir.jit import pays, plain
from visir.parquet import integer_array, read_columns, text_array
from visir.records import Gallery, Run
from visir.retrieval.answers import depth_fault
from visir.retrieval.text import kernels
from visir.retrieval.text.words import Language, Lexicon, Plan, Spelling, Synonyms, plan, words_of
from visir.storage import FolderChange, FolderKind, new_folder, read_checked
from visir.storage.disk import below

if TYPE_CHECKING:
    from visir.retrieval.text.words import NearWords


# The settings of BM25F: how fields are weighted and how their lengths count.


@dataclass(frozen=True)
class Bm25F:
    """The settings of BM25F, which is BM25 over documents with several fields."""

    # score(d) = Σ over query terms idf · tf / (k1 + tf), with tf = Σ over fields w · count / (1 − b + b · length / mean
    # length of the field), and idf = ln(1 + (N − n + 0.5) / (n + 0.5)) for a term that n of N documents have. Source:
    # Robertson, Zaragoza and Taylor (CIKM 2004); Robertson and Zaragoza (2009, section 3.6.4); the idf is that of
    # Lucene. With one field of weight 1 the score is that of `bm25s` (method "lucene").

    k1: float = 1.2  # how slowly further occurrences count; at least 0
    # How much the length of a field counts, 0 to 1; one number, or a number for each field.
    b: float | Mapping[str, float] = 0.75
    # The weight of each field, at least 0; a field without one has weight 1.
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = self.b.items() if isinstance(self.b, Mapping) else [("", self.b)]
        faults = [] if _number(self.k1) and self.k1 >= 0 else [f"k1 must be at least 0, not {self.k1!r}"]
        faults += [
            f"b{f' of {name}' if name else ''} must be 0 to 1, not {value!r}"
            for name, value in lengths
            if not (_number(value) and 0 <= value <= 1)
        ]
        faults += [
            f"the weight of {name} must be at least 0, not {value!r}"
            for name, value in self.weights.items()
            if not (_number(value) and value >= 0)
        ]
        raise_faults(ConfigurationError, "BM25F", faults)

    def weight_of(self, name: str) -> float:
        """Return the weight of a field."""
        return float(self.weights.get(name, 1.0))

    def length_of(self, name: str) -> float:
        """Return how much the length of a field counts."""
        return float(self.b.get(name, 0.75) if isinstance(self.b, Mapping) else self.b)

    def norms(self, fields: Sequence[str], lengths: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return (documents, fields) what one occurrence in a field of a document adds to tf."""
        # lengths: (documents, fields) words in each.
        mean = np.maximum(lengths.mean(axis=0, dtype=np.float64) if len(lengths) else 1.0, 1e-9)
        b = np.array([self.length_of(name) for name in fields])
        weight = np.array([self.weight_of(name) for name in fields])
        norms: NDArray[np.float64] = weight / np.maximum(1 - b + b * lengths / mean, 1e-9)
        return norms

    def check_fields(self, fields: Sequence[str]) -> None:
        """Check that every field with a setting is there."""
        named = dict.fromkeys([*self.weights, *(self.b if isinstance(self.b, Mapping) else ())])
        faults = [f"no field {name!r} ({nearest(name, fields)})" for name in named if name not in fields]
        raise_faults(ConfigurationError, "BM25F", faults)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {"k1": self.k1, "b": dict(self.b) if isinstance(self.b, Mapping) else self.b} | {
            "weights": dict(self.weights)
        }


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


# The counts of words in documents with fields, as arrays: made from texts, and merged with new texts.

MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True, eq=False)
class Postings:
    """For each word the documents that have it, and how often each field has it."""

    words: list[str]  # (v,) the distinct words, sorted; each is in at least one document
    # (v + 1,) int64. The postings of word i are `starts[i]:starts[i + 1]`, in ascending order of documents.
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]  # (p,) int32, rows of documents
    # (p, fields) uint16, occurrences of the word in each field of the document; at most 65,535.
    counts: NDArray[np.uint16]
    lengths: NDArray[np.int32]  # (documents, fields) int32, words in each field

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, fields: Sequence[Sequence[str]]) -> Postings:
        """Count the words of documents."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        n = len(fields[0])
        lengths = np.zeros((n, len(fields)), np.int32)
        number_of, texts_of, keys = numbers.__getitem__, dict[str, list[int]](), list[NDArray[np.int64]]()
        for column, texts in enumerate(fields):
            ids: list[int] = []
            for row, text in enumerate(texts):
                part = texts_of.get(text)
                if part is None:
                    part = texts_of[text] = [number_of(word) for word in words_of(text)]
                lengths[row, column] = len(part)
                ids += part
            texts_of.clear()
            keys.append(np.array(ids, np.int64) * n + np.repeat(np.arange(n), lengths[:, column]))
        words = sorted(numbers)
        place = np.empty(len(words), np.int64)
        place[[numbers[word] for word in words]] = np.arange(len(words))
        keys = [place[key // max(n, 1)] * n + key % max(n, 1) for key in keys]
        pairs = np.unique(np.concatenate(keys))
        counts = np.zeros((len(pairs), len(fields)), np.uint16)
        for column, key in enumerate(keys):
            distinct, times = np.unique(key, return_counts=True)
            counts[np.searchsorted(pairs, distinct), column] = np.minimum(times, MOST)
        starts = np.searchsorted(pairs, np.arange(len(words) + 1) * n).astype(np.int64)
        return cls(words, starts, (pairs % max(n, 1)).astype(np.int32), counts, lengths)

    def merged(self, rows: NDArray[np.int64], new: Postings, new_rows: NDArray[np.int64]) -> Postings:
        """Return the postings after a change of documents; the result equals `Postings.of` over all texts."""
        # rows: (documents,) the row of each document afterwards, ascending where not −1; −1 removes it.
        words = sorted({*self.words, *new.words})
        place = {word: number for number, word in enumerate(words)}
        n = int((rows >= 0).sum()) + len(new)
        lengths = np.zeros((n, self.lengths.shape[1]), np.int32)
        keys, counts = [], []
        for part, places in ((self, rows), (new, new_rows)):
            word = np.repeat(np.array([place[name] for name in part.words], np.int64), np.diff(part.starts))
            document = places[part.documents]
            here = document >= 0
            keys.append(word[here] * n + document[here])
            counts.append(part.counts[here])
            lengths[places[places >= 0]] = part.lengths[places >= 0]
        key, count = np.concatenate(keys), np.concatenate(counts)
        order = np.argsort(key, kind="stable")  # two sorted runs: the sort merges them
        key = key[order]
        starts = np.searchsorted(key, np.arange(len(words) + 1) * n).astype(np.int64)
        used = np.diff(starts) > 0
        words = [word for word, is_used in zip(words, used.tolist(), strict=True) if is_used]
        starts = np.concatenate([starts[:-1][used], starts[-1:]])
        return Postings(words, starts, (key % max(n, 1)).astype(np.int32), count[order], lengths)


def check_arrays(arrays: Sequence[NDArray[Any]], fields: int, n: int, v: int) -> None:
    """Raise `ValueError` for arrays that do not fit together: the kernels read without a check of their own."""
    starts, documents, counts, lengths = arrays
    shapes = starts.shape == (v + 1,) and counts.shape == (len(documents), fields) and lengths.shape == (n, fields)
    types = [array.dtype.str[1:] for array in arrays] == ["i8", "i4", "u2", "i4"]
    if not shapes or not types:
        raise ValueError("its arrays do not fit together")
    inside = len(documents) == 0 or (documents.min() >= 0 and documents.max() < n)
    if starts[0] != 0 or starts[-1] != len(documents) or (np.diff(starts) < 0).any() or not inside:
        raise ValueError("its postings lead nowhere")


# The answer of a text index.


@dataclass(frozen=True)
class TextAnswer:
    """The answer of a text index to one query."""

    ids: tuple[str, ...]  # of the documents, best first; equal scores in order of id
    scores: tuple[float, ...]  # their scores
    total: int  # how many documents share a word with the query, listed or not
    changes: tuple[str, ...]  # what was searched beside or instead of the words of the query, a sentence each
    corrected: str  # the query with misspelt words replaced, for other systems; as it was typed where none is


class TextIndexError(VisirError):
    """A text index is missing, damaged, or made of faulty documents."""


TEXT_INDEX = FolderKind(
    "text-index", "a text index", remedy="delete it, and make it again: TextIndex.build(…).save(FOLDER)",
    error=TextIndexError,
)  # fmt: skip
_ARRAYS = ("starts", "documents", "counts", "lengths")


class QueryOptions(TypedDict, total=False):
    """How the words of a query are read."""

    spelling: bool  # whether misspelt words are corrected; True by default
    synonyms: Synonyms | None  # rules; None by default
    near_words: NearWords | None  # synonyms from vectors; None by default


@dataclass(frozen=True)
class FoundWord:
    """A word of a query in a document."""

    words: tuple[str, ...]  # as they stand in the document: itself, or other forms and synonyms of it
    fields: tuple[str, ...]  # where
    score: float  # what it adds to the document's score


@dataclass(frozen=True, eq=False, repr=False)
class TextIndex(Displayed):
    """Documents with fields of text, searched by words. `TextIndex.build` makes one, `TextIndex.open` reads one."""

    ids: pa.StringArray  # (n,) ids of the documents, sorted
    digests: NDArray[np.uint8]  # (n, 16) uint8, a hash over the texts of each document
    fields: tuple[str, ...]  # the names of the fields
    postings: Postings  # the words
    terms: list[str]  # (v,) the term of each word
    language: Language  # how words become terms
    bm25f: Bm25F = field(default_factory=Bm25F)  # the settings of the scores

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        documents = f"{counted(len(self), 'documents')}, {counted(len(self.terms), 'words')}"
        return brief(
            self,
            f"{documents}, fields: {', '.join(self.fields)}",
            f"ids: {listed(self.ids[:3].to_pylist(), len(self))}",
        )

    @classmethod
    def build(
        cls,
        ids: Sequence[str],
        texts: Mapping[str, Sequence[str]],
        *,
        language: Language | str = "plural",
        bm25f: Bm25F | None = None,
    ) -> TextIndex:
        """Make an index in memory."""
        ids, columns, digests = _documents(ids, texts)
        postings = Postings.of(columns)
        language = Language(language) if isinstance(language, str) else language
        index = cls(
            pa.array(ids, pa.string()), digests, tuple(texts), postings, language.terms(postings.words), language,
            bm25f or Bm25F(),
        )  # fmt: skip
        index.bm25f.check_fields(index.fields)
        return index

    def updated(self, ids: Sequence[str], texts: Mapping[str, Sequence[str]]) -> TextIndex:
        """Return the index of these documents; only texts that are not in this index already are read."""
        # The result equals a new build. Without a change it is this index itself.
        if tuple(texts) != self.fields:
            raise TextIndexError(
                f"this index has the fields {', '.join(self.fields)}, not {', '.join(texts)}.",
                hint="build a new one",
                code="index-fields-not",
            )
        ids, columns, digests = _documents(ids, texts)
        before = {name: row for row, name in enumerate(self.ids.to_pylist())}
        old_rows = np.array([before.get(name, -1) for name in ids], np.int64)
        same = old_rows >= 0
        same[same] = (self.digests[old_rows[same]] == digests[same]).all(axis=1)
        if same.all() and len(ids) == len(self):
            return self
        rows = np.full(len(self), -1, np.int64)
        rows[old_rows[same]] = np.flatnonzero(same)
        new_rows = np.flatnonzero(~same)
        new = Postings.of([[column[row] for row in new_rows.tolist()] for column in columns])
        postings = self.postings.merged(rows, new, new_rows)
        known = dict(zip(self.postings.words, self.terms, strict=True))
        unknown = [word for word in postings.words if word not in known]
        known |= zip(unknown, self.language.terms(unknown), strict=True)
        terms = [known[word] for word in postings.words]
        return TextIndex(
            pa.array(ids, pa.string()), digests, self.fields, postings, terms, self.language, self.bm25f
        )  # fmt: skip

    def with_settings(self, bm25f: Bm25F) -> TextIndex:
        """Return the same index with other settings of the scores; nothing is read again."""
        bm25f.check_fields(self.fields)
        return self if bm25f == self.bm25f else replace(self, bm25f=bm25f)

    def search(
        self,
        query: str | Plan,
        k: int = 10,
        *,
        within: NDArray[np.bool_] | None = None,
        **options: Unpack[QueryOptions],
    ) -> TextAnswer:
        """Return the documents that share a word with the query, best first."""
        # within: (n,) bool, the documents that may be found; None: all.
        rows, scores, total, looked_up = self._ranked(query, k, within, options)
        ids = self.ids.take(integer_array(rows)).to_pylist()
        return TextAnswer(tuple(ids), tuple(scores.tolist()), total, looked_up.changes, looked_up.corrected)

    def run(self, queries: Mapping[str, str | Plan], k: int = 10, **options: Any) -> Run:
        """Return the answers to several queries as a `Run`; a query without a match has no documents."""
        return self.run_counted(queries, k, **options)[0]

    def run_counted(
        self,
        queries: Mapping[str, str | Plan],
        k: int = 10,
        *,
        name: str = "BM25F",
        within: NDArray[np.bool_] | None = None,
        **options: Unpack[QueryOptions],
    ) -> tuple[Run, list[int]]:
        """Return what `run` does, and for each query how many documents share a word with it, listed or not."""
        ranked = [self._ranked(text, k, within, options) for text in queries.values()]
        parts = [(rows, scores) for rows, scores, *_ in ranked]
        nothing = (np.zeros(0, np.int64), np.zeros(0))
        run = Run(
            name,
            "t2t",
            text_array(list(queries)),
            np.concatenate([[0], np.cumsum([len(rows) for rows, _ in parts])]).astype(np.int64),
            self.ids,
            np.concatenate([rows for rows, _ in [*parts, nothing]]).astype(np.int32),
            np.concatenate([scores for _, scores in [*parts, nothing]]),
            self.gallery,
            k,
            {"search": "text index", "similarity": "BM25F", "language": self.language.name, **self.bm25f.to_dict()},
        )
        return run, [total for _, _, total, _ in ranked]

    def matching(self, query: str | Plan, **options: Unpack[QueryOptions]) -> NDArray[np.bool_]:
        """Return which documents share a word with a query, (n,) bool; `query` and options are as of `search`."""
        rows = self._ranked(query, len(self), None, options)[0]
        mask = np.zeros(len(self), np.bool_)
        mask[rows] = True
        return mask

    def share(self, looked_up: Plan, within: NDArray[np.bool_] | None = None) -> float:
        """Return which part of the words of a query the best answer to it has: 1 where it has all of them."""
        best = self._ranked(looked_up, 1, within, {})[0]
        if not len(best):
            return 0.0
        starts, documents = self.postings.starts, self.postings.documents

        def has(word: int) -> bool:
            own = documents[starts[word] : starts[word + 1]]
            at = int(np.searchsorted(own, best[0]))
            return at < len(own) and int(own[at]) == int(best[0])

        held = sum(
            any(has(word) for alternative in concept for group in alternative.groups for word in group.tolist())
            for concept in looked_up.concepts
        )
        return held / max(1, looked_up.word_count)

    def plan(self, query: str, **options: Unpack[QueryOptions]) -> Plan:
        """Return what is looked up for a query (see `visir.retrieval.text.words`)."""
        synonyms = options.get("synonyms")
        return plan(
            query,
            self.lexicon,
            spelling=options.get("spelling", True),
            synonyms=None if synonyms is None else synonyms.under(self.language),
            near_words=options.get("near_words"),
        )

    def found_words(self, query: str | Plan, document: str, **options: Unpack[QueryOptions]) -> tuple[FoundWord, ...]:
        """Return which words of a query a document has, and what each adds to its score; heaviest first."""
        looked_up = query if isinstance(query, Plan) else self.plan(query, **options)
        at = bisect_left(range(len(self)), document, key=lambda row: self.ids[row].as_py())  # ids are in order
        within = np.arange(len(self)) == (at if at < len(self) and self.ids[at].as_py() == document else -1)
        starts, documents, counts = self.postings.starts, self.postings.documents, self.postings.counts
        matches = []
        for concept in looked_up.concepts:
            alone = Plan((concept,), (), "")
            score = next(iter(self.search(alone, 1, within=within).scores), 0.0)
            if not score:
                continue
            numbers = {word for alternative in concept for group in alternative.groups for word in group.tolist()}
            held = [
                (self.postings.words[word], place)
                for word in sorted(numbers)
                for place in range(starts[word], starts[word + 1])
                if within[documents[place]]
            ]
            fields = np.sum([counts[place] for _, place in held], axis=0)
            names = tuple(name for name, times in zip(self.fields, fields.tolist(), strict=True) if times)
            matches.append(FoundWord(tuple(word for word, _ in held), names, score))
        return tuple(sorted(matches, key=lambda word: -word.score))

    def save(self, folder: str | Path) -> Path:
        """Write the index into a new or an empty folder, and return the folder."""
        with new_folder(folder, TEXT_INDEX) as change:
            self.write(change)
        return Path(folder)

    def write(self, change: FolderChange) -> None:
        """Write the index into a folder that is being made or changed; an earlier one there no longer counts."""
        place = f"index-{change.free_number(change.manifest.generation + 1, 'index-{}')}"
        change.content |= self.write_part(change, place)
        change.keep_only(place)

    def write_part(self, change: FolderChange, place: str) -> dict[str, Any]:
        """Write the index as a part of a folder, and return what `read_part` takes, for the manifest of that folder."""
        for name in _ARRAYS:
            np.save(change.file(f"{place}/{name}.npy", fresh=True), getattr(self.postings, name), allow_pickle=False)
        digests = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), len(self), [None, pa.py_buffer(np.ascontiguousarray(self.digests))]
        )
        documents = pa.table({"id": self.ids, "digest": digests})
        words = pa.table(
            {"word": pa.array(self.postings.words, pa.string()), "term": pa.array(self.terms, pa.string())}
        )
        for name, table in (("documents", documents), ("words", words)):
            pq.write_table(table, change.file(f"{place}/{name}.parquet", fresh=True), compression="zstd")
        return {
            "place": place,
            "fields": list(self.fields),
            "language": self.language.name,
            "bm25f": self.bm25f.to_dict(),
        }

    @classmethod
    def open(cls, folder: str | Path) -> TextIndex:
        """Read the index in a folder; its large arrays are memory-mapped."""
        folder = Path(folder)
        return cls.read_part(folder, read_checked(folder, TEXT_INDEX).content)

    @classmethod
    def read_part(cls, folder: Path, content: Mapping[str, Any]) -> TextIndex:
        """Read an index that is a part of a folder."""
        with TEXT_INDEX.reading(folder):
            place = below(folder, content["place"])
            hint = TEXT_INDEX.remedy
            columns = {"id": pa.string(), "digest": pa.binary(16)}
            documents = read_columns(place / "documents.parquet", columns, TextIndexError, hint)
            words = read_columns(
                place / "words.parquet", {"word": pa.string(), "term": pa.string()}, TextIndexError, hint
            )
            arrays = [load_array(place / f"{name}.npy", mapped=True) for name in _ARRAYS]
            check_arrays(arrays, len(content["fields"]), documents.num_rows, words.num_rows)
            ids, digests = (pa.concat_arrays(documents[name].chunks) for name in ("id", "digest"))
            return cls(
                ids,
                np.frombuffer(digests.buffers()[1], np.uint8).reshape(-1, 16)[: len(ids)],
                tuple(map(str, content["fields"])),
                Postings(words["word"].to_pylist(), *arrays),
                words["term"].to_pylist(),
                Language(content["language"]),
                Bm25F(**content["bm25f"]),
            )

    @cached_property
    def gallery(self) -> Gallery:
        """The documents as candidates."""
        return Gallery.of("text", self.ids, "all documents", title="documents")

    @cached_property
    def lexicon(self) -> Lexicon:
        """What the index knows of words."""
        groups: dict[str, list[int]] = {}
        for number, term in enumerate(self.terms):
            groups.setdefault(term, []).append(number)
        frequencies = np.diff(self.postings.starts)
        return Lexicon(
            self.language, groups, frequencies, Spelling(self.postings.words, frequencies), self.postings.words
        )

    @cached_property
    def gains(self) -> NDArray[np.float32]:
        """(p,): what each posting adds to the tf of its document."""
        norms = self.bm25f.norms(self.fields, self.postings.lengths)
        arrays = tuple(map(plain, (self.postings.documents, self.postings.counts, norms)))
        compiled = pays(8 * self.postings.counts.size, kernels.gains)
        gains: NDArray[np.float32] = (kernels.gains if compiled else kernels.gains_in_numpy)(*arrays)
        return gains

    def _ranked(
        self, query: str | Plan, k: int, within: NDArray[np.bool_] | None, options: QueryOptions
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], int, Plan]:
        if fault := depth_fault(k):
            raise ConfigurationError(fault, hint="k=10 gives the best ten")
        if within is not None and (within.dtype != np.bool_ or within.shape != (len(self),)):
            raise ConfigurationError(
                f"within must be {len(self):,} booleans, not {within.shape} of {within.dtype}",
                code="within-booleans-not",
            )
        looked_up = query if isinstance(query, Plan) else self.plan(query, **options)
        postings = self.postings
        of_query = looked_up.arrays()
        arrays = tuple(map(plain, (*of_query, postings.starts, postings.documents, self.gains)))
        compiled = pays(8 * len(self) * sum(map(len, of_query)), kernels.score)
        score: Any = kernels.score if compiled else kernels.score_in_numpy
        rows, scores = score(*arrays, len(self), float(self.bm25f.k1))
        if within is not None:
            rows, scores = rows[within[rows]], scores[within[rows]]
        total = len(rows)
        if total > k:
            last = np.partition(scores, len(scores) - k)[len(scores) - k]
            rows, scores = rows[scores >= last], scores[scores >= last]
        order = np.lexsort((rows, -scores))[:k]
        return rows[order].astype(np.int64), scores[order], total, looked_up


def _documents(
    ids: Sequence[str], texts: Mapping[str, Sequence[str]]
) -> tuple[list[str], list[list[str]], NDArray[np.uint8]]:
    """The ids in order, the texts of each field in the same order, and a hash over the texts of each document."""
    faults = [] if texts else ["there is no field"]
    faults += [
        f"{name} has {len(column):,} texts, there are {len(ids):,} ids"
        for name, column in texts.items()
        if len(column) != len(ids)
    ]
    order = sorted(range(len(ids)), key=ids.__getitem__)
    names = [ids[row] for row in order]
    repeated = [name for name, after in pairwise(names) if name == after]
    faults += [f"the id {name!r} is there more than once" for name in dict.fromkeys(repeated)]
    raise_faults(
        TextIndexError, "text index", faults, hint="give one text for each field and document, or an empty one"
    )
    columns = [[column[row] for row in order] for column in texts.values()]
    hashes = [
        hashlib.blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).digest()
        for parts in zip(*columns, strict=True)
    ]
    return names, columns, np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, 16)

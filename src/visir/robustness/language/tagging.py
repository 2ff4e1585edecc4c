"""Captions become words: cut into tokens, with part of speech and lemma by HanTa."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from visir.errors import VisirError, require
from visir.fingerprint import hash_columns, hash_json
from visir.parquet import read_table
from visir.progress import Progress
from visir.records import strings
from visir.robustness.language.tagged_captions import TaggedCaptions
from visir.robustness.language.tagset import is_adjective, is_noun, token_spans
from visir.storage import ContentStore, FolderKind

if TYPE_CHECKING:
    from HanTa.HanoverTagger import HanoverTagger

__all__ = ["cut", "is_adjective", "is_noun"]

_RULES = 1
"""Raised by one whenever the same HanTa would cut or tag differently, so that nothing kept from before is found."""

_WORTH_KEEPING = 200
"""Captions: fewer are tagged in a tenth of a second, and files of them would only pile up."""

_LONGEST = 40
"""Characters of a token that HanTa sees, the last ones: its time grows with their square, and endings tell most."""

_SAME = {"!!!": "UNC"}
"""The tag of four words that were given none when the model was trained ("ajar")."""

_KNOWN_AS = {"…": "...", "–": "—", **dict.fromkeys("\"'`“”„«»‘’", '"')}
"""Marks, and those for which HanTa's model knows them."""


def cut(texts: Sequence[str] | pa.StringArray) -> TaggedCaptions:
    """Cut captions into tokens, and give each its part of speech (`tagset`) and its lemma."""
    # Lemmas are in lower case, but for names. Tagging takes about half a millisecond a caption, so the result is kept
    # in the cache folder (`VISIR_CACHE`), by the texts and the version of the tagger. The words of a caption do not
    # depend on the other captions, nor on their order.
    # texts: (n,) the captions; any Unicode text.
    require("HanTa", extra="robustness", purpose="finding parts of speech")
    column = strings(texts)
    distinct = pc.unique(column)
    distinct = distinct.take(pc.sort_indices(distinct))
    if len(distinct) < _WORTH_KEEPING:
        words = _tagged(distinct)
    else:
        words = cached_words(distinct, f"HanTa {version('HanTa')}, rules {_RULES}", _tagged)
    return words.take(pc.index_in(column, distinct).to_numpy(zero_copy_only=False))


def _tagged(texts: pa.StringArray) -> TaggedCaptions:
    """All of them, tagged one after the other."""
    counts: list[int] = []
    spans: list[tuple[int, int]] = []
    tags: list[str] = []
    lemmas: list[str] = []
    with _progress(len(texts)) as advance:
        for text in texts.to_pylist():
            token_edges = token_spans(text)
            tokens = [text[start:end] for start, end in token_edges]
            of_text = _tagger().tag_sent([_known(token) for token in tokens], taglevel=0)
            counts.append(len(token_edges))
            spans += token_edges
            tags += [_SAME.get(tag, tag) for tag in of_text]
            lemmas += map(_lemma, tokens, of_text)
            advance(1)
    edges = np.array(spans, np.int32).reshape(-1, 2)
    return TaggedCaptions(
        texts,
        np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
        np.ascontiguousarray(edges[:, 0]),
        np.ascontiguousarray(edges[:, 1]),
        _column(tags),
        _column(lemmas),
    )


def _progress(captions: int) -> AbstractContextManager[Callable[[int], None]]:
    """A bar where it can be seen at all."""
    if captions < _WORTH_KEEPING:
        return nullcontext(lambda _: None)
    return Progress("finding parts of speech", captions, "captions")


def _known(token: str) -> str:
    """The token as HanTa's model is most likely to know it."""
    token = _KNOWN_AS.get(token, token).replace("\u2019", "'")[-_LONGEST:]
    if _is_sign(token) and token not in _tagger().cache:
        return "*"  # a sign like any other; unknown ones would be guessed to be nouns
    return token


def _is_sign(token: str) -> bool:
    return not any(map(str.isalnum, token))


@lru_cache(1 << 16)
def _lemma(token: str, tag: str) -> str:
    if len(token) > _LONGEST or _is_sign(token):
        return token.lower()
    lemma: str = _tagger().analyze(_known(token), pos=tag)[0]
    return lemma


@cache
def _tagger() -> HanoverTagger:
    from HanTa.HanoverTagger import HanoverTagger

    return HanoverTagger("morphmodel_en.pgz")


def _column(values: Iterable[str]) -> pa.DictionaryArray:
    return pa.array(values, pa.string()).dictionary_encode()


# Words that were found before, kept on disk by the texts they are of.

WORDS = FolderKind("words", "a folder of tagged words", remedy="delete it: the captions are tagged again")
FILE = "words.parquet"


def cached_words(texts: pa.StringArray, tagger: str, tag: Callable[[pa.StringArray], TaggedCaptions]) -> TaggedCaptions:
    """The captions, tagged; from the cache folder where the same captions were tagged before."""
    # The cache (`VISIR_CACHE`/words) can be deleted at any time. Damaged entries are tagged again, with a warning.
    # Where the cache cannot be written there is a warning, and the words are returned all the same.
    # texts: (n,) the captions.
    key = hash_json({"texts": hash_columns([texts], sort=False), "how": tagger})
    store = ContentStore(WORDS)
    if store.find(key) is not None:
        return _read(texts, read_table(store.path(key) / FILE))
    words = tag(texts)
    try:
        with store.writing(key, waiting="another process is tagging the same captions; waiting for it") as change:
            if change.manifest.generation == 0:
                pq.write_table(_table(words), change.file(FILE), compression="zstd")
    except (OSError, VisirError) as fault:
        reason = fault.message if isinstance(fault, VisirError) else f"{store.path(key)}: {fault.strerror}"
        warnings.warn(f"parts of speech are not kept: {reason}", stacklevel=3)
    return words


def _table(words: TaggedCaptions) -> pa.Table:
    """A row per token: the row of its text, where it lies, tag, lemma."""
    rows = np.repeat(np.arange(len(words), dtype=np.int32), np.diff(words.offsets))
    return pa.table({"text": rows, "start": words.starts, "end": words.ends, "tag": words.tags, "lemma": words.lemmas})


def _read(texts: pa.StringArray, table: pa.Table) -> TaggedCaptions:
    columns = {name: table[name].combine_chunks() for name in ("text", "start", "end", "tag", "lemma")}
    counts = np.bincount(columns["text"].to_numpy(), minlength=len(texts))
    return TaggedCaptions(
        texts,
        np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
        columns["start"].to_numpy().astype(np.int32),
        columns["end"].to_numpy().astype(np.int32),
        columns["tag"],
        columns["lemma"],
    )

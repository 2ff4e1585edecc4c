"""Words that were found before, kept on disk by the texts they are of."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.errors import VisirError
from visir.fingerprint import hash_columns, hash_json
from visir.parquet import read_table
from visir.robustness.language.tagged_captions import TaggedCaptions
from visir.storage import ContentStore, FolderKind

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

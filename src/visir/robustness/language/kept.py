"""Words that were found before, kept on disk by the texts they are of."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from visir.files import atomic_path, cache_directory
from visir.fingerprint import hash_columns, hash_json
from visir.robustness.language.words import Words


def kept(texts: pa.StringArray, how: str, tag: Callable[[pa.StringArray], Words]) -> Words:
    """`tag(texts)`, or what it gave last time: `VISIR_CACHE`/words/….parquet, which can be deleted at any time.

    `how` names the tagger and its version. A damaged file is tagged again, with a warning; so is one that cannot be
    written, because the words are at hand all the same.
    """
    key = hash_json({"texts": hash_columns([texts], sort=False), "how": how})
    path = cache_directory() / "words" / key[:2] / f"{key}.parquet"
    if path.is_file():
        try:
            return _read(texts, pq.read_table(path))
        except (OSError, ValueError, KeyError) as fault:  # pyarrow's own faults are ValueErrors
            warnings.warn(f"{path}: damaged ({fault}); the captions are tagged again", stacklevel=3)
    words = tag(texts)
    try:
        with atomic_path(path) as temporary:
            pq.write_table(_table(words), temporary, compression="zstd")
    except OSError as fault:
        warnings.warn(f"{path}: cannot be written ({fault.strerror}); parts of speech are not kept", stacklevel=3)
    return words


def _table(words: Words) -> pa.Table:
    """A row per token: the row of its text, where it lies, tag, lemma."""
    rows = np.repeat(np.arange(len(words), dtype=np.int32), np.diff(words.offsets))
    return pa.table({"text": rows, "start": words.starts, "end": words.ends, "tag": words.tags, "lemma": words.lemmas})


def _read(texts: pa.StringArray, table: pa.Table) -> Words:
    columns = {name: table[name].combine_chunks() for name in ("text", "start", "end", "tag", "lemma")}
    counts = np.bincount(columns["text"].to_numpy(), minlength=len(texts))
    return Words(
        texts,
        np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
        columns["start"].to_numpy().astype(np.int32),
        columns["end"].to_numpy().astype(np.int32),
        columns["tag"],
        columns["lemma"],
    )

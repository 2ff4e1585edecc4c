"""One input file becomes one part: a Parquet file of ids and vectors, with the card in its metadata.

A part is written row group by row group as its pictures come, so memory does not grow with the file. It says nothing of
when, where or by whom it was made: the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.collections.images import opened
from visir.collections.streams import StreamedPicture
from visir.encoders.base import Encoder, finite
from visir.encoders.encoding import ForwardOptions, computed, prepared_ahead, preprocessed, sorted_out
from visir.encoders.forms import one_each
from visir.encoders.intake import Pixels
from visir.errors import EmbeddingError, ImageError
from visir.parquet import open_stream
from visir.records import Embeddings, EncoderCard, strings
from visir.storage import check_version

FORMAT = 1
"""The version of a part's layout."""
_GROUP = 16_384
"""Rows of a row group, or a few more: batches are not cut."""
_AGAIN = "delete it, and run the same visir encode --parts again"


class LostError(Exception):
    """Another process works on this part by now."""


@dataclass(frozen=True)
class _Prepared:
    """A batch of pictures on its way to the model."""

    ids: list[str]
    pixels: list[Pixels]
    broken: dict[str, str]


def write_part(
    path: Path,
    encoder: Encoder,
    pictures: Iterator[StreamedPicture],
    options: ForwardOptions,
    *,
    prefix: str = "",
    facts: Mapping[str, Any],
    lost: Callable[[], bool] = lambda: False,
) -> tuple[int, int]:
    """Encode the pictures of one file into a new local file."""
    size = options.batch_size or encoder.batch_size
    root = encoder.root_encoder("image").for_role("document")
    heads = _heads(encoder)
    broken: dict[str, str] = {}
    count = 0

    def prepare(picture: StreamedPicture) -> Pixels | ImageError:
        if isinstance(picture.data, ImageError):
            return picture.data
        try:
            with opened(picture.data, picture.where) as image:
                return preprocessed(root.preprocess, image, lambda: picture.where, encoder.card.name)
        except ImageError as fault:
            return fault

    def prepared() -> Generator[_Prepared, None, None]:
        with closing(prepared_ahead(prepare, iter(lambda: list(islice(pictures, size)), []), options.workers)) as ahead:
            for batch, results in ahead:
                if lost():
                    raise LostError
                ids = [prefix + picture.id for picture in batch]
                pixels, faults = sorted_out(ids, results, options.skip_broken)
                usable = [name for name, result in zip(ids, results, strict=True) if not isinstance(result, ImageError)]
                yield _Prepared(usable, pixels, faults)

    def begin(batch: _Prepared) -> Callable[[], Any]:
        return root.begin_images(batch.pixels) if batch.pixels else lambda: np.zeros((0, 0), np.float32)

    with _PartWriter(path, encoder.dimension_of("image")) as writer, closing(prepared()) as batches:
        for batch, embedded in computed(root, batches, begin):
            broken |= batch.broken
            if batch.pixels:
                vectors = one_each(finite(embedded, batch.ids, encoder.label), encoder.card.name)
                for head in heads:
                    vectors = head.project("image", vectors)
                writer.append(batch.ids, vectors)
                count += len(vectors)
        writer.finish(
            {
                **facts,
                "version": FORMAT,
                "modality": "image",
                "encoder": encoder.stored_card.to_dict(),
                "batch size": size,
                "count": count,
                "broken": broken,
            }
        )
    return count, len(broken)


def read_part(stream: IO[bytes], place: str) -> tuple[Embeddings, dict[str, Any]]:
    """The vectors of a part, and its card."""
    with _damage_named(place):
        parquet = open_stream(stream, checked=True)
        card = _card_of(parquet, place)
        table = parquet.read(use_threads=False)
        flat = table["vector"].combine_chunks()
        flat = pa.concat_arrays(flat.chunks) if isinstance(flat, pa.ChunkedArray) else flat
        vectors = flat.flatten().to_numpy(zero_copy_only=False).reshape(len(flat), flat.type.list_size)
        encoder = EncoderCard.from_dict(card["encoder"])
        origin = f"from the part {place}"
        return Embeddings("image", strings(table["image_id"]), vectors, encoder, origin=origin), card


def read_card(stream: IO[bytes], place: str) -> dict[str, Any]:
    """The card of a part; no vectors are read."""
    with _damage_named(place):
        return _card_of(open_stream(stream), place)


@contextmanager
def _damage_named(place: str) -> Iterator[None]:
    """What reading a damaged part raises becomes an `EmbeddingError` that names it; a break in reading is no damage."""
    try:
        yield
    except OSError as fault:
        if fault.errno is not None or isinstance(fault, (ConnectionError, TimeoutError, FileNotFoundError)):
            raise
        raise EmbeddingError(f"{place}: damaged ({fault}).", hint=_AGAIN, code="damaged") from fault
    except (pa.ArrowException, KeyError, TypeError, ValueError) as fault:
        raise EmbeddingError(f"{place}: damaged ({fault}).", hint=_AGAIN, code="damaged") from fault


def _card_of(parquet: pq.ParquetFile, place: str) -> dict[str, Any]:
    card: Any = orjson.loads((parquet.metadata.metadata or {}).get(b"visir", b"null"))
    if not isinstance(card, dict):
        raise EmbeddingError(f"{place}: no part that visir wrote.", hint="leave the folder of parts to visir")
    check_version(card.get("version"), FORMAT, place, what="part", remedy=_AGAIN, error=EmbeddingError)
    return card


def _heads(encoder: Encoder) -> list[Encoder]:
    """The encoder and those below it that are functions of another one's vectors, the lowest first."""
    base = encoder.base_encoder("image")
    return [] if base is None else [*_heads(base), encoder]


class _PartWriter:
    """A Parquet file of ids and vectors, written in row groups."""

    def __init__(self, path: Path, dimension: int | None) -> None:
        self._path, self._dimension = path, dimension
        self._writer: pq.ParquetWriter | None = None
        self._ids: list[str] = []
        self._vectors: list[NDArray[np.float32]] = []

    def append(self, ids: list[str], vectors: NDArray[np.float32]) -> None:
        """Append vectors."""
        self._dimension = vectors.shape[1]
        self._ids += ids
        self._vectors.append(vectors)
        if len(self._ids) >= _GROUP:
            self._flush()

    def finish(self, card: Mapping[str, Any]) -> None:
        """Write the rest, and the card."""
        writer = self._flush()
        writer.add_key_value_metadata({"visir": orjson.dumps(card, option=orjson.OPT_SORT_KEYS).decode()})

    def _flush(self) -> pq.ParquetWriter:
        size = self._dimension or 1  # of a file without pictures, by an encoder that does not know
        schema = pa.schema([("image_id", pa.large_string()), ("vector", pa.list_(pa.float32(), size))])
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path,
                schema,
                compression="none",
                use_dictionary=False,
                write_statistics=False,  # they would stand where no checksum is
                write_page_checksum=True,
            )
        flat = np.concatenate([np.zeros((0, size), np.float32), *self._vectors]).reshape(-1)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat), size)
        self._writer.write_table(pa.table([pa.array(self._ids, pa.large_string()), vectors], schema=schema))
        self._ids, self._vectors = [], []
        return self._writer

    def __enter__(self) -> _PartWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

"""Files of vectors: NPZ, a folder of NPY files with ids beside them, Parquet with a list column."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from visir.arrays import ArrayArchive, ArrayFileError, load_array
from visir.encoders.base import Encoder
from visir.encoders.checkpoints import Layout, read_description
from visir.errors import EmbeddingError, EncoderError, VisirError, nearest
from visir.files import hash_file, read_lines
from visir.options import split_mark, split_options
from visir.parquet import read_table
from visir.records import Embeddings, EncoderCard, Items, Modality, MultiVectorEmbeddings, strings
from visir.remote import RemoteFolder, is_url
from visir.storage import MANIFEST, Manifest, Scratch, check_new_folder, check_written

SIDES: tuple[Modality, Modality] = ("image", "text")
NAMES: dict[Modality, tuple[str, ...]] = {
    "image": ("image", "images", "img", "image_embeddings", "image_features", "image_embeds", "image_vectors"),
    "text": ("text", "texts", "txt", "caption", "captions", "text_embeddings", "text_features", "text_embeds",
             "text_vectors"),
}  # fmt: skip
"""What the arrays of a modality are called, in an NPZ."""
ID_COLUMNS = ("id", "ids", "image_id", "caption_id", "name")
VECTOR_COLUMNS = ("vector", "vectors", "embedding", "embeddings", "features")


@dataclass(frozen=True, eq=False)
class VectorRows:
    """Vectors and the ids they belong to; `ids` None means: those of the inputs of the collection, in its order."""

    vectors: NDArray[Any]  # an (n, d) matrix of floats, or (m, d) with offsets
    ids: pa.StringArray | None  # (n,) ids, or None
    # (n + 1,) int64 where ids have several vectors: id i has `vectors[offsets[i]:offsets[i + 1]]`.
    offsets: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.vectors) if self.offsets is None else len(self.offsets) - 1

    def embeddings(
        self, modality: Modality, ids: pa.StringArray, card: EncoderCard, origin: str
    ) -> Embeddings | MultiVectorEmbeddings:
        """The vectors as the record of these ids."""
        if self.offsets is None:
            return Embeddings(modality, ids, self.vectors, card, origin=origin)
        vectors = self.vectors if self.vectors.dtype.itemsize < 8 else self.vectors.astype(np.float32)
        return MultiVectorEmbeddings(modality, ids, self.offsets, vectors, card, origin)


def read_vectors(name: str) -> tuple[dict[Modality, VectorRows], str]:
    """The vectors that a name such as "npz:FILE" means, by modality, and a hash over the files they come from."""
    # - `npz:FILE`: arrays called as in `NAMES` (or as `?image=KEY&text=KEY` says), with the ids in `image_ids` and
    #   `text_ids`. Without ids the rows stand for the items in their order.
    # - `npy:FOLDER`: `image.npy` and `text.npy` (one suffices), ids in `image.ids.txt`, `.csv` or `.parquet`.
    # - `parquet:FILE`: columns `id`, `vector` (a list of floats) and, with both modalities in it, `modality`.
    # Several vectors for each id (late interaction): arrays (n, t, d); or (m, d) with offsets (n + 1,) beside them, in
    # `image_offsets` of an NPZ and in `image.offsets.npy`; or lists of lists in Parquet.
    kind, _, location = name.partition(":")
    path = Path(split_mark(location)[0])
    _, options = split_options(name, SIDES if kind == "npz" else (), error=EmbeddingError)
    if not (path.is_dir() if kind == "npy" else path.is_file()):
        raise EmbeddingError(f"{path}: no such {'folder' if kind == 'npy' else 'file'}.", hint="check the path")
    try:
        if kind == "npz":
            return _npz(path, options), hash_file(path)
        if kind == "parquet":
            return _parquet(path), hash_file(path)
        return _npy(path)
    except ArrayFileError as fault:
        raise EmbeddingError(fault.message, hint=fault.hint, code=fault.code) from fault


def _npz(path: Path, options: dict[str, str]) -> dict[Modality, VectorRows]:
    rows: dict[Modality, VectorRows] = {}
    with ArrayArchive(path) as stored:
        for side in SIDES:
            if side in options and options[side] not in stored:
                raise EmbeddingError(
                    f"{path}: has no array {options[side]!r}.", hint=nearest(options[side], stored), code="no-array"
                )
            names = [options[side]] if side in options else [name for name in NAMES[side] if name in stored]
            if len(names) > 1:
                raise EmbeddingError(
                    f"{path}: both {names[0]!r} and {names[1]!r} could be the {side} vectors.",
                    hint=f"say which: npz:{path}?{side}={names[0]}",
                )
            if names:
                keys = [key for key in (f"{side}_ids", f"{names[0]}_ids") if key in stored]
                ids = stored[keys[0]] if keys else None
                spans = [key for key in (f"{side}_offsets", f"{names[0]}_offsets") if key in stored]
                offsets = stored[spans[0]] if spans else None
                rows[side] = _vectors(stored[names[0]], _ids(ids), f"{path}: {names[0]!r}", offsets)
        if not rows:
            raise EmbeddingError(
                f"{path}: no array has a name that says which modality it is; there are {', '.join(stored)}.",
                hint=f"say it: npz:{path}?image=KEY&text=KEY",
            )
    return rows


def _npy(folder: Path) -> tuple[dict[Modality, VectorRows], str]:
    rows: dict[Modality, VectorRows] = {}
    digest = hashlib.blake2b(digest_size=16)
    for side in SIDES:
        file = folder / f"{side}.npy"
        if not file.is_file():
            continue
        check_written(file)
        vectors = load_array(file, mapped=True)
        beside = [folder / f"{side}.ids{suffix}" for suffix in (".parquet", ".csv", ".txt")]
        ids = next((_id_file(path) for path in beside if path.is_file()), None)
        spans = folder / f"{side}.offsets.npy"
        offsets = load_array(spans) if spans.is_file() else None
        rows[side] = _vectors(vectors, ids, str(file), offsets)
        digest.update(hash_file(file).encode())
        if offsets is not None:
            digest.update(hash_file(spans).encode())
    if not rows:
        raise EmbeddingError(
            f"{folder}: neither image.npy nor text.npy is there.",
            hint="name the files so",
            code="neither-image-npy-nor",
        )
    return rows, digest.hexdigest()


def _id_file(file: Path) -> pa.StringArray:
    """Ids, one per line of a text file, or the column `id` (or the only one) of a table."""
    if file.suffix == ".txt":
        return strings(read_lines(file))
    if file.suffix == ".parquet":
        table = read_table(file)
        return strings(table[_only(table.column_names, ID_COLUMNS, file)])
    rows = list(csv.DictReader(io.StringIO("\n".join(read_lines(file)))))
    column = _only(list(rows[0]) if rows else [], ID_COLUMNS, file)
    return strings([row[column] for row in rows])


def _parquet(path: Path) -> dict[Modality, VectorRows]:
    try:
        table = read_table(path)
    except (pa.ArrowInvalid, OSError) as fault:
        raise EmbeddingError(f"{path}: not a readable Parquet file ({fault}).") from fault
    names = table.column_names
    column = _only([name for name in names if pa.types.is_list(table.schema.field(name).type)
                    or pa.types.is_fixed_size_list(table.schema.field(name).type)
                    or pa.types.is_large_list(table.schema.field(name).type)], VECTOR_COLUMNS, path)  # fmt: skip
    key = _only([name for name in names if name not in (column, "modality")], ID_COLUMNS, path)
    if "modality" not in names:
        side: Modality = "text" if key == "caption_id" else "image"
        if key not in ("image_id", "caption_id"):
            raise EmbeddingError(
                f"{path}: nothing says whether these are vectors of images or of texts.",
                hint='add a column "modality" with "image" or "text", or call the ids image_id or caption_id',
                code="nothing-says-whether-vectors",
            )
        return {side: _rows(table, key, column, path)}
    kinds = set(pc.unique(table["modality"]).to_pylist())
    if not kinds or not kinds <= set(SIDES):
        raise EmbeddingError(f"{path}: the column modality holds {sorted(map(str, kinds - set(SIDES)))[:3]}.",
                             hint='it must be "image" or "text"', code="column-modality-holds")  # fmt: skip
    return {side: _rows(table.filter(pc.equal(table["modality"], side)), key, column, path)
            for side in SIDES if side in kinds}  # fmt: skip


def _rows(table: pa.Table, key: str, column: str, path: Path) -> VectorRows:
    ids = strings(table[key])
    lists = table[column].combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks)
    if not pa.types.is_primitive(lists.type.value_type):
        return _lists_of_lists(lists, ids, f"{path}: {column}")
    lengths = pc.list_value_length(lists)
    if lists.null_count or pc.count_distinct(lengths).as_py() != 1:
        usual = pc.mode(lengths)[0].as_py()["mode"]
        odd = pc.fill_null(pc.not_equal(lengths, usual), True)
        named = ", ".join(map(repr, ids.filter(odd)[:3].to_pylist()))
        raise EmbeddingError(
            f"{path}: most vectors have {usual} values; other lengths (or none) have {named}.",
            code="most-vectors-values",
        )
    values = lists.flatten().to_numpy(zero_copy_only=False)
    return _vectors(values.reshape(len(lists), -1), ids, f"{path}: {column}")


def _only(names: list[str], usual: Iterable[str], path: Path) -> str:
    """The one column that is meant: the only one there, or the one with a usual name."""
    named = [name for name in names if name in usual]
    if len(names) == 1 or len(named) == 1:
        return named[0] if named else names[0]
    raise EmbeddingError(
        f"{path}: cannot tell which column is meant; candidates: {', '.join(names) or 'none'}.",
        hint=f"call it {next(iter(usual))!r}",
    )


def _ids(values: NDArray[Any] | None) -> pa.StringArray | None:
    return None if values is None else strings([str(value) for value in values.tolist()])


def _lists_of_lists(lists: Any, ids: pa.StringArray, where: str) -> VectorRows:
    """Several vectors for each id, from a column of lists of vectors."""
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    inner = lists.flatten()
    lengths = pc.list_value_length(inner)
    if inner.null_count or pc.count_distinct(lengths).as_py() != 1:
        raise EmbeddingError(f"{where}: vectors have different lengths: {pc.unique(lengths).to_pylist()[:3]}.")
    values = inner.flatten().to_numpy(zero_copy_only=False)
    return _vectors(values.reshape(len(inner), -1), ids, where, np.concatenate([[0], np.cumsum(counts)]))


def _vectors(
    vectors: NDArray[Any], ids: pa.StringArray | None, where: str, offsets: NDArray[Any] | None = None
) -> VectorRows:
    if offsets is None and vectors.ndim == 3:
        n, t, d = vectors.shape
        offsets, vectors = np.arange(0, n * t + 1, t), vectors.reshape(n * t, d)
    if vectors.ndim != 2 or vectors.dtype not in (np.float16, np.float32, np.float64):
        raise EmbeddingError(
            f"{where} must be an (n, d) matrix of floats, not {vectors.dtype} {vectors.shape}.",
            hint="several vectors for each id: an array (n, t, d), or (m, d) with offsets (n + 1,)",
        )
    if offsets is None:
        return VectorRows(vectors, ids)
    spans = np.asarray(offsets)
    fits = spans.ndim == 1 and spans.dtype.kind in "iu" and len(spans) > 0
    if not fits or spans[0] != 0 or spans[-1] != len(vectors) or (np.diff(spans.astype(np.int64)) < 1).any():
        raise EmbeddingError(
            f"{where}: its offsets do not fit {len(vectors):,} vectors.",
            hint="offsets are (n + 1,) whole numbers, rising from 0 to the number of vectors: id i has those from "
            "offsets[i] to offsets[i + 1]",
        )
    return VectorRows(vectors, ids, spans.astype(np.int64))


# Vectors that were made elsewhere, behind the same door as a model: `load("npz:FILE")`.

_BROKEN = "; pictures that cannot be read have none: set them aside with --skip-broken (in Python: skip_broken=True)"


class Imported(Encoder):
    """Vectors from files. It encodes nothing: `existing_vectors(items)` looks up what was imported."""

    precomputed = True

    def __init__(
        self, rows: Mapping[Modality, VectorRows], cards: EncoderCard | Mapping[Modality, EncoderCard], place: Path
    ) -> None:
        changed = datetime.fromtimestamp(place.stat().st_mtime, UTC).isoformat(timespec="seconds")
        self.origin = f"from the {'folder' if place.is_dir() else 'file'} {place.name}, last changed at {changed}"
        self._cards = {side: cards if isinstance(cards, EncoderCard) else cards[side] for side in rows}
        self.card = next(iter(self._cards.values()))
        self._rows: dict[Modality, VectorRows | Embeddings | MultiVectorEmbeddings] = {}
        self.modalities = frozenset(rows)
        dimensions = {side: vectors.vectors.shape[-1] for side, vectors in rows.items()}
        if len(set(dimensions.values())) > 1:
            stated = ", ".join(f"{side} {size}" for side, size in dimensions.items())
            raise EmbeddingError(
                f"{self.card.name}: the vectors differ in dimension ({stated}).", hint="are both from the same model?"
            )
        self.dimension = next(iter(dimensions.values()))
        several = {side for side, vectors in rows.items() if vectors.offsets is not None}
        if several and len(several) < len(rows):
            raise EmbeddingError(
                f"{self.card.name}: an {' and an '.join(several)} has several vectors, the other modality one each.",
                hint="are both from the same model? A model of late interaction has several of both",
            )
        self.form = "multi-vector" if several else "dense"
        for side, vectors in rows.items():
            # Those with ids are checked once, here; those without when a collection gives them ids.
            self._rows[side] = (
                vectors
                if vectors.ids is None
                else vectors.embeddings(side, vectors.ids, self._cards[side], self.origin)
            )

    def existing_vectors(self, items: Items) -> Embeddings | MultiVectorEmbeddings | None:
        """The imported vectors of the items, in their order; None where texts and images are looked up apart."""
        # Vectors of ids that are not among the items are left out (items are often one split of what was imported).
        modality, ids = items.modality, items.ids
        if items.is_mixed and modality not in self._rows:
            return None
        if items.corrupted is not None and modality == "image":
            raise EncoderError(
                f"{self.card.name}: vectors made elsewhere know nothing of corrupted pictures ({items.corrupted}).",
                hint="name the model itself, or write the pictures (visir.robustness.corruptions.write_pictures)",
                code="vectors-made-elsewhere-know",
            )
        if modality not in self._rows:
            raise EncoderError(
                f"{self.card.name} holds no {modality} vectors, only {' and '.join(sorted(self.modalities))} vectors.",
                code="holds-no-vectors-vectors",
            )
        rows = self._rows[modality]
        if isinstance(rows, VectorRows):
            if len(rows) != len(ids):
                raise EmbeddingError(
                    f"{self.card.name}: {len(rows):,} {modality} vectors without ids, for a collection of "
                    f"{len(ids):,} {modality}s ({items.name}).",
                    hint=f"without ids there must be one row per {modality}, in the collection's order; "
                    f"otherwise import ids too ({modality}_ids)",
                    code="vectors-without-ids-collection",
                )
            return rows.embeddings(modality, ids, self._cards[modality], self.origin)
        missing = self.lacking(items)
        if len(missing):
            named = ", ".join(map(repr, missing[:3].to_pylist()))
            theirs = ", ".join(map(repr, rows.ids[:3].to_pylist()))
            raise EmbeddingError(
                f"{self.card.name}: no vector for {len(missing):,} of {len(ids):,} {modality}s of {items.name}: "
                f"{named}{', …' if len(missing) > 3 else ''}",
                hint=f"the ids imported are such as {theirs}; they must be those of the collection "
                f"(visir data inspect shows them){_BROKEN if modality == 'image' else ''}",
                code="no-vector",
            )
        if len(ids) == len(rows.ids) and ids.equals(rows.ids):
            return rows
        return rows.select(ids)

    def lacking(self, items: Items) -> pa.StringArray:
        """The ids of the items that have no imported vector; without imported ids none."""
        rows = self._rows.get(items.modality)
        if rows is None or isinstance(rows, VectorRows):
            return items.ids[:0]
        return items.ids.filter(pc.invert(pc.is_in(items.ids, rows.ids)))

    def cannot(self, modality: Modality) -> EncoderError:
        """Imported vectors take no new inputs at all."""
        return EncoderError(
            f"{self.card.name} holds imported vectors; it cannot encode a new {modality}.",
            hint="load the model that made them",
            code="holds-imported-vectors",
        )


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Imported:
    """`npz:FILE[?image=KEY&text=KEY]`, `npy:FOLDER` or `parquet:FILE`; see `visir.encoders.models.vector_files`."""

    rows, content = read_vectors(name)
    card = EncoderCard(name=name, family="imported", weights=content, dtype="unknown")
    return Imported(rows, card, Path(split_mark(name)[0].partition(":")[2]))


Exported: TypeAlias = Embeddings | MultiVectorEmbeddings


def export(place: str | Path, embeddings: Mapping[Modality, Exported], *, replace: bool = False) -> None:
    """Write embeddings of one or both modalities: `visir.json`, and per modality `.npy` and `.ids.parquet`."""
    # Where items have several vectors, `.offsets.npy` says which: item i has `vectors[offsets[i]:offsets[i + 1]]`.
    # Atomic here. Elsewhere (`s3://bucket/vectors`) `visir.json` is written last, and without it nothing is read. An
    # existing folder is an error unless `replace`.
    check_new_place(place, replace=replace)
    if is_url(place):
        above, _, name = str(place).rstrip("/").rpartition("/")
        with Scratch.temporary("vectors") as scratch:
            folder = scratch.made(name)
            export(folder, embeddings)
            RemoteFolder(above).put(folder, name, [*Manifest.read(folder).files, MANIFEST])
        return
    files = [(f"{side}.npy", _ids_file(side), *_spans(side, vectors)) for side, vectors in embeddings.items()]
    layout = Layout.of("embeddings", tuple(file for names in files for file in names))
    layout.write(place, lambda folder: _write(folder, embeddings), replace=replace)


def _write(folder: Path, embeddings: Mapping[Modality, Exported]) -> dict[str, Any]:
    for side, vectors in embeddings.items():
        np.save(folder / f"{side}.npy", vectors.vectors, allow_pickle=False)
        pq.write_table(pa.table({"id": vectors.ids}), folder / _ids_file(side))
        for name in _spans(side, vectors):
            np.save(folder / name, vectors.offsets, allow_pickle=False)  # type: ignore[union-attr]
    return {
        side: {
            "encoder": vectors.encoder.to_dict(),
            "count": len(vectors),
            "dimension": vectors.dimension,
            "form": "multi-vector" if isinstance(vectors, MultiVectorEmbeddings) else "dense",
        }
        for side, vectors in embeddings.items()
    }


def _spans(side: Modality, vectors: Exported) -> tuple[str, ...]:
    return (f"{side}.offsets.npy",) if isinstance(vectors, MultiVectorEmbeddings) else ()


def _ids_file(side: Modality) -> str:
    return f"{side}.ids.parquet"


def check_new_place(place: str | Path, *, replace: bool) -> None:
    """Raise when there is something already and it is not to be replaced: before encoding rather than after."""
    if not is_url(place):
        check_new_folder(place, Layout.of("embeddings", ()).kind, replace=replace)
    elif RemoteFolder(str(place)).names() and not replace:
        raise VisirError(
            f"{place} exists already.",
            hint="name a new folder, or replace it (--replace; in Python: replace=True)",
            code="exists-already",
        )


def load_checkpoint(folder: Path, device: str | None, dtype: str) -> Imported:
    """Read what `export` wrote; the vectors keep the card of the encoder that made them."""
    if dtype != "float32" or device not in (None, "cpu"):
        raise EncoderError(f"{folder}: holds vectors; device and dtype do not apply.", hint="leave these options out")
    description = read_description(folder)
    rows: dict[Modality, VectorRows] = {}
    cards: dict[Modality, EncoderCard] = {}
    for side in SIDES:
        if side not in description:
            continue
        try:
            vectors = load_array(folder / f"{side}.npy", mapped=True)
            ids = strings(read_table(folder / _ids_file(side))["id"])
            several = description[side].get("form") == "multi-vector"
            offsets = load_array(folder / f"{side}.offsets.npy") if several else None
        except (OSError, ValueError) as fault:
            raise EmbeddingError(f"{folder}: the {side} vectors cannot be read: {fault}") from fault
        rows[side] = VectorRows(vectors, ids, offsets)
        cards[side] = EncoderCard.from_dict(description[side]["encoder"])
    return Imported(rows, cards, folder)

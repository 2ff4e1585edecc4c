"""Columns of ids and texts: convert any sequence to one array of strings, check it, and look ids up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.display import counted
from visir.errors import CollectionError, EmbeddingError

# Arrays of other libraries as NumPy arrays; rows of a ragged array.


def as_array(values: Any) -> NDArray[Any]:
    """Return numbers as a NumPy array, whatever library holds them."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):  # torch, without importing it
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # a type that NumPy lacks
            values = values.float()
        return np.asarray(values)
    if hasattr(values, "toarray"):
        return np.asarray(values.toarray())
    rows = values.tolist() if str(getattr(values, "dtype", "")) == "object" else values
    if isinstance(rows, list | tuple) and any(hasattr(row, "shape") for row in rows):  # an array for each item
        rows = [as_array(row) for row in rows]
        if len({row.shape for row in rows}) > 1:
            raise ValueError(f"rows of unequal shapes: {rows[0].shape} and others")
        stacked = np.stack(rows)
        return stacked[:, 0] if stacked.ndim == 3 and stacked.shape[1] == 1 else stacked  # rows of a sparse matrix
    return np.asarray(rows)


def rows_of_spans(offsets: NDArray[np.int64], spans: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of some spans of a ragged array, one span after the other, and the offsets of these."""
    # spans: (k,) which spans.
    # Returns: (m,) rows, and the (k + 1,) offsets of the spans among them.
    lengths = (offsets[1:] - offsets[:-1])[spans]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.repeat(offsets[:-1][spans] - starts[:-1], lengths) + np.arange(starts[-1]), starts


def groups(sorted_ids: pa.StringArray) -> tuple[pa.StringArray, NDArray[np.int64]]:
    """Return the distinct ids of a sorted column, and the offsets of the rows of each."""
    runs = pc.run_end_encode(sorted_ids, run_end_type=pa.int64())
    return runs.values.cast(pa.string()), np.concatenate([[0], runs.run_ends.to_numpy()]).astype(np.int64)


def owners(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the item of each entry of a ragged array."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def is_sorted(ids: pa.StringArray) -> bool:
    """Whether ids ascend, by their bytes."""
    ascend = pc.all(pc.less_equal(ids[:-1], ids[1:])).as_py()
    return bool(ascend) or len(ids) < 2


def strings(values: object) -> pa.StringArray:
    """Return a list, a NumPy array, a chunked array or a dictionary array as one contiguous `pa.StringArray`.

    Raises:
        CollectionError: They are no text, or one text in place of a list of them, or more than 2 GiB of it.
    """
    check_is_list(values, "ids or texts")
    try:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
            if isinstance(values, pa.ChunkedArray):  # pyarrow keeps a chunked array when there is no chunk at all
                values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
        if isinstance(values, pa.DictionaryArray):
            values = values.dictionary_decode()
        if isinstance(values, pa.StringArray):
            return values
        if isinstance(values, pa.Array):
            return values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as fault:
        raise CollectionError(
            f"{len(values):,} ids or texts ({fault}).",  # type: ignore[arg-type]
            hint="a record holds 2 GiB of them at most (offsets of 32 bits); take a larger collection part by part: "
            "visir encode --parts, an index of each folder of parts, and visir.retrieval.merge_shards",
            code="ids-texts",
        ) from fault
    listed: list[Any] = list(values)  # type: ignore[call-overload]
    try:
        return pa.array(listed, pa.string())
    except UnicodeEncodeError as fault:  # half of a surrogate pair, or broken bytes of a command line
        raise CollectionError(
            f"ids and texts must be valid text: {_first_that_fails(listed)}{fault}.",
            hint="write it again as Unicode, in UTF-8",
        ) from None
    except (pa.ArrowTypeError, pa.ArrowInvalid) as fault:
        raise CollectionError(
            f"ids and texts must be valid text: {_first_that_fails(listed)}{fault}.",
            hint="write numbers as text: str(7)",
        ) from None


def valid_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list."""
    check_is_list(texts, "texts")
    if isinstance(texts, Mapping):
        raise CollectionError("a list of texts is wanted, not a dictionary.", hint="its values: list(texts.values())")
    texts = list(texts)
    for number, text in enumerate(texts):
        if text is None:
            raise CollectionError(f"number {number:,} of the texts is None.", hint='an empty text is ""')
        if isinstance(text, bytes):
            hint = 'decode it: text.decode("utf-8")'
            raise CollectionError(f"number {number:,} of the texts is bytes: {_shown(text)}.", hint=hint)
    strings(texts)
    return texts


def check_is_list(values: object, what: str) -> None:
    """Raise `CollectionError` where one text, or nothing, is given in place of a list."""
    # A text is a sequence, too: of its characters, which nobody means.
    if isinstance(values, str | bytes | bytearray):
        wanted = f"[{_shown(values)}]" if isinstance(values, str) else '[text.decode("utf-8")]'
        kind = "one text" if isinstance(values, str) else "bytes"
        raise CollectionError(
            f"a list of {what} is wanted, not {kind}: {_shown(values)}.", hint=f"put it in a list: {wanted}"
        )
    if not isinstance(values, Iterable):
        raise CollectionError(f"a list of {what} is wanted, not {values!r}.", hint='e.g. ["abc"]')


def _shown(text: str | bytes | bytearray) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}…"


def _first_that_fails(values: list[Any]) -> str:
    """Which of the values, counted from 0, is the first that is no text: "number 7: "."""
    for number, value in enumerate(values):
        try:
            pa.array([value], pa.string())
        except (UnicodeEncodeError, pa.ArrowTypeError, pa.ArrowInvalid):
            return f"number {number:,}: "
    return ""


FEW = 32
"""Up to this many ids are read one by one: calling Arrow's `take` costs as much."""


def ids_at(ids: pa.StringArray, places: NDArray[np.integer[Any]]) -> list[str]:
    """Return the ids at these places."""
    if len(places) > FEW:
        return ids.take(pa.array(places)).to_pylist()  # type: ignore[no-any-return]
    return [ids[place].as_py() for place in places.tolist()]


def text_column(values: Sequence[str | None], where: str) -> pa.StringArray:
    """Return texts as a column of strings."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError as fault:  # half of a surrogate pair, from a JSON escape
        around = fault.object[max(0, fault.start - 30) : fault.start + 30]
        raise CollectionError(
            f"{where}: not all are valid text: half of a surrogate pair in {around!r}.",
            hint="mend it in the source",
            code="not-valid-text",
        ) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as fault:
        raise CollectionError(f"{where}: not all are valid text ({fault}).", hint="mend it in the source") from None


def conform(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """Return the columns of a schema, with its types and in its order."""
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise CollectionError(f"{where}: columns {missing} are missing; there are {table.column_names}.")
    return table.select(schema.names).cast(schema).combine_chunks()


def duplicates(ids: pa.Array | pa.ChunkedArray) -> list[str]:
    """Return the ids that occur more than once."""
    if len(ids) == pc.count_distinct(ids, mode="all").as_py():
        return []
    counts = pc.value_counts(ids).to_pylist()
    return [str(entry["values"]) for entry in counts if entry["counts"] > 1 and entry["values"] is not None]


def check_unique(ids: pa.StringArray, where: str) -> None:
    """Check that every id occurs once."""
    if not ids.null_count and (
        len(ids) < 2
        or pc.all(pc.less(ids[:-1], ids[1:])).as_py()  # in order, the usual case: much faster than to count
        or pc.count_distinct(ids).as_py() == len(ids)
    ):
        return
    named = ", ".join(map(repr, duplicates(ids)[:5])) or "null"
    raise EmbeddingError(f"{where}: ids repeat: {named}.", hint="every id names one vector", code="ids-repeat")


def rows_of(requested_ids: object, ids: pa.StringArray, vectors: str) -> NDArray[np.int64]:
    """Return the (n,) position in `ids` of each requested id."""
    # requested_ids: (n,) the ids to look up.
    # ids: (m,) the ids of the rows.
    requested = strings(requested_ids)
    positions = pc.index_in(requested, ids)
    if positions.null_count:
        missing = requested.filter(pc.is_null(positions)).to_pylist()
        raise EmbeddingError(
            f"no {vectors} for {counted(len(missing), 'ids')}: "
            + ", ".join(map(repr, missing[:5]))
            + (", …" if len(missing) > 5 else ""),
            hint="encode the whole split, or restrict the gallery to what was encoded",
            code="vectors-missing",
        )
    rows: NDArray[np.int64] = positions.to_numpy().astype(np.int64)
    return rows


# Ids that do not match: both forms side by side, and in what they differ.

_LOOKED_AT = 2_000
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}$")


def show_id_forms(left: str, left_ids: Iterable[str], right: str, right_ids: Iterable[str]) -> str:
    """Return both forms of ids that do not match, and in what they differ.

    Where the ids of both sides name the same things in two ways (with and without a folder, a file ending, leading
    zeros, a caption number), a matching pair is shown. Otherwise the first id of each side is shown.

    Args:
        left: What the ids of the left side belong to: "collection".
        left_ids: Those ids; the first 2,000 are looked at.
        right: What the ids of the right side belong to: "qrels".
        right_ids: Those ids.

    Example:
        >>> show_id_forms("collection", ["images/0001.jpg"], "qrels", ["0001"])
        "collection: 'images/0001.jpg'; qrels: '0001' (they differ by a folder and a file ending)"
        >>> show_id_forms("collection", ["a"], "run", ["b"])
        "collection: 'a'; run: 'b'"
    """
    lefts, rights = list(islice(left_ids, _LOOKED_AT)), list(islice(right_ids, _LOOKED_AT))
    if not lefts or not rights:
        side = left if not lefts else right
        return f"{side}: there are no ids"
    same = set(lefts) & set(rights)
    bare: dict[str, str] = {}
    for identifier in lefts:
        if identifier not in same:
            bare.setdefault(_bare(identifier), identifier)
    for identifier in rights:
        match = bare.get(_bare(identifier))
        if match is not None and identifier not in same:
            return f"{left}: {match!r}; {right}: {identifier!r} (they differ by {_difference(match, identifier)})"
    first = next((identifier for identifier in lefts if identifier not in same), lefts[0])
    second = next((identifier for identifier in rights if identifier not in same), rights[0])
    return f"{left}: {first!r}; {right}: {second!r}"


def _bare(identifier: str) -> str:
    """An id without folder, file ending, leading zeros, upper case and spaces around it."""
    base = identifier.strip().replace("\\", "/").rsplit("/", 1)[-1]
    base, number, tail = base.partition("#")
    base = _ENDING.sub("", base)
    return f"{base.lstrip('0') or '0'}{number}{tail}".lower()


def _difference(left: str, right: str) -> str:
    differences = []
    for name, cut in (
        ("white space", str.strip),
        ("a folder", lambda text: text.strip().replace("\\", "/").rsplit("/", 1)[-1]),
        ("a file ending", lambda text: _ENDING.sub("", text.partition("#")[0]) + "".join(text.partition("#")[1:])),
        ("upper and lower case", str.lower),
        ("leading zeros", lambda text: text.lstrip("0") or "0"),
    ):
        before = left == right
        left_cut, right_cut = cut(left), cut(right)
        if (not before and (left_cut != left) != (right_cut != right)) or (not before and left_cut == right_cut):
            differences.append(name)
        left, right = left_cut, right_cut
    return " and ".join(filter(None, [", ".join(differences[:-1]), differences[-1]])) if differences else "their form"

"""What a person looks for (texts, pictures, both, vectors), as items to show and as vectors to search with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.collections import open_source
from visir.collections.images import ImageReader
from visir.encoders.base import Encoder
from visir.encoders.sources import is_picture, unique_names
from visir.errors import EncoderError, RunError
from visir.records import (
    Collection,
    Embeddings,
    EncoderCard,
    Items,
    Modality,
    MultiVectorEmbeddings,
    TokenVectors,
    Vectors,
    strings,
)
from visir.records.arrays import as_array
from visir.records.items import PLACES

_EXAMPLES = (
    '"a dog on a beach", "dog.jpg", ["a dog", "a cat"], {"q1": "a dog"}, visir.Query(text="at night", image="a.jpg")'
)
_OF_SEARCH = {"text", "image", "text_weight"}
"""The fields of a `visir.Query` that mean something outside a library."""


@dataclass(frozen=True, eq=False)
class Wanted:
    """What one query holds."""

    text: str | None = None  # the text; None without one
    image: Any = None  # a PIL image, an array or a path; None without one
    vector: NDArray[Any] | None = None  # a vector of the model, or several (t, d); then there is neither text nor image
    text_weight: float = 0.5  # the weight of the text beside an image, from 0 to 1

    @property
    def label(self) -> str:
        """What the query is called where it has no id."""
        if self.vector is not None:
            return "vector"
        picture = ""
        if self.image is not None:
            picture = Path(self.image).as_posix() if isinstance(self.image, str | Path) else "image"
        return " + ".join(part for part in (self.text, picture) if part)


def read_queries(query: Any) -> dict[str, Wanted]:
    """What is looked for, by query id: the given id, or the text, or the name of the picture."""
    if isinstance(query, Mapping):
        wanted = {str(name): _wanted(value) for name, value in query.items()}
    elif isinstance(query, list | tuple) or _rows(query) is not None:
        values = [_wanted(value) for value in (query if isinstance(query, list | tuple) else _rows(query) or [])]
        wanted = dict(zip(unique_names(value.label for value in values), values, strict=True))
    else:
        value = _wanted(query)
        wanted = {value.label: value}
    if not wanted:
        raise RunError("there is no query.", hint=f"e.g. {_EXAMPLES}", code="no-query")
    return wanted


def query_items(queries: Mapping[str, Wanted]) -> Items | None:
    """The texts and pictures of queries, to show and to encode them; None for vectors alone."""
    texts = [wanted.text for wanted in queries.values()]
    pictures = [name for name, wanted in queries.items() if wanted.image is not None]
    places, root = None, Path()
    if pictures:
        # Under ids that cannot be taken for names of files.
        opened = open_source({f"query-{row}": queries[name].image for row, name in enumerate(pictures)})
        assert isinstance(opened, Collection)
        images = opened.items("image")
        assert images.places is not None
        rows = dict(zip(pictures, images.places.to_pylist(), strict=True))
        nowhere = dict.fromkeys(PLACES.names)
        places, root = pa.Table.from_pylist([rows.get(name, nowhere) for name in queries], PLACES), images.root
    if not pictures and not any(texts):
        return None
    return Items(
        strings(queries), pa.array(texts, pa.string()) if any(texts) else None, places, root, "queries", "queries"
    )


def encode_queries(
    queries: Mapping[str, Wanted],
    items: Items | None,
    encoder: Encoder | None,
    card: EncoderCard | None,
    *,
    several: bool = False,
) -> Vectors:
    """The vectors of queries, computed at once and not kept."""
    # A text beside an image is the weighted mean of the two unit vectors, where the model makes no vector of both. Of
    # models of late interaction it is the vectors of both: the score is the weighted mean of the two MaxSim scores,
    # each divided by its number of vectors.
    texts = {name: wanted.text for name, wanted in queries.items() if wanted.text is not None}
    pictures = {}
    if items is not None:
        if encoder is None:
            raise EncoderError("texts and pictures need a model.", hint="visir.search(vectors, model, query)")
        if items.places is not None:
            reader = ImageReader(items)
            for row, path in enumerate(items.places["path"].to_pylist()):
                if path is not None:
                    pictures[items.ids[row].as_py()] = reader.open(row)
    if encoder is not None:
        _check_takes(encoder, bool(texts), bool(pictures))
        if encoder.form == "sparse":
            if texts and pictures:
                raise EncoderError(
                    f"{encoder.label} makes weighted words: texts and pictures are looked for one after the other."
                )
            return encoder.encode_inputs("text" if texts else "image", texts or pictures)
        if encoder.form == "multi-vector":
            return _several(queries, texts, pictures, encoder)
    rows = {name: wanted.vector for name, wanted in queries.items() if wanted.vector is not None}
    made_by = encoder.card if encoder is not None else card
    assert made_by is not None, "vectors are searched in vectors, which have a card"
    _check_form(rows, several, made_by.name)
    if several and rows:
        return replace(MultiVectorEmbeddings.of(rows), modality="text+image", encoder=made_by)
    sides: dict[Modality, dict[str, Any]] = {"text": {}, "image": {}}
    if encoder is not None:
        both = {name for name in texts if name in pictures and "text+image" in encoder.modalities}
        for name in both:
            own = encoder.for_role("query")
            rows[name] = own.embed_texts_with_images([texts[name]], [own.preprocess(pictures[name])])[0]
        pairs: list[tuple[Modality, dict[str, Any]]] = [("text", texts), ("image", pictures)]
        for modality, inputs in pairs:
            left = {name: value for name, value in inputs.items() if name not in both}
            if left:
                encoded = encoder.encode_inputs(modality, left, "query")
                assert isinstance(encoded, Embeddings)
                sides[modality] = dict(zip(left, encoded.vectors, strict=True))
    for name, wanted in queries.items():
        if name not in rows:
            rows[name] = _mean(sides["text"].get(name), sides["image"].get(name), wanted.text_weight)
    held: Modality = "text+image" if bool(texts) == bool(pictures) else "text" if texts else "image"
    vectors = np.stack([np.asarray(rows[name], np.float32) for name in queries])
    return Embeddings(held, strings(queries), vectors, made_by)


def _check_form(vectors: Mapping[str, NDArray[Any]], several: bool, model: str) -> None:
    """Raise `RunError` for a query of one vector where documents have several, and the other way round."""
    for name, given in vectors.items():
        if several and given.ndim == 1:
            raise RunError(
                f"{model} compares several vectors for each item; the query {name!r} is one.",
                hint="give the vectors of a query as an array (t, d) in a list: visir.search(source, model, [array])",
                code="compares-several-vectors-each",
            )
        if not several and given.ndim == 2:
            raise RunError(
                f"{model} makes one vector for each item; the query {name!r} is {len(given)} of them.",
                hint="give one vector for each query: visir.search(source, model, [vector, vector])",
                code="makes-one-vector-each",
            )


def _several(
    queries: Mapping[str, Wanted], texts: Mapping[str, str], pictures: Mapping[str, Any], encoder: Encoder
) -> Vectors:
    """The vectors of queries by a model of late interaction."""
    sets = {name: wanted.vector for name, wanted in queries.items() if wanted.vector is not None}
    _check_form(sets, True, encoder.label)
    both = [name for name in texts if name in pictures]
    together = both if "text+image" in encoder.modalities else []
    own = encoder.for_role("query")
    for name in together:
        sets[name] = own.embed_texts_with_images([texts[name]], [own.preprocess(pictures[name])])[0]
    sides: dict[Modality, Mapping[str, Any]] = {"text": texts, "image": pictures}
    for modality, inputs in sides.items():
        left = {name: value for name, value in inputs.items() if name not in together}
        if not left:
            continue
        encoded = encoder.encode_inputs(modality, left, "query")
        assert isinstance(encoded, MultiVectorEmbeddings)
        for name in left:
            vectors: NDArray[Any] = encoded[name]
            if name in both:  # the greatest dot products grow with the vectors, so this weighs the two scores
                weight = queries[name].text_weight
                scaled = vectors.astype(np.float32) * ((weight if modality == "text" else 1 - weight) / len(vectors))
                vectors = np.concatenate([sets[name], scaled]) if name in sets else scaled
            sets[name] = vectors
    held: Modality = "text+image" if bool(texts) == bool(pictures) else "text" if texts else "image"
    joined = TokenVectors.of([sets[name] for name in queries])
    return MultiVectorEmbeddings(held, strings(queries), joined.offsets, joined.vectors, encoder.card)


def _wanted(value: Any) -> Wanted:
    if isinstance(value, str) and not is_picture(value):
        if not value.strip():
            raise RunError("the query is an empty text.", hint=f"e.g. {_EXAMPLES}")
        return Wanted(text=value)
    if isinstance(value, str | Path) or is_picture(value):
        return Wanted(image=value)
    if hasattr(value, "text") and hasattr(value, "image"):
        unused = sorted(set(getattr(value, "model_fields_set", ())) - _OF_SEARCH)
        if unused:
            raise RunError(
                f"{unused[0]}= of a query is for libraries.",
                hint="make one: library = visir.index(source, model, out=…); library.search(query)",
                code="query-libraries",
            )
        return Wanted(value.text, value.image, None, value.text_weight)
    try:
        array = as_array(value)
    except (TypeError, ValueError):
        array = np.empty(0, object)
    if array.dtype.kind in "fiu" and (array.ndim == 1 or (array.ndim == 2 and array.size)):
        return Wanted(vector=array)
    if array.dtype.kind in "fiu" and array.ndim == 3:
        return Wanted(image=array)
    raise RunError(f"cannot look for a {type(value).__name__}.", hint=f"e.g. {_EXAMPLES}")


def _rows(value: Any) -> list[NDArray[Any]] | None:
    """The rows of a matrix of vectors; None for anything else."""
    if isinstance(value, Embeddings):
        return list(np.asarray(value))
    if isinstance(value, MultiVectorEmbeddings):
        return [value.row(index) for index in range(len(value))]
    if isinstance(value, TokenVectors):
        return list(value)
    return list(as_array(value)) if getattr(value, "ndim", 0) == 2 else None


def _mean(text: Any, image: Any, weight: float) -> NDArray[Any]:
    if text is None or image is None:
        side: NDArray[Any] = image if text is None else text
        return side
    unit_text, unit_image = (side / max(float(np.linalg.norm(side)), 1e-12) for side in (text, image))
    mean: NDArray[Any] = weight * unit_text + (1 - weight) * unit_image
    return mean


def _check_takes(encoder: Encoder, texts: bool, pictures: bool) -> None:
    for given, modality in ((texts, "text"), (pictures, "image")):
        if given and not {modality, "text+image"} & encoder.modalities:
            raise encoder.cannot(modality)  # type: ignore[arg-type]

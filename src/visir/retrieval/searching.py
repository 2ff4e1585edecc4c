"""`visir.search`: look for texts or pictures in anything that can be opened, with any model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.collections import open as open_anything
from visir.collections import open_source
from visir.collections.images import ImageReader
from visir.collections.own_folders import check_no_own_folder
from visir.display import counted, named
from visir.encoders.base import Encoder
from visir.encoders.encoding import EncodeOptions, encode_detailed
from visir.encoders.loading import load, load_recorded
from visir.encoders.parts_folder import Parts
from visir.encoders.sources import is_picture, items_of, order_named, unique_names
from visir.errors import ConfigurationError, EncoderError, RunError, nearest
from visir.records import (
    Collection,
    Embeddings,
    EncoderCard,
    Gallery,
    Items,
    Modality,
    MultiVectorEmbeddings,
    Run,
    TokenVectors,
    VectorForm,
    Vectors,
    strings,
)
from visir.records.columns import as_array
from visir.records.items import PLACES
from visir.retrieval.answers import depth_fault
from visir.retrieval.bm25 import Bm25
from visir.retrieval.exact import search as search_exactly
from visir.retrieval.index import Index
from visir.retrieval.kinds import KINDS, build_index, form_of, open_index

# What a person looks for (texts, pictures, both, vectors), as items to show and as vectors to search with.

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
            least = encoder.root_encoder("image").decoded_side if "image" in encoder.modalities else None
            for row, path in enumerate(items.places["path"].to_pylist()):
                if path is not None:
                    pictures[items.ids[row].as_py()] = reader.open(row, least=least)
    if encoder is not None:
        _check_takes(encoder, bool(texts), bool(pictures))
        if encoder.form == "sparse":
            if texts and pictures:
                raise EncoderError(
                    f"{encoder.label} makes weighted words: texts and pictures are looked for one after the other."
                )
            return encoder.encode_inputs("text" if texts else "image", texts or pictures)
    rows = {name: wanted.vector for name, wanted in queries.items() if wanted.vector is not None}
    made_by = encoder.card if encoder is not None else card
    assert made_by is not None, "vectors are searched in vectors, which have a card"
    late = encoder is not None and encoder.form == "multi-vector"
    _check_form(rows, several or late, made_by.name)
    if several and rows and not late:
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
                assert isinstance(encoded, Embeddings | MultiVectorEmbeddings)
                vectors = encoded.vectors if isinstance(encoded, Embeddings) else encoded.tokens
                sides[modality] = dict(zip(left, vectors, strict=True))
    for name, wanted in queries.items():
        if name not in rows:
            join = _both if late else _mean
            rows[name] = join(sides["text"].get(name), sides["image"].get(name), wanted.text_weight)
    held: Modality = "text+image" if bool(texts) == bool(pictures) else "text" if texts else "image"
    if late:
        joined = TokenVectors.of([rows[name] for name in queries])
        return MultiVectorEmbeddings(held, strings(queries), joined.offsets, joined.vectors, made_by)
    stacked = np.stack([np.asarray(rows[name], np.float32) for name in queries])
    return Embeddings(held, strings(queries), stacked, made_by)


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


def _both(text: Any, image: Any, weight: float) -> Any:
    """The vectors of both: the greatest dot products grow with the vectors, so this weighs the two scores."""
    if text is None or image is None:
        return image if text is None else text
    sides = ((text, weight), (image, 1 - weight))
    return np.concatenate([side.astype(np.float32) * (share / len(side)) for side, share in sides])


def _mean(text: Any, image: Any, weight: float) -> Any:
    if text is None or image is None:
        return image if text is None else text
    unit_text, unit_image = (side / max(float(np.linalg.norm(side)), 1e-12) for side in (text, image))
    return weight * unit_text + (1 - weight) * unit_image


def _check_takes(encoder: Encoder, texts: bool, pictures: bool) -> None:
    for given, modality in ((texts, "text"), (pictures, "image")):
        if given and not {modality, "text+image"} & encoder.modalities:
            raise encoder.cannot(modality)  # type: ignore[arg-type]


_SIDES: dict[str, Modality] = {"image": "image", "images": "image", "text": "text", "texts": "text", "captions": "text"}
BM25 = "bm25"
_ORDER = "the source comes first: visir.search(source, model, query)"


def search(
    source: Any,
    model: Encoder | Bm25 | str | Path | None,
    query: Any,
    *,
    k: int = 10,
    to: str | None = None,
    split: str | None = None,
    images: object = None,
    index: Index[Any] | str | Path | None = None,
    **options: Unpack[EncodeOptions],
) -> Run:
    """Find the pictures (or texts) of a source that fit a text, a picture, or both.

    The vectors of the source are computed once and kept in the store, so the next search takes no time. (Those of an
    encoder without a version are computed in every call: see `Encoder.wrap`.)

    Args:
        source: Anything that `visir.open` takes (a folder of photos, a file, a list of pictures, `"scenes:50"`); a list
            of texts; `Embeddings`; an index.
        model: An encoder, or a name that `visir.load` takes; "bm25" compares words with captions. None where the query
            is a vector, or to take the model of the index or of the vectors.
        query: A text; a picture (PIL image, array, path); a `visir.Query` of a text and a picture; a vector; a list of
            these, or {id: query}.
        k: How many answers for each query.
        to: What is found: "images" or "texts" (captions). None finds images, where the model takes images and there
            are any.
        split: Search one split only.
        images: Where the pictures of a collection are.
        index: An index that holds the vectors (or its folder), or the name of a kind ("hnsw") to build one.
        **options: As of `EncodeOptions`: `store`, `batch_size`, `workers`; pictures that cannot be read are set aside,
            and a warning counts them (`skip_broken=False`: an error instead).

    Returns:
        A `Run`: `run.top(query)` are the best ids, `run[query]` ids with scores. A query has its text, or the name of
        its picture, as its id.

    Raises:
        EncoderError: The model is unknown, or does not take such queries.
        CollectionError: The source cannot be opened.
        RunError: There is nothing to look for, or `k` is wrong.

    Example:
        >>> import visir
        >>> run = visir.search(["a red boat", "two dogs", "rain in the city"], "bow", "dogs", k=2)
        >>> run.top("dogs", 1)
        ['two dogs']
    """
    if fault := depth_fault(k):
        raise RunError(fault, hint="k=10 gives the best ten")
    if to is not None and to not in _SIDES:
        raise ConfigurationError(f"unknown to={to!r}", hint=nearest(to, _SIDES))
    wanted = read_queries(query)
    shown = query_items(wanted)
    if model == BM25 or isinstance(model, Bm25):
        formula = model if isinstance(model, Bm25) else Bm25()
        run = _by_words(formula, source, wanted, k, to, split, images)
        return replace(run.select(list(wanted)), query_items=shown)
    ready = source if isinstance(source, Vectors | Index) else None
    if ready is None and index is not None and not (isinstance(index, str) and index in KINDS):
        ready = index if isinstance(index, Index) else open_index(index)
    words = isinstance(source, Bm25) or (isinstance(source, str) and source == BM25)
    with order_named(_ORDER, model, source, is_model=words):
        encoder = _encoder(model, ready, _place(source if ready is source else index), needed=shown is not None)
    opened = None if source is ready else _opened(source, split, images)
    if isinstance(opened, Index):
        ready, opened = opened, None
        encoder = encoder or _encoder(None, ready, _place(source), needed=shown is not None)
    if encoder is None and ready is None:
        raise ConfigurationError(
            "there is no model.", hint='visir.search(photos, "openai/clip-vit-base-patch32", "a dog")'
        )
    # First: a model that takes no text says so at once.
    card, several = None if ready is None else ready.encoder, _form(ready, encoder) == "multi-vector"
    vectors = encode_queries(wanted, shown, encoder, card, several=several)
    items = None
    if opened is not None and encoder is not None:
        items = items_of(opened, encoder, _SIDES[to] if to else None)
    if ready is None:
        assert encoder is not None and items is not None
        options.setdefault("skip_broken", True)
        encoding = encode_detailed(encoder, items, "document", **options)
        ready = encoding.embeddings
        if encoding.broken:
            name, reason = next(iter(encoding.broken.items()))
            warnings.warn(
                f"{counted(len(encoding.broken), 'pictures')} cannot be read, left out of this search: "
                f"{named(name, reason)}{', …' if len(encoding.broken) > 1 else ''}",
                stacklevel=2,
            )
    run = _searched(ready, vectors, k, index if isinstance(index, str) and index in KINDS else None)
    return replace(run.select(list(wanted)), query_items=shown, document_items=items)


def _opened(source: Any, split: str | None, images: object) -> Any:
    """A collection, a task, items, an index, or a list of texts as it is."""
    opened = source
    if isinstance(source, str | Path) or split is not None or images is not None:
        opened = open_anything(source, split=split, images=images)
    if isinstance(opened, Parts):
        check_no_own_folder(opened.place)
    if hasattr(opened, "search") and not isinstance(opened, Index):
        place = f"visir.open({str(source)!r})" if isinstance(source, str | Path) else "library"
        raise ConfigurationError(
            f"a {type(opened).__name__} is searched by its own models.", hint=f'{place}.search("a dog")'
        )
    return opened


def _encoder(model: Any, ready: Any, place: object, *, needed: bool) -> Encoder | None:
    if isinstance(model, Encoder):
        return model
    if model is not None:
        return load(model)
    if not needed or ready is None:
        return None
    made_by = ready.encoder  # the card of the model of an index or of vectors
    return load_recorded(made_by.name, place, allow=f"model={made_by.name!r}")


def _place(given: Any) -> str:
    """What names the model, for messages."""
    return str(given) if isinstance(given, str | Path) else "the index"


def _form(ready: Any, encoder: Encoder | None) -> VectorForm:
    """The form of the documents' vectors."""
    if isinstance(ready, Index):
        return KINDS.get(ready.kind).vectors
    if ready is not None:
        return form_of(ready)
    return "dense" if encoder is None else encoder.form


def _searched(documents: Vectors | Index[Any], vectors: Vectors, k: int, kind: str | None) -> Run:
    if kind is not None and not isinstance(documents, Index):
        documents = build_index(documents, kind)
    if isinstance(documents, Index):
        return documents.search(vectors, k)
    run = search_exactly(vectors, documents, depth=k).run
    return replace(run, provenance={**run.provenance, "vectors": documents.origin or "given by the caller"})


def _by_words(
    formula: Bm25, source: Any, wanted: dict[str, Wanted], k: int, to: str | None, split: str | None, images: object
) -> Run:
    """BM25: texts against texts; an image is as good as its best caption."""
    pictures = [name for name, value in wanted.items() if value.text is None or value.image is not None]
    if pictures:
        raise RunError(
            f"bm25 compares words; the query {pictures[0]!r} is no text.",
            hint="name a model of pictures",
            code="bm25-compares-words",
        )
    opened = _opened(source, split, images)
    of_images = isinstance(opened, Collection) and (to is None or _SIDES[to] == "image") and len(opened.images) > 0
    texts = opened.items("text") if isinstance(opened, Collection) else items_of(opened, _TEXTS, "text")
    assert texts.texts is not None
    documents = opened.items("image") if of_images else texts
    owners: dict[str, str] = {}
    if of_images:
        owners = dict(zip(*(opened.captions[name].to_pylist() for name in ("id", "image_id")), strict=True))
    ids = texts.ids.to_pylist()
    rows = formula.ranked([text or "" for text in texts.texts.to_pylist()], [str(wanted[name].text) for name in wanted])
    answers: list[tuple[str, str, float]] = []
    for name, (best_rows, scores) in zip(wanted, rows, strict=True):
        best: dict[str, float] = {}
        for row, score in zip(best_rows.tolist(), scores.tolist(), strict=True):
            best.setdefault(owners.get(ids[row], ids[row]), score)
            if len(best) == k:
                break
        answers += [(name, document, score) for document, score in best.items()]
    gallery = Gallery.of(documents.modality, documents.ids, f"all {documents.title}", title=documents.title)
    columns = list(zip(*answers, strict=True)) or [(), (), ()]
    if not answers:
        raise RunError("no text shares a word with the query.", hint="ask in other words, or name a model of vectors")
    run = Run.ranked(
        BM25,
        "t2i" if of_images else "t2t",
        columns[0],
        columns[1],
        np.array(columns[2], np.float32),
        gallery,
        depth=k,
        provenance={"similarity": formula.similarity},
    )
    return replace(run, document_items=documents)


class _TextsOnly(Encoder):
    """Stands for a model of texts, to choose the texts of a source."""

    modalities = frozenset({"text"})


_TEXTS = _TextsOnly()

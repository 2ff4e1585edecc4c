"""`visir.search`: look for texts or pictures in anything that can be opened, with any model."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from visir.collections import open as open_anything
from visir.collections.own_folders import check_no_own_folder
from visir.display import counted, named
from visir.encoders.argument_order import order_named
from visir.encoders.base import Encoder
from visir.encoders.encoding import EncodeOptions, encode_detailed
from visir.encoders.loading import load, load_recorded
from visir.encoders.parts_folder import Parts
from visir.encoders.sources import items_of
from visir.errors import ConfigurationError, RunError, nearest
from visir.records import Collection, EncoderCard, Gallery, Modality, Run, VectorForm, Vectors
from visir.retrieval.bm25 import Bm25
from visir.retrieval.depth import depth_fault
from visir.retrieval.exact import search as search_exactly
from visir.retrieval.index import Index
from visir.retrieval.kinds import KINDS, build_index, form_of, open_index
from visir.retrieval.queries import Wanted, encode_queries, query_items, read_queries

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
    vectors = encode_queries(wanted, shown, encoder, _card(ready), several=_form(ready, encoder) == "multi-vector")
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
    made_by = _card(ready)
    if not needed or made_by is None:
        return None
    return load_recorded(made_by.name, place, allow=f"model={made_by.name!r}")


def _place(given: Any) -> str:
    """What names the model, for messages."""
    return str(given) if isinstance(given, str | Path) else "the index"


def _card(ready: Any) -> EncoderCard | None:
    """The card of the model of an index or of vectors."""
    return None if ready is None else ready.encoder


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

"""The kinds of index as data: a description, the packages it needs, and the class that implements it.

A new kind is a class of five functions (`visir.retrieval.index.Finder`), and one entry here. The file of a kind is
imported when the kind is first used.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from visir.errors import ConfigurationError, EmbeddingError, nearest
from visir.plugins import INDEX_KINDS as GROUP
from visir.registry import Registry
from visir.retrieval.settings import Kind, described
from visir.storage import Scratch
from visir.storage.disk import disk_faults

if TYPE_CHECKING:
    from visir.encoders import Parts
    from visir.encoders.parts_folder import PartsSummary
    from visir.records import VectorForm, Vectors
    from visir.retrieval.index import Index


FORMER = {"seismic": "inverted", "scipy": "inverted"}
"""Kinds that visir had, and the kind that takes their place."""
KINDS: Registry[Kind] = Registry(
    "kind of index",
    group=GROUP,
    of=Kind,
    former={old: f"visir has it no more; the nearest kind is {new!r}" for old, new in FORMER.items()},
)


def _add(name: str, form: VectorForm, module: str, title: str, *, exact: bool = False, **needed: Any) -> None:
    KINDS.add(name, Kind(name, title, exact, form, f"visir.retrieval.{module}", **needed))


_FAISS: dict[str, Any] = {"extra": "hnsw", "packages": ("faiss",)}
_add(
    "exact",
    "dense",
    "dense:Flat",
    "every query against every vector, memory-mapped; the truth of dense search",
    exact=True,
)
_add("hnsw", "dense", "dense:Hnsw", "a graph of near neighbours (FAISS)", **_FAISS)
_add(
    "ivf",
    "dense",
    "dense:Ivf",
    "short codes in memory find candidates (FAISS), vectors on disk score them: many vectors, little memory",
    **_FAISS,
)
_add(
    "inverted",
    "sparse",
    "sparse.inverted:Inverted",
    "visir's own inverted index, memory-mapped; exact unless a search asks for less",
    exact=True,
)
_add(
    "maxsim",
    "multi-vector",
    "multi_vector.maxsim:MaxSim",
    "every query against every document by MaxSim, memory-mapped; the truth of late interaction",
    exact=True,
)
_add(
    "maxsim-ivf",
    "multi-vector",
    "multi_vector.maxsim:MaxSimIvf",
    "centroids of vectors find documents (FAISS), MaxSim scores them",
    **_FAISS,
)

_ENDINGS: dict[VectorForm, str] = {"sparse": "-sparse", "dense": "", "multi-vector": "-multi"}
_QDRANT, _MILVUS = "on a Qdrant server or cluster (url)", "on a Milvus server or cluster (url)"
_POSTGRES = "in a PostgreSQL database with pgvector (url)"
_TITLES: dict[tuple[str, VectorForm], str] = {
    ("qdrant", "dense"): f"a graph of near neighbours {_QDRANT}",
    ("qdrant", "sparse"): f"inverted lists {_QDRANT}",
    ("qdrant", "multi-vector"): f"MaxSim {_QDRANT}, of every document or over a graph (m)",
    ("pgvector", "dense"): f"a graph of near neighbours {_POSTGRES}",
    ("pgvector", "sparse"): f"sparse vectors {_POSTGRES}, all compared or by a graph (m)",
    ("milvus", "dense"): f"a graph of near neighbours {_MILVUS}",
    ("milvus", "sparse"): f"inverted lists {_MILVUS}",
}
"""What each engine (an extra of the same name) holds."""
_PACKAGES = {"qdrant": "qdrant_client", "pgvector": "psycopg", "milvus": "pymilvus"}
for (_engine, _form), _title in _TITLES.items():
    _others = [f"{_engine}{end}" for form, end in _ENDINGS.items() if form != _form and (_engine, form) in _TITLES]
    _add(
        f"{_engine}{_ENDINGS[_form]}",
        _form,
        f"remote.index:{_engine.capitalize()}{_ENDINGS[_form].strip('-').capitalize()}Index",
        _title,
        extra=_engine,
        packages=(_PACKAGES[_engine],),
        beside=() if _form == "sparse" else tuple(_others),
    )


def make(kind: Kind, vectors: Vectors, folder: Path | None = None, **options: Any) -> Index[Any]:
    """Build an index by settings that nobody need have named in this call (`build_index`)."""
    from visir.retrieval.index import Finder, StoredIndex, class_of

    implemented = class_of(kind)
    if issubclass(implemented, Finder):
        return StoredIndex.build(kind, vectors, folder, **options)
    index: Index[Any] = implemented.build(vectors, folder, **options)
    return index


def opened(kind: Kind, folder: Path) -> Index[Any]:
    """Open the index of a kind in a folder."""
    from visir.retrieval.index import Finder, StoredIndex, class_of

    implemented = class_of(kind)
    if issubclass(implemented, Finder):
        return StoredIndex.load(kind, folder)
    index: Index[Any] = implemented.load(folder)
    return index


def _made_as_named(kind: Kind, vectors: Vectors, out: str | Path | None, options: dict[str, Any]) -> Index[Any]:
    """Build an index; a server in its settings was named by the user."""
    if isinstance(options.get("url"), str) and options["url"]:
        from visir.retrieval.remote.engine import name_address

        name_address(options["url"], options.get("grpc"))
    return make(kind, vectors, None if out is None else Path(out), **options)


USUAL_KINDS: dict[VectorForm, str] = {"dense": "exact", "sparse": "inverted", "multi-vector": "maxsim"}
"""The exact kind for each form of vectors."""


def build_index(
    vectors: Vectors | Parts, kind: str | None = None, out: str | Path | None = None, **options: Any
) -> Index[Any]:
    """Build an index.

    Args:
        vectors: The vectors of the documents, at least one; or a finished folder of parts (`visir.encoders.Parts`),
            which are read one after the other (`index_of_parts`).
        kind: "exact", "hnsw", …: `index_kinds` lists them. None takes the exact kind for the form of the vectors:
            "exact" for dense, "inverted" for sparse, "maxsim" for multi-vectors.
        out: A new or an empty folder for the index; None builds it in memory.
        options: The settings of the kind (`visir index kinds` lists them). A server in the setting `url` counts as
            named by the user, and may get the key (`visir.retrieval.remote.engine`).

    Raises:
        VisirError: The kind is unknown.
        EmbeddingError: These are no vectors with ids; or parts that are not finished, or with an id twice.
        ConfigurationError: The kind is for vectors of the other form, or settings are wrong.
        IndexFolderError: The folder is not empty.

    Example:
        >>> import visir
        >>> from visir.records import Embeddings
        >>> images = Embeddings.of({"a": [1, 0], "b": [0, 1], "c": [3, 4]})
        >>> index = visir.retrieval.build_index(images.select(["a", "b"]))
        >>> index.add(images.select(["c"]))
        >>> index.delete(["b"])
        >>> index.ids.to_pylist()
        ['a', 'c']
        >>> query = Embeddings.of({"q": [0, 1]}, modality="text")
        >>> [(document, round(score, 2)) for document, score in index.search(query, k=2).answer("q")]
        [('c', 0.8), ('a', 0.0)]
    """
    from visir.records import Embeddings, MultiVectorEmbeddings, SparseEmbeddings

    if not isinstance(vectors, Embeddings | SparseEmbeddings | MultiVectorEmbeddings):
        from visir.encoders import Parts

        if isinstance(vectors, Parts):
            made_for = kind_for("dense", vectors.encoder.name, kind)
            index, summary = index_of_parts(vectors, made_for, out, **options)
            summary.warn()
            return index
        raise EmbeddingError(
            f"an index is built of vectors with ids (Embeddings), not of a {type(vectors).__name__}.",
            hint="of an array: Embeddings.of(ids, array); of photos: visir.encode(model, visir.open('photos/'), "
            "'image'); of a folder of parts: visir.encoders.Parts(folder)",
            code="index-built-vectors-ids",
        )
    return _made_as_named(kind_for(form_of(vectors), vectors.encoder.name, kind), vectors, out, options)


def usual_kind(vectors: Vectors) -> Kind:
    """Return the kind that searches vectors exactly, which is the one where none is named."""
    return KINDS.get(USUAL_KINDS[form_of(vectors)])


def kind_for(form: VectorForm, maker: str, kind: str | None = None) -> Kind:
    """Return the kind of an index of vectors."""
    entry = KINDS.get(kind or USUAL_KINDS[form])
    if entry.vectors != form:
        raise ConfigurationError(
            f"an index of kind {entry.name!r} holds {entry.vectors} vectors; those by {maker} are {form}.",
            hint=f"kinds for {form} vectors: {', '.join(kinds_for(form))}",
            code="index-kind-holds-vectors",
        )
    return entry


def index_kinds() -> dict[str, str]:
    """Return the kinds of index: name → description.

    Example:
        >>> import visir
        >>> "hnsw" in visir.retrieval.index_kinds()
        True
    """
    return {name: kind.title for name, kind in KINDS.items()}


def open_index(folder: str | Path) -> Index[Any]:
    """Open the index in a folder, of any kind.

    Args:
        folder: The folder of the index; its `visir.json` names the kind.

    Raises:
        IndexFolderError: The folder holds no index or a damaged one, or its kind is unknown.

    Example:
        >>> import visir
        >>> from visir.records import Embeddings
        >>> images = Embeddings.of({"a": [1, 0], "b": [0, 1]})
        >>> folder = visir.retrieval.build_index(images, "exact", "images.index").folder
        >>> index = visir.retrieval.open_index(folder)
        >>> index.kind, index.info().documents
        ('exact', 2)
    """
    from visir.retrieval.index import IndexFolderError, read_index

    kind: str = read_index(Path(folder)).content["kind"]
    if kind in FORMER:
        raise IndexFolderError(
            f"{folder}: an index of kind {kind!r}, which visir has no more.",
            hint=f"build it again from the vectors, as kind {FORMER[kind]!r} (visir index build), into a new folder",
            code="index-kind-no-more",
        )
    if kind not in KINDS:
        raise IndexFolderError(
            f"{folder}: an index of kind {kind!r}, which this visir does not know.",
            hint=f"{nearest(kind, KINDS)}; install the package that adds it, update visir, or build it again",
        )
    return opened(KINDS.get(kind), Path(folder))


def form_of(vectors: Vectors) -> VectorForm:
    """Return the form of vectors: "dense", "sparse" or "multi-vector"."""
    from visir.records import MultiVectorEmbeddings, SparseEmbeddings

    if isinstance(vectors, MultiVectorEmbeddings):
        return "multi-vector"
    return "sparse" if isinstance(vectors, SparseEmbeddings) else "dense"


def kinds_for(form: VectorForm) -> list[str]:
    """Return the names of the kinds for vectors of this form."""
    return [name for name, kind in KINDS.items() if kind.vectors == form]


def settings_of_kind(kind: Kind) -> list[tuple[str, Any, str]]:
    """Return (name, default, description) of every setting of a kind, from its class."""
    try:
        return described(kind.settings_type)
    except ImportError:  # a kind whose module itself needs its extra
        return []


# An index of a finished folder of parts (`visir encode --parts`), made by one call; and what one lacks, added. The
# vectors of all parts are joined in one file beside the index, which is removed at the end, and the index is built of
# that file as of any other vectors: of the same vectors it is the same index, and what its kind does after a kill it
# does here. The disk needs room for the vectors twice while it is built.


def index_of_parts(
    parts: Parts, kind: Kind, out: str | Path | None = None, **options: Any
) -> tuple[Index[Any], PartsSummary]:
    """Build an index of a `Kind` of the vectors of all parts."""
    from visir.encoders.parts_folder import check_finished, join_parts
    from visir.retrieval.index import IndexFolderError, check_new_index

    kind.check_settings(options)
    if out is not None:
        check_new_index(Path(out))
    finished = check_finished(parts)
    place = Scratch.temporary("parts") if out is None else Scratch.beside(Path(os.path.realpath(out)))
    with place as scratch, disk_faults(scratch.path, IndexFolderError):
        vectors, summary = join_parts(parts, finished, scratch.file("vectors"))
        if out is None:
            vectors = replace(vectors, vectors=np.array(vectors.vectors))
        index = _made_as_named(kind, vectors, out, options)
        del vectors  # it maps the file that is about to be removed
    return index, summary


def add_parts(index: Index[Any], parts: Parts | str | Path) -> tuple[int, PartsSummary]:
    """Add the vectors of a finished folder of parts that an index does not hold yet, in one change.

    The vectors of all parts are joined in a file beside the index, or among temporary files where the index lies in no
    folder. Those that are added are held in memory.

    Args:
        index: An index of pictures by the same model. What it holds is left as it is.
        parts: A finished folder of parts, or its place.

    Returns:
        How many were added, and what has a vector in the parts and what has none.

    Raises:
        EmbeddingError: The parts are not finished, or by another model; the index is of captions; or an id stands in
            two parts.

    Example:
        >>> from visir.retrieval import add_parts, open_index
        >>> index = open_index("laion.index")  # doctest: +SKIP
        >>> added, summary = add_parts(index, "s3://bucket/parts")  # doctest: +SKIP
    """
    from visir.encoders import Parts
    from visir.encoders.parts_folder import check_finished, join_parts
    from visir.retrieval.index import IndexFolderError
    from visir.retrieval.rows import check_same_modality, check_same_model

    parts = Parts(parts) if isinstance(parts, str | Path) else parts
    check_same_modality("image", index.info().modality, f"{parts.place}: vectors by {parts.encoder.name}")
    check_same_model(parts.encoder, index.encoder, f"{parts.place}: vectors by {parts.encoder.name}")
    finished = check_finished(parts)
    folder = getattr(index, "folder", None)
    place = Scratch.temporary("parts") if folder is None else Scratch.beside(Path(os.path.realpath(folder)))
    with place as scratch, disk_faults(scratch.path, IndexFolderError):
        vectors, summary = join_parts(parts, finished, scratch.file("vectors"))
        new_ids = vectors.ids.filter(pc.invert(pc.is_in(vectors.ids, index.ids)))
        new = vectors.select(new_ids)
        del vectors  # it maps the file that is about to be removed
    index.add(new)
    return len(new_ids), summary

"""The kinds of index as data: what each is, what it needs, and where the code that makes it lies.

A new kind is one new file with a class of the interface `visir.search.index.Index`, and one `KINDS.add` line here. No
kind's file is imported before it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from visir.errors import ConfigurationError, nearest, require
from visir.registry import Registry

if TYPE_CHECKING:
    from visir.records import Embeddings, SparseEmbeddings
    from visir.search.index import Index

VectorForm = Literal["dense", "sparse"]


@dataclass(frozen=True)
class Kind:
    """One kind of index.

    - `title`: for people; printed by `visir index kinds`, the docs and error messages
    - `exact`: whether every answer is exactly the best
    - `vectors`: what it holds, `Embeddings` ("dense") or `SparseEmbeddings` ("sparse")
    - `module`: "package.module:Class", imported when the kind is asked for
    - `beside`: kinds of the same engine for vectors of the other form; a library that is to have this one has them too
    - `extra`: the extra of this package that brings `packages` (import names); empty when the core suffices
    """

    name: str
    title: str
    exact: bool
    vectors: VectorForm
    module: str
    extra: str = ""
    packages: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def index(self) -> type[Index[Any]]:
        """The class. Raises `MissingPackageError`, with the pip command, when a package is not installed."""
        require(*self.packages, extra=self.extra, purpose=f"an index of kind {self.name!r}")
        return self.described()

    def described(self) -> type[Index[Any]]:
        """The class, whether or not what it needs is installed: to be asked for its settings, not to be built."""
        module, _, name = self.module.partition(":")
        index_class: type[Index[Any]] = getattr(import_module(module), name)
        return index_class


KINDS: Registry[Kind] = Registry("kind of index")

for _kind in (
    Kind(
        name="exact",
        title="every query against every vector, memory-mapped; the truth of dense search",
        exact=True,
        vectors="dense",
        module="visir.search.dense.flat:FlatIndex",
    ),
    Kind(
        name="hnsw",
        title="a graph of near neighbours (FAISS)",
        exact=False,
        vectors="dense",
        module="visir.search.dense.hnsw:HnswIndex",
        extra="hnsw",
        packages=("faiss",),
    ),
    Kind(
        name="inverted",
        title="visir's own inverted index, memory-mapped; exact unless a search asks for less",
        exact=True,
        vectors="sparse",
        module="visir.search.sparse.inverted:InvertedIndex",
    ),
    Kind(
        name="seismic",
        title="blocks of similar documents in each list, skipped by their summaries (Seismic)",
        exact=False,
        vectors="sparse",
        module="visir.search.sparse.seismic:SeismicIndex",
        extra="seismic",
        packages=("seismic",),
    ),
    Kind(
        name="scipy",
        title="one product of two SciPy matrices: slow, and the truth of sparse search",
        exact=True,
        vectors="sparse",
        module="visir.search.sparse.oracle:OracleIndex",
    ),
    Kind(
        name="qdrant",
        title="a graph of near neighbours in Qdrant: embedded, or on a server or cluster by one setting (url)",
        exact=False,
        vectors="dense",
        module="visir.search.remote.dense:QdrantIndex",
        beside=("qdrant-sparse",),
        extra="qdrant",
        packages=("qdrant_edge", "qdrant_client"),
    ),
    Kind(
        name="qdrant-sparse",
        title="inverted lists in Qdrant: embedded, or on a server or cluster by one setting (url)",
        exact=False,
        vectors="sparse",
        module="visir.search.remote.sparse:QdrantSparseIndex",
        extra="qdrant",
        packages=("qdrant_edge", "qdrant_client"),
    ),
):
    KINDS.add(_kind.name, _kind)


def build(
    kind: str, vectors: Embeddings | SparseEmbeddings, folder: str | Path | None = None, **options: Any
) -> Index[Any]:
    """An index of this kind over these vectors: in `folder` (new or empty), or in memory without one.

    `options` are the settings of the kind (`visir index kinds` lists them); a server that they name may be asked from
    then on, and gets the key (`visir.search.remote.addresses`). Raises `VisirError` for an unknown kind,
    `ConfigurationError` for a kind that holds vectors of the other form and for wrong settings.
    """
    known, form = KINDS.get(kind), form_of(vectors)
    if known.vectors != form:
        raise ConfigurationError(
            f"an index of kind {kind!r} holds {known.vectors} vectors; those by {vectors.encoder.name} are {form}.",
            hint=f"kinds for {form} vectors: {', '.join(kinds_for(form))}",
        )
    if isinstance(options.get("url"), str) and options["url"]:
        from visir.search.remote.addresses import name_address

        name_address(options["url"])
    return known.index().build(vectors, None if folder is None else Path(folder), **options)


def load(folder: str | Path) -> Index[Any]:
    """The index in `folder`, of whatever kind: its `visir.json` says which.

    Raises `IndexFolderError` for a folder that holds none or a damaged one, and for a kind that is not known here.
    """
    from visir.search.folder import IndexFolderError, read_index

    kind: str = read_index(Path(folder)).content["kind"]
    if kind not in KINDS:
        raise IndexFolderError(
            f"{folder}: an index of kind {kind!r}, which this visir does not know.",
            hint=f"{nearest(kind, KINDS)}; update visir if the index is newer, or build it again",
        )
    return KINDS.get(kind).index().load(Path(folder))


def form_of(vectors: Embeddings | SparseEmbeddings) -> VectorForm:
    """Which form these vectors are of."""
    from visir.records import SparseEmbeddings

    return "sparse" if isinstance(vectors, SparseEmbeddings) else "dense"


def kinds_for(form: VectorForm) -> list[str]:
    """The names of the kinds that hold vectors of this form."""
    return [name for name, kind in KINDS.items() if kind.vectors == form]


def settings_of_kind(kind: Kind) -> list[tuple[str, Any, str]]:
    """(name, default, what it does) of every setting of a kind, from its class."""
    from visir.search.settings import described

    try:
        stated = getattr(kind.described(), "settings_type", None)
    except ImportError:  # a kind whose module itself needs its extra
        return []
    return [] if stated is None else described(stated)


__all__ = ["KINDS", "Kind", "build", "form_of", "kinds_for", "load", "settings_of_kind"]

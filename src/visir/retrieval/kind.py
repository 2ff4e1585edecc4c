"""One kind of index as data: a description, the packages it needs, and the class that implements it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.errors import require

if TYPE_CHECKING:
    from visir.records import VectorForm, Vectors
    from visir.retrieval.index import Index


@dataclass(frozen=True)
class Kind:
    """One kind of index."""

    name: str  # the name of the kind
    title: str  # a description, printed by `visir index kinds`, the docs and error messages
    exact: bool  # whether every answer is the exact best
    # The vectors that it indexes: `Embeddings` ("dense"), `SparseEmbeddings` ("sparse") or `MultiVectorEmbeddings`
    # ("multi-vector").
    vectors: VectorForm
    module: str  # "package.module:Class", imported when the kind is used
    extra: str = ""  # the extra of visir that installs `packages`; "" when none is needed
    packages: tuple[str, ...] = ()  # the import names of the packages that it needs
    # Kinds of the same engine for vectors of the other forms; a library with this kind has them too.
    beside: tuple[str, ...] = ()

    def index(self) -> type[Index[Any]]:
        """Return the class of the kind."""
        require(*self.packages, extra=self.extra, purpose=f"an index of kind {self.name!r}")
        return self.described()

    def described(self) -> type[Index[Any]]:
        """Return the class without a check of its packages, to read its settings."""
        module, _, name = self.module.partition(":")
        index_class: type[Index[Any]] = getattr(import_module(module), name)
        return index_class

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Check settings, and that the packages are installed, before vectors are made or read."""
        from visir.retrieval.settings import settings_of

        settings_type = getattr(self.index(), "settings_type", None)
        if settings_type is not None:
            settings_of(self.name, settings_type, settings)

    def build(self, vectors: Vectors, out: str | Path | None = None, **options: Any) -> Index[Any]:
        """Build an index of this kind; see `visir.retrieval.build_index`."""
        if isinstance(options.get("url"), str) and options["url"]:
            from visir.retrieval.remote.addresses import name_address

            name_address(options["url"], options.get("grpc"))
        return self.index().build(vectors, None if out is None else Path(out), **options)

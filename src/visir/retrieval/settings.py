"""What a kind of index says of itself, and its settings: a frozen dataclass whose fields carry a description and the
allowed values."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from visir.errors import ConfigurationError, nearest, raise_faults, require

if TYPE_CHECKING:
    from visir.records import VectorForm

T = TypeVar("T")


def setting(
    default: Any,
    about: str,
    *,
    least: float | None = None,
    most: float | None = None,
    among: tuple[str, ...] = (),
    search: bool = False,
) -> Any:
    """Make a field of a settings dataclass."""
    allowed = {"least": least, "most": most, "among": among}
    return field(default=default, metadata={"about": about, "search": search, **allowed})


def recall() -> Any:
    """Make the field of a settings dataclass that asks for a share of the exact answers."""
    return setting(
        0.0,
        "the share of the exact best ten that is wanted, up to 1: the effort of a search is then chosen when the index "
        "is built, and checked on other questions; 0: as the other settings say",
        least=0,
        most=1,
    )


@dataclass(frozen=True)
class SimilaritySettings:
    """The settings of every index of dense vectors."""

    similarity: str = setting("cosine", "cosine, or dot: vectors as they are", among=("cosine", "dot"))


def settings_of(kind: str, type_: type[T], given: Mapping[str, Any]) -> T:
    """Make an instance of a settings dataclass."""
    fields_by_name = {field.name: field for field in fields(type_)}  # type: ignore[arg-type]
    values, faults = {}, []
    for name, value in given.items():
        if name not in fields_by_name:
            faults.append(f"unknown setting {name!r} ({nearest(name, fields_by_name)})")
            continue
        values[name], fault = _read(value, fields_by_name[name].default, fields_by_name[name].metadata)
        if fault:
            faults.append(f"{name}: {fault}, not {value!r}")
    raise_faults(ConfigurationError, f"the settings of an index of kind {kind!r}", faults)
    return type_(**values)


def searching(kind: str, settings: T, given: Mapping[str, Any]) -> T:
    """Return the settings of one search: those of the index, with some replaced."""
    if not given:
        return settings
    every = fields(settings)  # type: ignore[arg-type]
    faults = [
        f"{setting.name}: is fixed when the index is built"
        for setting in every
        if setting.name in given and not setting.metadata["search"]
    ]
    raise_faults(ConfigurationError, f"search in an index of kind {kind!r}", faults, hint="build another index")
    return settings_of(
        kind, type(settings), {**{setting.name: getattr(settings, setting.name) for setting in every}, **given}
    )


def described(type_: type[Any]) -> list[tuple[str, Any, str]]:
    """Return (name, default, description) of every setting."""
    return [
        (field.name, field.default, field.metadata["about"]) for field in fields(type_) if field.default is not MISSING
    ]


def _read(value: Any, default: Any, allowed: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the value and "", or the value and a description of the allowed values."""
    if isinstance(default, str):
        if value in allowed["among"] or (not allowed["among"] and isinstance(value, str)):
            return value, ""
        return value, " or ".join(allowed["among"]) or "text"
    expected = "a whole number" if isinstance(default, int) else "a number"
    with contextlib.suppress(ValueError, TypeError):
        read = type(default)(value)
        if float(read) == float(value) and not isinstance(value, bool):
            low, high = allowed["least"], allowed["most"]
            if (low is None or read >= low) and (high is None or read <= high):
                return read, ""
            bounds = [f"from {low:g}" if low is not None else "", f"up to {high:g}" if high is not None else ""]
            return value, " ".join([expected, *filter(None, bounds)])
    return value, expected


@dataclass(frozen=True)
class Kind:
    """One kind of index."""

    name: str  # the name of the kind
    title: str  # a description, printed by `visir index kinds`, the docs and error messages
    exact: bool  # whether every answer is the exact best
    # The vectors that it indexes: `Embeddings` ("dense"), `SparseEmbeddings` ("sparse") or `MultiVectorEmbeddings`
    # ("multi-vector").
    vectors: VectorForm
    # A `Finder`, or an `Index` of its own; or "package.module:Class", imported when the kind is used.
    module: str | type[Any]
    extra: str = ""  # the extra of visir that installs `packages`; "" when none is needed
    packages: tuple[str, ...] = ()  # the import names of the packages that it needs
    # Kinds of the same engine for vectors of the other forms; a library with this kind has them too.
    beside: tuple[str, ...] = ()

    def described(self) -> type[Any]:
        """Return the class without a check of its packages, to read its settings."""
        if not isinstance(self.module, str):
            return self.module
        module, _, name = self.module.partition(":")
        described: type[Any] = getattr(import_module(module), name)
        return described

    @property
    def settings_type(self) -> type[Any]:
        """The dataclass of its settings."""
        settings_type: type[Any] = self.described().settings_type
        return settings_type

    def implemented(self) -> type[Any]:
        """Return the class; its packages are installed."""
        require(*self.packages, extra=self.extra, purpose=f"an index of kind {self.name!r}")
        return self.described()

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Check settings, and that the packages are installed, before vectors are made or read."""
        settings_of(self.name, self.implemented().settings_type, settings)

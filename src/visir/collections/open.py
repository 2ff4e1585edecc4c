"""The door: a path or a short text becomes a collection."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from visir.collections.descriptor import Format, JudgementFormat
from visir.collections.draft import Draft
from visir.collections.formats import FORMATS, JUDGEMENTS
from visir.collections.readers.gc_paused import gc_paused
from visir.collections.readers.locate import place_images
from visir.errors import CollectionError, nearest
from visir.records import Collection
from visir.remote import local_copy

_ELSEWHERE = re.compile(r"(?P<format>[\w-]+:)?(?P<url>[A-Za-z][A-Za-z0-9+.\-]+://[^?]*)(?P<query>\?.*)?")


def open_collection(
    path_or_spec: Any,
    *,
    format: str | None = None,
    images: object = None,
    split: str | None = None,
    judgements: object = None,
    **options: Any,
) -> Collection:
    """Open a collection of any known layout.

    - `path_or_spec`: a file or folder as its makers distribute it (plain, `.gz` or `.xz`); its format is told from its
      content. A `datasets.Dataset` object and a `Collection` are taken too. `"format:path"` names the format;
      `"scenes:2000"` makes 2,000 scenes. Options may follow as in a web address:
      `"karpathy:dataset_coco.json?restval=keep&images=val2014.zip"`, `"scenes:2000?seed=1&size=128"`.
      A file or folder elsewhere (`"s3://bucket/photos.tar"`; needs `visir[remote]`) is copied into the cache first.
    - `images`: where the pictures are: a folder, zip or tar, or a list of them. By default they are looked for beside
      the source, and what was found is told in the collection's `source`. "none" goes without.
    - `split`: keep one split, or several ("train+val").
    - `judgements`: files or folders of further relevance judgements to attach (CxC, ECCV Caption, Flickr8k experts).
    - `options`: those of the format; `visir data formats` lists them.

    Raises `CollectionError` with all faults of the source at once.
    """
    if isinstance(path_or_spec, Collection):
        return path_or_spec.split(split)
    if not isinstance(path_or_spec, (str, Path)):
        collection = _from_object(path_or_spec, options)
        return _attached(collection, judgements).split(split)
    found, path, query = resolve(str(path_or_spec), format)
    images = query.pop("images", None) if images is None else images
    judgements = query.pop("judgements", None) if judgements is None else judgements
    split = query.pop("split", None) if split is None else split
    with gc_paused():
        read = found.read(path, **found.resolve({**query, **options}))
    if isinstance(read, Draft):
        place_images(read, images)
        collection = read.build()
    else:
        collection = read
        if images is not None:
            raise CollectionError(f"{found.name} holds its own pictures; images= does not apply.")
    return _attached(collection, judgements).split(split)


def read_draft(
    path_or_spec: str, *, format: str | None = None, images: object = None, **options: Any
) -> Draft | Collection:
    """The same, before it is checked: for `visir data check`, which reports faults instead of raising them."""
    found, path, query = resolve(path_or_spec, format)
    images = query.pop("images", None) if images is None else images
    for word in ("judgements", "split"):  # these do not change what is wrong with the source
        query.pop(word, None)
    with gc_paused():
        read = found.read(path, **found.resolve({**query, **options}))
    if isinstance(read, Draft):
        place_images(read, images)
    return read


def attach_judgements(collection: Collection, path_or_spec: str | Path, **options: Any) -> Collection:
    """The collection with the judgements of a file or folder added; formats as in `visir data formats`."""
    text = str(path_or_spec)
    name, text = _prefix(text, JUDGEMENTS)
    path, query = _query(text)
    if name is None:
        _must_exist(path)
        names = [key for key, one in JUDGEMENTS.items() if one.sniff(path)]
        if not names:
            raise CollectionError(f"{path}: not a known layout of judgements.", hint=_formats_hint(JUDGEMENTS))
        name = names[0]
    found: JudgementFormat = JUDGEMENTS.get(name)
    judged = found.read(path, collection, **found.resolve({**query, **options}))
    collection = collection.with_judgements(judged.table)
    return replace(collection, source=f"{collection.source}; {judged.note}")


def resolve(spec: str, format: str | None = None) -> tuple[Format, Path, dict[str, Any]]:
    """The format, the path and the options that a text stands for; what lies elsewhere is copied here first."""
    spec = _brought_here(spec)
    prefix, text = _prefix(spec, FORMATS)
    if prefix is not None and format is not None and prefix != format:
        raise CollectionError(f"{spec!r} names the format {prefix!r}, and format={format!r} another.")
    name = prefix or format
    path, query = _query(text)
    if name is not None:
        return FORMATS.get(name), path, query
    if "{" not in path.name:  # a pattern of shards
        _must_exist(path, spec)
    return *_sniffed(path), query


def _brought_here(spec: str) -> str:
    found = _ELSEWHERE.fullmatch(spec)
    return spec if found is None else f"{found['format'] or ''}{local_copy(found['url'])}{found['query'] or ''}"


def _from_object(value: Any, options: dict[str, Any]) -> Collection:
    if not hasattr(value, "save_to_disk"):
        raise CollectionError(
            f"cannot open a {type(value).__name__} as a collection.",
            hint="give a path, a text such as scenes:2000, or a datasets.Dataset",
        )
    from visir.collections.readers.huggingface import from_dataset

    return from_dataset(value, **FORMATS.get("huggingface").resolve(options)).build()


def _attached(collection: Collection, judgements: object) -> Collection:
    for one in _listed(judgements):
        collection = attach_judgements(collection, one)
    return collection


def _sniffed(path: Path) -> tuple[Format, Path]:
    found = _first(path)
    if found is not None and not found.last:
        return found, path
    if path.is_dir():
        files = [(_first(file), file) for file in sorted(path.iterdir()) if file.is_file()]
        inside = [(one, file) for one, file in files if one is not None and not one.last]
        if len(inside) == 1:
            return inside[0]
        if inside:
            listing = ", ".join(f"{one.name}:{file}" for one, file in inside)
            raise CollectionError(f"{path}: several collections in this folder.", hint=f"name one of: {listing}")
    if found is not None:
        return found, path
    raise CollectionError(f"{path}: no known format of collections.", hint=_formats_hint(FORMATS))


def _first(path: Path) -> Format | None:
    formats = sorted((one for _, one in FORMATS.items()), key=lambda one: one.last)  # those of other packages too
    return next((one for one in formats if one.sniff(path)), None)


def _prefix(spec: str, registry: Any) -> tuple[str | None, str]:
    name, colon, rest = spec.partition(":")
    if not colon or Path(spec).exists():
        return None, spec
    if name in registry:
        return name, rest
    if len(name) > 1 and name.isidentifier():
        raise CollectionError(f"{spec!r}: unknown {registry.kind} {name!r}", hint=nearest(name, registry))
    return None, spec


def _query(text: str) -> tuple[Path, dict[str, Any]]:
    if "?" not in text or Path(text).exists():
        return Path(text), {}
    text, _, query = text.rpartition("?")
    pairs = (part.partition("=") for part in query.split("&") if part)
    options: dict[str, Any] = {key: unquote(value) for key, _, value in pairs}  # "+" stays: it joins splits
    for name in ("images", "judgements"):
        if "," in options.get(name, ""):
            options[name] = options[name].split(",")
    return Path(text), options


def _must_exist(path: Path, spec: str | None = None) -> None:
    if not path.exists():
        raise CollectionError(
            f"{spec or path}: no such file or folder.",
            hint="check the path; generated scenes need none: scenes:2000",
        )


def _listed(value: object) -> list[str | Path]:
    if value is None:
        return []
    return [value] if isinstance(value, (str, Path)) else list(value)  # type: ignore[call-overload]


def _formats_hint(registry: Any) -> str:
    how = "name it with --format" if registry is FORMATS else "put its name before it (name:path)"
    return f"{how}; known: {', '.join(registry)} (visir data formats explains them)"

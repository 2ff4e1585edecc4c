"""Whatever a person has (texts, pictures, a folder, a collection) as items to encode."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from visir.collections import open_source
from visir.collections.picture_kinds import is_picture_name
from visir.collections.task_memory import read_items
from visir.display import counted, listed, quoted
from visir.encoders.base import Encoder
from visir.encoders.families import cached_folder, family_of, named_like, where_to_begin
from visir.encoders.forms import how_to_compose
from visir.errors import CollectionError, EncoderError, raise_faults
from visir.files import is_there
from visir.options import split_mark
from visir.records import Collection, Items, Modality, Role, Task, TaskFile, TaskSet, strings
from visir.records.items import PLURALS, held
from visir.remote import is_url


def items_of(
    source: Any,
    encoder: Encoder,
    modality: Modality | None = None,
    role: Role = "document",
    *,
    split: str | None = None,
    images: object = None,
) -> Items:
    """The items of a source that an encoder is to encode."""
    if isinstance(source, Items):
        return source
    texts = None if split or images else _texts(source)
    if texts is not None:
        return Items(strings(texts), strings(texts.values()), title="texts", name="given")
    if split is None and images is None and _is_mixed(source):
        return read_items(source)
    opened = source if isinstance(source, Task) else _opened(source, split, images)
    if isinstance(opened, (TaskFile, TaskSet)):
        opened = opened.task(opened.tasks[0])
    if isinstance(opened, Task):
        return opened.documents if role == "document" else opened.queries
    if modality is None:
        takes_images = "image" in encoder.modalities
        modality = "image" if takes_images and len(opened.images) else "text"
        if not takes_images and not len(opened.captions):
            raise encoder.cannot("image")
    if modality == "text" and not len(opened.captions) and "text" not in encoder.modalities:
        raise encoder.cannot("image")
    return opened.items(modality)


def is_picture(value: object) -> bool:
    """Whether a value is a picture: of PIL, a path, or a text that names a picture file that is there."""
    if isinstance(value, str):
        return is_picture_name(value) and Path(value).is_file()
    if isinstance(value, Path):
        return is_picture_name(value.name)
    return type(value).__module__.startswith("PIL.")


def unique_names(names: Iterable[str]) -> list[str]:
    """Names, with a number behind each repetition."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result


def _texts(source: Any) -> dict[str, str] | None:
    """Id → text, of a list or a dictionary of texts; None for anything else."""
    if isinstance(source, Mapping):
        values = list(source.values())
        if values and all(isinstance(value, str) and not is_picture(value) for value in values):
            return {} if any(is_picture(key) for key in source) else {str(key): text for key, text in source.items()}
        return None
    if isinstance(source, list | tuple) and source and all(isinstance(value, str) for value in source):
        if all(is_picture(value) for value in source):
            return None
        return dict(zip(unique_names(source), source, strict=True))
    return None


def _is_mixed(source: Any) -> bool:
    """Whether it is {id: item} or a list of items: texts, pictures, and both as {"text": …, "image": …}."""
    if isinstance(source, Mapping):
        if any(is_picture(key) for key in source):  # {picture: caption}
            return False
        values: list[Any] = list(source.values())
    elif isinstance(source, (list, tuple)):
        values = list(source)
    else:
        return False
    kinds = {_kind(value) for value in values}
    return kinds <= {"text", "image", "both"} and ("both" in kinds or len(kinds) == 2)


def _kind(value: Any) -> str:
    """What an item holds; "" where it is none."""
    if is_picture(value):
        return "image"
    if isinstance(value, str):
        return "text"
    return "both" if isinstance(value, Mapping) and value and set(value) <= {"text", "image"} else ""


def _opened(source: Any, split: str | None, images: object) -> Collection | TaskFile | TaskSet:
    is_single = is_picture(source) and (not isinstance(source, str | Path) or Path(source).is_file())
    try:
        return open_source([source] if is_single else source, split=split, images=images)
    except CollectionError as fault:
        if isinstance(source, str) and " " in source.strip():
            raise EncoderError(
                f"{source!r} is no collection ({fault.message})", hint=f"a text goes in a list: [{source!r}]"
            ) from fault
        raise


_GIVE = "give each a text or an image, or leave them out"


def check_accepted(encoder: Encoder, sides: Iterable[Items]) -> None:
    """Raise one error for everything that the encoder cannot encode."""
    if not encoder.modalities:
        raise EncoderError(
            f"{encoder.label} takes neither images nor texts.",
            hint='say in the class what it takes, modalities = frozenset({"image", "text"}), and give it a method '
            "forward(self, batch, role) that returns the vectors of batch.images or batch.texts",
            code="takes-neither-images-nor",
        )
    distinct = list({id(items): items for items in sides}.values())
    refused: dict[Modality, Items] = {}
    faults, empty = [], []
    for items in distinct:
        # Of a side without any items what its columns say.
        for kind in list(items.kinds) or ([] if len(items) else [items.modality]):
            if kind not in encoder.modalities:
                refused[kind] = items
                faults.append(_refused(items, kind))
        empty += _empty(items)
    if len(refused) == 1 and not empty and not any(items.is_mixed for items in refused.values()):
        raise encoder.cannot(next(iter(refused)))
    if faults:
        accepted = " and ".join(PLURALS[kind] for kind in sorted(encoder.modalities))
        hint = how_to_compose(encoder.modalities, encoder.card.name) if "text+image" in refused else where_to_begin()
        raise_faults(
            EncoderError, f"{encoder.card.name} encodes only {accepted}", faults + empty, hint=hint, code="encodes-only"
        )
    if len(empty) == 1:
        raise CollectionError(f"{empty[0]}.", hint=_GIVE)
    raise_faults(CollectionError, f"items for {encoder.card.name}", empty, hint=_GIVE)


def _refused(items: Items, kind: Modality) -> str:
    where = items.name or "items"
    if not items.is_mixed:
        return f"{where}: the {items.title} are {PLURALS[kind]}"
    rows = items.kinds[kind]
    examples = listed(items.ids.take(pa.array(rows[:3])).to_pylist(), len(rows))
    return f"{where}: {held(kind, len(rows))} among {len(items):,} {items.title}: {examples}"


def _empty(items: Items) -> list[str]:
    """A line on items that hold nothing; of a side of images alone the reader says it, with its reason."""
    if items.texts is None:
        return []
    without = pc.is_null(items.texts)
    if items.places is not None:
        without = pc.and_(without, pc.is_null(items.places["path"].combine_chunks()))
    ids = items.ids.filter(without)
    if not len(ids):
        return []
    lack = "no text" if items.places is None else "neither a text nor an image"
    count = counted(len(ids), items.title, "have")
    return [f"{items.name}: {count} {lack}, e.g. {listed(ids[:3].to_pylist(), len(ids))}"]


@contextmanager
def order_named(order: str, model: object, source: object, *, is_model: bool = False) -> Iterator[None]:
    """A context in which a model is loaded. Where the source is one instead, the error says which comes first."""
    # order: The hint: "the model comes first: visir.encode(model, source)".
    try:
        yield
    except EncoderError as fault:
        if (is_model or _is_model(source)) and not names_model(model):
            raise EncoderError(
                f"{_called(model)} is no model, and {_called(source)} is one.", hint=order, code="no-model-one"
            ) from fault
        raise


def names_model(thing: object) -> bool:
    """Whether this is an encoder, or a name in the form of one; nothing is loaded or fetched."""
    if isinstance(thing, str | os.PathLike):
        name = os.path.expanduser(os.fspath(thing))  # noqa: PTH111 (Path raises where there is no such user)
        try:
            return not is_url(name) and bool(family_of(name))
        except EncoderError:
            return False
    return isinstance(thing, Encoder)


def _is_model(thing: object) -> bool:
    """Whether this is a model for certain: "a/b" may be a folder as well, unless that model is known or here."""
    if not names_model(thing) or isinstance(thing, Encoder):
        return isinstance(thing, Encoder)
    name = os.fspath(cast("str | os.PathLike[str]", thing))
    bare, _ = split_mark(name)
    if not family_of(name).pattern or ":" in bare or is_there(bare):
        return True
    return bare in named_like(bare) or cached_folder(bare) is not None


def _called(thing: object) -> str:
    if isinstance(thing, str | os.PathLike):
        return quoted(os.fspath(thing), 60)
    if isinstance(thing, Encoder):
        return f"the encoder {thing.card.name}"
    name = type(thing).__name__
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"

"""Whether an encoder takes all items of all sides: every fault at once, before anything is encoded."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import counted, listed
from visir.encoders.base import Encoder
from visir.encoders.families import where_to_begin
from visir.encoders.item_parts import how_to_compose
from visir.errors import CollectionError, EncoderError, raise_faults
from visir.records import Items, Modality
from visir.records.items import PLURALS, held

_GIVE = "give each a text or an image, or leave them out"


def check_accepted(encoder: Encoder, sides: Iterable[Items]) -> None:
    """Raise one error for everything that the encoder cannot encode."""
    if not encoder.modalities:
        raise EncoderError(
            f"{encoder.label} takes neither images nor texts.",
            hint="give the class a method embed_images(self, images) or embed_texts(self, texts)",
            code="takes-neither-images-nor",
        )
    distinct = list({id(items): items for items in sides}.values())
    refused: dict[Modality, Items] = {}
    faults, empty = [], []
    for items in distinct:
        for kind in _kinds(items):
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


def _kinds(items: Items) -> list[Modality]:
    """What items hold; of a side without any items what its columns say."""
    return list(items.kinds) or ([] if len(items) else [items.modality])


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

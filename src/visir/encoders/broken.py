"""Images that cannot be read: when they stop the work, and when they can be read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from visir.collections.images import ImageReader
from visir.display import counted
from visir.encoders.loading import family_named
from visir.encoders.store import Entry, Store
from visir.errors import ImageError
from visir.records import Collection, Items


def usable_entry(store: Store, key: str, items: Items) -> Entry | None:
    """The entry of a key; None where there is none, or where an image that was set aside can be read by now."""
    # An entry of the second kind is removed: a network share was not mounted when it was made.
    entry = store.find(key)
    if entry is None or not is_readable_again(entry.broken, items):
        return entry
    store.remove(key)
    return None


def is_readable_again(broken: Mapping[str, str], items: Items) -> bool:
    """Whether one of these images can be read by now."""
    if not broken:
        return False
    reader = ImageReader(items)
    for row, name in enumerate(items.ids.to_pylist()):
        if name in broken:
            try:
                reader.open(row)
            except ImageError:
                continue
            return True
    return False


def without_broken(items: Items, suspects: pa.StringArray) -> tuple[Items, dict[str, str]]:
    """The items without those whose image cannot be read, and id to reason of these."""
    reader, broken = ImageReader(items), dict[str, str]()
    rows = pc.index_in(suspects, items.ids).to_numpy()
    for name, row in zip(suspects.to_pylist(), rows.tolist(), strict=True):
        try:
            reader.open(row)
        except ImageError as fault:
            broken[name] = fault.reason
    left = np.flatnonzero(pc.invert(pc.is_in(items.ids, pa.array(broken, pa.string()))).to_numpy(zero_copy_only=False))
    return items.take(left), broken


def reads_pictures(model: str) -> bool:
    """Whether a model that is not loaded yet computes the vectors of pictures; imported ones are looked up."""
    return family_named(model).name != "imported"


def check_there(sides: Iterable[Items | Collection], remedy: str = "take them out of the list") -> None:
    """Raise one `ImageError` for all pictures of these that are not there, before anything is encoded."""
    parts, faults = [], list[ImageError]()
    for side in sides:
        if absent := ImageReader(side).absent():
            splits = ", ".join(filter(None, side.splits)) if isinstance(side, Collection) else ""
            name = f"{side.name} ({splits})" if splits else side.name
            parts.append(f"{name}: {len(absent):,} of {counted(side.images.num_rows, 'pictures')}")
            faults += absent.values()
    if faults:
        reasons = "; ".join(fault.message.removesuffix(".") for fault in faults[:3]) + (
            "; …" if len(faults) > 3 else ""
        )
        raise ImageError(
            f"{', '.join(parts)} cannot be read: {reasons}.", hint=f"{faults[0].hint}; or {remedy}", code="cannot-read"
        )


def check_broken(broken: Mapping[str, str], items: Items, skip_broken: bool) -> None:
    """Stop when images were set aside and the caller does not allow it, or when no image is left."""
    if not broken:
        return
    reasons = "; ".join(list(broken.values())[:3]) + ("; …" if len(broken) > 3 else "")
    if len(broken) == len(items):
        raise ImageError(
            f"{items.name}: none of its {counted(len(items), 'images')} can be used: {reasons}", code="nothing-usable"
        )
    if not skip_broken:
        raise ImageError(
            f"{items.name}: {len(broken):,} of {len(items):,} images are broken: {reasons}",
            hint="mend them, or set them aside, counted: --skip-broken (for training, take them out of the list)",
            code="images-broken",
        )

"""`index`: make a library, or bring it up to date, and open it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visir.library.layout import LibraryError, default_folder, is_library, places_of, removals
from visir.library.library import Library
from visir.library.models import default_model
from visir.library.searcher import Searcher
from visir.library.snapshot import LibrarySnapshot
from visir.library.updating import update

if TYPE_CHECKING:
    from visir.encoders.base import Encoder


def index(
    source: str | Path,
    model: str | Path | Encoder | None = None,
    *,
    out: str | Path | None = None,
    head: str | Path | Encoder | None = None,
    kind: str | Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    name: str | None = None,
    split: str | None = None,
    images: str | Path | Sequence[str | Path] = (),
    verify: bool = False,
    language: str | None = None,
    synonyms: str | Path | None = None,
    device: str | None = None,
) -> Library:
    """Make photos searchable: make a library of them, or bring it up to date, and open it.

    Only what is new is encoded; moved files cost nothing. A call that was interrupted goes on where it was.

    Args:
        source: A folder of photos, or anything else on disk that `visir.open` takes; or the folder of a library.
        model: A name as `visir.load` takes it, or an encoder; "none" for products that are searched by words alone.
            Default for a new library: the recommended model, for products none. A library keeps its model; one without
            takes one later.
        out: The library's folder. Default: the source's name with `.visir`, in the current folder.
        head: A sparse head, for search by weighted words.
        kind: The kind of index ("hnsw"), or one for each form of vectors. Default: exact.
        settings: Of the indexes: {"url": "http://qdrant:6333"}.
        name: What to call the library. Default: the folder's name.
        split: One split of the source only.
        images: Where the pictures of the source are.
        verify: Whether to read every file, also those whose size and time of change are as they were.
        language: Of products: how words are compared, "plural" (English plurals, the default), "none", or a Snowball
            stemmer such as "german".
        synonyms: Of products: a file of rules, `sofa, couch` or `tee => t shirt` on each line; the library copies it.
        device: Of the models: "cpu", "cuda", "mps"; None for the best there is.

    Returns:
        The library, open; its `report` says what was added, skipped and broken.

    Raises:
        LibraryError: Another update is under way; model or source are not those of the library; there is no picture.
        EncoderError: The model cannot be loaded, or takes no pictures.

    Example:
        >>> import visir
        >>> from PIL import Image
        >>> Path("photos").mkdir()
        >>> Image.new("RGB", (64, 48), "red").save("photos/red.png")
        >>> library = visir.index("photos", "pixels")
        >>> library.folder.name, len(library), library.report.added
        ('photos.visir', 1, 1)
        >>> visir.index("photos").report.unchanged
        1
    """
    if not isinstance(source, str | PathLike):
        raise LibraryError(
            f"a library is made of photos on disk, not of a {type(source).__name__}.",
            hint='name what it was opened from: visir.index("photos/", model) or visir.index("captions.csv", model); a '
            "collection in memory: visir.search(collection, model, query); vectors or parts: "
            "visir.retrieval.build_index",
        )
    given = Path(source)
    if is_library(given) and out is None:
        place, folder = None, given
    else:
        place, folder = source, Path(out) if out is not None else default_folder(str(source))
    loaded: dict[str, Encoder] = {}
    names = [_named(model, loaded), _named(head, loaded)]
    if names[0] is None and not is_library(folder):
        default = default_model(source, [images] if isinstance(images, str | Path) else images, split)
        names[0] = default.name
        print(f"model {default.name}: {default.reason}", file=sys.stderr, flush=True)  # noqa: T201
    before = places_of(folder)
    report = update(
        place,
        folder,
        model=names[0],
        head=names[1],
        kind=kind,
        settings=settings,
        name=name,
        split=split,
        images=[images] if isinstance(images, str | Path) else images,
        verify=verify,
        language=language,
        synonyms=synonyms,
        device=device,
        loaded=loaded,
    )
    for removal in removals(before, places_of(folder)):
        warnings.warn(
            f"{folder}: no longer used, and left on its server; unless a copy of this library uses it: {removal}",
            stacklevel=2,
        )
    snapshot = LibrarySnapshot.open(folder.absolute())
    library = Library(Searcher(snapshot, device=device, loaded=loaded), loaded=loaded, device=device)
    library.report = report
    return library


def _named(model: str | PathLike[str] | Encoder | None, loaded: dict[str, Encoder]) -> str | None:
    """The name of a model; an encoder is put among those that are in memory."""
    if model is None or isinstance(model, str | PathLike):
        return None if model is None else str(model)
    loaded[model.card.name] = model
    return model.card.name

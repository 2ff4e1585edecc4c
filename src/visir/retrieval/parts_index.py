"""An index of a finished folder of parts (`visir encode --parts`), made by one call; and what one lacks, added.

The vectors of all parts are joined in one file beside the index, which is removed at the end, and the index is built of
that file as of any other vectors: of the same vectors it is the same index, and what its kind does after a kill it does
here. The disk needs room for the vectors twice while it is built.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from visir.retrieval.rows import check_same_modality, check_same_model
from visir.retrieval.stored import IndexFolderError, check_new_index
from visir.storage import Scratch
from visir.storage.disk import disk_faults

if TYPE_CHECKING:
    from visir.encoders import Parts
    from visir.encoders.parts_folder import PartsSummary
    from visir.retrieval.index import Index
    from visir.retrieval.settings import Kind


def index_of_parts(
    parts: Parts, kind: Kind, out: str | Path | None = None, **options: Any
) -> tuple[Index[Any], PartsSummary]:
    """Build an index of the vectors of all parts."""
    from visir.encoders.parts_folder import check_finished, join_parts

    kind.check_settings(options)
    if out is not None:
        check_new_index(Path(out))
    finished = check_finished(parts)
    place = Scratch.temporary("parts") if out is None else Scratch.beside(Path(os.path.realpath(out)))
    with place as scratch, disk_faults(scratch.path, IndexFolderError):
        vectors, summary = join_parts(parts, finished, scratch.file("vectors"))
        if out is None:
            vectors = replace(vectors, vectors=np.array(vectors.vectors))
        index = kind.build(vectors, out, **options)
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

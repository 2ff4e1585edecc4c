"""Refuse a run that was made over another gallery than the declared one, and name the difference."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import counted
from visir.errors import ProtocolError
from visir.evaluation.folds import folds_of
from visir.records import Gallery, Run

HINT = "declare the gallery it was made over (gallery='collection' is all of the collection), or search again"


def check(run: Run, declared: Gallery, folds: int = 1) -> str | None:
    """Compare a run's gallery, its folds and its documents with the declared gallery.

    Args:
        run: The run.
        declared: The declared gallery.
        folds: The declared number of folds.

    Returns:
        A note if the run's gallery is unknown, or only stated and its size agrees; None if both are listed and equal.

    Raises:
        ProtocolError: They differ; the message has sizes, counts and examples.
    """
    where = f"run {run.name} ({run.task})"
    kind = declared.title
    if folds_of(run) not in (1, folds):  # a search of one gallery can be cut into folds, but not the reverse
        raise ProtocolError(
            f"{where} was made within {folds_of(run)} folds: each query met the candidates of its own fold only. "
            f"Declared {'is one gallery' if folds == 1 else f'are {folds} folds'}.",
            hint=f"declare its folds (folds={folds_of(run)}), or search again",
        )
    if declared.ids is not None:
        foreign = _not_in(run.documents, declared.ids)
        if len(foreign):
            raise ProtocolError(
                f"{where} was not made over the declared gallery ({_said(declared)}): it lists "
                f"{counted(len(foreign), kind)} not in it, e.g. {_examples(foreign)}.",
                hint=HINT,
                code="lists-not",
            )
    if not run.gallery.is_known:
        return f"{where} does not say what was searched; it is measured as a run over the declared {kind}"
    if not run.gallery.is_listed or declared.ids is None:
        if run.gallery.size != declared.size:
            raise ProtocolError(
                f"{where} was made over a gallery stated as {run.gallery.size:,} {kind} ({run.gallery.description}); "
                f"declared are {declared.size:,} ({declared.description}).",
                hint=HINT,
                code="run-made-over-gallery",
            )
        return f"the gallery of {where} is known by its size only ({run.gallery.size:,} {kind})"
    if run.gallery.fingerprint != declared.fingerprint:
        assert run.gallery.ids is not None  # is_listed, above
        more, fewer = _not_in(run.gallery.ids, declared.ids), _not_in(declared.ids, run.gallery.ids)
        parts = [f"{len(more):,} {kind} of its gallery are not declared, e.g. {_examples(more)}"] if len(more) else []
        if len(fewer):
            parts.append(f"{len(fewer):,} declared {kind} are missing from its gallery, e.g. {_examples(fewer)}")
        raise ProtocolError(
            f"{where} was made over another gallery ({_said(run.gallery)}) than declared ({_said(declared)}): "
            + "; ".join(parts)
            + ".",
            hint=HINT,
        )
    return None


def _not_in(ids: pa.Array, among: pa.Array) -> pa.Array:
    return ids.filter(pc.invert(pc.is_in(ids, among)))


def _examples(ids: pa.Array) -> str:
    return ", ".join(repr(identifier) for identifier in ids[:3].to_pylist())


def _said(gallery: Gallery) -> str:
    return f"{gallery.size:,}, {gallery.description}" if gallery.description else f"{gallery.size:,}"

"""What mteb knows of a model: its name, revision, and how its vectors are compared."""

from __future__ import annotations

import re
from typing import Any

from visir.encoders.base import Encoder
from visir.retrieval.vectors import Similarity

_FORMS = {"dense": "dense", "sparse": "sparse", "multi-vector": "late-interaction"}
_MODALITIES = {"text": ("text",), "image": ("image",), "text+image": ("image", "text")}


def meta_of(encoder: Encoder, similarity: Similarity | None, name: str | None, revision: str | None) -> Any:
    """mteb's record of a model."""
    from mteb.models import ModelMeta

    scored = {"sparse": "dot", "multi-vector": "MaxSim"}.get(encoder.form, similarity or "cosine")
    modalities = {part for modality in encoder.modalities for part in _MODALITIES[modality]}
    return ModelMeta.create_empty().model_copy(
        update={
            "name": name or model_name(encoder.card.name),
            "revision": revision
            or (encoder.card.revision if encoder.card.is_versioned else None)
            or encoder.card.fingerprint[:12],
            "modalities": sorted(modalities),
            "model_type": [_FORMS[encoder.form]],
            "similarity_fn_name": _scoring(scored),
            "embed_dim": None if encoder.form == "multi-vector" else _dimension(encoder),
            "use_instructions": encoder.distinguishes_roles,
        }
    )


def model_name(name: str) -> str:
    """The name of an encoder in mteb's form, "organisation/model"."""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return name
    return f"visir/{re.sub(r'[^A-Za-z0-9_.-]+', '-', name.rstrip('/').rpartition('/')[2]).strip('-') or 'model'}"


def _scoring(name: str) -> Any:
    from mteb.models.model_meta import ScoringFunction

    return ScoringFunction(name)


def _dimension(encoder: Encoder) -> int | None:
    sizes = {encoder.dimension_of(modality) for modality in encoder.modalities} - {None}
    return next(iter(sizes)) if len(sizes) == 1 else None

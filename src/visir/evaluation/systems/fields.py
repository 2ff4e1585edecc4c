"""The fields of the protocol that encoders fill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from visir.records import EncoderCard, SparseEmbeddings, Vectors

_TRUNCATION = ("truncation", "max_length", "context_length", "max_tokens")
_OF_VOCABULARY = ("vocabulary", "terms")
"""Fields of a sparse encoder's card that the protocol shows under "vocabulary"."""


def system_name(queries: EncoderCard, documents: EncoderCard) -> str:
    """One name for the encoders of queries and documents."""
    return " + ".join(dict.fromkeys([queries.name, documents.name]))


def system_fields(vectors: Mapping[str, Vectors]) -> dict[str, str]:
    """The fields of `Protocol` that encoder cards fill: preprocessing, truncation, query template, vocabulary.

    Args:
        vectors: By modality: "image", "text", "text+image". Image preprocessing is read from the vectors of images,
            text preprocessing from those of texts; it includes the expansion of sparse texts.

    Returns:
        The fields by name.
    """
    both = vectors.get("text+image")
    images, texts = vectors.get("image", both), vectors.get("text", both)
    text = {} if texts is None else dict(texts.encoder.text_preprocessing)
    if isinstance(texts, SparseEmbeddings):
        text = {name: value for name, value in text.items() if name not in _OF_VOCABULARY}
    template = str(text.pop("template", "{}"))
    truncation = ", ".join(f"{name.replace('_', ' ')} {text.pop(name)}" for name in _TRUNCATION if name in text)
    return {
        "image_preprocessing": "" if images is None else _in_words(images.encoder.image_preprocessing),
        "text_preprocessing": _in_words(text),
        "truncation": truncation,
        "query_template": template,
        "vocabulary": _vocabulary(texts),
    }


def _vocabulary(vectors: Vectors | None) -> str:
    if not isinstance(vectors, SparseEmbeddings):
        return ""
    words = vectors.vocabulary
    return f"{words.name} · {len(words):,} terms · {words.fingerprint[:12]}"


def _in_words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sorted(values.items()))

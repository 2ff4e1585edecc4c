"""The fields of the protocol that encoders fill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from visir.encoders.composed.rule import OPTION
from visir.records import EncoderCard, MultiVectorEmbeddings, SparseEmbeddings, Vectors

_TRUNCATION = ("truncation", "max_length", "context_length", "max_tokens")
_OF_VOCABULARY = ("vocabulary", "terms")
"""Fields of a sparse encoder's card that the protocol shows under "vocabulary"."""


def system_name(queries: EncoderCard, documents: EncoderCard) -> str:
    """One name for the encoders of queries and documents."""
    return " + ".join(dict.fromkeys([queries.name, documents.name]))


def system_fields(vectors: Mapping[str, Vectors]) -> dict[str, str]:
    """The fields of `Protocol` that vectors and their cards fill: preprocessing, truncation, template, vocabulary, how
    many vectors there are for an item, how a text and an image become one."""
    both = vectors.get("text+image")
    images, texts = vectors.get("image", both), vectors.get("text", both)
    text = {} if texts is None else dict(texts.encoder.text_preprocessing)
    if isinstance(texts, SparseEmbeddings):
        text = {name: value for name, value in text.items() if name not in _OF_VOCABULARY}
    text.pop(OPTION, None)
    template = str(text.pop("template", "{}"))
    truncation = ", ".join(f"{name.replace('_', ' ')} {text.pop(name)}" for name in _TRUNCATION if name in text)
    return {
        "image_preprocessing": "" if images is None else _in_words(images.encoder.image_preprocessing),
        "text_preprocessing": _in_words(text),
        "truncation": truncation,
        "query_template": template,
        "vocabulary": _vocabulary(texts),
        "vectors_per_item": _several(vectors),
        "composition": "" if both is None else str(both.encoder.text_preprocessing.get(OPTION, "by the model")),
    }


def _vocabulary(vectors: Vectors | None) -> str:
    if not isinstance(vectors, SparseEmbeddings):
        return ""
    words = vectors.vocabulary
    return f"{words.name} · {len(words):,} terms · {words.fingerprint[:12]}"


def _several(vectors: Mapping[str, Vectors]) -> str:
    """How many vectors there are for an item, on average: "image 49, text 11.3 · 128 dimensions, float16"."""
    sides = [(side, value) for side, value in sorted(vectors.items()) if isinstance(value, MultiVectorEmbeddings)]
    if not sides:
        return ""
    counts = [f"{side} {len(value.vectors) / max(len(value), 1):,.1f}".removesuffix(".0") for side, value in sides]
    dtypes = dict.fromkeys(str(value.vectors.dtype) for _, value in sides)
    return f"{', '.join(counts)} · {sides[0][1].dimension:,} dimensions, {' and '.join(dtypes)}"


def _in_words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sorted(values.items()))

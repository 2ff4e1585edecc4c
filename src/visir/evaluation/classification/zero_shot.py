"""Zero-shot classifiers: the vector of a class is the mean of the vectors of its prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.collections.digests import picture_digests
from visir.encoders import encode_items, load
from visir.encoders.base import Encoder
from visir.encoders.encoding import is_stored
from visir.encoders.forms import as_dense
from visir.errors import ConfigurationError, EmbeddingError
from visir.evaluation.classification.class_names import ClassNames, Templates, filled
from visir.evaluation.systems.vectors import vectors_by_side
from visir.records import Embeddings, Items, strings

Matrix = NDArray[np.float64]


def unit(vectors: NDArray[Any]) -> Matrix:
    """Vectors of length 1, in double precision."""
    vectors = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not (lengths > 0).all():
        raise EmbeddingError("a vector is zero, so it has no direction.", hint="is a picture or a prompt empty?")
    directions: Matrix = vectors / lengths
    return directions


def class_vectors(encoder: Encoder, names: ClassNames, templates: Templates, **options: Any) -> Matrix:
    """(classes, d) the unit vector of each class, as CLIP makes it."""
    # Each template is filled with each name of the class; the vectors of these prompts are brought to length 1, their
    # mean is taken, and that is brought to length 1 again (Radford et al. 2021, section 3.1.4).
    prompts = [[filled(template, name) for name in several for template in templates.texts] for several in names.names]
    texts = list(dict.fromkeys(prompt for of_class in prompts for prompt in of_class))
    items = Items(strings(texts), strings(texts), title="prompts", name="prompts")
    vectors = unit(as_dense(encode_items(encoder, items, "query", **options)).vectors)
    place = {text: row for row, text in enumerate(texts)}
    means = [vectors[[place[prompt] for prompt in of_class]].mean(axis=0) for of_class in prompts]
    return unit(np.stack(means))


def cosines(pictures: NDArray[Any], classes: Matrix) -> NDArray[np.float32]:
    """(n, classes) cosines of pictures and classes, computed in double precision, so that equal vectors tie."""
    scores = np.empty((len(pictures), len(classes)), np.float32)
    for start in range(0, len(pictures), _ROWS):
        scores[start : start + _ROWS] = unit(pictures[start : start + _ROWS]) @ classes.T
    return scores


_ROWS = 8192


# Where vectors of pictures and of classes come from: a model, or vectors that exist already.


@dataclass(frozen=True)
class Features:
    """Vectors of pictures and of classes."""

    name: str  # the name of the model
    encoder: Encoder | None = None  # the model; None where vectors are given
    images: Embeddings | None = None  # given vectors of pictures
    classes: Embeddings | None = None  # given vectors of classes, under their labels or their names
    options: dict[str, Any] = field(default_factory=dict)  # as of `visir.encode`

    @classmethod
    def of(cls, model: Any, *, device: str | None = None, dtype: str = "float32", **options: Any) -> Features:
        """The features of a model, its name, or {"image": vectors, "text": vectors of the classes}."""
        if isinstance(model, Embeddings):
            model = {"image": model}
        if isinstance(model, Mapping):
            if "image" not in model or set(model) - {"image", "text"}:
                raise ConfigurationError(
                    f"vectors are given for {', '.join(map(repr, model)) or 'nothing'}.",
                    hint="{'image': {id: vector}, 'text': {class: vector}}; 'text' may be left out",
                )
            sides = vectors_by_side({"text": model["image"], **model}, [])
            return cls(
                as_dense(sides["image"]).encoder.name or "given vectors",
                images=as_dense(sides["image"]),
                classes=as_dense(sides["text"]) if "text" in model else None,
            )
        encoder = load(model, device=device, dtype=dtype) if isinstance(model, (str, PathLike)) else model
        return cls(encoder.card.name, encoder, options=options)

    @property
    def has_texts(self) -> bool:
        """Whether classes can be embedded."""
        return self.classes is not None if self.encoder is None else "text" in self.encoder.modalities

    def of_pictures(self, items: Items) -> Embeddings:
        """The vectors of pictures; without those that are broken, where these may be left out."""
        if self.images is not None:
            return self.images.select(items.ids)
        assert self.encoder is not None
        return as_dense(encode_items(self.encoder, items, "document", **self.options))

    def marks(self, items: Items, vectors: NDArray[Any]) -> list[str]:
        """(n,) what two pictures share only if they are the same: their bytes; of given vectors the vector."""
        if self.encoder is None:
            return [vector.tobytes().hex() for vector in np.asarray(vectors)]
        return picture_digests(items)

    def at_hand(self, items: Items) -> bool:
        """Whether vectors of all these pictures exist already."""
        if self.encoder is None:
            return True
        return is_stored(self.encoder, items, "document", self.options.get("store"))

    def of_classes(self, names: ClassNames, templates: Templates) -> Matrix:
        """(classes, d) unit vectors of the classes."""
        if self.encoder is not None:
            if "text" not in self.encoder.modalities:
                raise self.encoder.cannot("text")
            return class_vectors(self.encoder, names, templates, **self.options)
        if self.classes is None:
            raise EmbeddingError("there are no vectors of classes.", hint="{'image': …, 'text': {class: vector}}")
        rows = {name: row for row, name in enumerate(self.classes.ids.to_pylist())}
        places = [
            next((rows[key] for key in (label, *several) if key in rows), None)
            for label, several in zip(names.classes, names.names, strict=True)
        ]
        missing = [label for label, place in zip(names.classes, places, strict=True) if place is None]
        if missing:
            raise EmbeddingError(
                f"no vector for the class {missing[0]!r} and {len(missing) - 1:,} more.", code="no-vector-class-more"
            )
        vectors: NDArray[Any] = np.asarray(self.classes.vectors)[[place for place in places if place is not None]]
        return unit(vectors)

"""Zero-shot classifiers: the vector of a class is the mean of the vectors of its prompts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders import encode_items
from visir.encoders.base import Encoder
from visir.encoders.forms import as_dense
from visir.errors import EmbeddingError
from visir.evaluation.classification.class_names import ClassNames
from visir.evaluation.classification.templates import Templates, filled
from visir.records import Items, strings

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

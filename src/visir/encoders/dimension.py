"""How long the vectors of an encoder are: what it states, or what its first vectors show."""

from __future__ import annotations

from visir.encoders.intake import Embedded
from visir.errors import EncoderError
from visir.records import Modality, TokenVectors


class KnownDimension:
    """The part of an encoder that knows the length of its vectors."""

    dimension: int

    @property
    def label(self) -> str:
        """What error messages call it."""
        return type(self).__name__

    def dimension_of(self, modality: Modality) -> int | None:
        """The length of its vectors of a modality; None while nobody knows it."""
        learnt: dict[Modality, int] = vars(self).get("_learnt", {})
        return (self.dimension if self._states_dimension else 0) or learnt.get(modality)

    def learn_dimension(self, modality: Modality, vectors: Embedded) -> None:
        """Note the length of vectors that were just computed."""
        several, known = isinstance(vectors, TokenVectors), self.dimension_of(modality)
        size = vectors.dimension if isinstance(vectors, TokenVectors) else vectors.shape[1]
        if known is None and len(vectors):
            vars(self).setdefault("_learnt", {})[modality] = size
        elif known != size and len(vectors):
            raise EncoderError(
                f"{self.label}: its {modality} vectors have {size} values, and {known} were expected.",
                hint=f"let all vectors have the same length{'' if several else ': pool or pad them'}"
                f"{'; or change the dimension that it states' if self._states_dimension else ''}",
                code="vectors-values-expected",
            )

    @property
    def _states_dimension(self) -> bool:
        return "dimension" in vars(self) or hasattr(type(self), "dimension")

    def _learnt_dimension(self) -> int:
        learnt: dict[Modality, int] = vars(self).get("_learnt", {})
        if len(set(learnt.values())) == 1:
            return next(iter(learnt.values()))
        if not learnt:
            raise EncoderError(
                f"{self.label}: the length of its vectors is not known before it has encoded something.",
                hint="encode something first, or say it: dimension = 512",
                code="length-vectors-not-known",
            )
        stated = ", ".join(f"{modality} vectors have {size} values" for modality, size in sorted(learnt.items()))
        raise EncoderError(
            f"{self.label}: {stated}: they cannot be compared with one another.",
            hint="let both functions end in vectors of one space, or wrap them as two encoders",
        )

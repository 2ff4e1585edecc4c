"""The settings of BM25F: how fields are weighted and how their lengths count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.errors import ConfigurationError, nearest, raise_faults


@dataclass(frozen=True)
class Bm25F:
    """The settings of BM25F, which is BM25 over documents with several fields."""

    # score(d) = Σ over query terms idf · tf / (k1 + tf), with tf = Σ over fields w · count / (1 − b + b · length / mean
    # length of the field), and idf = ln(1 + (N − n + 0.5) / (n + 0.5)) for a term that n of N documents have. Source:
    # Robertson, Zaragoza and Taylor (CIKM 2004); Robertson and Zaragoza (2009, section 3.6.4); the idf is that of
    # Lucene. With one field of weight 1 the score is that of `bm25s` (method "lucene").

    k1: float = 1.2  # how slowly further occurrences count; at least 0
    # How much the length of a field counts, 0 to 1; one number, or a number for each field.
    b: float | Mapping[str, float] = 0.75
    # The weight of each field, at least 0; a field without one has weight 1.
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = self.b.items() if isinstance(self.b, Mapping) else [("", self.b)]
        faults = [] if _number(self.k1) and self.k1 >= 0 else [f"k1 must be at least 0, not {self.k1!r}"]
        faults += [
            f"b{f' of {name}' if name else ''} must be 0 to 1, not {value!r}"
            for name, value in lengths
            if not (_number(value) and 0 <= value <= 1)
        ]
        faults += [
            f"the weight of {name} must be at least 0, not {value!r}"
            for name, value in self.weights.items()
            if not (_number(value) and value >= 0)
        ]
        raise_faults(ConfigurationError, "BM25F", faults)

    def weight_of(self, name: str) -> float:
        """Return the weight of a field."""
        return float(self.weights.get(name, 1.0))

    def length_of(self, name: str) -> float:
        """Return how much the length of a field counts."""
        return float(self.b.get(name, 0.75) if isinstance(self.b, Mapping) else self.b)

    def norms(self, fields: Sequence[str], lengths: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return (documents, fields) what one occurrence in a field of a document adds to tf."""
        # lengths: (documents, fields) words in each.
        mean = np.maximum(lengths.mean(axis=0, dtype=np.float64) if len(lengths) else 1.0, 1e-9)
        b = np.array([self.length_of(name) for name in fields])
        weight = np.array([self.weight_of(name) for name in fields])
        norms: NDArray[np.float64] = weight / np.maximum(1 - b + b * lengths / mean, 1e-9)
        return norms

    def check_fields(self, fields: Sequence[str]) -> None:
        """Check that every field with a setting is there."""
        named = dict.fromkeys([*self.weights, *(self.b if isinstance(self.b, Mapping) else ())])
        faults = [f"no field {name!r} ({nearest(name, fields)})" for name in named if name not in fields]
        raise_faults(ConfigurationError, "BM25F", faults)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {"k1": self.k1, "b": dict(self.b) if isinstance(self.b, Mapping) else self.b} | {
            "weights": dict(self.weights)
        }


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)

"""How vectors are kept on disk: one for each item, or several, and in which arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from visir.encoders.base import Encoder

VECTORS_FILE, OFFSETS_FILE, IDS_FILE = "vectors.npy", "offsets.npy", "ids.parquet"


@dataclass(frozen=True)
class KeptForm:
    """How the vectors of an entry are kept."""

    # Whether an item has several vectors. Then `offsets.npy` (n + 1,) says which: item i has
    # `vectors[offsets[i]:offsets[i + 1]]`.
    several: bool = False
    dtype: str = "float32"  # the arithmetic of `vectors.npy`

    @property
    def files(self) -> tuple[str, ...]:
        """The files of an entry."""
        return (VECTORS_FILE, OFFSETS_FILE, IDS_FILE) if self.several else (VECTORS_FILE, IDS_FILE)

    @property
    def name(self) -> str:
        """The form of the vectors: "dense" or "multi-vector"."""
        return "multi-vector" if self.several else "dense"


DENSE = KeptForm()


def kept_form(encoder: Encoder) -> KeptForm:
    """How the vectors of an encoder are kept."""
    return KeptForm(True, encoder.kept_dtype) if encoder.form == "multi-vector" else DENSE

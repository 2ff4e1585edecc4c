"""What was encoded, in lines for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.cli import output

if TYPE_CHECKING:
    from visir.encoders import Encoding


def print_encoding(title: str, encoding: Encoding) -> None:
    """Print what was encoded, what was set aside, and where the vectors are."""
    from visir.records import MultiVectorEmbeddings

    vectors, each, dtype = encoding.embeddings, "", ""
    if isinstance(vectors, MultiVectorEmbeddings):
        counts, dtype = vectors.counts, f" {vectors.vectors.dtype}"
        each = f" × {counts.mean():,.1f}" if counts.min() < counts.max() else f" × {counts[0]:,}"
    shape = f"{len(vectors):,}{each} × {vectors.dimension:,}{dtype}"
    if encoding.computed:
        rate = encoding.computed / encoding.seconds if encoding.seconds else 0.0
        source = f"{encoding.computed:,} encoded in {encoding.seconds:,.1f} s ({rate:,.0f}/s)"
        if encoding.resumed:
            source += f", {encoding.resumed:,} taken over from an interrupted run"
    else:
        source = "found in the store" if encoding.folder else "imported"
    output.line(f"{title}: {shape}, {source}")
    for name, reason in list(encoding.broken.items())[:10]:
        output.line(f"  set aside: {name}: {reason}")
    if encoding.broken:
        output.line(f"  {len(encoding.broken):,} broken in all; they are in no gallery")
    if encoding.folder:
        output.line(f"  kept in {encoding.folder}")

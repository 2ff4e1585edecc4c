"""What was encoded, in lines for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from visir.cli import output
from visir.display import named

if TYPE_CHECKING:
    from visir.encoders import Encoder, Encoding
    from visir.records import Items, Role

_SHOWN = 10
_MANY = {"image": 2_000, "text": 20_000}
"""From so many on, a compiled network saves more time than its compilation takes, several times over."""


def advise(encoder: Encoder, items: Items, role: Role) -> None:
    """Before long work with PyTorch on the CPU: say what is faster."""
    from visir.encoders.devices import has_bfloat16_units
    from visir.encoders.encoding import is_stored

    many = len(items) >= _MANY.get(items.modality, len(items) + 1)
    if many and encoder.root_encoder(items.modality).is_slow_here and not is_stored(encoder, items, role):
        faster = "is about 1.2 times as fast, with --dtype int8 twice."
        if has_bfloat16_units():
            faster = (
                "with --dtype bfloat16 is three to four times as fast on this processor, for nearly the same vectors."
            )
        output.note(f"{len(items):,} {items.modality}s with PyTorch on the CPU: --device openvino {faster}")


def remark_on_tars(source: str) -> None:
    """Say what of the tars of a collection was not read.

    Args:
        source: The collection's.
    """
    from visir.collections.tar_notes import tar_notes_in

    for remark in tar_notes_in(source):
        output.note(f"  {remark}")


def print_encoding(title: str, encoding: Encoding) -> None:
    """Print what was encoded, what was set aside, and where the vectors are."""
    from visir.records import MultiVectorEmbeddings

    vectors, each, dtype = encoding.embeddings, "", ""
    if isinstance(vectors, MultiVectorEmbeddings):
        counts, dtype = vectors.counts, f" {vectors.vectors.dtype}"
        each = f" × {counts.mean():,.1f}" if counts.min() < counts.max() else f" × {counts[0]:,}"
    shape = f"{len(vectors):,}{each} × {vectors.dimension:,}{dtype}"
    usable, done = (
        (f"{shape} usable, {len(encoding.broken):,} broken", "read") if encoding.broken else (shape, "encoded")
    )
    if encoding.computed:
        rate = encoding.computed / encoding.seconds if encoding.seconds else 0.0
        source = f"{encoding.computed:,} {done} in {encoding.seconds:,.1f} s ({rate:,.0f}/s)"
        if encoding.resumed:
            source += f", {encoding.resumed:,} taken over from an interrupted run"
    else:
        source = "found in the store" if encoding.folder else "imported"
    output.line(f"{title}: {usable}, {source}")
    print_set_aside(encoding.broken)
    if encoding.folder:
        output.line(f"  kept in {encoding.folder}")


def print_set_aside(broken: Mapping[str, str], lacking: str = "they are in no gallery") -> None:
    """Print which pictures `--skip-broken` has set aside.

    Args:
        broken: Id → reason.
        lacking: What that means.
    """
    for name, reason in list(broken.items())[:_SHOWN]:
        output.line(f"  set aside: {named(name, reason)}")
    if broken:
        output.line(f"  {len(broken):,} broken in all; {lacking}")

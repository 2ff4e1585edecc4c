"""Embeddings: their shape, where they come from, and the card of their encoder."""

from __future__ import annotations

from visir.display import counted
from visir.records import Embeddings, EncoderCard, MultiVectorEmbeddings, Vectors
from visir.reports.page import Block, Fold, Paragraph
from visir.reports.table import Column, Table
from visir.reports.views.parts import facts

ROWS, WORDS = 5, 8
"""Of how many sparse vectors how many words are shown."""


def blocks(shown: Vectors | EncoderCard) -> list[Block]:
    """Shape, origin and card; of sparse vectors the heaviest words."""
    if isinstance(shown, EncoderCard):
        return [_card(shown)]
    count = counted(len(shown), f"{shown.modality} vectors")
    parts: list[Block]
    if isinstance(shown, Embeddings):
        length = "of length 1" if shown.normalised else ""
        parts = [facts(count, f"{shown.dimension:,} dimensions", str(shown.vectors.dtype), length)]
    elif isinstance(shown, MultiVectorEmbeddings):
        count = counted(len(shown), f"{shown.modality} multi-vectors")
        vectors_each = f"{len(shown.vectors) / max(len(shown), 1):,.1f} vectors each"
        parts = [facts(count, vectors_each, f"{shown.dimension:,} dimensions", str(shown.vectors.dtype))]
    else:
        each = len(shown.terms) / len(shown) if len(shown) else 0.0
        rows = [
            [name, ", ".join(f"{word} {weight:.2f}" for word, weight in shown.words(name, WORDS))]
            for name in shown.ids[:ROWS].to_pylist()
        ]
        parts = [
            facts(count, f"{each:.1f} words each", f"of {shown.vocabulary.name} ({shown.dimension:,} terms)"),
            Table.of([Column("id"), Column("heaviest words")], rows),
        ]
    parts.append(Paragraph(", ".join(filter(None, [f"by {shown.encoder.name}", shown.origin])), "soft"))
    return [*parts, Fold("Card of the encoder", [_card(shown.encoder)])]


def _card(card: EncoderCard) -> Table:
    rows: list[tuple[str, str]] = []
    for name, value in card.to_dict().items():
        if isinstance(value, dict):
            rows += [(f"{name.split('_')[0]}: {key}", str(entry)) for key, entry in value.items()]
        elif value is not None:
            rows.append((name, str(value)))
    return Table.of([Column("field"), Column("value")], rows)

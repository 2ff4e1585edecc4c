"""What a distribution's makers say is in it, held against what a copy holds."""

from __future__ import annotations

from collections.abc import Mapping

from visir.collections.draft import SourceDraft
from visir.display import counted


def compare_counts(draft: SourceDraft, published: Mapping[str, int], counts: Mapping[str, int]) -> None:
    """Note in the collection's source which counts differ from the published ones; nothing where all agree."""
    # It is a note and not a fault: a part of a distribution is a good collection, only not the one of the papers.
    pairs = [(name, counts[name], count) for name, count in published.items() if counts[name] != count]
    if pairs:
        listing = ", ".join(f"{_counted(count_here, name)} (published: {count:,})" for name, count_here, count in pairs)
        draft.notes.append(f"not the full distribution: {listing}")


def _counted(number: int, name: str) -> str:
    """A count of "images of train": "1 image of train"."""
    noun, of, split = name.partition(" of ")
    return f"{counted(number, noun)}{of}{split}"

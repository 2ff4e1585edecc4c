"""What a feature of granularity is: two ways of counting, and a description of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from visir.robustness.granularity.tokens import TokenColumns, Values

Profile = Literal["paper", "strict", "per-noun"]
PROFILES: tuple[Profile, ...] = ("paper", "strict", "per-noun")

Count = Callable[[TokenColumns], Values]
"""Captions, laid out → (n,) one value per caption, NaN where it is not defined."""


@dataclass(frozen=True)
class CaptionFeature:
    """A feature of captions that describes itself; tables on the command line and in the docs are printed from this.

    Section 3.1 of the brittleness paper says what is counted, but not how exactly, and for some features Table 1 shows
    that something else was counted than the name says. So each feature has two definitions.

    Args:
        name: "adjectives".
        title: Its name in Table 1.
        level: As in Table 1: "noun phrase" or "caption".
        paper: The definition whose means come nearest to Table 1, found by trying those that the text admits.
        strict: The definition that does what the name says; the sound default.
        paper_says: The first definition in one sentence.
        strict_says: The second definition in one sentence.
        per_noun: Whether the text speaks of it "per identified noun"; under the profile "per-noun" its strict count is
            divided by the nouns of the caption (not defined for a caption without a noun).
    """

    name: str
    title: str
    level: Literal["noun phrase", "caption"]
    paper: Count
    strict: Count
    paper_says: str
    strict_says: str
    per_noun: bool = False

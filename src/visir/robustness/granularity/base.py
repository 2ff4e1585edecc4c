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
    """A feature that describes itself: the command line's tables and those of the docs are printed from this.

    Section 3.1 of the brittleness paper says what is counted, but not how exactly, and for some features Table 1 shows
    that something else was counted than the name says. So each feature has two profiles:

    - `paper`: the definition whose means come nearest to Table 1, found by trying those that the text admits
    - `strict`: what the name says; the sound default

    `paper_says` and `strict_says` give each in one sentence, `title` is Table 1's name. `level` is Table 1's: "noun
    phrase" or "caption". `per_noun`: whether the text speaks of it "per identified noun"; under the profile "per-noun"
    its strict count is divided by the nouns of the caption (not defined for a caption without a noun).
    """

    name: str
    title: str
    level: Literal["noun phrase", "caption"]
    paper: Count
    strict: Count
    paper_says: str
    strict_says: str
    per_noun: bool = False

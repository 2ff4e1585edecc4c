"""What can be asked of a library: one record for every way of asking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from visir.errors import VisirError, nearest, raise_faults
from visir.library.filters import FieldCondition
from visir.search.depth import depth_fault
from visir.search.fusion import Fusion

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.library.prepared_image import PreparedImage

System = Literal["dense", "sparse", "hybrid"]
SYSTEMS: tuple[str, ...] = get_args(System)
DEEPEST = 1000
"""How far down an answer can be paged (offset + k): beyond it the systems' lists would have to be fused deeper, and
nobody looks there."""
MOST_RERANKED = 100


class QueryError(VisirError):
    """A question that contradicts itself, or that this library cannot answer."""


@dataclass(frozen=True, eq=False)
class Query:
    """A question to a library.

    - `text`, `image`, `item`: what to look for: words, a picture (PIL, or `Searcher.prepare`d), a picture of the
      library (its id; it is left out of the answers). A text may stand beside one of the other two; `share` is then the
      part of the text, from 0 to 1. The query is the weighted mean of the *unit* vectors: a cosine knows no lengths, so
      neither side may weigh more because its encoder writes longer vectors. (The other reading fuses two ranked lists,
      which finds what fits either well; a mean finds what fits both, "this dress, in red".) Weighted words have
      meaningful lengths; there the mean is that of the weights as they are, each side divided by its own length first
      for the same reason.
    - `system`: "dense", "sparse" or "hybrid"; None takes dense where the library has it. A sparse head says in words
      what the dense vectors hold and loses a little, so the two together find no more than dense alone (measured in
      docs/library.md); hybrid is for systems that know different things.
    - `fusion`: how hybrid joins the two: "rrf" (reciprocal rank fusion) or "weighted" (a weighted sum of normalised
      scores, in which `weight`, from 0 to 1, is the part of dense); see `visir.search.fusion`
    - `conditions`, `category`: what answers must satisfy (`visir.library.filters`). A category takes its subtree. With
      a category and nothing to look for, the last part of its name is the text: "shoes/running" looks for "running"
      among what lies there.
    - `k`, `offset`: how many answers, after how many; offset + k is at most `DEEPEST`
    - `rerank`: how many of the best are put in order by the model's matching head (0: none); it needs a text
    """

    text: str | None = None
    image: Image | PreparedImage | None = None
    item: str | None = None
    share: float = 0.5
    system: System | None = None
    fusion: Fusion = "rrf"
    weight: float = 0.5
    conditions: tuple[FieldCondition, ...] = ()
    category: str | None = None
    k: int = 10
    offset: int = 0
    rerank: int = 0

    @property
    def said(self) -> str | None:
        """The text that is searched with: the category's name where nothing else was asked."""
        if self.text is not None and self.text.strip():
            return self.text
        if self.image is None and self.item is None and self.category:
            return self.category.rstrip("/").rpartition("/")[2].replace("_", " ").replace("-", " ")
        return None

    def check(self, systems: tuple[str, ...], *, matching: bool) -> None:
        """Raise `QueryError` listing everything that a library with these systems cannot answer.

        `systems`: of "dense" and "sparse" those that it has; `matching`: whether its model has a matching head.
        """
        faults = []
        if self.said is None and self.image is None and self.item is None:
            faults.append("nothing is asked: give a text, a picture, an item or a category")
        if self.image is not None and self.item is not None:
            faults.append("a picture and an item are given: one of them")
        if self.system is not None and self.system not in SYSTEMS:
            faults.append(f"unknown system {self.system!r} ({nearest(str(self.system), SYSTEMS)})")
        elif self.system is not None:
            wanted = ("dense", "sparse") if self.system == "hybrid" else (self.system,)
            has = " and ".join(systems)
            faults += [f"this library has no {one} index (it has {has})" for one in wanted if one not in systems]
        if self.fusion not in get_args(Fusion):
            faults.append(f"unknown fusion {self.fusion!r} ({nearest(str(self.fusion), get_args(Fusion))})")
        for name, value in (("share", self.share), ("weight", self.weight)):
            if not 0 <= value <= 1:
                faults.append(f"{name} must lie between 0 and 1, not be {value}")
        if fault := depth_fault(self.k, most=DEEPEST):
            faults.append(fault)
        elif self.offset < 0 or self.k + self.offset > DEEPEST:
            limits = f"k is at least 1, offset at least 0, k + offset at most {DEEPEST}"
            faults.append(f"k = {self.k}, offset = {self.offset}: {limits}")
        if not 0 <= self.rerank <= MOST_RERANKED:
            faults.append(f"rerank must lie between 0 and {MOST_RERANKED}, not be {self.rerank}")
        elif self.rerank and not matching:
            faults.append("rerank: this library's model has no matching head")
        elif self.rerank and self.said is None:
            faults.append("rerank: the matching head compares a picture with a text, and there is no text")
        raise_faults(QueryError, "query", faults, hint="mend the parts named above")

    def among(self, systems: tuple[str, ...]) -> System:
        """The system that answers, in a library that has these."""
        if self.system is not None:
            return self.system
        return "dense" if "dense" in systems else "sparse"

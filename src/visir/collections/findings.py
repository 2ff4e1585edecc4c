"""What a check of a source found: errors, warnings and notes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from visir.display import Tabular, brief, counted

Level = Literal["error", "warning", "note"]
EXAMPLES = 10


@dataclass(frozen=True)
class Finding:
    """One kind of thing that is wrong, or worth knowing."""

    level: Level  # how grave it is
    kind: str  # what it is, in words: "captions without text"
    count: int  # how many there are
    examples: tuple[str, ...] = ()  # the first few


@dataclass(repr=False)
class Report(Tabular, view="visir.reports.views.check"):
    """What a check found. `ok` is whether there is no error; warnings and notes are for the reader to judge."""

    name: str  # the name of the source, and `source` where it comes from
    source: str
    counts: dict[str, int] = field(default_factory=dict)  # how much there is: "images" → 31,783
    # Number of captions → number of images with so many.
    captions_per_image: dict[int, int] = field(default_factory=dict)
    decoded: int = 0  # how many pictures were decoded
    formats: dict[str, int] = field(default_factory=dict)  # format of pictures → how many have it
    sizes: str = ""  # the range of widths and heights, in words
    pictures_looked_for: bool = False  # whether there are places of pictures, which were looked at
    findings: list[Finding] = field(default_factory=list)  # what was found, in the order of the checks

    def __repr__(self) -> str:
        shown = [f"{finding.level}: {finding.kind}: {finding.count:,}" for finding in self.findings[:3]]
        rest = len(self.findings) - len(shown)
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        return brief(self, self.name, counts, *shown, f"… and {counted(rest, 'findings')} more" if rest else "")

    @property
    def ok(self) -> bool:
        """Whether nothing found is an error."""
        return not any(finding.level == "error" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """What was looked at, and whether anything is wrong with it, in one sentence."""
        if not self.counts:
            return "not fit for use as it is: it cannot be read"
        if set(self.counts) == {"files"}:  # a folder of visir's own
            scope = "checked: every byte, against what visir wrote"
            return f"{'no errors found' if self.ok else 'not fit for use as it is'} ({scope})"
        looked_at = "ids, links between images and captions, texts" if "captions" in self.counts else "ids, texts"
        if self.decoded:
            pictures = f"{self.decoded:,} pictures decoded"
        else:
            pictures = "pictures were not decoded" if self.pictures_looked_for else "no pictures at hand"
        scope = f"checked: {looked_at}; {pictures}; not whether captions fit their pictures"
        return f"{'no errors found' if self.ok else 'not fit for use as it is'} ({scope})"

    def add(self, level: Level, kind: str, cases: Iterable[str]) -> None:
        """Add a finding, if there is any case of it."""
        listed = list(cases)
        if listed:
            self.findings.append(Finding(level, kind, len(listed), tuple(listed[:EXAMPLES])))

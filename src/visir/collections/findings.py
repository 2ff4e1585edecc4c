"""What a check of a source found: errors, warnings and notes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["error", "warning", "note"]
EXAMPLES = 10


@dataclass(frozen=True)
class Finding:
    """One kind of thing that is wrong, or worth knowing.

    Args:
        level: How grave it is.
        kind: What it is, in words: "captions without text".
        count: How many there are.
        examples: The first few.
    """

    level: Level
    kind: str
    count: int
    examples: tuple[str, ...] = ()


@dataclass
class Report:
    """What a check found. `ok` is whether there is no error; warnings and notes are for the reader to judge.

    Args:
        name: The name of the source, and `source` where it comes from.
        counts: How much there is: "images" → 31,783.
        captions_per_image: Number of captions → number of images with so many.
        decoded: How many pictures were decoded.
        formats: Format of pictures → how many have it.
        sizes: The range of widths and heights, in words.
        findings: What was found, in the order of the checks.
    """

    name: str
    source: str
    counts: dict[str, int] = field(default_factory=dict)
    captions_per_image: dict[int, int] = field(default_factory=dict)
    decoded: int = 0
    formats: dict[str, int] = field(default_factory=dict)
    sizes: str = ""
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing found is an error."""
        return not any(finding.level == "error" for finding in self.findings)

    def add(self, level: Level, kind: str, cases: Iterable[str]) -> None:
        """Add a finding, if there is any case of it."""
        listed = list(cases)
        if listed:
            self.findings.append(Finding(level, kind, len(listed), tuple(listed[:EXAMPLES])))

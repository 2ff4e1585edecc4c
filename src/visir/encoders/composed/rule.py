"""How a text and an image become one vector, written as "text", "image" or "sum(0.5)"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from visir.errors import ConfigurationError
from visir.options import split_mark

FORMS = 'compose="sum(0.5)": the weighted sum, 0.5 being the share of the text; "text" or "image": one of the two alone'
"""What is taken, in words."""
OPTION = "compose"
"""The option of a model's name, and its field on the card."""
_SUM = re.compile(r"sum\((\d*\.?\d+)\)")


@dataclass(frozen=True)
class CompositionRule:
    """How one vector is made of a text and an image by an encoder that reads them apart."""

    # - "sum(w)": w · t / |t| + (1 − w) · v / |v|, t the vector of the text and v that of the image, times w · |t| + (1
    #   − w) · |v|: so it is about as long as the vectors of items that have one of the two alone, which stay as they
    #   are. Of several vectors for each item (late interaction) those of both sides; of a query so weighted that the
    #   score is the weighted mean of the two MaxSim scores, each divided by its number of vectors.
    # - "text" and "image": the vector of one of them alone: the baselines that look at half of the query.

    form: Literal["sum", "text", "image"]  # "sum", "text" or "image"
    text_weight: float  # w of the sum, from 0 to 1; 1 and 0 for the text and the image alone

    @classmethod
    def parse(cls, written: object) -> CompositionRule:
        """Read a rule."""
        if isinstance(written, CompositionRule):
            return written
        text = str(written).replace(" ", "").lower()
        if text == "text":
            return cls("text", 1.0)
        if text == "image":
            return cls("image", 0.0)
        match = _SUM.fullmatch(text)
        if match is None or not 0 <= float(match[1]) <= 1:
            raise ConfigurationError(
                f"compose = {written!r} is no way to compose a text and an image.",
                hint=FORMS,
                code="compose-no-way-compose",
            )
        return cls("sum", float(match[1]))

    def __str__(self) -> str:
        return f"sum({self.text_weight:g})" if self.form == "sum" else self.form

    @property
    def reads(self) -> tuple[Literal["text", "image"], ...]:
        """What of an item it reads."""
        return ("text", "image") if self.form == "sum" else (self.form,)


def split_rule(name: str) -> tuple[str, CompositionRule | None]:
    """Take the option `compose` out of the name of a model."""
    bare, tail = split_mark(name)
    options = tail.split("&")
    rules = [option for option in options if option.startswith(f"{OPTION}=")]
    if not rules:
        return name, None
    left = "&".join(option for option in options if option not in rules)
    return f"{bare}?{left}" if left else bare, CompositionRule.parse(rules[-1].partition("=")[2])

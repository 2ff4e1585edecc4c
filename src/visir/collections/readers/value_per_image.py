"""What an image has only one of, where several rows are of one image: its split, its class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from visir.collections.draft import SourceDraft


@dataclass
class ValuePerImage:
    """Joins what the rows of an image say of it. An empty cell says nothing; two different values are a fault."""

    draft: SourceDraft  # takes the faults
    # By image and column the first value that is not empty, and its place.
    values: dict[tuple[str, str], tuple[Any, str]] = field(default_factory=dict)
    # The columns that differ between the rows of an image without a fault, and where they do first.
    of_captions: dict[str, str] = field(default_factory=dict)

    def __call__(self, image: str, column: str, value: Any, place: str, *, several: bool = False) -> Any:
        """The value of an image, without white space at its ends."""
        value = value.strip() if isinstance(value, str) else value
        if value is None or value == "":
            return self.values.get((image, column), (value,))[0]
        first, first_place = self.values.setdefault((image, column), (value, place))
        if first != value and several:
            self.of_captions.setdefault(column, f"{image}, {first_place} and {place}")
        elif first != value:
            self.draft.fault(
                f"{image}: {column} {first!r} in {first_place}, but {value!r} in {place}; an image has one"
            )
        return first

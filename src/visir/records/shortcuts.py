"""Synthetic shortcuts: the number on every image and caption of a collection, and how it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from visir.display import Displayed
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.fingerprint import hash_columns, hash_json
from visir.options import split_options

# The corruption of all images in a view of a collection.


@dataclass(frozen=True)
class Corrupted:
    """The corruption that is applied to every image of a view before a model encodes it.

    `visir.robustness.corruptions` applies it. The random numbers of an image depend on these fields and on its id, so
    they are the same in every split and order.

    Attributes:
        name: The name of the corruption.
        severity: 1 to 5.
        seed: The seed of all random numbers.
    """

    name: str
    severity: int
    seed: int

    @cached_property
    def fingerprint(self) -> str:
        """A hash over all fields."""
        return hash_json({"corrupted": asdict(self)})

    def __str__(self) -> str:
        """One line for the protocol."""
        return f"pictures: {self.name}, severity {self.severity}, seed {self.seed}"


Kind = Literal["unique", "bits"]
Carrier = Literal["both", "images", "captions"]
Per = Literal["image", "caption"]
DigitSource = Literal["auto", "mnist", "sklearn"]
Placement = Literal["even", "packed"]

DIGITS = 6
"""How many digits every number has, with leading zeros."""
LARGEST = 10**DIGITS
"""All numbers are below this."""
MOST_BITS = 19
"""2^19 = 524,288 is the largest power of two that six digits can count."""


@dataclass(frozen=True)
class Shortcuts:
    """A number that an image and its captions share, unrelated to their content (thesis, section 4.3).

    Attributes:
        kind: "unique": every tuple has its own number (setup II). "bits": a number from [0, 2^`bits`) (setup IV). The
            thesis writes the range [0, 2^n], and mod(i, n) at evaluation; its code uses 2^n values in both, and so does
            visir. With 0 bits all numbers are equal.
        bits: 0 to 19, for the kind "bits".
        on: What carries the number: "both", or "images" or "captions" alone, which makes it useless (setup III).
        per: "image": an image and all its captions share one number (the tuples of the thesis). "caption": every
            caption has its own number, and the image that is paired with it carries that number.
        digits: The handwriting: "mnist", "sklearn" (the 1,797 digits of scikit-learn), or "auto", the first of the two
            that is available.
        placement: "even": digits are spread over the width, as the thesis says; "packed": to the left, as its code
            does.
        seed: The seed of all random numbers, from 0.

    Raises:
        ConfigurationError: Options are wrong; the message lists every fault.

    Example:
        >>> shortcuts = Shortcuts.parse("bits:3?on=images&seed=1")
        >>> shortcuts.bits, shortcuts.on_images, shortcuts.on_captions, str(shortcuts)
        (3, True, False, 'bits:3?on=images&seed=1')
    """

    kind: Kind = "unique"
    bits: int = 0
    on: Carrier = "both"
    per: Per = "image"
    digits: DigitSource = "auto"
    placement: Placement = "even"
    seed: int = 0

    def __post_init__(self) -> None:
        faults = []
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                faults.append(f"{name}={value!r}; there are {', '.join(allowed)} ({nearest(str(value), allowed)})")
        if not 0 <= self.bits <= MOST_BITS:
            faults.append(f"bits={self.bits}; {DIGITS} digits can count 0 to {MOST_BITS} bits")
        if self.kind == "unique" and self.bits:
            faults.append(f"bits={self.bits}, but unique shortcuts have no bits: bits:{self.bits}")
        if self.seed < 0:
            faults.append(f"seed={self.seed} must not be negative")
        raise_faults(ConfigurationError, "shortcuts", faults)

    @classmethod
    def parse(cls, text: str) -> Shortcuts:
        """Make shortcuts from a text.

        Args:
            text: For example "unique", "bits:3", or
                "unique?on=images&per=caption&digits=sklearn&placement=packed&seed=1".

        Raises:
            ConfigurationError: An option is unknown or its value is wrong.
        """
        head, options = split_options(text, [field.name for field in fields(cls)][2:])
        kind, _, bits = head.partition(":")
        values: dict[str, Any] = {"kind": kind, "bits": bits or 0, **options}
        if kind == "bits" and not bits:
            raise ConfigurationError(
                f"shortcuts {text!r}: how many bits?", hint="for example bits:3", code="how-many-bits"
            )
        for key in ("bits", "seed"):
            try:
                values[key] = int(values.get(key, 0))
            except ValueError:
                raise ConfigurationError(
                    f"shortcuts {text!r}: {key}={values[key]!r} is no whole number.",
                    hint="for example bits:3?seed=1",
                    code="no-whole-number",
                ) from None
        return cls(**values)

    @property
    def on_images(self) -> bool:
        """Whether images carry the number."""
        return self.on != "captions"

    @property
    def on_captions(self) -> bool:
        """Whether captions carry the number."""
        return self.on != "images"

    def __str__(self) -> str:
        """The text that `parse` reads, without options that have their default value."""
        usual = type(self)()
        changed = {name: value for name, value in asdict(self).items() if value != getattr(usual, name)}
        kind = changed.pop("kind", "unique")
        changed.pop("bits", None)
        query = "&".join(f"{key}={value}" for key, value in changed.items())
        return (kind if kind == "unique" else f"bits:{self.bits}") + (f"?{query}" if query else "")


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "kind": get_args(Kind),
    "on": get_args(Carrier),
    "per": get_args(Per),
    "digits": get_args(DigitSource),
    "placement": get_args(Placement),
}


@dataclass(frozen=True, eq=False, repr=False)
class Injected(Displayed):
    """The shortcuts of a collection.

    Attributes:
        shortcuts: The options; `digits` is "mnist" or "sklearn", never "auto".
        count: The number of tuples of the *whole* collection, so that numbers are unique over all splits.
        images: Columns image_id and place (int64, from 0): the tuple whose number the image carries.
        captions: Columns caption_id and place.
        assignment: None for evaluation, where tuple i has number i; k ≥ 0 is the k-th shuffling, for training.
    """

    shortcuts: Shortcuts
    count: int
    images: pa.Table
    captions: pa.Table
    assignment: int | None = None

    @cached_property
    def fingerprint(self) -> str:
        """A hash over everything that images and captions carry."""
        carried = [hash_columns([table.column(0), table["place"]]) for table in (self.images, self.captions)]
        described = {"shortcuts": str(self.shortcuts), "count": self.count, "assignment": self.assignment}
        return hash_json({**described, "carried": carried})

    def on(self, modality: str) -> bool:
        """Return whether images ("image") or captions ("text") carry a number."""
        return self.shortcuts.on_images if modality == "image" else self.shortcuts.on_captions

    def keep(self, images: pa.Array, captions: pa.Array) -> Injected:
        """Return the shortcuts of these image ids and caption ids only."""
        return Injected(
            self.shortcuts,
            self.count,
            self.images.filter(pc.is_in(self.images["image_id"], images)),
            self.captions.filter(pc.is_in(self.captions["caption_id"], captions)),
            self.assignment,
        )

    def __str__(self) -> str:
        """One line for the protocol: everything that the numbers depend on."""
        carried = self.shortcuts
        kind = "unique" if carried.kind == "unique" else f"{carried.bits} bits"
        spaced = "evenly spaced" if carried.placement == "even" else carried.placement
        return f"{kind} per {carried.per} on {carried.on}, {carried.digits} digits, {spaced}, seed {carried.seed}" + (
            "" if self.assignment is None else f", assignment {self.assignment}"
        )

"""Rules that put images into splits: at random, or whole groups together."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from visir.errors import CollectionError

EXAMPLE = "random(0.8, 0.1, 0.1, seed=0)"
FORMS = f'"{EXAMPLE}", "random(train=0.9, test=0.1)", or by group: "group(COLUMN, 0.8, 0.1, 0.1, seed=0)"'
"""How rules are written, in words."""
_USUAL = {2: ("train", "test"), 3: ("train", "val", "test")}
_CALL = re.compile(r"\s*(random|group)\s*\((.*)\)\s*", re.DOTALL)


@dataclass(frozen=True)
class SplitRule:
    """How images are put into splits.

    The order of the images has no influence, only their ids, the shares and the seed. Shares are met as exactly as
    whole images (or whole groups) allow.

    Attributes:
        shares: The share of each split, by name; together 1.
        seed: Another seed gives other splits.
        group: The column whose values stay together in one split; "" where every image is on its own.

    Raises:
        CollectionError: Shares are not above 0, or are not 1 together.

    Example:
        >>> rule = SplitRule.parse("random(0.5, 0.5, seed=1)")
        >>> str(rule)
        'random(0.5,0.5,seed=1)'
        >>> rule.assign(["a", "b", "c", "d"])
        ['test', 'train', 'train', 'test']
    """

    shares: Mapping[str, float]
    seed: int = 0
    group: str = ""

    def __post_init__(self) -> None:
        total = sum(self.shares.values())
        if any(not 0 < share < 1 for share in self.shares.values()) or abs(total - 1) > 1e-6:
            listed = " + ".join(f"{share:g}" for share in self.shares.values())
            raise CollectionError(
                f"split_by: shares are above 0, and 1 together; {listed} = {total:g}.", hint=f"for example {EXAMPLE}"
            )

    @classmethod
    def parse(cls, text: str) -> SplitRule:
        """Read a rule from text.

        Args:
            text: `random(SHARES, seed=N)` or `group(COLUMN, SHARES, seed=N)`. Two shares are train and test, three are
                train, val and test; others have names: `random(train=0.7, dev=0.3)`. Without a seed it is 0.

        Raises:
            CollectionError: The text is no rule.
        """
        match = _CALL.fullmatch(text)
        if match is None:
            raise CollectionError(f"split_by={text!r} is no rule for splits.", hint=f"write {FORMS}")
        arguments = [part.strip() for part in match[2].split(",") if part.strip()]
        group = ""
        if match[1] == "group":
            group = arguments.pop(0).strip("\"'") if arguments and not _number(arguments[0]) else ""
            if not group or "=" in group:
                raise CollectionError(
                    f"split_by={text!r}: which column has the groups?", hint="write group(COLUMN, 0.8, 0.1, 0.1)"
                )
        seed, named, plain = 0, dict[str, float](), list[float]()
        for argument in arguments:
            name, equals, value = (part.strip() for part in argument.partition("="))
            if equals and name == "seed" and value.isdecimal():
                seed = int(value)
            elif equals and name != "seed" and _number(value):
                named[name] = float(value)
            elif not equals and _number(name):
                plain.append(float(name))
            else:
                raise CollectionError(f"split_by={text!r}: {argument!r} is no share.", hint=f"write {FORMS}")
        if bool(named) == bool(plain) or (plain and len(plain) not in _USUAL):
            raise CollectionError(
                f"split_by={text!r}: {len(plain) + len(named)} shares.",
                hint="two (train, test) or three (train, val, test), or all with names: random(train=0.7, dev=0.3)",
            )
        return cls(named or dict(zip(_USUAL[len(plain)], plain, strict=True)), seed, group)

    def __str__(self) -> str:
        usual = tuple(self.shares) == _USUAL.get(len(self.shares))
        shares = [f"{share:g}" if usual else f"{name}={share:g}" for name, share in self.shares.items()]
        arguments = ",".join([*filter(None, [self.group]), *shares, f"seed={self.seed}"])
        return f"{'group' if self.group else 'random'}({arguments})"

    def assign(self, images: Sequence[str], groups: Sequence[str | None] | None = None) -> list[str]:
        """Return the split of each image.

        Args:
            images: Their ids.
            groups: The group of each; None (for one, or for all) is a group of its own.
        """
        groups = groups or [None] * len(images)
        keys = [f"image {i}" if g is None else f"group {g}" for i, g in zip(images, groups, strict=True)]
        sizes = Counter(keys)
        order = sorted(sizes, key=lambda key: draw(self.seed, key))
        ends = list(itertools.accumulate(share * len(images) for share in self.shares.values()))
        names, last = list(self.shares), len(self.shares) - 1
        split_of: dict[str, str] = {}
        passed, before = 0, -1
        for position, key in enumerate(order):
            # A group goes where its middle falls; but no split stays empty while there are groups enough for all.
            place = next((place for place, end in enumerate(ends) if passed + sizes[key] / 2 < end), last)
            place = max(min(place, before + 1), last - (len(order) - 1 - position))
            split_of[key] = names[place]
            passed, before = passed + sizes[key], place
        return [split_of[key] for key in keys]


def draw(seed: int, key: str) -> bytes:
    """Return a random number for a key, by which keys are sorted: a function of the two, not of any order."""
    return hashlib.blake2b(f"{seed}\0{key}".encode(), digest_size=16).digest()


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

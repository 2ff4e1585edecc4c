"""Ids that do not match: both forms side by side, and in what they differ."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

_LOOKED_AT = 2_000
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}$")


def show_id_forms(left: str, left_ids: Iterable[str], right: str, right_ids: Iterable[str]) -> str:
    """Return both forms of ids that do not match, and in what they differ.

    Where the ids of both sides name the same things in two ways (with and without a folder, a file ending, leading
    zeros, a caption number), a matching pair is shown. Otherwise the first id of each side is shown.

    Args:
        left: What the ids of the left side belong to: "collection".
        left_ids: Those ids; the first 2,000 are looked at.
        right: What the ids of the right side belong to: "qrels".
        right_ids: Those ids.

    Example:
        >>> show_id_forms("collection", ["images/0001.jpg"], "qrels", ["0001"])
        "collection: 'images/0001.jpg'; qrels: '0001' (they differ by a folder and a file ending)"
        >>> show_id_forms("collection", ["a"], "run", ["b"])
        "collection: 'a'; run: 'b'"
    """
    lefts, rights = list(islice(left_ids, _LOOKED_AT)), list(islice(right_ids, _LOOKED_AT))
    if not lefts or not rights:
        side = left if not lefts else right
        return f"{side}: there are no ids"
    same = set(lefts) & set(rights)
    bare: dict[str, str] = {}
    for identifier in lefts:
        if identifier not in same:
            bare.setdefault(_bare(identifier), identifier)
    for identifier in rights:
        match = bare.get(_bare(identifier))
        if match is not None and identifier not in same:
            return f"{left}: {match!r}; {right}: {identifier!r} (they differ by {_difference(match, identifier)})"
    first = next((identifier for identifier in lefts if identifier not in same), lefts[0])
    second = next((identifier for identifier in rights if identifier not in same), rights[0])
    return f"{left}: {first!r}; {right}: {second!r}"


def _bare(identifier: str) -> str:
    """An id without folder, file ending, leading zeros, upper case and spaces around it."""
    base = identifier.strip().replace("\\", "/").rsplit("/", 1)[-1]
    base, number, tail = base.partition("#")
    base = _ENDING.sub("", base)
    return f"{base.lstrip('0') or '0'}{number}{tail}".lower()


def _difference(left: str, right: str) -> str:
    differences = []
    for name, cut in (
        ("white space", str.strip),
        ("a folder", lambda text: text.strip().replace("\\", "/").rsplit("/", 1)[-1]),
        ("a file ending", lambda text: _ENDING.sub("", text.partition("#")[0]) + "".join(text.partition("#")[1:])),
        ("upper and lower case", str.lower),
        ("leading zeros", lambda text: text.lstrip("0") or "0"),
    ):
        before = left == right
        left_cut, right_cut = cut(left), cut(right)
        if (not before and (left_cut != left) != (right_cut != right)) or (not before and left_cut == right_cut):
            differences.append(name)
        left, right = left_cut, right_cut
    return " and ".join(filter(None, [", ".join(differences[:-1]), differences[-1]])) if differences else "their form"

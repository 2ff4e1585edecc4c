"""Facets: how many items of a library have each brand, lie in each category, cost how much, under given conditions.

With a query they count what its words find; where vectors rank everything, everything. The counts of a field are taken
under all conditions but those on this field, so that another choice can be compared with the one that was made. Ranges
of numbers have round ends, and about as many items each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from visir.display import Displayed, brief
from visir.errors import nearest
from visir.library.database import CATEGORIES, Mask
from visir.library.filters import Field, FieldCondition, FilterError, fold, satisfying
from visir.library.layout import LibraryError
from visir.library.snapshot import LibrarySnapshot

# The categories of a library as a tree.


class UnknownCategoryError(LibraryError):
    """A library has no such folder or category."""


@dataclass(frozen=True)
class Category:
    """A category and those below it."""

    name: str  # the last part of `path`
    path: str  # what `Query.category` takes: "holidays/2024"
    items: int  # how many pictures lie in it or below; a picture that lies in two places counts once
    children: tuple[Category, ...] = ()  # the categories below it, by name


def tree_of(pairs: Iterable[tuple[str, str]]) -> tuple[Category, ...]:
    """The tree of categories, by name."""
    # pairs: (category, item); "a/b" lies below "a", and "" is no category.
    items_below: dict[str, set[str]] = {}
    for category, item in pairs:
        parts = category.split("/") if category else []
        for depth in range(1, len(parts) + 1):
            items_below.setdefault("/".join(parts[:depth]), set()).add(item)
    children: dict[str, list[str]] = {}
    for path in sorted(items_below):
        children.setdefault(path.rpartition("/")[0], []).append(path)

    def below(path: str) -> tuple[Category, ...]:
        return tuple(
            Category(child.rpartition("/")[2], child, len(items_below[child]), below(child))
            for child in children.get(path, [])
        )

    return below("")


def require_category(tree: Iterable[Category], category: str) -> None:
    """Raise `UnknownCategoryError`, with the nearest category, unless the tree has this one."""
    paths = list(_paths(tree))
    if category in paths:
        return
    wanted = fold(category)
    like_it = [path for path in paths if wanted in (fold(path), fold(path.rpartition("/")[2]))]
    hint = nearest(like_it[0] if like_it else category, paths) if paths else "this library has none; leave it out"
    raise UnknownCategoryError(f"no category {category!r}.", hint=hint)


def _paths(tree: Iterable[Category]) -> Iterable[str]:
    for category in tree:
        yield category.path
        yield from _paths(category.children)


# Counts of each value.

CountedOf: TypeAlias = Literal["all", "found", "ranked"]
CATEGORY, PRICE, BRAND = "category", "price", "brand"
OF_PICTURES = ("keyword", "person", "country", "city", "place", "rating")
"""Fields of pictures that are shown before others, however few have them and however many values there are."""
_NOT_OF_PICTURES = frozenset({"title", "description", "latitude", "longitude", "altitude"})
"""Fields that nearly every picture has another value of: they are shown when they are asked for."""
RATING = "rating"
"""A number with few values, each of which means something."""
MOST_VALUES, MOST_FIELDS, RANGES = 20, 3, 5
_FEWEST = 0.05
"""Of all items so many have a field that is shown without being asked for."""
_DISTINCT = 60
"""A field of more different texts is shown only when it is asked for: a title names no group."""
_LONGEST = 100
"""A field with a text of more characters is shown only when it is asked for: a description names no group."""


@dataclass(frozen=True)
class FacetValue:
    """A value of a field, or a range of numbers, and how many items have it."""

    label: str  # what people read: "Acme", "20 – 50"
    count: int  # how many items
    where: tuple[FieldCondition, ...] = ()  # the conditions that it stands for; of a category none
    category: str | None = None  # the path of the category; None for other fields


@dataclass(frozen=True)
class Facet:
    """The values of one field."""

    field: str  # its name
    type: str  # "category", "text" or "number"
    values: tuple[FacetValue, ...]  # the most frequent first; ranges and categories in their own order
    more: int = 0  # how many further values there are
    # The conditions on this very field, which its counts leave out; all others hold.
    left_out: tuple[FieldCondition, ...] = ()


@dataclass(frozen=True, repr=False)
class Facets(Displayed):
    """The facets of a library under some conditions; `facets["brand"]` is that of a field."""

    total: int  # how many items satisfy the conditions, and are of those that are counted
    facets: tuple[Facet, ...]  # category, price and brand first, then further fields
    # Which items are counted: "all", those that the words of a query "found", or all that vectors "ranked".
    of: CountedOf = "all"

    def __getitem__(self, field: str) -> Facet:
        by_name = {facet.field: facet for facet in self.facets}
        if field not in by_name:
            raise KeyError(f"no facet {field!r} ({nearest(field, by_name)})")
        return by_name[field]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "total": self.total,
            "of": self.of,
            "facets": [
                {
                    "field": facet.field,
                    "type": facet.type,
                    "more": facet.more,
                    "left_out": [vars(condition) for condition in facet.left_out],
                    "values": [
                        {
                            "label": value.label,
                            "count": value.count,
                            "where": [vars(condition) for condition in value.where],
                            "category": value.category,
                        }
                        for value in facet.values
                    ],
                }
                for facet in self.facets
            ],
        }

    def __repr__(self) -> str:
        lines = [
            f"{facet.field}: {', '.join(f'{value.label} {value.count:,}' for value in facet.values[:4])}"
            for facet in self.facets[:5]
        ]
        return brief(self, f"{self.total:,} items", *lines)


def facets_of(
    library: LibrarySnapshot,
    where: Sequence[FieldCondition] = (),
    *,
    category: str | None = None,
    fields: Sequence[str] | None = None,
    within: Mask | None = None,
    of: CountedOf = "all",
) -> Facets:
    """The facets of a library; `Searcher.facets` counts what a query finds."""
    # within: (items,) those that may be counted; None for all.
    counting = _Counting(library, tuple(where), category, within)
    known = library.fields
    if fields is not None:
        unknown = [f"unknown field {name!r} ({nearest(name, known)})" for name in fields if name not in known]
        if unknown:
            raise FilterError(f"facets: {'; '.join(unknown)}.", hint="visir library info lists the fields")
    names = _names(library) if fields is None else list(fields)
    facets = [facet for name in names if (facet := counting.facet(known[name])) is not None]
    total = int(counting.mask(None).sum())
    most = MOST_FIELDS + (3 if library.card.unit == "products" else len(OF_PICTURES))
    return Facets(total, tuple(facets if fields is not None else facets[:most]), of)


def _names(library: LibrarySnapshot) -> list[str]:
    """The fields that are shown without being asked for: category, price, brand, then those that most items have."""

    def read() -> list[str]:
        own = library.database.rows(
            "SELECT name, count(DISTINCT value), count(DISTINCT item), max(length(value)) FROM fields GROUP BY name", ()
        )
        items = max(1, len(library))
        others = [
            (-having, name)
            for name, distinct, having, longest in own
            if distinct > 1
            and having >= _FEWEST * items
            and (name in (PRICE, BRAND) or (distinct <= _DISTINCT and longest <= _LONGEST))
        ]
        known = library.fields
        usable = [name for _, name in sorted(others) if name in known and known[name].type in ("text", "number")]
        if library.card.unit != "products":
            there = {name for name, *_ in own}
            usable = [name for name in usable if name not in _NOT_OF_PICTURES]
            usable = list(dict.fromkeys((*(name for name in OF_PICTURES if name in there), *usable)))
            return [CATEGORY, *usable]
        first = [CATEGORY, *(name for name in (PRICE, BRAND) if name in usable)]
        return [*first, *(name for name in usable if name not in first)]

    names: list[str] = library.columns.once("facet names", read)
    return names


class _Counting:
    """Counts under conditions; a field is counted without those on itself."""

    def __init__(
        self,
        library: LibrarySnapshot,
        where: tuple[FieldCondition, ...],
        category: str | None,
        within: Mask | None,
    ) -> None:
        self.library, self.where, self.category, self.within = library, where, category, within
        self._masks: dict[str | None, Mask] = {}

    def mask(self, without: str | None) -> Mask:
        """(items,) which items satisfy all conditions but those on a field."""
        applied = tuple(condition for condition in self.where if condition.field != without)
        key = without if len(applied) < len(self.where) else None
        if key not in self._masks:
            mask = satisfying(self.library.columns, applied, self.library.fields, category=self.category)
            self._masks[key] = mask if self.within is None else mask & self.within
        return self._masks[key]

    def facet(self, field: Field) -> Facet | None:
        """The facet of a field; None where no item has it."""
        if field.name == CATEGORY:
            return self._categories()
        is_range = field.type == "number" and not field.flag and field.name != RATING
        facet = self._ranges(field) if is_range else self._values(field)
        left_out = tuple(condition for condition in self.where if condition.field == field.name)
        return None if facet is None else replace(facet, left_out=left_out)

    def _values(self, field: Field) -> Facet | None:
        column = self.library.columns.column(*_shown(field))
        by_text: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for value, count in column.counts(self.mask(field.name)):
            by_text[fold(value) or ""].append((count, str(value)))
        merged = sorted(
            ((sum(count for count, _ in each), max(each)[1]) for each in by_text.values()),
            key=lambda pair: (-pair[0], pair[1]),
        )
        values = [
            FacetValue(label, count, (FieldCondition(field.name, "=", label),)) for count, label in merged if count
        ]
        if not values:
            return None
        return Facet(field.name, "text", tuple(values[:MOST_VALUES]), max(0, len(values) - MOST_VALUES))

    def _ranges(self, field: Field) -> Facet | None:
        column = self.library.columns.column(*_shown(field))
        mask = self.mask(field.name)
        counted = [(float(value), count) for value, count in column.counts(mask) if count]
        if not counted:
            return None
        amounts = np.repeat([value for value, _ in counted], [count for _, count in counted])
        ends = round_ends(amounts)
        if not ends:
            return None
        values = []
        for low, high in zip([None, *ends], [*ends, None], strict=True):
            conditions = [FieldCondition(field.name, ">=", low)] if low is not None else []
            conditions += [FieldCondition(field.name, "<", high)] if high is not None else []
            within = mask & np.logical_and.reduce([column.compared(c.op, [c.value]) for c in conditions] or [mask])
            label = f"under {high:,}" if low is None else f"{low:,} and over" if high is None else f"{low:,} – {high:,}"
            if conditions and (count := int(within.sum())):
                values.append(FacetValue(label, count, tuple(conditions)))
        return Facet(field.name, "number", tuple(values)) if len(values) > 1 else None

    def _categories(self) -> Facet | None:
        """The categories directly below the one that was chosen, or the most general ones."""
        above = (self.category or "").rstrip("/")
        column = self.library.columns.column(CATEGORIES)
        mask = self.mask(None)
        prefix = f"{above}/" if above else ""
        names = dict.fromkeys(
            str(value)[len(prefix) :].partition("/")[0]
            for value, count in column.counts(mask)
            if count and str(value).startswith(prefix)
        )
        values = []
        for name in names:
            path = prefix + name
            below = column.compared("=", [path]) | column.compared("=", [f"{path}/"], prefix=True)
            if count := int((mask & below).sum()):
                values.append(FacetValue(name, count, (), path))
        values.sort(key=lambda value: (-value.count, value.label))
        if not values:
            return None
        return Facet(CATEGORY, "category", tuple(values[:MOST_VALUES]), max(0, len(values) - MOST_VALUES))


def _shown(field: Field) -> tuple[str, tuple[str, ...]]:
    """The query for the values of a field as they are written; conditions compare them without case."""
    if field.name in ("format", "camera"):
        return f"SELECT id, {field.name} AS shown FROM items WHERE {field.name} IS NOT NULL", ()
    if field.name in ("width", "height", "bytes"):
        return f"SELECT id, {field.name} FROM items WHERE {field.name} IS NOT NULL", ()
    return "SELECT item, value AS shown FROM fields WHERE name = ?", (field.name,)


def round_ends(amounts: NDArray[np.float64], ranges: int = RANGES) -> list[int | float]:
    """The inner ends of ranges of numbers: near quantiles, and round."""
    # amounts: (n,) the numbers.
    quantiles = np.quantile(amounts, np.linspace(0, 1, ranges + 1)[1:-1])
    ends = sorted({_rounded(float(quantile)) for quantile in quantiles})
    low, high = float(amounts.min()), float(amounts.max())
    return [end for end in ends if low < end <= high]


def _rounded(amount: float) -> int | float:
    """The nearest of …, 1, 2, 5, 10, 20, 50, …."""
    if amount == 0:
        return 0
    size = 10.0 ** math.floor(math.log10(abs(amount)))
    steps: Iterable[float] = (size, 2 * size, 5 * size, 10 * size)
    nearest_step = math.copysign(min(steps, key=lambda step: abs(math.log(step / abs(amount)))), amount)
    return int(nearest_step) if nearest_step == int(nearest_step) else round(nearest_step, 6)

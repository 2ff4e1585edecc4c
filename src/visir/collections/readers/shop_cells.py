"""Cells that only shops have: category paths, pictures, attributes, HTML entities."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import unescape
from html.entities import html5
from typing import Any
from urllib.parse import unquote

import orjson

from visir.collections.cells import written_list
from visir.errors import CollectionError

ARROWS = (">>", "->", "»", "›", "→", "::", ">", "\\")
"""What stands between the names of a path and in no name."""
SAME = "none"
"""The option that a sign separates nothing: the cell is one name."""
Path = tuple[str, ...]


@dataclass(frozen=True)
class CategoryStyle:
    """How the cells of a column are written."""

    levels: str = ""  # what stands between the names of a path; "" for nothing
    paths: str = ""  # what stands between paths; "" for nothing
    list_is_path: bool = True  # whether a list of names is one path; otherwise each name is a path
    # Where commas stand between paths and in names: what a path of one name is called, as other cells tell; None where
    # the commas of names are escaped, so that every other one separates.
    roots: frozenset[str] | None = field(default=frozenset(), repr=False)

    @classmethod
    def find(
        cls, where: str, cells: Iterable[object], *, separator: str | None = None, paths_separator: str | None = None
    ) -> CategoryStyle:
        """The style of a column."""
        parsed = [_as_list(cell) for cell in cells]
        texts = list(dict.fromkeys(text for value in parsed for text in _texts(value)))
        levels, paths = _given(separator), _given(paths_separator)
        levels = _levels(where, texts, paths) if levels is None else levels
        paths = _paths(where, texts, levels) if paths is None else paths
        escaped = any(_COMMA in text for text in texts)
        roots = None if escaped else frozenset(_roots(texts, levels)) if paths == "," and levels else frozenset()
        lists = [
            tuple(value)
            for value in parsed
            if isinstance(value, list) and len(value) > 1 and all(isinstance(entry, str) for entry in value)
        ]
        apart = bool(levels) and any(levels in name for names in lists for name in names)
        if not apart and separator is None and paths_separator is None:
            moving = _names_at_several_places(lists)
            if moving:
                raise CollectionError(
                    f"{where}: lists of names that are paths or several categories: {moving[0]!r} stands at several "
                    f"places, as in {list(next(names for names in lists if moving[0] in names))}.",
                    hint="say which: separator=list (a list is one path) or paths_separator=list (each name is one)",
                )
        return cls(levels, paths, not apart and paths_separator != "list", roots)

    def read(self, cell: object) -> list[Path]:
        """The paths of a cell, each from the most general name on; empty for an empty cell."""
        return list(self.read_strictly(cell)[0])

    def read_strictly(self, cell: object) -> tuple[tuple[Path, ...], bool]:
        """The paths of a cell, and whether each level of the first has a name, which is a text."""
        return _read_text(self, cell) if isinstance(cell, str) else self._read(cell)

    def _read(self, cell: object) -> tuple[tuple[Path, ...], bool]:
        value = _as_list(cell)
        if value is None:
            return (), True
        if not isinstance(value, list):
            parts = self._of_text(_text(value))
        elif all(isinstance(entry, list) for entry in value):
            parts = value
        elif self.list_is_path and not (self.levels and any(self.levels in str(entry) for entry in value)):
            parts = [value]
        else:
            parts = [path for entry in value for path in self._of_text(_text(entry))]
        is_whole = all(isinstance(name, str) and name.strip() for name in next(iter(parts), ()))
        return tuple(dict.fromkeys(path for path in map(_names, parts) if path)), is_whole

    def _of_text(self, text: str) -> list[list[str]]:
        parts = text.split(self.paths) if self.paths else [text]
        if self.paths == "," and self.levels and self.roots is not None:
            # Otherwise a comma inside a name: "Clothing > Coats, Jackets".
            parts = parts if all(self.levels in part or part.strip() in self.roots for part in parts) else [text]
        whole = [part for part in parts if part.strip()] if len(parts) > 1 else parts
        return [part.split(self.levels) if self.levels else [part] for part in whole]


@lru_cache(1 << 16)  # many products have the same few categories
def _read_text(style: CategoryStyle, cell: str) -> tuple[tuple[Path, ...], bool]:
    return style._read(cell)


def _given(option: str | None) -> str | None:
    return None if option is None else "" if option in (SAME, "list") else option


_COMMA = "\x1f"
"""Stands for a comma that is escaped, as WooCommerce does it in names of categories."""


def _as_list(cell: object) -> object:
    """A cell; a list that is written out as a list. A list of one text is that text ("[\"A >> B\"]")."""
    if isinstance(cell, str):
        written = written_list(cell) if "[" in cell else None
        cell = cell.replace("\\,", _COMMA) if written is None else written
    if isinstance(cell, list) and len(cell) == 1 and isinstance(cell[0], str):
        return cell[0]
    return cell or None


def _texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [entry for entry in value if isinstance(entry, str)]
    return [value] if isinstance(value, str) else []


def _text(value: object) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"a category must be text, not {type(value).__name__}")


def _names(parts: Sequence[object]) -> Path:
    return tuple(name for part in parts if part is not None and (name := _text(part).strip().replace(_COMMA, ",")))


def _levels(where: str, texts: Sequence[str], paths: str | None) -> str:
    counts = Counter(arrow for text in texts for arrow in [next((a for a in ARROWS if a in text), "")] if arrow)
    if counts:
        return counts.most_common(1)[0][0]
    bars = [text for text in texts if "|" in text and paths != "|"]
    slashes = [text for text in texts if "/" in text]
    if bars:
        parts_with_slash = sum(all("/" in part for part in text.split("|")) for text in bars)
        if 2 * parts_with_slash > len(bars):
            return "/"
        return _if_path(where, texts, "|")
    if slashes:
        return "/" if _is_shared(texts, "/") else ""
    return ""


def _if_path(where: str, texts: Sequence[str], sign: str) -> str:
    """A sign that separates levels or paths: levels unless a name stands at several places."""
    moving = _names_at_several_places([_names(text.split(sign)) for text in texts if sign in text])
    if moving:
        cell = next(text for text in texts if sign in text and moving[0] in text)
        raise CollectionError(
            f"{where}: {sign!r} separates the levels of a path or several categories: {moving[0]!r} stands at several "
            f"places, as in {cell!r}.",
            hint=f'say which: "separator={sign}" (levels) or "paths_separator={sign}" (several categories)',
            code="separates-levels-path-several",
        )
    return sign


def _paths(where: str, texts: Sequence[str], levels: str) -> str:
    for sign in (";", "|", "\n"):
        if sign != levels and any(sign in text for text in texts):
            return sign
    commas = [text for text in texts if "," in text]
    if levels:
        return "," if _commas_separate(texts, commas, levels) else ""
    if 2 * len(commas) > len(texts) and len(commas) > 1 and _is_shared(texts, ","):
        raise CollectionError(
            f"{where}: a comma separates the levels of a path, several categories, or nothing: {commas[0]!r}.",
            hint='say which: "separator=," (levels), "paths_separator=," (several categories), or "separator=none" '
            "(a name with a comma)",
        )
    return ""


_FEW = 10
"""With fewer cells nobody knows what a path begins with."""


def _roots(texts: Sequence[str], levels: str) -> set[str]:
    """What the cells begin with."""
    return {text.partition(levels)[0].strip() for text in texts}


def _commas_separate(texts: Sequence[str], commas: Sequence[str], levels: str) -> bool:
    """Whether commas separate paths ("Clothing > Hoodies, Sale > Winter") or are in names ("Skates, Boards > Sets")."""
    if any(_COMMA in text for text in texts):
        return True  # as WooCommerce writes: commas of names are escaped, the others separate
    roots = _roots(texts, levels)
    split = (text.split(",") for text in commas)
    cells = [parts for parts in split if all(levels in part or part.strip() in roots for part in parts)]
    before: dict[str, set[str]] = defaultdict(set)
    for parts in cells:
        for part, following in itertools.pairwise(parts):
            before[following.partition(levels)[0].strip()].add(part.rpartition(levels)[2].strip())
    # What follows a comma begins a path where other cells begin with it too, or where it follows several names.
    begins = {name for name, names in before.items() if name in roots or len(names) > 1}
    sure = sum(all(part.partition(levels)[0].strip() in begins for part in parts[1:]) for parts in cells)
    return bool(cells) and (2 * sure >= len(cells) or (len(texts) < _FEW and levels in ARROWS))


def _is_shared(texts: Sequence[str], sign: str) -> bool:
    """Whether most cells with a sign begin as another cell does: "Clothes/Skirts" beside "Clothes/Shirts"."""
    begins = Counter(text.partition(sign)[0].strip() for text in texts)
    cells = [text for text in texts if sign in text]
    shared = sum(begins[text.partition(sign)[0].strip()] > 1 for text in cells)
    return 2 * shared >= len(cells)


def _names_at_several_places(lists: Sequence[Sequence[str]]) -> list[str]:
    """The names that stand first in one list and last in another with other names before them."""
    places: dict[str, set[int]] = defaultdict(set)
    for names in set(map(tuple, lists)):
        if len(set(names)) == len(names):  # nobody lists a category twice, and "Watches | Watches" is a path
            for place, name in enumerate(names):
                places[name].add(place)
    moving = [name for name, at in places.items() if 0 in at and len(at) > 1]
    # One odd path in a catalogue of real ones is no sign of another style.
    return moving if 10 * len(moving) >= len(places) else []


def as_folder(path: Path) -> str:
    """A path as a library writes it: "Clothes/Skirts". A slash inside a name becomes a bar."""
    return "/".join(re.sub(r"\s*/\s*", " | " if " / " in name else "|", name) for name in path)


# Pictures and attributes in the cells of products, and HTML entities in any of them.


def picture_names(cell: object) -> list[str]:
    """The file names in a cell: one, a list, JSON, or several with bars, semicolons or commas between them."""
    # Of an address the last part counts, under which a download is usually kept.
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith(("[", "{")):
            try:
                return picture_names(orjson.loads(text))
            except orjson.JSONDecodeError:
                pass
        parts = _BETWEEN_PICTURES.split(text) if _SEVERAL.search(text) else [text]
        return [name for part in parts if (name := _file_name(part.strip()))]
    if isinstance(cell, list):
        return [name for entry in cell for name in picture_names(entry)]
    if isinstance(cell, dict):
        return picture_names(
            next((cell[key] for key in _ADDRESSES if cell.get(key)), [key for key in cell if "://" in key])
        )
    return []


_BETWEEN_PICTURES = re.compile(r"\s*[|;\n]\s*|,\s*(?=\S+\.\w{3,4}(?:$|[,?]))|\s+(?=https?://)")
_SEVERAL = re.compile(r"[|;,\s]")
_ADDRESSES = ("url", "src", "path", "large", "hi_res", "thumb")
"""What the address or the name of a picture is called in an object; others have the addresses themselves as keys."""


def _file_name(text: str) -> str:
    text = text.partition(" ! ")[0]  # WooCommerce's suite tells more of a picture behind it
    if "://" not in text:
        return text
    path = text.partition("://")[2].partition("#")[0].partition("?")[0]
    name = path.partition("/")[2].rstrip("/").rpartition("/")[2]
    return unquote(name) if "%" in name else name


_RUBY_ARROW, _RUBY_NIL = re.compile(r'(?<!\\)"=>'), re.compile(r'(?<!\\)"=>nil\b')
"""A hash of Ruby, {"a"=>nil}: within its texts quotes are escaped, so an arrow there never follows a bare one."""


def attribute_pairs(value: object, reject: Callable[[object], None]) -> Iterator[tuple[object, object]]:
    """(name, value) of an object, of a list of {name or key, value} or of pairs, or of any of them as JSON or Ruby."""
    # Raises `ValueError` for other text. What is no pair goes to `reject`.
    if isinstance(value, str):
        text = _RUBY_ARROW.sub('":', _RUBY_NIL.sub('":null', value)) if '"=>' in value else value
        value = orjson.loads(text) if text.strip() else None
    if isinstance(value, dict) and [*value] == ["product_specification"]:  # as the Flipkart samples wrap it
        value = value["product_specification"]
    if isinstance(value, dict) and not ("value" in value and set(value) <= {"name", "key", "value"}):
        yield from value.items()
        return
    for entry in value if isinstance(value, list) else [value] if isinstance(value, dict) else []:
        if isinstance(entry, dict):
            yield entry.get("name", entry.get("key")), entry.get("value")
        elif isinstance(entry, (list, tuple)) and len(entry) == 2:  # a map, as Arrow hands it over
            yield entry[0], entry[1]
        else:
            reject(entry)


_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def without_entities(cell: Any) -> Any:
    """A cell with its entities read as the characters that they stand for, once; what is no entity stays."""
    # Only entities that end with a semicolon count, so "AT&T" and "R&D;" are as they were. Of JSON text, lists and
    # objects the texts inside are read, and JSON text stays JSON text.
    if isinstance(cell, list):
        return [without_entities(entry) for entry in cell]
    if isinstance(cell, dict):
        return {without_entities(name): without_entities(value) for name, value in cell.items()}
    if not isinstance(cell, str) or "&" not in cell or not _ENTITY.search(cell):
        return cell
    if cell.lstrip().startswith(("[", "{")):
        try:
            return orjson.dumps(without_entities(orjson.loads(cell))).decode()
        except orjson.JSONDecodeError:
            pass
    return _ENTITY.sub(
        lambda entity: unescape(entity[0]) if entity[0][1] == "#" else html5.get(entity[0][1:], entity[0]), cell
    )

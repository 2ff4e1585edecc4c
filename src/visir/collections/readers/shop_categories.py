"""Category paths as shops write them: "Clothes > Skirts", "Clothes/Skirts|Sale", ["Clothes", "Skirts"], one or several.

How a column is written is found from all its cells together (`CategoryStyle.find`). Where they leave it open, nobody
guesses: an error shows a cell and the options that settle it.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
        lists = [tuple(value) for value in parsed if isinstance(value, list) and len(value) > 1 and _is_flat(value)]
        apart = bool(levels) and any(levels in name for names in lists for name in names)
        if not apart and separator is None and paths_separator is None:
            moving = _names_at_several_places(lists)
            if moving:
                raise CollectionError(
                    f"{where}: lists of names that are paths or several categories: {moving[0]!r} stands at several "
                    f"places, as in {list(next(names for names in lists if moving[0] in names))}.",
                    hint="say which: separator=list (a list is one path) or paths_separator=list (each name is one)",
                )
        return cls(levels, paths, not apart and paths_separator != "list")

    def read(self, cell: object) -> list[Path]:
        """The paths of a cell, each from the most general name on; empty for an empty cell."""
        value = _as_list(cell)
        if isinstance(value, list):
            if all(isinstance(entry, list) for entry in value):
                found_paths = [_names(entry) for entry in value]
            elif self.list_is_path and not (self.levels and any(self.levels in str(entry) for entry in value)):
                found_paths = [_names(value)]
            else:
                found_paths = [path for entry in value for path in self._of_text(_text(entry))]
        elif value is None:
            return []
        else:
            found_paths = self._of_text(_text(value))
        return list(dict.fromkeys(path for path in found_paths if path))

    def _of_text(self, text: str) -> list[Path]:
        parts = text.split(self.paths) if self.paths else [text]
        if self.paths == "," and self.levels and not all(self.levels in part for part in parts):
            parts = [text]  # a comma inside a name: "Clothing > Coats, Jackets"
        return [_names(part.split(self.levels) if self.levels else [part]) for part in parts]


def _given(option: str | None) -> str | None:
    return None if option is None else "" if option in (SAME, "list") else option


def _as_list(cell: object) -> object:
    """A cell; a JSON list as a list. A list of one text is that text ("[\"A >> B\"]")."""
    if isinstance(cell, str) and cell.strip().startswith("["):
        text = cell.strip()
        for written in (text, text.replace("'", '"')):
            try:
                cell = json.loads(written)
                break
            except ValueError:
                continue
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
    return tuple(name for part in parts if part is not None and (name := _text(part).strip()))


def _is_flat(value: Sequence[object]) -> bool:
    return all(isinstance(entry, str) for entry in value)


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
        return "," if any(all(levels in part for part in text.split(",")) for text in commas) else ""
    if 2 * len(commas) > len(texts) and len(commas) > 1 and _is_shared(texts, ","):
        raise CollectionError(
            f"{where}: a comma separates the levels of a path, several categories, or nothing: {commas[0]!r}.",
            hint='say which: "separator=," (levels), "paths_separator=," (several categories), or "separator=none" '
            "(a name with a comma)",
        )
    return ""


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
        for place, name in enumerate(names):
            places[name].add(place)
    moving = [name for name, at in places.items() if 0 in at and len(at) > 1]
    # "Toys | Games | Toys": one odd path in a catalogue of real ones is no sign of another style.
    return moving if 10 * len(moving) >= len(places) else []


def as_folder(path: Path) -> str:
    """A path as a library writes it: "Clothes/Skirts". A slash inside a name becomes a bar."""
    return "/".join(re.sub(r"\s*/\s*", " | " if " / " in name else "|", name) for name in path)

"""HTML entities in the cells of a shop's table: "Caf&eacute; &amp; Bar" is read as "Café & Bar"."""

from __future__ import annotations

import re
from html import unescape
from html.entities import html5
from typing import Any

import orjson

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
    return _ENTITY.sub(_character, cell)


def _character(entity: re.Match[str]) -> str:
    name = entity[0][1:]
    return unescape(entity[0]) if name.startswith("#") else html5.get(name, entity[0])

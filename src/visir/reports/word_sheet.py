"""The sheet of `visir explain-vector`: pictures and texts with their words, sized by weight, as one HTML page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from visir.errors import VisirError
from visir.reports.library import cut
from visir.reports.page import write_page
from visir.sparse.top_terms import TopTerms

if TYPE_CHECKING:
    from PIL.Image import Image

_SIDE, _QUALITY = 560, 84
_SMALLEST = 0.78
"""Of the lightest word shown, in rem; the heaviest has `_LARGEST`."""
_LARGEST = 2.0


@dataclass(frozen=True)
class _Word:
    text: str
    weight: str
    size: str
    is_own: bool
    is_piece: bool


def write_word_sheet(path: str | Path, cards: Sequence[TopTerms], *, title: str, subtitle: str) -> Path:
    """Write the page and return its path: no network, no script, no other file; everything shown is escaped.

    The same cards give the same bytes. Raises `VisirError` for a name that does not end in `.html`.
    """
    path = Path(path)
    check_suffix(path)
    return write_page(
        path,
        "words.html.j2",
        title=title,
        subtitle=subtitle,
        cards=[(one, _uri(one.picture), _sized(one), one.caption, _sized(one.caption)) for one in cards],
        cut=cut,
    )


def check_suffix(path: Path) -> None:
    """Raise `VisirError` for a name that does not end in `.html`."""
    if path.suffix.lower() != ".html":
        raise VisirError(f"{path}: the sheet is a page (.html).", hint=f"for example {path.with_suffix('.html').name}")


def _sized(said: TopTerms | None) -> list[_Word]:
    """Words from heavy to light, their size by their weight over the heaviest one's."""
    if said is None or not said.words:
        return []
    most = said.words[0][1]
    return [
        _Word(
            term.removeprefix("##"),
            f"{weight:.2f}",
            f"{_SMALLEST + (_LARGEST - _SMALLEST) * (weight / most) ** 2:.2f}",
            term in said.own,
            term.startswith("##"),
        )
        for term, weight in said.words
    ]


def _uri(picture: Image | None) -> str:
    if picture is None:
        return ""
    small, stream = picture.copy(), io.BytesIO()
    small.thumbnail((_SIDE, _SIDE))
    small.convert("RGB").save(stream, "JPEG", quality=_QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")

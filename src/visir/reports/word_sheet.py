"""The sheet of `visir explain-vector`: pictures and texts with their words, sized by weight, as one HTML page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from visir.errors import VisirError
from visir.reports.blocks import Block, Card, Cards, CloudWord, Paragraph, WordCloud
from visir.reports.page import Page, Section, write_page
from visir.reports.shown import cut
from visir.reports.thumbnails import Thumbnail
from visir.sparse.top_terms import TopTerms

if TYPE_CHECKING:
    from PIL.Image import Image

_SIDE, _QUALITY = 560, 84
_SMALLEST = 0.78
"""Of the lightest word shown, in rem; the heaviest has `_LARGEST`."""
_LARGEST = 2.0


def write_word_sheet(path: str | Path, cards: Sequence[TopTerms], *, title: str, subtitle: str) -> Path:
    """Write the page and return its path."""
    path = Path(path)
    check_suffix(path)
    lead = Paragraph(
        "Each vector is a set of weighted words; a word is as large as its weight. Of a text’s words those that it has "
        "itself are coloured, those it was expanded by are not; all of a picture’s are.",
        "lead",
    )
    section = Section("words", "Vectors in words", [lead, Cards([word_card(card) for card in cards], width=21)])
    return write_page(path, Page("vectors in words", title, [section], [subtitle]))


def word_card(shown: TopTerms) -> Card:
    """A picture, or a text, with its words; and its caption with the words of that."""
    caption, picture = shown.caption, _thumbnail(shown.picture)
    is_text = picture is None and caption is None
    blocks: list[Block] = [Paragraph(cut(shown.title))] if is_text else []
    blocks.append(_cloud(shown, is_small=is_text))
    if caption is not None:
        blocks += [Paragraph(cut(caption.title)), _cloud(caption, is_small=True)]
    if not is_text:
        blocks.append(Paragraph(shown.title, "soft"))
    return Card(picture=picture, alt=cut(caption.title) if caption is not None else shown.title, blocks=blocks)


def check_suffix(path: Path) -> None:
    """Raise `VisirError` for a name that does not end in `.html`."""
    if path.suffix.lower() != ".html":
        raise VisirError(f"{path}: the sheet is a page (.html).", hint=f"for example {path.with_suffix('.html').name}")


def _cloud(shown: TopTerms | None, *, is_small: bool) -> WordCloud:
    """Words from heavy to light, their size by their weight over the heaviest one's; small ones beside a caption."""
    if shown is None or not shown.terms:
        return WordCloud([])
    heaviest = shown.terms[0][1]
    words = []
    for term, weight in shown.terms:
        size = _SMALLEST + (_LARGEST - _SMALLEST) * (weight / heaviest) ** 2
        words.append(
            CloudWord(
                term.removeprefix("##"),
                max(0.62 * size, 0.76) if is_small else size,
                f"{weight:.2f}",
                "own" if term in shown.own or not is_small else "other",
                term.startswith("##"),
            )
        )
    return WordCloud(words)


def _thumbnail(picture: Image | None) -> Thumbnail | None:
    if picture is None:
        return None
    small, stream = picture.copy(), io.BytesIO()
    small.thumbnail((_SIDE, _SIDE))
    small.convert("RGB").save(stream, "JPEG", quality=_QUALITY, optimize=True)
    uri = "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
    return Thumbnail(uri, small.width, small.height)

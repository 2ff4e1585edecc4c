"""Sheets of pictures: pairs with their shortcuts (`visir shortcuts preview`), and all corruptions of one picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup
from PIL import Image, ImageDraw, ImageFont

from visir.records import Collection, Injected
from visir.reports.page import Card, Cards, Inline, Page, Paragraph, Section, check_page, embedded, inline, write_page
from visir.shortcuts.view import PreviewPair
from visir.storage import new_file

_WIDEST, _CELL, _GAP, _LINE = 1440, 224, 24, 20
_LINES = 5
_INK, _SOFT, _MARK, _BACK = (27, 33, 44), (89, 98, 111), (255, 226, 138), (248, 248, 245)


def write_sheet(
    path: str | Path, pairs: Sequence[PreviewPair], collection: Collection, *, replace: bool = False
) -> Path:
    """Write the sheet, whose kind is told by the name, and return its path."""
    # - `.html`: one page that needs no network, no script and no other file. Pictures are PNG, so every pixel is the
    #   model's.
    # - `.png`: the same for a slide. A caption that needs more than five lines is cut, and scripts written from right
    #   to left are for the page.
    # The same pairs give the same bytes. Raises `VisirError` for another ending.
    path = Path(path)
    check_page(path, NO_SHEET, ".png")
    injected = collection.injected
    assert injected is not None, "a sheet shows a collection with shortcuts"
    title, subtitle = f"Shortcuts on {collection.name}", str(injected)
    if path.suffix.lower() == ".png":
        with new_file(path, replace=replace) as temporary:
            _drawn(pairs, title, subtitle).save(temporary, "PNG")
        return path
    heading = f"{len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'} of {injected.count:,} tuples"
    cards = Cards([_card(pair) for pair in pairs], width=15.5, is_pixelated=True)
    section = Section("pairs", heading, [Paragraph(_explanation(injected), "lead"), cards])
    return write_page(path, Page("synthetic shortcuts", title, [section], [subtitle]), replace=replace)


NO_SHEET = "the sheet is .html or .png"


def _card(pair: PreviewPair) -> Card:
    """A picture with its caption and its number."""
    text: Inline = inline("{} <mark>{}</mark>", pair.text, pair.ending) if pair.ending else pair.text
    note = inline("{}<br>{}", _label(pair), pair.image_id)
    picture = embedded(pair.picture, "PNG")
    alt = f"image {pair.image_id} with its shortcut, if it has one"
    return Card(picture=picture, alt=alt, blocks=[Paragraph(text), Paragraph(note, "soft")])


def _explanation(injected: Injected) -> Inline:
    """What carries a number, and which."""
    shortcuts = injected.shortcuts
    if shortcuts.on == "both":
        carriers = "A picture and its caption carry the same number, which says nothing of what they show."
    else:
        what_carries = "pictures" if shortcuts.on == "images" else "captions"
        carriers = f"Only {what_carries} carry a number, so it helps nobody to match them."
    if shortcuts.kind == "unique":
        owner = "tuple, an image with its captions," if shortcuts.per == "image" else "caption"
        numbers: Inline = f"Every {owner} has one of its own."
    else:
        numbers = inline(
            "There are {} of them: tuple i has i modulo 2<sup>{}</sup>.", f"{2**shortcuts.bits:,}", shortcuts.bits
        )
    sentences = [carriers, numbers]
    if shortcuts.per == "caption" and shortcuts.on_images:
        sentences.append("A picture shows that of its first caption.")
    if injected.assignment is None:
        sentences.append("This is how it is at evaluation; in training the numbers are shuffled again and again.")
    return Markup(" ").join(sentences)


def _label(pair: PreviewPair) -> str:
    return f"tuple {pair.place:,} · number {pair.number:,}"


def _drawn(pairs: Sequence[PreviewPair], title: str, subtitle: str) -> Image.Image:
    """The sheet as one picture: as many columns as fit the width, text below each picture."""
    heading, font, small = (_font(size) for size in (22, 14, 12))
    # Small inputs are enlarged by whole factors, so that one pixel of the model stays one square.
    factor = max(1, _CELL // pairs[0].picture.width)
    cell = factor * pairs[0].picture.width
    texts = [_wrapped(pair, font, cell) for pair in pairs]
    high = cell + _GAP // 3 + (max(map(len, texts)) + 1) * _LINE
    top = 2 * _GAP + 2 * _LINE
    most = max(1, (_WIDEST - _GAP) // (cell + _GAP))
    rows = -(-len(pairs) // most)
    columns = -(-len(pairs) // rows)  # so that the last row is not nearly empty
    widest = max(heading.getlength(title), small.getlength(subtitle))
    width = _GAP + max(columns * (cell + _GAP), math.ceil(widest) + _GAP)
    sheet = Image.new("RGB", (width, top + rows * (high + _GAP)), _BACK)
    draw = ImageDraw.Draw(sheet)
    draw.text((_GAP, _GAP), title, _INK, heading)
    draw.text((_GAP, _GAP + 30), subtitle, _SOFT, small)
    for position, (pair, lines) in enumerate(zip(pairs, texts, strict=True)):
        left, down = _GAP + position % columns * (cell + _GAP), top + position // columns * (high + _GAP)
        sheet.paste(pair.picture.resize((cell, cell), Image.Resampling.NEAREST), (left, down))
        down += cell + _GAP // 3
        for line in lines:
            across = float(left)
            for word, marked in line:
                wide = font.getlength(word)
                if marked:
                    draw.rectangle((across - 2, down - 1, across + wide + 2, down + _LINE - 3), _MARK)
                draw.text((across, down), word, _INK, font)
                across += wide + font.getlength(" ")
            down += _LINE
        draw.text((left, down), _label(pair), _SOFT, small)
    return sheet


def _wrapped(pair: PreviewPair, font: ImageFont.FreeTypeFont, width: int) -> list[list[tuple[str, bool]]]:
    """Lines of (word, whether it belongs to the shortcut). What is too long loses words, never digits."""
    words = [(word, False) for word in pair.text.split()]
    fitting = sum(len(line) for line in _lines(words, font, width)[:_LINES])
    cut = fitting < len(words)
    while True:
        shown = [*words[:fitting], *([("…", False)] if cut else []), *([(pair.ending, True)] if pair.ending else [])]
        lines = _lines(shown, font, width)
        if len(lines) <= _LINES or not fitting:
            return lines
        fitting, cut = fitting - 1, True


def _lines(words: Sequence[tuple[str, bool]], font: ImageFont.FreeTypeFont, width: int) -> list[list[tuple[str, bool]]]:
    lines: list[list[tuple[str, bool]]] = [[]]
    for word in words:
        joined = " ".join(text for text, _ in [*lines[-1], word])
        if lines[-1] and font.getlength(joined) > width:
            lines.append([])
        lines[-1].append(word)
    return lines


def _font(size: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib: Latin, Greek, Cyrillic, Arabic and more, but no Chinese."""
    import matplotlib

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", size)

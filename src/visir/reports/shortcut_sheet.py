"""The sheet of `visir shortcuts preview`: pairs with their shortcuts, as an HTML page or as one picture."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from visir.errors import VisirError
from visir.records import Collection
from visir.reports.page import write_page
from visir.shortcuts.preview import PreviewPair
from visir.storage import new_file

SUFFIXES = (".html", ".png")
_WIDEST, _CELL, _GAP, _LINE = 1440, 224, 24, 20
_LINES = 5
_INK, _SOFT, _MARK, _BACK = (27, 33, 44), (89, 98, 111), (255, 226, 138), (248, 248, 245)


def write_sheet(
    path: str | Path, pairs: Sequence[PreviewPair], collection: Collection, *, replace: bool = False
) -> Path:
    """Write the sheet, whose kind is told by the name, and return its path.

    - `.html`: one page that needs no network, no script and no other file. Pictures are PNG, so every pixel is the
      model's.
    - `.png`: the same for a slide. A caption that needs more than five lines is cut, and scripts written from right to
      left are for the page.

    The same pairs give the same bytes. Raises `VisirError` for another ending.
    """
    path = Path(path)
    check_suffix(path)
    injected = collection.injected
    assert injected is not None, "a sheet shows a collection with shortcuts"
    title, subtitle = f"Shortcuts on {collection.name}", str(injected)
    if path.suffix.lower() == ".png":
        with new_file(path, replace=replace) as temporary:
            _drawn(pairs, title, subtitle).save(temporary, "PNG")
        return path
    return write_page(
        path,
        "shortcuts.html.j2",
        replace=replace,
        title=title,
        subtitle=subtitle,
        injected=injected,
        shortcuts=injected.shortcuts,
        pairs=[(pair, _label(pair), _uri(pair.picture)) for pair in pairs],
    )


def check_suffix(path: Path) -> None:
    """Raise `VisirError` for a name that ends in neither `.html` nor `.png`."""
    if path.suffix.lower() not in SUFFIXES:
        raise VisirError(
            f"{path}: the sheet is {' or '.join(SUFFIXES)}, not {path.suffix or 'a name without ending'}.",
            hint=f"for example {path.with_suffix('.html').name}",
        )


def _uri(picture: Image.Image) -> str:
    stream = io.BytesIO()
    picture.save(stream, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


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
    said = max(heading.getlength(title), small.getlength(subtitle))
    width = _GAP + max(columns * (cell + _GAP), math.ceil(said) + _GAP)
    sheet = Image.new("RGB", (width, top + rows * (high + _GAP)), _BACK)
    draw = ImageDraw.Draw(sheet)
    draw.text((_GAP, _GAP), title, _INK, heading)
    draw.text((_GAP, _GAP + 30), subtitle, _SOFT, small)
    for at, (pair, lines) in enumerate(zip(pairs, texts, strict=True)):
        left, down = _GAP + at % columns * (cell + _GAP), top + at // columns * (high + _GAP)
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
        joined = " ".join(one for one, _ in [*lines[-1], word])
        if lines[-1] and font.getlength(joined) > width:
            lines.append([])
        lines[-1].append(word)
    return lines


def _font(size: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib: Latin, Greek, Cyrillic, Arabic and more, but no Chinese."""
    import matplotlib

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", size)

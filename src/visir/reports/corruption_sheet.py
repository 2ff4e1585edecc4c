"""All corruptions of one picture in all severities, as one picture."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw

from visir.reports.shortcut_sheet import _font
from visir.robustness.corruptions import CORRUPTIONS, SEVERITIES
from visir.robustness.random_stream import RandomStream
from visir.storage import new_file

_GAP, _LINE, _LEFT = 12, 20, 150
_INK, _SOFT, _BACK = (27, 33, 44), (89, 98, 111), (248, 248, 245)


def contact_sheet(picture: Image.Image, name: str, *, seed: int = 0, side: int = 224) -> Image.Image:
    """A row for each corruption, a column for each severity; `picture` itself stands before every row."""
    # `name`: the image's id, by which places and sides are drawn as in a view of seed `seed`. The picture is shown with
    # its shorter side at `side` pixels, corrupted at its own size.
    wide, high = (round(length * side / min(picture.size)) for length in picture.size)
    label, small = _font(14), _font(12)
    columns, rows = 1 + len(SEVERITIES), len(list(CORRUPTIONS))
    cell = high + _GAP + _LINE
    sheet = Image.new("RGB", (_LEFT + columns * (wide + _GAP), _GAP + rows * cell), _BACK)
    draw = ImageDraw.Draw(sheet)
    for row, (key, corruption) in enumerate(CORRUPTIONS.items()):
        top = _GAP + row * cell
        draw.text((_GAP, top), corruption.title, _INK, label)
        draw.text((_GAP, top + _LINE), key, _SOFT, small)
        for column in range(columns):
            shown = (
                picture
                if column == 0
                else corruption.change(picture, RandomStream(seed, key, name), SEVERITIES[column - 1])
            )
            left = _LEFT + column * (wide + _GAP)
            sheet.paste(shown.resize((wide, high), Image.Resampling.LANCZOS), (left, top))
            caption = "as it is" if column == 0 else f"{column}: {corruption.describe(column)}"
            draw.text((left, top + high + 2), caption, _SOFT, small)
    return sheet


def write_contact_sheet(
    path: str | Path, picture: Image.Image, name: str, *, seed: int = 0, replace: bool = False
) -> Path:
    """Write the sheet as PNG and return its path."""
    with new_file(path, replace=replace) as temporary:
        contact_sheet(picture, name, seed=seed).save(temporary, "PNG")
    return Path(path)

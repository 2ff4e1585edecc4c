"""Pictures in a terminal: by its own graphics where it has some, as half blocks in 24-bit colour otherwise."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from PIL.Image import Image

GraphicsProtocol = Literal["kitty", "iterm2", "sixel", "blocks"]

_KITTY = ("xterm-kitty", "xterm-ghostty")
_SIXEL = ("foot", "mlterm", "yaft")
_CHUNK = 4096
"""Characters of one kitty escape sequence, at most."""
_CELL = (10, 20)
"""Pixels of a character cell, about: sixels are drawn pixel by pixel, and the real size is seldom known."""
_COLOURS = 255


def graphics_protocol(environment: Mapping[str, str], is_terminal: bool) -> GraphicsProtocol | None:
    """How pictures can be shown, from the environment alone; None without a terminal, or with a dumb one.

    The terminal is not queried: it would answer on standard input, which may belong to another program. Within tmux and
    screen, which let no graphics through, half blocks are drawn; these need colours, so `NO_COLOR` means no pictures
    there.
    """
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if not is_terminal or term in ("", "dumb"):
        return None
    if not ("TMUX" in environment or term.startswith(("screen", "tmux"))):
        if term in _KITTY or "KITTY_WINDOW_ID" in environment or program in ("ghostty", "WezTerm"):
            return "kitty"
        if program == "iTerm.app" or environment.get("LC_TERMINAL") == "iTerm2":
            return "iterm2"
        if term.split("-")[0] in _SIXEL:
            return "sixel"
    return None if environment.get("NO_COLOR") else "blocks"


def draw_image(picture: Image, protocol: GraphicsProtocol, columns: int = 32, rows: int = 12) -> str:
    """What shows an RGB picture within so many character cells, about twice as high as wide; ends with a line end."""
    width, height = _fitting(picture, columns, rows)
    if protocol == "blocks":
        return blocks(picture, width, height)
    if protocol == "sixel":
        return sixel(picture.resize((width * _CELL[0], height * _CELL[1]))) + "\n"
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return (kitty if protocol == "kitty" else iterm2)(stream.getvalue(), width, height) + "\n"


def kitty(png: bytes, columns: int, rows: int) -> str:
    """Kitty's graphics protocol: PNG in chunks of base64, shown at once over so many cells; no answer is wanted."""
    data = base64.b64encode(png).decode()
    chunks = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
    first = f"a=T,f=100,c={columns},r={rows},q=2,"
    sequences = []
    for position, chunk in enumerate(chunks):
        more = int(position < len(chunks) - 1)
        sequences.append(f"\x1b_G{first if position == 0 else ''}m={more};{chunk}\x1b\\")
    return "".join(sequences)


def iterm2(png: bytes, columns: int, rows: int) -> str:
    """iTerm2's inline images."""
    data = base64.b64encode(png).decode()
    return f"\x1b]1337;File=inline=1;size={len(png)};width={columns};height={rows};preserveAspectRatio=1:{data}\x07"


def sixel(picture: Image) -> str:
    """Sixels: up to 255 colours, in bands of six rows of pixels, each colour of a band in one line over the other."""
    import numpy as np
    from PIL import Image as Pictures

    reduced = picture.quantize(_COLOURS, method=Pictures.Quantize.MEDIANCUT, dither=Pictures.Dither.NONE)
    places = np.asarray(reduced)
    palette = reduced.getpalette() or []
    used = np.unique(places).tolist()
    colours = ""
    for colour in used:
        percent = (str(round(value * 100 / 255)) for value in palette[3 * colour : 3 * colour + 3])
        colours += f"#{colour};2;{';'.join(percent)}"
    bands = []
    for top in range(0, len(places), 6):
        band = places[top : top + 6]
        lines = []
        for colour in np.unique(band).tolist():
            bits = ((band == colour) << np.arange(len(band))[:, None]).sum(axis=0) + 63
            lines.append(f"#{colour}" + _runs(bits.tolist()))
        bands.append("$".join(lines))
    return f'\x1bPq"1;1;{picture.width};{picture.height}{colours}' + "-".join(bands) + "\x1b\\"


def blocks(picture: Image, columns: int, rows: int) -> str:
    """Two pixels in each cell: "▀" in the colour of the upper one on a ground of the lower one."""
    from PIL import Image as Pictures

    small = picture.resize((columns, 2 * rows), Pictures.Resampling.BOX, reducing_gap=None)
    pixels = list(small.convert("RGB").getdata())
    lines = []
    for row in range(rows):
        cells, before = [], None
        for column in range(columns):
            upper, lower = pixels[2 * row * columns + column], pixels[(2 * row + 1) * columns + column]
            if (upper, lower) != before:  # colours stay until others are set
                cells.append("\x1b[38;2;{};{};{};48;2;{};{};{}m".format(*upper, *lower))
            cells.append("▀")
            before = (upper, lower)
        lines.append("".join(cells) + "\x1b[0m\n")
    return "".join(lines)


def _fitting(picture: Image, columns: int, rows: int) -> tuple[int, int]:
    """Cells that keep the picture's shape, a cell being twice as high as wide."""
    scale = min(columns / picture.width, 2 * rows / picture.height)
    return max(1, round(picture.width * scale)), max(1, round(picture.height * scale / 2))


def _runs(codes: list[int]) -> str:
    """Sixel characters, runs of four and more shortened: "!5~"."""
    parts, start = [], 0
    for position in range(1, len(codes) + 1):
        if position == len(codes) or codes[position] != codes[start]:
            length, character = position - start, chr(codes[start])
            parts.append(f"!{length}{character}" if length > 3 else character * length)
            start = position
    return "".join(parts)

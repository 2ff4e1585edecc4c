"""Pictures as escape sequences: golden ones, and read back."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from visir.library.cli.search import blocks, draw_image, graphics_protocol, iterm2, kitty, sixel


def picture(rows: list[list[tuple[int, int, int]]]) -> Image.Image:
    return Image.fromarray(np.array(rows, np.uint8))


RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"), ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm2"),
        ({"TERM": "xterm", "LC_TERMINAL": "iTerm2"}, "iterm2"), ({"TERM": "foot-extra"}, "sixel"),
        ({"TERM": "xterm-256color"}, "blocks"), ({"TERM": "screen-256color", "KITTY_WINDOW_ID": "1"}, "blocks"),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, "blocks"), ({"TERM": "xterm", "NO_COLOR": "1"}, None),
        ({"TERM": "dumb"}, None), ({}, None),
    ],
)  # fmt: skip
def test_what_a_terminal_can_is_told_by_its_environment(environment: dict[str, str], wanted: str | None) -> None:
    assert graphics_protocol(environment, True) == wanted
    assert graphics_protocol(environment, False) is None


def test_half_blocks_by_hand() -> None:
    # two columns, two rows of cells: the right column differs in the first row only
    made = blocks(picture([[RED, BLUE], [WHITE, WHITE], [RED, RED], [RED, RED]]), 2, 2)
    assert made == (
        "\x1b[38;2;255;0;0;48;2;255;255;255m▀\x1b[38;2;0;0;255;48;2;255;255;255m▀\x1b[0m\n"
        "\x1b[38;2;255;0;0;48;2;255;0;0m▀▀\x1b[0m\n"
    )


def test_kitty_in_chunks() -> None:
    assert kitty(b"abc", 3, 2) == "\x1b_Ga=T,f=100,c=3,r=2,q=2,m=0;YWJj\x1b\\"
    data = bytes(range(256)) * 30  # 7,680 bytes, 10,240 characters: chunks of 4,096, 4,096, 2,048
    parts = re.findall(r"\x1b_G(.*?);(.*?)\x1b\\", kitty(data, 3, 2))
    assert [(head, len(body)) for head, body in parts] == [
        ("a=T,f=100,c=3,r=2,q=2,m=1", 4096), ("m=1", 4096), ("m=0", 2048)
    ]  # fmt: skip
    assert base64.b64decode("".join(body for _, body in parts)) == data


def test_iterm2() -> None:
    wanted = "\x1b]1337;File=inline=1;size=3;width=3;height=2;preserveAspectRatio=1:YWJj\x07"
    assert iterm2(b"abc", 3, 2) == wanted


def test_sixels_by_hand() -> None:
    # 5 × 7, red but for a blue pixel at column 1, row 0: a band of six rows and one of one. "~" is all six pixels
    # (63 + 0b111111), "@" the uppermost (63 + 1), "}" all but that, "?" none.
    rows = [[RED] * 5 for _ in range(7)]
    rows[0][1] = BLUE
    made = sixel(picture(rows))
    places = {rgb: place for place, rgb in re.findall(r"#(\d+);2;(\d+;\d+;\d+)", made)}
    red, blue = places["100;0;0"], places["0;0;100"]
    first, second = re.sub(r".*?(#\d+[^;\d].*)\x1b.*", r"\1", made).split("-")
    assert set(first.split("$")) == {f"#{blue}?@???", f"#{red}~}}~~~"} and second == f"#{red}!5@"
    assert made.startswith('\x1bPq"1;1;5;7#') and made.endswith("\x1b\\")


def test_a_picture_keeps_its_shape() -> None:
    wide, high = Image.new("RGB", (320, 160), RED), Image.new("RGB", (100, 400), RED)
    # 32 columns hold the wide one at 32 × 16 pixels, 8 rows; 12 rows hold the high one at 6 × 24
    assert draw_image(wide, "blocks").count("\n") == 8 and draw_image(wide, "blocks").count("▀") == 32 * 8
    assert draw_image(high, "blocks").count("\n") == 12 and draw_image(high, "blocks").count("▀") == 6 * 12
    assert ",c=32,r=8," in draw_image(wide, "kitty") and "width=6;height=12;" in draw_image(high, "iterm2")
    assert draw_image(wide, "sixel").startswith('\x1bPq"1;1;320;160')
    png = base64.b64decode(re.findall(r"File=.*?:(.*)\x07", draw_image(wide, "iterm2"))[0])
    assert Image.open(io.BytesIO(png)).size == (320, 160)

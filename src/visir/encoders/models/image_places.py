"""Which part of a picture each token of a vision–language model stands for.

What is known of a picture's tokens is read from the tokens themselves and from the grid that the processor gives:

- Qwen-VL: `image_grid_thw`, patches merged by 2 × 2, row by row (dynamic resolution);
- Idefics3, SmolVLM, ModernVBERT: tiles with a marker `<row_1_col_2>` before each and `<global-img>` before the whole
  picture; each tile is a square of tokens;
- NeoMME: rows of patches that end in a row marker; the last row and column may stand out of the picture;
- PaliGemma and others: one square of tokens.

All of these scale a picture without keeping its proportions or cutting, so fractions of the input are fractions of the
picture.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

Boxes = NDArray[np.float64]
"""(t, 4): left, top, right, bottom of t tokens, as fractions of the picture; NaN where a token has no place."""

_TILE = re.compile(r"<row_(\d+)_col_(\d+)>")


def token_places(image: Image, tokens: Sequence[str], inputs: Mapping[str, Any], processor: Any) -> Boxes:
    """The places of all tokens of one picture."""
    marker = processor.tokenizer.convert_ids_to_tokens(int(processor.image_token_id))
    boxes = np.full((len(tokens), 4), np.nan)
    rows = np.flatnonzero([token == marker for token in tokens])
    row_token = getattr(processor.tokenizer, "row_token", None)
    if "image_grid_thw" in inputs:
        merge = int(processor.image_processor.merge_size)
        frames, height, width = (int(size) for size in inputs["image_grid_thw"][0])
        if len(rows) == frames * (height // merge) * (width // merge):
            boxes[rows] = np.tile(grid(height // merge, width // merge), (frames, 1))
    elif any(_TILE.fullmatch(token) for token in tokens):
        _fill_tiles(boxes, tokens, rows)
    elif row_token is not None and row_token in tokens:
        _fill_padded_rows(boxes, tokens, rows[1:], row_token, _share_of_grid(image, processor))  # the first: a marker
    elif (side := math.isqrt(len(rows))) ** 2 == len(rows):
        boxes[rows] = grid(side, side)
    return boxes


def grid(height: int, width: int) -> Boxes:
    """The (height · width, 4) cells of a grid over the whole picture, row by row."""
    rows, columns = np.divmod(np.arange(height * width), width)
    edges = [columns / width, rows / height, (columns + 1) / width, (rows + 1) / height]
    return np.stack(edges, 1).reshape(-1, 4)


def _fill_tiles(boxes: Boxes, tokens: Sequence[str], rows: NDArray[np.int64]) -> None:
    """Tiles of a picture, each a square of tokens behind its marker; what no tile marker stands before is the whole."""
    tiles = [tuple(map(int, match.groups())) for token in tokens if (match := _TILE.fullmatch(token))]
    down, across = (max(places) for places in zip(*tiles, strict=True))
    starts = np.flatnonzero(np.diff(rows, prepend=-2) > 1)
    for run in np.split(rows, starts[1:]):
        side = math.isqrt(len(run))
        if side**2 != len(run):
            continue
        cells, match = grid(side, side), _TILE.fullmatch(tokens[run[0] - 1])
        if match is not None:
            row, column = int(match[1]) - 1, int(match[2]) - 1
            cells = (cells + np.array([column, row, column, row])) / [across, down, across, down]
        boxes[run] = cells


def _fill_padded_rows(
    boxes: Boxes, tokens: Sequence[str], rows: NDArray[np.int64], row_token: str, shares: tuple[float, float]
) -> None:
    height = sum(token == row_token for token in tokens)
    if height == 0 or len(rows) % height:
        return
    cells = grid(height, len(rows) // height) / [shares[0], shares[1], shares[0], shares[1]]
    boxes[rows] = np.clip(cells, 0, 1)


def _share_of_grid(image: Image, processor: Any) -> tuple[float, float]:
    """Which share of the patches' width and height the scaled picture fills: the rest is padding."""
    from transformers.models.neomme.image_processing_neomme import get_resize_output_size

    settings = processor.image_processor
    height, width = image.height, image.width
    if settings.do_resize:
        height, width = get_resize_output_size(height, width, settings.max_side, settings.size)
    patch = int(settings.patch_size)
    return width / (patch * -(-width // patch)), height / (patch * -(-height // patch))

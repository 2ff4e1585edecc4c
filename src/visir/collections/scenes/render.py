"""From a scene to its picture: sky, land, landmark, what lies about, the subject and its companion, flyers, weather."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

from visir.collections.scenes.animals import ANIMALS
from visir.collections.scenes.companions import COMPANIONS
from visir.collections.scenes.facts import Scene
from visir.collections.scenes.flyers import FLYERS
from visir.collections.scenes.ground import GROUND, island
from visir.collections.scenes.landmarks import LANDMARKS
from visir.collections.scenes.palette import LIGHT, NEAR_LIGHT, PAINT, PATTERN_PAINT
from visir.collections.scenes.places import HORIZON, land
from visir.collections.scenes.sky import LAYOUTS, falling, fog, sky
from visir.collections.scenes.sprite import paint, painted, shadow
from visir.collections.scenes.things import THINGS
from visir.collections.scenes.vehicles import VEHICLES
from visir.errors import VisirError

FIGURES = {**ANIMALS, **VEHICLES, **THINGS}
SMALLEST, LARGEST = 64, 224

_SIZE = {"small": 0.24, "medium": 0.34, "large": 0.46}
_X = {"left": 0.32, "middle": 0.5, "right": 0.68}
_FOOT = {"left of": 0.88, "right of": 0.88, "on": 0.88, "in front of": 0.845}
_COMPANION = 0.15
_SLATE = (104, 112, 136)


def render(scene: Scene, size: int = 128) -> npt.NDArray[np.uint8]:
    """The picture of a scene: (size, size, 3), RGB, 0–255; the same bytes for the same scene, size and Pillow release.

    `size` is 64 to 224 pixels. Everything is drawn at that resolution from oversampled parts that are kept between
    calls, which is what makes it fast: nothing is scaled afterwards.
    """
    if not SMALLEST <= size <= LARGEST:
        raise VisirError(
            f"scenes are drawn at {SMALLEST} to {LARGEST} pixels, not {size}.", code="scenes-drawn-pixels-not"
        )
    canvas = sky(scene.time, scene.weather, scene.sun_side, size).copy()
    ground = _lit_land(scene.place, scene.horizon, scene.time, scene.weather, size)
    canvas.paste(ground, mask=ground)
    _landmark(canvas, scene, size)
    if scene.weather == "foggy":
        veil = fog(scene.time, HORIZON[scene.horizon], size)
        canvas.paste(veil, mask=veil)
    _scatter(canvas, scene, size)
    _subject(canvas, scene, size)
    _flyers(canvas, scene, size)
    drops = falling(scene.weather, int(scene.chance(1) * LAYOUTS), size)
    if drops is not None:
        canvas.paste(drops, mask=drops)
    return np.asarray(canvas)


@lru_cache(maxsize=320)
def _lit_land(place: str, horizon: str, time: str, weather: str, size: int) -> Image.Image:
    """The land in the light of the hour: darker under rain and storm, white under snow."""
    pixels = np.asarray(land(place, horizon, size), np.float32)
    rgb, alpha = pixels[:, :, :3], pixels[:, :, 3:]
    if weather == "snowy":
        y = (np.arange(size, dtype=np.float32) + np.float32(0.5)) / np.float32(size)
        share = np.where(y > HORIZON[horizon] + 0.02, np.float32(0.74), np.float32(0.42))[:, None, None]
        rgb = rgb + (np.array((244, 249, 255), np.float32) - rgb) * share
    dim = {"rainy": 0.88, "stormy": 0.74, "cloudy": 0.96, "foggy": 0.96}.get(weather, 1.0)
    rgb = rgb * np.array(LIGHT[time], np.float32) * np.float32(dim)
    return Image.fromarray(np.concatenate([rgb + np.float32(0.5), alpha], axis=2).astype(np.uint8), "RGBA")


def _landmark(canvas: Image.Image, scene: Scene, size: int) -> None:
    """Opposite the subject, so that it is never hidden; beside a subject in the middle, on either side."""
    on_left = scene.position == "right" or (scene.position == "middle" and scene.chance(2) < 0.5)
    x = (0.14 if on_left else 0.86) * size
    foot = (HORIZON[scene.horizon] + (0.035 if scene.place in ("beach", "lake") else 0.06)) * size
    side = round(0.245 * size)
    far, near = LIGHT[scene.time], NEAR_LIGHT[scene.time]
    light = ((far[0] + near[0]) / 2, (far[1] + near[1]) / 2, (far[2] + near[2]) / 2)
    if scene.place in ("beach", "lake"):
        mound = painted(island, side, _SLATE, light)
        canvas.paste(mound, (round(x - side / 2), round(foot - side * 0.90)), mound)
    sprite = painted(LANDMARKS[scene.landmark], side, _SLATE, light)
    canvas.paste(sprite, (round(x - side / 2), round(foot - side * 0.97)), sprite)


def _scatter(canvas: Image.Image, scene: Scene, size: int) -> None:
    draw, paints = GROUND[scene.ground]
    for i in range(9):
        x = 0.04 + 0.115 * i + 0.05 * (scene.chance(10 + i) - 0.5)
        y = (0.80, 0.965, 0.88)[i % 3] + 0.03 * (scene.chance(20 + i) - 0.5)
        side = max(4, round((0.05 + 0.028 * (y - 0.75) / 0.25) * size))
        colour = paints[int(scene.chance(30 + i) * len(paints))]
        sprite = painted(draw, side, colour, NEAR_LIGHT[scene.time])
        canvas.paste(sprite, (round(x * size - side / 2), round(y * size) - side), sprite)


def _subject(canvas: Image.Image, scene: Scene, size: int) -> None:
    """The subject with its shadow, and the companion where the relation puts it."""
    light = NEAR_LIGHT[scene.time]
    figure = FIGURES[scene.subject]
    side = round(_SIZE[scene.size] * figure.scale * size)
    colour, second = PAINT[scene.colour], PATTERN_PAINT[scene.colour]
    sprite = paint(figure.draw, side, colour, second, pattern=scene.pattern, light=light)
    seat = figure.seat
    if scene.facing == "left":
        sprite = sprite.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        seat = (1 - seat[0], seat[1])
    box = sprite.getbbox() or (0, 0, side, side)
    half, foot = side / 2, round(_FOOT[scene.relation] * size)
    x = _X[scene.position] * size
    small = max(8, round(_COMPANION * size))
    # Make room for a companion between the subject and the picture's edge, but keep the subject where it is said to be.
    room, most = small + 0.03 * size, 0.07 * size
    if scene.relation == "left of":
        x += min(most, max(0.0, room - (x - half + box[0])))
    elif scene.relation == "right of":
        x -= min(most, max(0.0, room - (size - (x - half + box[2]))))
    left, top = round(x - half), foot - round(side * 0.97)
    edges = left + box[0], left + box[2]
    dark = shadow(edges[1] - edges[0] + side // 8)
    canvas.paste((24, 28, 56), (edges[0] - side // 16, foot - dark.height // 2), dark)
    companion = painted(COMPANIONS[scene.companion], small, PAINT[scene.companion_colour], light)
    if scene.relation == "on":
        corner = (round(left + seat[0] * side - small / 2), round(top + seat[1] * side - small * 0.93))
        canvas.paste(sprite, (left, top), sprite)
        canvas.paste(companion, corner, companion)
        return
    canvas.paste(sprite, (left, top), sprite)
    gap = round(0.012 * size)
    if scene.relation == "left of":
        corner = (max(gap, edges[0] - small - gap), round(0.925 * size) - small)
    elif scene.relation == "right of":
        corner = (min(size - small - gap, edges[1] + gap), round(0.925 * size) - small)
    else:
        corner = (round((edges[0] + edges[1]) / 2 - small / 2), round(0.985 * size) - small)
    dark = shadow(small + small // 4)
    canvas.paste((24, 28, 56), (corner[0] - small // 8, corner[1] + round(small * 0.97) - dark.height // 2), dark)
    canvas.paste(companion, corner, companion)


def _flyers(canvas: Image.Image, scene: Scene, size: int) -> None:
    draw, paints, scale = FLYERS[scene.flyer]
    n, first = scene.flyers, int(scene.chance(3) * len(paints))
    side = round(0.125 * scale * size)
    for i in range(n):
        x = (i + 0.5) / n + (0.30 if n == 1 else 0.36 / n) * (scene.chance(40 + i) - 0.5)
        y = (0.135 if (i + n) % 2 else 0.055) + 0.05 * scene.chance(50 + i)
        x = min(max(x, 0.08), 0.92)
        sprite = painted(draw, side, paints[(first + i) % len(paints)], NEAR_LIGHT[scene.time])
        canvas.paste(sprite, (round(x * size - side / 2), round(y * size + 0.04 * size - side / 2)), sprite)

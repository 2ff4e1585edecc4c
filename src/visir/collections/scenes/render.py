"""From a scene to its picture: sky, land, landmark, what lies about, the subject and its companion, flyers, weather."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from visir.collections.scenes.draw import RGB, Stroke, colours, drawing, paint, painted, picture, shadow
from visir.collections.scenes.facts import Scene
from visir.errors import VisirError

LIGHT: dict[str, tuple[float, float, float]] = {
    "day": (1.0, 1.0, 1.0),
    "sunset": (1.0, 0.86, 0.76),
    "night": (0.45, 0.53, 0.76),
}
"""What the light of the time of day multiplies the land by."""
NEAR_LIGHT: dict[str, tuple[float, float, float]] = {
    "day": (1.0, 1.0, 1.0),
    "sunset": (1.0, 0.93, 0.87),
    "night": (0.80, 0.84, 0.95),
}
"""The same for what stands near: milder, so that a told colour stays the colour it is called."""

# The sky, and the weather in front of everything: rain, snow, fog.

_SKY: dict[str, tuple[RGB, RGB]] = {
    "day": ((108, 178, 232), (206, 234, 246)),
    "sunset": ((126, 104, 168), (255, 190, 130)),
    "night": ((24, 32, 76), (76, 92, 150)),
}
_OVERCAST: dict[str, RGB] = {"day": (176, 192, 210), "sunset": (190, 150, 156), "night": (66, 76, 112)}
_STORM: dict[str, RGB] = {"day": (96, 108, 136), "sunset": (112, 84, 112), "night": (34, 36, 66)}
_CLOUD: dict[str, RGB] = {"day": (255, 255, 255), "sunset": (255, 214, 190), "night": (112, 122, 162)}
_GREYNESS = {"clear": 0.0, "cloudy": 0.30, "rainy": 0.70, "snowy": 0.55, "foggy": 0.62, "stormy": 1.0}
_SPREAD = (0.7548776662466927, 0.5698402909980532)
"""Steps that spread points evenly over a square without lines or clumps: 1/g and 1/g², g the root of g³ = g + 1."""
LAYOUTS = 4
"""How many arrangements of clouds, stars, drops and flakes there are; which one is used is nobody's fact."""
_CLOUDINESS = {"cloudy": 0.0, "rainy": 0.72, "snowy": 0.30, "stormy": 0.94}
_BODY: dict[str, RGB] = {"day": (255, 226, 110), "sunset": (255, 158, 92), "night": (252, 244, 206)}
_FAINTNESS = {"clear": 0.0, "cloudy": 0.0, "rainy": 0.60, "snowy": 0.45, "foggy": 0.50, "stormy": 0.68}
"""How much of the light of the sky is over the sun or the moon."""


def mix(first: RGB, second: RGB, weight: float) -> RGB:
    """`first` with `weight` (0–1) of `second`."""
    return tuple(int(a + (b - a) * weight + 0.5) for a, b in zip(first, second, strict=True))  # type: ignore[return-value]


@lru_cache(maxsize=512)
def sky(time: str, weather: str, sun_side: str, side: int) -> Image.Image:
    """The sky as an RGB image of `side` × `side` pixels."""
    blue, pale = _SKY[time]
    grey, share = (_STORM if weather == "stormy" else _OVERCAST)[time], _GREYNESS[weather]
    top, bottom = mix(blue, grey, share), mix(pale, mix(grey, (255, 255, 255), 0.18), share)
    given = {"top": top, "bottom": bottom}
    strokes = [*drawing("sky").strokes]
    if time == "night" and weather in ("clear", "cloudy", "snowy"):
        given["star"] = mix(top, (255, 250, 220), 0.85)
        for i in range(26):
            at = (i * _SPREAD[0] + 0.07) % 1.0, (i * _SPREAD[1] + 0.03) % 1.0 * 0.46
            strokes.append(Stroke("disc", ("star",), (at,), {"radius": 0.0045 + 0.003 * (i % 3 == 0)}))

    # The sun or moon: bright when it is clear, a pale disc through cloud; low at sunset.
    around = mix(top, bottom, 0.45 if time == "sunset" else 0.2)
    body, faint = _BODY[time], _FAINTNESS[weather]
    for name, dimmer in (("halo", 0.84), ("glow", 0.66), ("body", 0.0)):
        given[name] = mix(body, around, dimmer + (1 - dimmer) * faint)
    given["crater"] = mix((226, 214, 176), around, faint)
    x, y, radius = 0.13 if sun_side == "left" else 0.87, *((0.30, 0.085) if time == "sunset" else (0.13, 0.068))
    strokes.append(Stroke("sun", ("body",), ((x, y),), {"size": radius}))
    if time == "night":
        strokes.append(Stroke("craters", ("crater",), ((x, y),), {"size": 1.0}))

    given["white"] = mix(_CLOUD[time], pale, 0.35) if weather == "clear" else _CLOUD[time]
    if weather in _CLOUDINESS:
        dark = mix(grey, (30, 34, 54), 0.25 if weather == "stormy" else 0.0)
        given["white"] = mix(given["white"], dark, _CLOUDINESS[weather])
        given["shade"] = mix(given["white"], grey, 0.35)
    if weather != "foggy":
        strokes += drawing("clear" if weather == "clear" else "cloudy").strokes
    if weather == "stormy":
        strokes += drawing("lightning").strokes
    return picture(lambda painter: painter.paint(strokes, given), side).convert("RGB")


@lru_cache(maxsize=128)
def falling(weather: str, layout: int, side: int) -> Image.Image | None:
    """What falls in front of the picture, as an RGBA image; None when nothing does."""
    if weather not in ("rainy", "stormy", "snowy"):
        return None
    scale = 3
    image = Image.new("L", (side * scale, side * scale), 0)
    draw = ImageDraw.Draw(image)
    count = {"rainy": 70, "stormy": 90, "snowy": 64}[weather]
    for i in range(count):
        step = i + layout * 101
        x, y = (step * _SPREAD[0]) % 1.0 * 1.06, (step * _SPREAD[1]) % 1.0
        px, py = round(x * side * scale), round(y * side * scale)
        if weather == "snowy":
            r = max(2, round((0.006 + 0.0035 * (i % 3)) * side * scale))
            draw.ellipse((px - r, py - r, px + r, py + r), fill=235)
        else:
            length = (0.05 + 0.015 * (i % 3)) * side * scale
            end = (px - round(length * 0.28), py + round(length))
            draw.line((px, py, *end), fill=150, width=max(2, round(0.0075 * side * scale)))
    ink = (255, 255, 255) if weather == "snowy" else (214, 232, 248)
    out = Image.new("RGBA", (side, side), (*ink, 0))
    out.putalpha(image.reduce(scale))
    return out


@lru_cache(maxsize=64)
def fog(time: str, horizon: float, side: int) -> Image.Image:
    """A veil, thickest along the horizon, as an RGBA image."""
    y = (np.arange(side, dtype=np.float64) + 0.5) / side
    thickness = 0.62 - np.abs(y - horizon) * 0.95
    rows = (np.clip(thickness, 0.20, 0.52) * 255).astype(np.uint8)
    tone: RGB = {"day": (232, 238, 242), "sunset": (244, 214, 200), "night": (128, 138, 170)}[time]
    out = Image.new("RGB", (side, side), tone).convert("RGBA")
    out.putalpha(Image.fromarray(np.repeat(rows[:, None], side, axis=1)))
    return out


HORIZON = {"low": 0.62, "high": 0.53}
"""Where the sky meets the land, as a share of the height from the top."""
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


@lru_cache(maxsize=64)
def land(place: str, horizon: str, side: int) -> Image.Image:
    """The land of a place as an RGBA image of `side` × `side` pixels by daylight, transparent where the sky is."""
    return picture(lambda painter: painter.paint(drawing(place).strokes, {}, HORIZON[horizon]), side)


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
        mound = painted("island", side, _SLATE, light)
        canvas.paste(mound, (round(x - side / 2), round(foot - side * 0.90)), mound)
    sprite = painted(scene.landmark, side, _SLATE, light)
    canvas.paste(sprite, (round(x - side / 2), round(foot - side * 0.97)), sprite)


def _scatter(canvas: Image.Image, scene: Scene, size: int) -> None:
    paints = drawing(scene.ground).paints
    for i in range(9):
        x = 0.04 + 0.115 * i + 0.05 * (scene.chance(10 + i) - 0.5)
        y = (0.80, 0.965, 0.88)[i % 3] + 0.03 * (scene.chance(20 + i) - 0.5)
        side = max(4, round((0.05 + 0.028 * (y - 0.75) / 0.25) * size))
        colour = paints[int(scene.chance(30 + i) * len(paints))]
        sprite = painted(scene.ground, side, colour, NEAR_LIGHT[scene.time])
        canvas.paste(sprite, (round(x * size - side / 2), round(y * size) - side), sprite)


def _subject(canvas: Image.Image, scene: Scene, size: int) -> None:
    """The subject with its shadow, and the companion where the relation puts it."""
    light = NEAR_LIGHT[scene.time]
    figure = drawing(scene.subject)
    side = round(_SIZE[scene.size] * figure.scale * size)
    colour, second = colours("paint")[scene.colour], colours("pattern_paint")[scene.colour]
    sprite = paint(scene.subject, side, colour, second, pattern=scene.pattern, light=light)
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
    companion = painted(scene.companion, small, colours("paint")[scene.companion_colour], light)
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
    flyer = drawing(scene.flyer)
    paints = flyer.paints
    n, first = scene.flyers, int(scene.chance(3) * len(paints))
    side = round(0.125 * flyer.scale * size)
    for i in range(n):
        x = (i + 0.5) / n + (0.30 if n == 1 else 0.36 / n) * (scene.chance(40 + i) - 0.5)
        y = (0.135 if (i + n) % 2 else 0.055) + 0.05 * scene.chance(50 + i)
        x = min(max(x, 0.08), 0.92)
        sprite = painted(scene.flyer, side, paints[(first + i) % len(paints)], NEAR_LIGHT[scene.time])
        canvas.paste(sprite, (round(x * size - side / 2), round(y * size + 0.04 * size - side / 2)), sprite)

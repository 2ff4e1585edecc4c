"""A change of a scene in words: "the same, but at night", "with a red ball instead of the blue one"."""

from __future__ import annotations

from visir.collections.scenes.facts import Scene
from visir.collections.scenes.language import article, plural, ways_to_say

_SIZES = {"small": "small", "medium": "medium-sized", "large": "large"}
_SKIES = {
    "clear": ("under a clear sky", "in clear weather"),
    "cloudy": ("under a cloudy sky", "in cloudy weather"),
    "rainy": ("in the rain", "in rainy weather"),
    "snowy": ("in the snow", "in snowy weather"),
    "foggy": ("in the fog", "in foggy weather"),
    "stormy": ("in a thunderstorm", "in stormy weather"),
}
_HOURS = {
    "day": ("in the daytime", "by day"),
    "sunset": ("at sunset", "in the evening, at sunset"),
    "night": ("at night", "by night"),
}
_OPENINGS = ("the same, but", "the same picture, but", "just like this, but", "this, only", "like this, except", "")


def describe_edit(scene: Scene, changed: Scene, wording: int) -> str:
    """What turns one scene into another, in words."""
    opening = _OPENINGS[wording % len(_OPENINGS)]
    way = wording // len(_OPENINGS) % 2
    first, *more = (_edit(name, scene, changed, way) for name in scene.differences(changed))
    return f"{opening} {first}{''.join(f', and {part}' for part in more)}".strip()


def _edit(name: str, scene: Scene, changed: Scene, way: int) -> str:
    """One change, in the words for what the changed picture shows."""
    old, new = getattr(scene, name), getattr(changed, name)
    thing, other = changed.subject, changed.companion
    match name:
        case "subject":
            ways = (f"with {article(new)} instead of the {old}", f"the {old} is {article(new)}")
        case "colour":
            ways = (f"with {article(f'{new} {thing}')} instead of the {old} one", f"the {thing} is {new}, not {old}")
        case "companion_colour":
            ways = (f"with {article(f'{new} {other}')} instead of the {old} one", f"the {other} is {new}, not {old}")
        case "place":
            ways = (
                ways_to_say("place", new)[0],
                f"{ways_to_say('place', new)[0]} instead of {ways_to_say('place', old)[0]}",
            )
        case "size":
            ways = (f"the {thing} is {_SIZES[new]}", f"with a {_SIZES[new]} {thing} instead of a {_SIZES[old]} one")
        case "pattern":
            ways = (f"the {thing} is {new}", f"with a {new} {thing} instead of a {old} one")
        case "companion":
            ways = (f"with {article(new)} instead of the {old}", f"the {old} is {article(new)}")
        case "relation":
            now, before = (ways_to_say("relation", value)[0] for value in (new, old))
            ways = (f"the {other} is {now} the {thing}", f"the {other} is {now} the {thing}, not {before} it")
        case "flyer":
            many = changed.flyers > 1
            thing, before = (plural(new), f"the {plural(old)}") if many else (article(new), f"the {old}")
            ways = (
                f"with {thing} instead of {before}",
                f"with {thing} in the sky, not {plural(old) if many else article(old)}",
            )
        case "flyers":
            count = ways_to_say("flyers", new)[0]
            kind = plural(changed.flyer) if changed.flyers > 1 else changed.flyer
            ways = (f"with {count} {kind}", f"with {count} {kind} instead of {ways_to_say('flyers', old)[0]}")
        case "weather":
            ways = _SKIES[new]
        case "time":
            ways = _HOURS[new]
        case "position":
            now, before = (ways_to_say("position", value)[0] for value in (new, old))
            ways = (f"the {thing} is {now} of the picture", f"the {thing} is {now} of the picture, not {before}")
        case "landmark":
            ways = (f"with {article(new)} in the distance", f"with {article(new)} in the distance instead of the {old}")
        case _:
            raise ValueError(f"no caption tells {name}")
    return ways[way]

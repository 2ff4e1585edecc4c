"""Long and short captions, in English.

A long caption tells everything about a scene that can be told without doubt, in some dozen sentences of which the first
comes first and the others in any order. Short captions leave out the place and the verb.

The other way to write long captions, several facts in one winding sentence, is left out: who measures what truncation
costs wants every fact to have its place in the text.
"""

from __future__ import annotations

from visir.collections.scenes.draws import Draws
from visir.collections.scenes.facts import CAPTIONS_PER_SCENE, Scene, fact_names
from visir.collections.scenes.language import TELLS, Caption, article, plural, sentence, ways_to_say

LONG_TELLS = frozenset({*fact_names("shared"), *fact_names("specific"), "ground"})
SHORT_TELLS = tuple(tells - {"place"} for tells in TELLS)

_LONG, _SHORT = 70, 71
"""The purposes of draws."""
_SIZES = {
    "small": (
        "it is small and takes up only a little of the picture",
        "it is a small one, with a lot of room around it",
    ),
    "medium": ("it is medium-sized, neither small nor large", "its size is in between: it is neither small nor large"),
    "large": ("it is large and takes up a good part of the picture", "it is a large one, the largest thing close by"),
}
_PATTERNS = {
    "plain": ("its surface is plain, without any stripes, spots or checks", "it has no pattern at all: it is plain"),
    "striped": ("its surface is striped, with stripes of a second colour", "as for its pattern, it is striped"),
    "spotted": ("its surface is spotted, with dots of a second colour", "as for its pattern, it is spotted"),
    "checked": ("its surface is checked, like a chessboard in two colours", "as for its pattern, it is checked"),
}
_WEATHER = {
    "clear": ("the weather is fine and the sky is clear", "it is clear: there is neither rain nor snow nor fog"),
    "cloudy": ("the weather is cloudy, but it does not rain", "there are big clouds in the sky: it is cloudy, but dry"),
    "rainy": (
        "the weather is rainy, and drops are falling everywhere",
        "it is raining, and the sky is grey with clouds",
    ),
    "snowy": ("the weather is snowy, and flakes are falling everywhere", "it is snowing, and the ground is white"),
    "foggy": ("the weather is foggy, so that the distance is hard to see", "fog lies over everything that is far away"),
    "stormy": (
        "the weather is stormy: it rains, and there is lightning",
        "there is a thunderstorm with rain and lightning",
    ),
}
_TIMES = {
    "day": ("all of this is seen by day", "it is daytime, neither evening nor night"),
    "sunset": ("all of this is seen at sunset, in the light of the evening", "the sun is about to set: it is evening"),
    "night": (
        "all of this is seen at night, in the light of the moon",
        "it is night, and everything is dark and bluish",
    ),
}
_GROUND = {
    "flowers": "small flowers", "stones": "small stones", "tufts": "tufts of grass", "shells": "sea shells",
}  # fmt: skip


def long_caption(scene: Scene) -> Caption:
    """One caption of 100 to 250 words that tells every fact in `LONG_TELLS`."""
    draws = Draws(scene, _LONG)
    thing, other = f"the {scene.subject}", f"the {scene.companion}"
    place = draws.one_of(ways_to_say("place", scene.place))
    number = ways_to_say("flyers", scene.flyers)[0]
    flyers = plural(scene.flyer) if scene.flyers > 1 else scene.flyer
    relation = draws.one_of(ways_to_say("relation", scene.relation))
    position = draws.one_of(ways_to_say("position", scene.position))
    full_name = article(f"{scene.colour} {scene.subject}")
    opening = draws.one_of(
        (
            f"this is a picture of {full_name}, which is {place}",
            f"the picture shows {full_name} {place}",
            f"what you see here is {full_name} {place}",
        )
    )
    groups = [
        (
            draws.one_of((f"when you look at {thing}, you see that {{}}", f"about the size of {thing}: {{}}")).format(
                draws.one_of(_SIZES[scene.size])
            ),
            f"{draws.one_of(_PATTERNS[scene.pattern])}, and its main colour is {scene.colour}",
        ),
        (
            draws.one_of(
                (
                    f"there is {article(scene.companion)} close to {thing}",
                    f"{thing} is not alone: there is {article(scene.companion)}, too",
                )
            ),
            f"{other} is {relation} {thing}, as seen by whoever looks at the picture",
            f"the colour of {other} is {scene.companion_colour}",
        ),
        (
            draws.one_of(
                (
                    f"in the sky above {thing}, you can count {number} {flyers}",
                    f"high above {thing}, there {'are' if scene.flyers > 1 else 'is'} {number} {flyers} in the air",
                )
            ),
            f"there is nothing else that flies, and the number is exactly {number}",
        ),
        (draws.one_of(_WEATHER[scene.weather]),),
        (draws.one_of(_TIMES[scene.time]),),
        (draws.one_of((f"you find {thing} {position} of the picture", f"{thing} stands {position} of the picture")),),
        (
            draws.one_of(
                (
                    f"far away, behind everything else, stands {article(scene.landmark)}",
                    f"if you look into the distance, you see {article(scene.landmark)} on the horizon",
                )
            ),
        ),
        (
            draws.one_of(
                (
                    f"the ground all around is scattered with {_GROUND[scene.ground]}",
                    f"here and there on the ground, {_GROUND[scene.ground]} can be seen",
                )
            ),
        ),
    ]
    sentences = [opening, *(text for group in draws.shuffled(groups) for text in group)]
    return Caption(" ".join(map(sentence, sentences)), LONG_TELLS)


def short_captions(scene: Scene) -> tuple[Caption, ...]:
    """Five captions of a few words. Each tells what caption 0–4 tells, but for the place."""
    draws = Draws(scene, _SHORT)
    thing, other = article(f"{scene.colour} {scene.subject}"), article(f"{scene.companion_colour} {scene.companion}")
    flyers = plural(scene.flyer) if scene.flyers > 1 else scene.flyer
    moment = {"day": "day", "sunset": "evening", "night": "night"}[scene.time]
    size, pattern, relation, number, weather, position = (
        draws.one_of(ways_to_say(fact, getattr(scene, fact)))
        for fact in ("size", "pattern", "relation", "flyers", "weather", "position")
    )
    texts = (
        article(f"{size} {pattern} {scene.colour} {scene.subject}"),
        f"{other} {relation} {thing}",
        f"{number} {flyers} above {thing}",
        f"{thing} on {article(f'{weather} {moment}')}",
        f"{thing} {position}, {article(scene.landmark)} behind",
    )
    return tuple(Caption(f"{texts[k][0].upper()}{texts[k][1:]}", SHORT_TELLS[k]) for k in range(CAPTIONS_PER_SCENE))

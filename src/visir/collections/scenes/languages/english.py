"""English."""

from __future__ import annotations

from visir.collections.scenes.facts import Scene
from visir.collections.scenes.language import Caption, article, caption_of, plural, sentence, ways_to_say
from visir.collections.scenes.languages.grammar import SIDES, Grammar, Side, Thing
from visir.collections.scenes.palette import Draws
from visir.collections.scenes.render import FIGURES


class English(Grammar):
    """English. Its captions are those of `visir.collections.scenes.language`."""

    code = "en"
    title = "English"

    def caption(self, scene: Scene, number: int) -> Caption:
        return caption_of(scene, number)

    def beside(self, scene: Scene, first: Thing, side: Side, draws: Draws) -> str:
        things = {
            "subject": article(f"{scene.colour} {scene.subject}"),
            "companion": article(f"{scene.companion_colour} {scene.companion}"),
        }
        thing, other = things[first], things["companion" if first == "subject" else "subject"]
        place = draws.one_of(ways_to_say("place", scene.place))
        relation = draws.one_of((f"to the {side} of", f"on the {side} of"))
        return sentence(
            draws.one_of(
                (
                    f"{thing} is {relation} {other} {place}",
                    f"{place}, there is {thing} {relation} {other}",
                    f"there is {thing} {relation} {other} {place}",
                )
            )
        )

    def beside_at(self, scene: Scene) -> str:
        thing, other = article(f"{scene.colour} {scene.subject}"), f"{scene.companion_colour} {scene.companion}"
        verb, place = FIGURES[scene.subject].verbs[0], ways_to_say("place", scene.place)[0]
        where, side = f"on the {scene.position} side of the picture", SIDES[scene.relation]
        return sentence(f"{thing} {verb} {place} {where}, with {article(other)} to the {side} of the {scene.subject}")

    def contrast(self, scene: Scene, colour: str, other: str, draws: Draws) -> str:
        place, thing = draws.one_of(ways_to_say("place", scene.place)), scene.subject
        return sentence(
            draws.one_of(
                (
                    f"the {thing} {place} is {colour}, not {other}",
                    f"{article(f'{colour} {thing}')}, not {article(f'{other} one')}, is {place}",
                    f"the {thing} that you can see {place} is not {other}, but {colour}",
                )
            )
        )

    def without_flyer(self, scene: Scene, flyer: str, draws: Draws) -> str:
        place, thing = draws.one_of(ways_to_say("place", scene.place)), f"{scene.colour} {scene.subject}"
        return sentence(
            draws.one_of(
                (
                    f"there are no {plural(flyer)} above the {thing} {place}",
                    f"{article(thing)} {place}, without any {plural(flyer)} in the sky",
                    f"{place} there is {article(thing)}, and no {flyer} is in the sky",
                )
            )
        )

    def without_companion(self, scene: Scene, companion: str, draws: Draws) -> str:
        place, thing = draws.one_of(ways_to_say("place", scene.place)), article(f"{scene.colour} {scene.subject}")
        return sentence(
            draws.one_of(
                (
                    f"there is {thing} {place}, but no {companion}",
                    f"{thing} {place}, without {article(companion)}",
                    f"{place} you can see {thing}, but not {article(companion)}",
                )
            )
        )

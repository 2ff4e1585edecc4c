"""Languages of captions: one grammar, and a table for each language (`en.toml`, `de.toml`, …).

A table has sentences with slots. What a slot stands for is made of the facts of a scene, here of a subject "dog" that
is "red" and of three birds:

| slot | stands for |
|---|---|
| `{place}` | how the value of a fact is said: `[words]`, or else its adjective, or the value itself |
| `{verb by subject}` | the entry for the value of a fact in another list of `[words]`; "" is for all others |
| `{a colour subject}` | a noun with adjectives and what stands before it: "a red dog", "einen roten Hund" |
| `{some flyer}` | what flies, with its number: "drei Vögel" |
| `{bare subject}`, `{plural flyer}` | the noun alone: "dog", "birds" |
| `{colour as subject}` | an adjective as it is said of a noun: "rouge" |
| `{pronoun of subject}` | the entry for the gender of a noun |
| `{is|are}` | the one for one thing that flies, the other for several |

Where there are several ways to say something, the scene's `variation` chooses, never its facts. So two scenes that
differ in one fact are worded alike: their captions differ only in the words for the changed fact, and a caption that
does not tell it is true of both. A sentence in a table may begin with a small letter, and has no full stop.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from visir.collections.scenes.facts import BY_NAME, CAPTIONS_PER_SCENE, FACTS, Draws, Scene, fact_names

KINDS = ("looks", "company", "above", "weather", "layout")
"""What caption 0–4 is about."""

TELLS: tuple[frozenset[str], ...] = tuple(frozenset(fact_names(caption=k)) for k in range(CAPTIONS_PER_SCENE))
"""The facts that caption 0–4 tells, the same for every scene."""

_NAMES = (*BY_NAME, "first", "second", "absent", "old")
"""The facts of a scene, and what is not a fact of it but a noun that a sentence is given."""
_SALTS = {"verb": 1, "flies": 2, "flying": 2, **{fact.name: 10 + number for number, fact in enumerate(FACTS)}}
"""By which salt of `Scene.chance`, from the first of a caption, its ways to say a word are chosen."""


@dataclass(frozen=True)
class Caption:
    """A sentence and the names of the facts that it tells."""

    text: str
    tells: frozenset[str]


Facts = Mapping[str, Any]
Choose = Callable[[str, Sequence[str]], str]
"""Takes one of the ways to say a word of a list."""
Slot = Callable[[Facts, Choose], str]


def first_way(name: str, ways: Sequence[str]) -> str:
    """The usual way to say something."""
    return ways[0]


class Noun(NamedTuple):
    """A noun of a language."""

    word: str
    gender: str = ""  # m, f, n; in Chinese the measure word between a number and it
    plural: str = ""  # of what flies, where the language has plurals
    dative: str = ""  # and accusative, where that is another form
    plural_dative: str = ""


class _Said(dict[Any, Any]):
    """How values are said; one that is not in it has the entry "", or is the word itself."""

    def __missing__(self, value: object) -> object:
        self[value] = way = self.get("", str(value))
        return way


class _Phrases(dict[Any, str]):
    """Noun phrases by the values of facts; every phrase is made once."""

    def __init__(self, make: Callable[[Any], str]) -> None:
        self._make = make

    def __missing__(self, key: Any) -> str:
        self[key] = phrase = self._make(key)
        return phrase


class Grammar:
    """One language: its table, and how its noun phrases are built."""

    def __init__(self, code: str, first_salt: int = 610_001, salts: int = 10_000) -> None:
        self.code = code
        # The first salt of caption 0, and how many there are from one caption to the next: those of `Draws` 60 to 64.
        self._first_salt, self._salts = first_salt, salts
        self._compiled: dict[str, Slot] = {}

    @cached_property
    def table(self) -> dict[str, Any]:
        """The file of the language; what is counted has numbers as keys."""
        table = tomllib.loads(Path(__file__).with_name(f"{self.code}.toml").read_text("utf-8"))
        table["words"]["flyers"] = {int(number): way for number, way in table["words"]["flyers"].items()}
        return table

    @cached_property
    def title(self) -> str:
        """The name of the language."""
        title: str = self.table["title"]
        return title

    @cached_property
    def words(self) -> dict[str, dict[Any, Any]]:
        """How values are said, by the name of a list."""
        words: dict[str, dict[Any, Any]] = self.table["words"]
        return words

    @cached_property
    def articles(self) -> dict[str, dict[str, str]]:
        """What stands before a noun of each gender, by the name of the form."""
        articles: dict[str, dict[str, str]] = self.table["articles"]
        return articles

    @cached_property
    def nouns(self) -> dict[str, Noun]:
        """The nouns of the language, by their names in English."""
        return {name: Noun(*row.split("/")) for name, row in self.table.get("nouns", {}).items()}

    @cached_property
    def adjectives(self) -> dict[str, list[str]]:
        """The adjectives, by their names in English: one form, or the masculine and the feminine one."""
        return {name: forms.split("/") for name, forms in self.table.get("adjectives", {}).items()}

    @cached_property
    def _stop(self) -> str:
        return str(self.table.get("end", "."))

    @cached_property
    def _joints(self) -> list[tuple[re.Pattern[str], str]]:
        return [(re.compile(pattern), text) for pattern, text in self.table.get("joined", ())]

    # Captions and sentences.

    def describe(self, scene: Scene) -> tuple[Caption, ...]:
        """The five captions of a scene. Which facts each tells is the same in all languages."""
        return tuple(self.caption(scene, number) for number in range(CAPTIONS_PER_SCENE))

    def caption(self, scene: Scene, number: int) -> Caption:
        """Caption 0–4 of a scene."""
        first, chance = self._first_salt + self._salts * number, scene.chance

        def choose(name: str, ways: Sequence[str]) -> str:
            return ways[int(chance(first + _SALTS[name]) * len(ways))]

        ways = self.table["ways"][KINDS[number]]
        way = ways[int(chance(first) * len(ways))]
        return Caption(self.sentence(self.fill(way, scene.__dict__, choose)), TELLS[number])

    def say(self, kind: str, scene: Scene, draws: Draws, **given: str) -> str:
        """One of the ways of a kind of sentence, with the facts of the scene and these."""
        way = draws.one_of(self.table["ways"][kind])
        return self.sentence(self.fill(way, {**vars(scene), **given}, first_way))

    def fill(self, way: str, facts: Facts, choose: Choose = first_way) -> str:
        """A way to say something with its slots filled."""
        return self.compiled(way)(facts, choose)

    def compiled(self, way: str) -> Slot:
        """What fills the slots of a way to say something."""
        made = self._compiled.get(way)
        if made is None:
            made = self._compiled[way] = self._compile(way)
        return made

    def _compile(self, way: str) -> Slot:
        template, *rest = re.split(r"\{(.*?)\}", way)
        slots, behind = [self._slot(slot) for slot in rest[::2]], rest[1::2]
        match slots, behind:
            case [], _:
                return self._literal(way)
            case [slot], [end] if not self._joints:
                return lambda facts, choose: f"{template}{slot(facts, choose)}{end}"
            case [slot, other], [between, end] if not self._joints:
                return lambda facts, choose: f"{template}{slot(facts, choose)}{between}{other(facts, choose)}{end}"
        whole = "%s".join([template, *behind])
        if not self._joints:
            return lambda facts, choose: whole % tuple([slot(facts, choose) for slot in slots])
        return lambda facts, choose: self.joined(whole % tuple([slot(facts, choose) for slot in slots]))

    def joined(self, text: str) -> str:
        """The text with words that melt into the next one: "de le chien" is "du chien"."""
        for pattern, melted in self._joints:
            text = pattern.sub(melted, text)
        return text

    def sentence(self, text: str) -> str:
        """The text with a capital and a full stop."""
        return f"{text[0].upper()}{text[1:]}{self._stop}"

    # Slots.

    def _slot(self, slot: str) -> Slot:
        """What fills a slot."""
        if "|" in slot:
            single, several = (
                self._slot(part) if part.split()[-1] in _NAMES else self._literal(part) for part in slot.split("|")
            )
            return lambda facts, choose: (several if facts["flyers"] > 1 else single)(facts, choose)
        name, *rest = slot.split()
        match rest:
            case []:
                return self._value(name, name)
            case ["by", fact]:
                return self._value(name, fact)
            case ["as", noun]:
                return lambda facts, choose: self._agreeing(facts[name], facts[noun])
            case ["of", noun]:
                return lambda facts, choose: str(self.words[name][self.nouns[facts[noun]].gender])
        *form, last = slot.split()
        if form == ["bare"]:
            return lambda facts, choose: self.nouns[facts[last]].word
        if form == ["plural"]:
            return lambda facts, choose: self.plural(facts[last])
        if form[-1] == "some":
            return lambda facts, choose: self.counted(facts[last], facts["flyers"], " ".join([*form[:-1], "a"]))
        count = next(number for number in (2, 1) if " ".join(form[:number]) in self.articles)
        return self._phrase(" ".join(form[:count]), form[count:], last)

    @staticmethod
    def _literal(text: str) -> Slot:
        return lambda facts, choose: text

    def _value(self, name: str, fact: str) -> Slot:
        """How the value of a fact is said."""
        table = self.words.get(name, {})
        spoken = _Said({value: forms[0] for value, forms in self.adjectives.items()} | table)
        if all(isinstance(ways, str) and "|" not in ways for ways in table.values()):
            return lambda facts, choose: spoken[facts[fact]]

        def say(facts: Facts, choose: Choose) -> str:
            ways = spoken[facts[fact]]
            way = choose(name, ways) if type(ways) is list else ways
            return way.split("|")[facts["flyers"] > 1] if "|" in way else way

        return say

    def _phrase(self, form: str, adjectives: list[str], noun: str) -> Slot:
        """A noun with adjectives, by the names of facts."""
        values = itemgetter(noun, *adjectives)
        phrases = _Phrases(lambda key: self.phrase(*(key if adjectives else (key,)), form=form))
        return lambda facts, choose: phrases[values(facts)]

    # Noun phrases.

    def phrase(self, noun: str, *adjectives: str, form: str = "a") -> str:
        """A noun, by its name in English, in a form of `[articles]`, with adjectives by theirs: "einen roten Hund"."""
        word, table = self.nouns[noun], self.table
        before = table.get("before", adjectives)
        last = table.get("last", ())
        behind = sorted((name for name in adjectives if name not in before), key=lambda name: name in last)
        text = word.word if form in ("a", "the", "no") else word.dative or word.word
        ahead = [self._agreeing(name, noun, form) for name in adjectives if name in before]
        text = " ".join([*ahead, text])
        if behind:
            *others, final = [self._agreeing(name, noun, form) for name in behind]
            between, link = table.get("list", (" ", " "))
            text = f"{text} {link.join([between.join(others), final] if others else [final])}"
        article = self.articles[form]
        melted = text.startswith(tuple(table.get("vowels", "-"))) and "vowel" in article
        return f"{article['vowel']}{text}" if melted else f"{article[word.gender]} {text}"

    def _agreeing(self, adjective: str, noun: str, form: str = "") -> str:
        """An adjective as it is said of a noun, or with the ending that it has in a noun phrase of a form."""
        gender, forms = self.nouns[noun].gender, self.adjectives[adjective]
        ending = self.table["endings"][form][gender] if form and "endings" in self.table else ""
        return f"{forms[-1] if gender == 'f' else forms[0]}{ending}"

    def counted(self, noun: str, number: int, form: str = "a") -> str:
        """What flies, with its number: "ein einzelner Vogel", "drei Vögeln"."""
        if number == 1:
            return self.phrase(noun, "single", form=form)
        word = self.nouns[noun]
        return f"{self.words['flyers'][number]} {(form != 'a' and word.plural_dative) or word.plural}"

    def plural(self, noun: str) -> str:
        """The plural of what flies: "butterflies"."""
        return self.nouns[noun].plural


class English(Grammar):
    """English: nouns and adjectives are the values of facts, of which there may be several ways to say one."""

    def say(self, kind: str, scene: Scene, draws: Draws, **given: str) -> str:
        if kind != "beside_at":
            given["place"] = draws.one_of(ways_to_say("place", scene.place))
        if kind == "beside":
            given["how"] = draws.one_of(("to", "on"))
        return super().say(kind, scene, draws, **given)

    def _phrase(self, form: str, adjectives: list[str], noun: str) -> Slot:
        names = [*adjectives, noun]
        if not {*names} & {*self.words}:
            return super()._phrase(form, adjectives, noun)
        template = " ".join("%s," if name.endswith(",") else "%s" for name in names)
        words = [self._value(name, name) for name in (name.rstrip(",") for name in names)]
        return lambda facts, choose: article(template % tuple([word(facts, choose) for word in words]))

    def phrase(self, noun: str, *adjectives: str, form: str = "a") -> str:
        return article(" ".join([*adjectives, noun]))

    def plural(self, noun: str) -> str:
        plural: str = self.table["plurals"].get(noun, f"{noun}s")
        return plural


class Chinese(Grammar):
    """Chinese: a number and a measure word before every noun, which stand for its article."""

    def phrase(self, noun: str, *adjectives: str, form: str = "a") -> str:
        return self._measured(noun, 1, "".join(f"{self.adjectives[name][0]}的" for name in adjectives))

    def counted(self, noun: str, number: int, form: str = "a") -> str:
        return self._measured(noun, number, "")

    def _measured(self, noun: str, number: int, looks: str) -> str:
        word = self.nouns[noun]
        return f"{self.words['flyers'][number]}{word.gender}{looks}{word.word}"


ENGLISH = English("en", first_salt=100, salts=100)
GRAMMARS: dict[str, Grammar] = {
    grammar.code: grammar for grammar in (ENGLISH, Grammar("de"), Grammar("fr"), Grammar("es"), Chinese("zh"))
}
"""By language code."""


def article(noun: str) -> str:
    """The noun phrase with its indefinite article: "an orange car", "a unicorn"."""
    silent = noun.lower().startswith(("uni", "one", "eu", "use"))
    return f"{'an' if noun[0].lower() in 'aeiou' and not silent else 'a'} {noun}"


@cache
def ways_to_say(fact: str, value: str | int) -> tuple[str, ...]:
    """The words, one of which stands in every caption that tells this value of this fact."""
    if fact == "flyer":
        return (str(value), ENGLISH.plural(str(value)))
    return tuple(ENGLISH.words[fact][value]) if fact in ENGLISH.words else (str(value),)


def describe(scene: Scene) -> tuple[Caption, ...]:
    """The five captions of a scene, in English, in the order of `KINDS`."""
    return ENGLISH.describe(scene)

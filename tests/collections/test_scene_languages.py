"""Captions of scenes in other languages and lengths: sentences written by hand, agreement, and what they tell."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import visir
from visir.collections.scenes import FACTS, TELLS, sample_scene, ways_to_say
from visir.collections.scenes.captions import LONG_TELLS, long_caption, short_captions
from visir.collections.scenes.choice import contrast
from visir.collections.scenes.languages import GRAMMARS
from visir.errors import VisirError

some_scene = st.builds(sample_scene, st.integers(0, 2**31), st.integers(0, 2**31))
OTHERS = sorted({*GRAMMARS} - {"en"})

SCENE = sample_scene(0, 1).with_facts(
    {
        "subject": "turtle",
        "colour": "white",
        "size": "large",
        "pattern": "checked",
        "place": "beach",
        "companion": "drum",
        "companion_colour": "green",
        "relation": "left of",
        "flyer": "bird",
        "flyers": 3,
        "weather": "rainy",
        "time": "night",
        "position": "right",
        "landmark": "Ferris wheel",
    }
)


def wordings(code: str, number: int, scene=SCENE) -> set[str]:
    """All ways to write a caption."""
    from dataclasses import replace

    return {GRAMMARS[code].caption(replace(scene, variation=way), number).text for way in range(60)}


@pytest.mark.parametrize(
    ("code", "number", "texts"),
    [
        ("de", 0, {"Eine große karierte weiße Schildkröte sitzt am Strand.",
                   "Am Strand sitzt eine große karierte weiße Schildkröte.",
                   "Auf dem Bild ist eine große karierte weiße Schildkröte am Strand zu sehen."}),
        ("de", 1, {"Links von einer weißen Schildkröte am Strand ist eine grüne Trommel zu sehen.",
                   "Eine grüne Trommel befindet sich links von einer weißen Schildkröte am Strand.",
                   "Am Strand sitzt eine weiße Schildkröte, und links von ihr ist eine grüne Trommel."}),
        ("de", 2, {"Drei Vögel fliegen über einer weißen Schildkröte am Strand.",
                   "Am Strand sitzt eine weiße Schildkröte unter drei Vögeln.",
                   "Über einer weißen Schildkröte am Strand sind drei Vögel am Himmel zu sehen."}),
        ("de", 3, {"In einer regnerischen Nacht sitzt eine weiße Schildkröte am Strand.",
                   "Eine weiße Schildkröte sitzt in einer regnerischen Nacht am Strand.",
                   "Eine weiße Schildkröte am Strand, nachts bei regnerischem Wetter."}),
        ("fr", 0, {"Une grande tortue blanche à carreaux se trouve sur la plage.",
                   "Sur la plage, il y a une grande tortue blanche à carreaux.",
                   "L'image montre une grande tortue blanche à carreaux sur la plage."}),
        ("fr", 1, {"Un tambour vert se trouve à gauche d'une tortue blanche sur la plage.",
                   "Sur la plage, il y a un tambour vert à gauche d'une tortue blanche.",
                   "On voit un tambour vert à gauche d'une tortue blanche sur la plage."}),
        ("fr", 3, {"Par une nuit pluvieuse, une tortue blanche se trouve sur la plage.",
                   "Une tortue blanche se trouve sur la plage par une nuit pluvieuse.",
                   "Une tortue blanche sur la plage, la nuit, par temps pluvieux."}),
        ("es", 0, {"En la playa hay una tortuga grande, blanca y a cuadros.",
                   "Se ve una tortuga grande, blanca y a cuadros en la playa.",
                   "La imagen muestra una tortuga grande, blanca y a cuadros en la playa."}),
        ("es", 2, {"Tres pájaros vuelan por encima de una tortuga blanca en la playa.",
                   "En la playa hay una tortuga blanca debajo de tres pájaros.",
                   "En la playa, tres pájaros vuelan en el cielo sobre una tortuga blanca."}),
        ("es", 4, {"A la derecha de la imagen, una tortuga blanca está en la playa, y a lo lejos se ve una noria.",
                   "Una tortuga blanca está en la playa, a la derecha de la imagen; a lo lejos hay una noria.",
                   "A lo lejos se ve una noria, y a la derecha de la imagen, una tortuga blanca está en la playa."}),
        ("zh", 1, {"沙滩上有一只白色的乌龟，它的左边有一面绿色的鼓。", "沙滩上，一面绿色的鼓在一只白色的乌龟的左边。",
                   "一只白色的乌龟在沙滩上，一面绿色的鼓在它的左边。"}),
        ("zh", 2, {"沙滩上，三只鸟在一只白色的乌龟的上方飞。", "一只白色的乌龟在沙滩上，天上有三只鸟。",
                   "沙滩上有一只白色的乌龟，它的上方有三只鸟在飞。"}),
    ],
)  # fmt: skip
def test_sentences_by_hand(code: str, number: int, texts: set[str]) -> None:
    assert wordings(code, number) == texts


def test_phrases_agree() -> None:
    phrase, french, spanish = GRAMMARS["de"].phrase, GRAMMARS["fr"], GRAMMARS["es"]
    assert phrase("elephant", "large", "red", form="to a") == "einem großen roten Elefanten"
    assert phrase("elephant", "red", form="accusative a") == "einen roten Elefanten"
    assert phrase("car", "small", "blue") == "ein kleines blaues Auto"
    assert phrase("car", "blue", form="the") == "das blaue Auto"
    assert phrase("mug", "white", form="to a") == "einer weißen Tasse"
    assert phrase("bucket", form="no") == "kein Eimer"
    assert french.phrase("church", form="the") == "l'église"
    assert french.phrase("duck", "small", "green") == "un petit canard vert"
    assert french.joined("près de le chien") == "près du chien"
    assert french.joined("pas de oiseaux") == "pas d'oiseaux"
    assert spanish.phrase("tent", "small", "yellow") == "una tienda de campaña pequeña y amarilla"
    assert spanish.joined(f"delante de {spanish.phrase('dog', form='the')}") == "delante del perro"


@pytest.mark.parametrize("code", sorted(GRAMMARS))
def test_every_sentence_of_the_tables_can_be_said(code: str) -> None:
    grammar = GRAMMARS[code]
    facts = {
        **vars(SCENE), "first": "drum", "first_colour": "green", "second": "turtle", "second_colour": "white",
        "side": "left", "so": "red", "not_so": "blue", "absent": "bee", "how": "to",
    }  # fmt: skip
    for kind, ways in grammar.table["ways"].items():
        for way in ways:
            text = grammar.sentence(grammar.fill(way, facts))
            assert not re.search(r"[{}|%]|  ", text) and text.endswith((".", "。")), (kind, way, text)


def test_one_of_a_kind() -> None:
    scene = SCENE.with_facts({"flyers": 1, "flyer": "bee"})
    assert "Eine einzelne Biene fliegt über einer weißen Schildkröte am Strand." in wordings("de", 2, scene)
    assert "Une seule abeille vole au-dessus d'une tortue blanche sur la plage." in wordings("fr", 2, scene)
    assert "Una sola abeja vuela por encima de una tortuga blanca en la playa." in wordings("es", 2, scene)
    assert "沙滩上，一只蜜蜂在一只白色的乌龟的上方飞。" in wordings("zh", 2, scene)
    two = SCENE.with_facts({"flyers": 2, "flyer": "paper plane"})
    assert "沙滩上，两架纸飞机在一只白色的乌龟的上方飞。" in wordings("zh", 2, two)


def test_negation_by_hand() -> None:
    pairs = {code: contrast(SCENE.with_fact("pattern", "plain"), "swap_direction", GRAMMARS[code]) for code in OTHERS}
    assert all(pairs.values())
    assert (
        pairs["de"].right.text
        == "Rechts im Bild sitzt eine weiße Schildkröte am Strand, und links von ihr ist eine grüne Trommel."
    )
    assert pairs["fr"].wrong.text == (
        "À gauche de l'image, une tortue blanche se trouve sur la plage, "
        "et il y a un tambour vert à droite de la tortue."
    )


@settings(max_examples=20, deadline=None)
@given(some_scene, st.sampled_from(sorted(GRAMMARS)))
def test_a_caption_tells_its_facts_and_no_others(scene, code: str) -> None:
    grammar = GRAMMARS[code]
    for number, tells in enumerate(TELLS):
        assert grammar.caption(scene, number).tells == tells
        for fact in FACTS:
            texts = [grammar.caption(scene.with_fact(fact.name, value), number).text for value in fact.values]
            assert len(set(texts)) == (len(texts) if fact.name in tells else 1), (code, number, fact.name)


@settings(max_examples=50, deadline=None)
@given(some_scene)
def test_long_captions(scene) -> None:
    caption = long_caption(scene)
    assert 100 <= len(caption.text.split()) <= 250 and caption.tells == LONG_TELLS
    for name in LONG_TELLS - {"ground", "weather", "time", "size", "pattern"}:
        ways = ways_to_say(name, getattr(scene, name))
        assert any(re.search(rf"\b{re.escape(way)}\b", caption.text, re.I) for way in ways), name
    for fact in FACTS:
        texts = {long_caption(scene.with_fact(fact.name, value)).text for value in fact.values}
        assert len(texts) == (len(fact.values) if fact.name in LONG_TELLS else 1), fact.name
    assert not re.search(r"\ba (?=[aeiou])|\ban (?=[^aeiou])|  ", caption.text, re.I)


@settings(max_examples=30, deadline=None)
@given(some_scene)
def test_short_captions(scene) -> None:
    for caption, tells in zip(short_captions(scene), TELLS, strict=True):
        assert 4 <= len(caption.text.split()) <= 15 and caption.tells == tells - {"place"}
        assert not any(re.search(rf"\b{way}\b", caption.text) for way in ways_to_say("place", scene.place))


def test_collections() -> None:
    both = visir.open("scenes:20?language=en+de&size=64")
    assert both.languages == ("de", "en") and both.captions.num_rows == 200
    assert both.keep_languages("en").captions["text"].equals(visir.open("scenes:20?size=64").captions["text"])
    assert both.judgements.num_rows == 2 * visir.open("scenes:20?size=64").judgements.num_rows
    assert visir.open("scenes:20?language=en").fingerprint == visir.open("scenes:20").fingerprint
    long = visir.open("scenes:20?length=long")
    assert long.captions.num_rows == 20
    roles = {name: long.facts.schema.field(name).metadata[b"role"].decode() for name in ("colour", "facing", "ground")}
    assert roles == {"colour": "shared", "facing": "irrelevant", "ground": "shared"}
    short = visir.open("scenes:20?length=short")
    assert short.facts.schema.field("place").metadata[b"role"] == b"irrelevant"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("language=nl", "language 'nl'"),
        ("language=de+de", r"named twice: de\+de"),
        ("language=de&length=long", "long captions are in English only, not de"),
        ("length=medium", "option length='medium'"),
    ],
)
def test_faults(options: str, message: str) -> None:
    with pytest.raises(VisirError, match=message):
        visir.open(f"scenes:5?{options}")

"""Features of captions: words laid out for counting, and every feature of Table 1 in the two ways it can be counted."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from visir.files import read_json
from visir.registry import Registry
from visir.robustness.language.tagged_captions import TaggedCaptions
from visir.robustness.language.tagging import is_adjective, is_noun
from visir.robustness.language.wordnet import Pos, wordnet

Values = NDArray[np.float64]
"""(n,) one value per caption; NaN where the feature is not defined for a caption."""
Mask = NDArray[np.bool_]
"""(m,) which tokens."""


class TokenColumns:
    """Captions in columns with a number for each distinct word, so that each word is looked at once only."""

    def __init__(self, words: TaggedCaptions) -> None:
        self.n = len(words)
        self.texts: list[str] = words.texts.to_pylist()
        self.caption = np.repeat(np.arange(self.n), np.diff(words.offsets))
        edges, starts, ends = words.offsets.tolist(), words.starts.tolist(), words.ends.tolist()
        written = [
            text[a:b]
            for text, low, high in zip(self.texts, edges[:-1], edges[1:], strict=True)
            for a, b in zip(starts[low:high], ends[low:high], strict=True)
        ]
        distinct = pa.array(written, pa.string()).dictionary_encode()
        self.forms, form_codes = _numbered([form.lower() for form in distinct.dictionary.to_pylist()])
        self.form = form_codes[distinct.indices.to_numpy(zero_copy_only=False)]
        self.tags, tag_codes = _numbered(words.tags.dictionary.to_pylist())
        self.tag = tag_codes[words.tags.indices.to_numpy(zero_copy_only=False)]

    def __len__(self) -> int:
        return len(self.form)

    def tagged(self, tags: Collection[str] | Callable[[str], bool]) -> Mask:
        """The tokens whose tag is among these, or for whose tag this is true."""
        mask: Mask = _chosen(self.tags, tags)[self.tag]
        return mask

    def written(self, words: Collection[str] | Callable[[str], bool]) -> Mask:
        """The tokens that are one of these words, given in small letters, or for which this is true."""
        mask: Mask = _chosen(self.forms, words)[self.form]
        return mask

    @cached_property
    def nouns(self) -> Mask:
        """The tokens that are nouns, names among them ("Paris")."""
        return self.tagged(is_noun) | self.tagged({"NP0"})

    def sum(self, values: Mask | Values) -> Values:
        """(n,) the sum of the tokens' values, caption by caption."""
        return np.bincount(self.caption, values, self.n).astype(np.float64)

    def before(self, mask: Mask, steps: int = 1) -> Mask:
        """The tokens whose neighbour `steps` places to the left, in the same caption, is in the mask."""
        shifted = np.zeros(len(mask), bool)
        shifted[steps:] = mask[:-steps] & (self.caption[steps:] == self.caption[:-steps])
        return shifted

    def after(self, mask: Mask) -> Mask:
        """The tokens whose neighbour to the right, in the same caption, is in the mask."""
        shifted = np.zeros(len(mask), bool)
        shifted[:-1] = mask[1:] & (self.caption[1:] == self.caption[:-1])
        return shifted


def share(numerator: Values, denominator: Values) -> Values:
    """(n,) the quotient; NaN where there is nothing to divide by."""
    quotient: Values = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient


def _numbered(values: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct values in the order in which they come, and for each value which of them it is."""
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), np.array(codes, np.int64)


def _chosen(names: list[str], choice: Collection[str] | Callable[[str], bool]) -> Mask:
    test = choice if callable(choice) else choice.__contains__
    return np.array([test(name) for name in names], bool)


# What a feature of granularity is: two ways of counting, and a description of itself.

Profile = Literal["paper", "strict", "per-noun"]
PROFILES: tuple[Profile, ...] = ("paper", "strict", "per-noun")

Count = Callable[[TokenColumns], Values]
"""Captions, laid out → (n,) one value per caption, NaN where it is not defined."""


@dataclass(frozen=True)
class CaptionFeature:
    """A feature of captions that describes itself; tables on the command line and in the docs are printed from this.

    Section 3.1 of the brittleness paper says what is counted, but not how exactly, and for some features Table 1 shows
    that something else was counted than the name says. So each feature has two definitions.

    Args:
        name: "adjectives".
        title: Its name in Table 1.
        level: As in Table 1: "noun phrase" or "caption".
        paper: The definition whose means come nearest to Table 1, found by trying those that the text admits.
        strict: The definition that does what the name says; the sound default.
        paper_says: The first definition in one sentence.
        strict_says: The second definition in one sentence.
        per_noun: Whether the text speaks of it "per identified noun"; under the profile "per-noun" its strict count is
            divided by the nouns of the caption (not defined for a caption without a noun).
    """

    name: str
    title: str
    level: Literal["noun phrase", "caption"]
    paper: Count
    strict: Count
    paper_says: str
    strict_says: str
    per_noun: bool = False


# What a word may mean, by WordNet.


def all_senses(form: str, pos: Sequence[Pos]) -> list[int]:
    """Every synset of every base form of a word in these parts of speech, as NLTK's `wordnet.synsets(form)` lists."""
    net = wordnet()
    bases = ((base, part) for part in pos for base in net.base_forms(form, part))
    return [synset for base, part in bases for synset in net.synsets(base, part)]


# Adjectives (brittleness paper, section 3.1.1, "Modifiers of the Noun").


def adjectives_released(tokens: TokenColumns) -> Values:
    """Adjectives in their plain form, tag AJ0: "a big dog" 1, "the bigger dog" 0."""
    # With comparatives and superlatives, which are few, Flickr30k comes out further off (1.15 | 1.32 for 1.14 | 1.30).
    # "Per identified noun", as the text has it, would give about 0.2 to 0.3: Table 1 counts per caption.
    return tokens.sum(tokens.tagged({"AJ0"}))


def adjectives(tokens: TokenColumns) -> Values:
    """Adjectives, comparatives and superlatives among them, before a noun or after a verb ("the dog is big")."""
    # Another reading counts only those that stand before a noun, as modifiers do; but a caption that says that the dog
    # is big is as detailed as one that says "a big dog".
    return tokens.sum(tokens.tagged(is_adjective))


ADJECTIVES = CaptionFeature(
    "adjectives",
    "Adjectives",
    "noun phrase",
    adjectives_released,
    adjectives,
    "adjectives in their plain form (AJ0)",
    "adjectives, comparatives and superlatives too",
    per_noun=True,
)


# Complement phrases (section 3.1.1, "Modifiers of the Noun").


PREPOSITIONS = frozenset({"PRP", "PRF"})
"""Tags of prepositions; "of" has one of its own (PRF)."""
RELATIVISERS = frozenset({"PNQ", "DTQ", "CJT"})
"""Tags of words that open a clause: "who", "which", "whose", "that" as a pronoun or a conjunction."""


def complement_phrases_released(tokens: TokenColumns) -> Values:
    """All prepositions and relativisers, wherever they stand: "a man on a horse that drinks" 2."""
    # Nothing that was tried gives Table 1 for COCO (1.56 | 1.99): this is 0.17 above the original and 0.03 below the
    # refined captions, and within 0.04 on Flickr30k. Prepositions alone are 1.68 | 1.91, prepositions right after a
    # noun 1.04 | 1.25, distinct prepositions of a caption 1.59 | 1.77.
    return tokens.sum(tokens.tagged(PREPOSITIONS) | tokens.tagged(RELATIVISERS))


def complement_phrases(tokens: TokenColumns) -> Values:
    """Phrases that complete a noun: a preposition or a relative clause that stands right after it."""
    # "A man with a hat on a horse that drinks" has three: "with a hat" after "man", "on a horse" after "hat" (whose hat
    # it is needs a parser, that it follows a noun does not), "that drinks" after "horse". Not counted: "sitting *on* a
    # bench", which completes a verb; a preposition that ends the caption or stands before a full stop; participles ("a
    # man *riding* a horse"), which are clauses of a third kind. A comma, or a preposition, or both may stand before the
    # relative word ("a man, *with whom* …"), which is then one phrase.
    last = ~tokens.after(~tokens.tagged({"PUN"}))
    preposition = tokens.tagged(PREPOSITIONS) & ~last
    relative = (tokens.tagged(RELATIVISERS) | (tokens.tagged({"AVQ"}) & tokens.written({"where"}))) & ~last
    alone = preposition & tokens.before(tokens.nouns) & ~tokens.after(relative)
    return tokens.sum(alone | (relative & _follows_noun(tokens, preposition)))


def _follows_noun(tokens: TokenColumns, preposition: Mask) -> Mask:
    """The tokens before which, a comma and a preposition apart, a noun stands."""
    noun_or_comma = tokens.nouns | (tokens.written({","}) & tokens.before(tokens.nouns))
    return tokens.before(noun_or_comma | (preposition & tokens.before(noun_or_comma)))


COMPLEMENT_PHRASES = CaptionFeature(
    "complement_phrases",
    "Complement Phrases",
    "noun phrase",
    complement_phrases_released,
    complement_phrases,
    "prepositions and relativisers, wherever they stand",
    "prepositional phrases and relative clauses right after a noun",
    per_noun=True,
)


# Articles (section 3.1.1, "Determiners").


DETERMINERS = frozenset(
    {
        *(
            "a",
            "an",
            "the",
            "this",
            "that",
            "these",
            "those",
            "some",
            "any",
            "no",
            "each",
            "every",
            "either",
            "neither",
        ),
        *("another", "all", "both"),
    }
)
"""What the Penn treebank tags DT, which is what common taggers call a determiner."""


def articles_released(tokens: TokenColumns) -> Values:
    """All determiners (Penn's DT): "a", "the", and also "some", "this", "each", "another", "all", …"""
    # Articles alone give 2.07 on COCO for Table 1's 2.14. Of BNC's tags these are AT0, and DT0 where the word is one of
    # `DETERMINERS`; "several", "many" and "few" are adjectives in Penn's scheme and do not count.
    determiners = tokens.tagged({"DT0"}) & tokens.written(DETERMINERS)
    return tokens.sum(tokens.tagged({"AT0"}) | determiners)


def articles(tokens: TokenColumns) -> Values:
    """The articles of English: "a", "an", "the". A letter A ("vitamin A") is tagged otherwise and does not count."""
    return tokens.sum(tokens.tagged({"AT0"}) & tokens.written({"a", "an", "the"}))


ARTICLES = CaptionFeature(
    "articles",
    "Articles",
    "noun phrase",
    articles_released,
    articles,
    "all determiners: a, the, some, this, each, another, …",
    "a, an, the",
    per_noun=True,
)


# Quantifiers (section 3.1.1, "Determiners").


QUANTIFIERS = frozenset(
    {
        *("some", "any", "no", "each", "every", "either", "neither", "both", "all"),
        *("many", "much", "several", "few", "little", "more", "most", "less", "fewer", "enough"),
    }
)
"""Words that say how many or how much, as far as they are determiners (some are adverbs as well: "all wet")."""
NUMBERS = frozenset(
    {
        *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty"),
        *("forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "hundreds", "thousand", "thousands"),
        *("million", "millions", "dozen", "dozens"),
    }
)
QUANTITY_NOUNS = frozenset({"lot", "lots", "plenty", "couple", "number"})
"""Nouns that are quantifiers when "of" follows: "a lot of people". "Bunch", "group" and "pair" say how things stand."""
_DIGITS = re.compile(r"\d[\d,.]*")


def quantifiers_released(tokens: TokenColumns) -> Values:
    """Numerals (tag CRD), and nothing else: "two dogs" 1, "some dogs" 0."""
    # Whatever holds "some" or "many" as well comes out at twice Table 1's values or more (strict: 0.23 for COCO's
    # 0.12).
    return tokens.sum(tokens.tagged({"CRD"}))


def quantifiers(tokens: TokenColumns) -> Values:
    """Words that say how many or how much: "some", "many", "each", …; numerals; "a lot of", "a couple of"."""
    # Numerals are quantifiers here, as in Huddleston & Pullum's grammar (2002, chapter 5): "two dogs" answers *how
    # many* more exactly than "several dogs", so a count that took only the vaguer word would go down where a caption
    # becomes more precise. Digits count before a noun or adjective only: "2 dogs", not "the number 5" or "boeing 747".
    # "One" that is a pronoun ("holding one") does not count, nor do the article "a" and ordinals ("second").
    counted = tokens.tagged({"DT0", "AT0"}) & tokens.written(QUANTIFIERS)
    counted |= tokens.written({"many", "several"})  # never adverbs; taggers think they are where no noun is near
    counted |= tokens.written({"few"}) & tokens.before(tokens.written({"a"}))
    numerals = tokens.tagged({"CRD"})
    head = tokens.tagged(lambda tag: tag.startswith(("NN", "AJ")))
    counted |= numerals & tokens.written(NUMBERS)
    counted |= numerals & tokens.written(lambda form: _DIGITS.fullmatch(form) is not None) & tokens.after(head)
    counted |= tokens.written(QUANTITY_NOUNS) & tokens.after(tokens.written({"of"}))
    return tokens.sum(counted)


QUANTIFIERS_FEATURE = CaptionFeature(
    "quantifiers",
    "Quantifiers",
    "noun phrase",
    quantifiers_released,
    quantifiers,
    "numerals",
    "some, many, each, all, …, numerals, a lot of, a couple of",
    per_noun=True,
)


# Concept depth: how far down WordNet the words stand (section 3.1.1, "Semantics").


def concept_depth_released(tokens: TokenColumns) -> Values:
    """Mean over the words that WordNet knows, whatever they are, of the depth of their deepest sense."""
    # The depth of a sense is the length of the shortest way up to a root ("minimum depth"); of all senses of a word, in
    # every part of speech, the deepest counts ("the maximum depth across all synsets"). Adjectives and adverbs have no
    # ways up: 0. So "a" counts, and is 10 deep, for A is a nucleotide; without "a" and "an" COCO has 7.42 for Table 1's
    # 7.89.
    return _mean_depth(tokens, ("n", "v", "a", "r"), np.ones(len(tokens), bool))


def concept_depth(tokens: TokenColumns) -> Values:
    """Mean over the nouns of the depth of their deepest noun sense, by the same rule: a concept is what a noun
    names."""
    # Another reading takes the most frequent sense instead of the deepest, which is often not the one that is meant
    # (the deepest man is the hominid). It gives lower values, 7.28 | 7.28 for COCO and 6.66 | 6.71 for Flickr30k.
    return _mean_depth(tokens, ("n",), tokens.nouns)


def _mean_depth(tokens: TokenColumns, pos: Sequence[Pos], chosen: Mask) -> Values:
    """(n,) the mean depth over the chosen tokens that WordNet knows; NaN for a caption that has none."""
    net = wordnet()
    of_form = np.full(len(tokens.forms), np.nan)
    for number in np.unique(tokens.form[chosen]).tolist():
        senses = all_senses(tokens.forms[number], pos)
        if senses:
            of_form[number] = max(map(net.min_depth, senses))
    depths = of_form[tokens.form]
    defined = chosen & ~np.isnan(depths)
    return share(tokens.sum(np.where(defined, depths, 0.0)), tokens.sum(defined))


CONCEPT_DEPTH = CaptionFeature(
    "concept_depth",
    "Concept depth",
    "noun phrase",
    concept_depth_released,
    concept_depth,
    "depth of the deepest sense, mean over all words that WordNet knows",
    "depth of the deepest sense, mean over nouns",
)


# Characters (section 3.1.2, "Caption Length").


def characters_released(tokens: TokenColumns) -> Values:
    """Characters of the text as the file has it, spaces at its end and line breaks among them."""
    # It gives all four values of Table 1 to the last digit, from the captions of Karpathy's JSON. The texts of the
    # VSE++ distribution, where such spaces are cut off, give 52.24 for COCO.
    return np.array([len(text) for text in tokens.texts], np.float64)


def characters(tokens: TokenColumns) -> Values:
    """Characters that can be seen: white space counts once between words and not at the ends."""
    # Letters with accents count once, however they are encoded (Unicode NFC). Another reading leaves all spaces out.
    return np.array([len(unicodedata.normalize("NFC", " ".join(text.split()))) for text in tokens.texts], np.float64)


CHARACTERS = CaptionFeature(
    "characters",
    "Caption length",
    "caption",
    characters_released,
    characters,
    "characters as stored, spaces at the end too",
    "characters, white space once between words",
)


# Words (section 3.1.2, "Number of Words").


_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def words_released(tokens: TokenColumns) -> Values:
    """Pieces between single spaces, `len(text.split(" "))`: empty pieces count, at double spaces and at the end."""
    # It gives all four values of Table 1 to the last digit.
    return np.array([text.count(" ") + 1 for text in tokens.texts], np.float64)


def words(tokens: TokenColumns) -> Values:
    """Pieces between white space that hold a letter or a digit: "t-shirt" and "man's" are one word, "-" is none."""
    # Another reading counts the tagger's tokens, of which "man's" is two in some taggers and one in others.
    search = _LETTER_OR_DIGIT.search
    return np.array([sum(search(piece) is not None for piece in text.split()) for text in tokens.texts], np.float64)


WORDS = CaptionFeature(
    "words",
    "Number of words in a caption",
    "caption",
    words_released,
    words,
    "pieces between single spaces, empty ones too",
    "pieces between white space that hold a letter or digit",
)


# Diversity of concepts (section 3.1.2, "Semantics").


def diversity_released(tokens: TokenColumns) -> Values:
    """Distinct lemmas of all synsets of all words ("unique synonyms"), divided by tokens, punctuation among them."""
    # No sense is chosen: "a man in black" has the synonyms of every man and every black there is. So the number says
    # how many meanings the words could have, and common short words, which have most, drive it.
    net = wordnet()
    synonyms = [
        frozenset(name for sense in all_senses(form, ("n", "v", "a", "r")) for name in net.lemmas(sense))
        for form in tokens.forms
    ]
    edges = np.searchsorted(tokens.caption, np.arange(tokens.n + 1)).tolist()
    of_token = [synonyms[number] for number in tokens.form.tolist()]
    nothing: frozenset[str] = frozenset()
    counts = [len(nothing.union(*of_token[a:b])) for a, b in itertools.pairwise(edges)]
    return share(np.array(counts, np.float64), tokens.sum(np.ones(len(tokens))))


def diversity(tokens: TokenColumns) -> Values:
    """Distinct concepts that are named, divided by words (`words`, strict): from 0 to 1, unless a piece between white
    space names several ("bus/car")."""
    # A concept is the most frequent sense, in the part of speech that it has here, of a noun, adjective or full verb;
    # so "a sofa and a couch" name one, "a man and a guy" two (WordNet has them apart). A word that WordNet does not
    # know names none. Without the division, another reading, it grows with length alone.
    net = wordnet()
    pair = tokens.form * len(tokens.tags) + tokens.tag
    distinct, inverse = np.unique(pair, return_inverse=True)
    concept = np.full(len(distinct), -1)
    for position, code in enumerate(distinct.tolist()):
        form, tag = divmod(code, len(tokens.tags))
        pos = _pos(tokens.tags[tag])
        senses = all_senses(tokens.forms[form], (pos,)) if pos else []
        if senses:
            concept[position] = senses[0]
    of_token = concept[inverse]
    named = np.unique((tokens.caption * (len(net) + 1) + of_token)[of_token >= 0]) // (len(net) + 1)
    return share(np.bincount(named, minlength=tokens.n).astype(np.float64), words(tokens))


def _pos(tag: str) -> Pos | None:
    if is_noun(tag):
        return "n"
    if is_adjective(tag):
        return "a"
    return "v" if tag.startswith("VV") else None  # not "be", "have", "do", which are mostly auxiliaries


DIVERSITY = CaptionFeature(
    "diversity",
    "Diversity of concepts per caption",
    "caption",
    diversity_released,
    diversity,
    "distinct synonyms of all senses of all words, per token",
    "distinct concepts named by nouns, adjectives and verbs, per word",
)


FEATURES: Registry[CaptionFeature] = Registry("feature of granularity")
for _one in (
    *(ADJECTIVES, COMPLEMENT_PHRASES, ARTICLES, QUANTIFIERS_FEATURE, CONCEPT_DEPTH),
    *(CHARACTERS, WORDS, DIVERSITY),
):
    FEATURES.add(_one.name, _one)


# Table 1 of the brittleness paper, as printed.

FILE = Path(__file__).parent / "brittleness-table-1.json"


@dataclass(frozen=True)
class PublishedGranularity:
    """The printed means: `values[collection][feature]`, rounded to `decimals`, with title and source."""

    # It has a form of its own because the tables of `visir.evaluation.published` are of systems and directions of
    # search.

    title: str
    source: str
    decimals: int
    values: Mapping[str, Mapping[str, float]]


def table_1() -> PublishedGranularity:
    """Table 1: MS-COCO and Flickr30k, original and refined ("-FG"), test splits, five captions per image."""
    # In text taken from the PDF the row of concept depth has slipped one column to the left. The paper does not say
    # which split the means are over; its numbers of characters and words are those of the test splits to the last
    # digit.
    content = read_json(FILE)
    return PublishedGranularity(content["title"], content["source"], content["decimals"], content["rows"])

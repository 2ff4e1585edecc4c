"""Diversity of concepts of a caption (section 3.1.2, "Semantics")."""

import itertools

import numpy as np

from visir.robustness.granularity.tokens import CaptionFeature, TokenColumns, Values, all_senses, share
from visir.robustness.granularity.word_count import strict as word_count
from visir.robustness.language.tagging import is_adjective, is_noun
from visir.robustness.language.wordnet import Pos, wordnet


def paper(tokens: TokenColumns) -> Values:
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


def strict(tokens: TokenColumns) -> Values:
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
    return share(np.bincount(named, minlength=tokens.n).astype(np.float64), word_count(tokens))


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
    paper,
    strict,
    "distinct synonyms of all senses of all words, per token",
    "distinct concepts named by nouns, adjectives and verbs, per word",
)

"""What a word may mean, by WordNet."""

from collections.abc import Sequence

from visir.robustness.language.wordnet import Pos, wordnet


def all_senses(form: str, pos: Sequence[Pos]) -> list[int]:
    """Every synset of every base form of a word in these parts of speech, as NLTK's `wordnet.synsets(form)` lists."""
    net = wordnet()
    bases = ((base, part) for part in pos for base in net.base_forms(form, part))
    return [synset for base, part in bases for synset in net.synsets(base, part)]

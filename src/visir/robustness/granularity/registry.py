"""All features by name, in the order of Table 1: a new one is one new file and one line here."""

from visir.registry import Registry
from visir.robustness.granularity.adjectives import ADJECTIVES
from visir.robustness.granularity.articles import ARTICLES
from visir.robustness.granularity.base import CaptionFeature
from visir.robustness.granularity.characters import CHARACTERS
from visir.robustness.granularity.complement_phrases import COMPLEMENT_PHRASES
from visir.robustness.granularity.concept_depth import CONCEPT_DEPTH
from visir.robustness.granularity.diversity import DIVERSITY
from visir.robustness.granularity.quantifiers import QUANTIFIERS_FEATURE
from visir.robustness.granularity.word_count import WORDS

FEATURES: Registry[CaptionFeature] = Registry("feature of granularity")
for _one in (
    *(ADJECTIVES, COMPLEMENT_PHRASES, ARTICLES, QUANTIFIERS_FEATURE, CONCEPT_DEPTH),
    *(CHARACTERS, WORDS, DIVERSITY),
):
    FEATURES.add(_one.name, _one)

"""Evaluation: measure a search under a protocol, compare systems, and explain published numbers.

evaluation = evaluate(collection, encoder, split="test")
save(evaluation, "results/clip")
compare([load("results/clip"), load("results/siglip")]).differences
explain(evaluation, published.load("brittleness-table-3").row("CLIP", "Flickr30k")).sentence
"""

from typing import TYPE_CHECKING

from visir.evaluation.compare import Comparison, Difference, compare
from visir.evaluation.evaluate import evaluate
from visir.evaluation.published import Denominator, Denominators, denominators
from visir.evaluation.results import Evaluation, load, load_evaluation, save
from visir.evaluation.text_weight import ChosenWeight, FusionWeights, choose_fusion_weights, choose_weight
from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.evaluation.explaining import Explanation as Explanation
    from visir.evaluation.explaining import Fit as Fit
    from visir.evaluation.explaining import Material as Material
    from visir.evaluation.explaining.explain import explain as explain

__getattr__ = lazy(__name__)[0]

# The functions have the names of their modules and hide them here. Import from a module by its full name:
# `from visir.evaluation.compare import …`.
__all__ = [
    "ChosenWeight",
    "Comparison",
    "Denominator",
    "Denominators",
    "Difference",
    "Evaluation",
    "Explanation",
    "Fit",
    "FusionWeights",
    "Material",
    "choose_fusion_weights",
    "choose_weight",
    "compare",
    "denominators",
    "evaluate",
    "explain",
    "load",
    "load_evaluation",
    "save",
]

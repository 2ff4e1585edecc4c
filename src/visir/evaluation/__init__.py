"""Evaluation: what a search is worth, under which protocol, compared with whom, and read in which way.

evaluation = evaluate(collection, encoder, split="test")
save(evaluation, "results/clip")
compare([load("results/clip"), load("results/siglip")]).differences
explain(evaluation, published.load("brittleness-table-3").row("CLIP", "Flickr30k")).sentence
"""

from visir.evaluation.compare import Comparison, Difference, compare
from visir.evaluation.evaluate import Evaluation, evaluate
from visir.evaluation.explain import Explanation, Fit, explain
from visir.evaluation.rescoring import Material
from visir.evaluation.results import load, load_evaluation, save

# The functions have the names of their modules and stand for them here; the modules are reached by their full names in
# `from visir.evaluation.compare import …`, as everywhere in this package.
__all__ = [
    "Comparison",
    "Difference",
    "Evaluation",
    "Explanation",
    "Fit",
    "Material",
    "compare",
    "evaluate",
    "explain",
    "load",
    "load_evaluation",
    "save",
]

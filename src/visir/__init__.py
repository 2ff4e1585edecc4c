"""visir: image–text retrieval whose numbers can be trusted.

    import visir

    photos = visir.open("photos/")                       # a folder, a file, FORMAT:PATH, a list, a DataFrame
    visir.check(photos)                                  what is wrong with it, all at once
    visir.models(takes=["image", "text"])                which models there are
    model = visir.load("openai/clip-vit-base-patch32")   # or visir.Encoder.wrap("mine", image=f, text=g)

Find
    visir.search(photos, model, "a dog on a beach")      pictures, best first; visir.Query mixes text and pictures
    visir.index(photos, model, out="photos.visir")       a Library on disk: search, serve, update, watch
    visir.encode(model, photos)                          vectors

Measure
    visir.evaluate(photos, model, split="test")          an Evaluation; visir.measures() lists what there is
    visir.classify("photos/", model, shots=16)           a Classification: zero-shot prompts, few-shot curves; or labels
    visir.profile(model, "mine.csv")                     what a model can do: every task at hand, by strength, as a page
    visir.compare(first, second)                         a Comparison: differences with intervals and p-values
    visir.report("results/clip", "results/siglip")       anything measured, described again: page, LaTeX, side by side
    visir.stats                                          intervals, tests and corrections of values of your own
    visir.denominators("t2i R@1=37.82,R@5=82.36")       which numbers of queries can give printed digits
    visir.explain(evaluation, …)                         which reading of the protocol gives a published number
    visir.read_run("run.trec")                           runs of other tools
    visir.mteb_model("NAME")                             any model here as a model for mteb.evaluate
    visir.submit("CIRCO/", model, out="answers.json")    answers to a test split whose judgements a server keeps
    visir.load_cross_encoder("cross-encoder/…")          a model that scores pairs: evaluate(…, rerank=it)

Analyse
    visir.stress(photos, model)                          what perturbed captions and pictures cost
    visir.perturb(photos, …), visir.shortcuts            collections perturbed, or with shortcuts, on purpose
    visir.probe(…), visir.granularity(…)                 what vectors hold; how fine-grained captions are
    visir.truncation("docci/", model)                    what is lost of long captions, and what it costs

Train
    visir.train("clip-finetune", data="mine.csv")        a TrainedModel, which stands wherever a model does
    visir.sparsify(…)                                    dense vectors become weighted words; visir.recipes() lists all

Applications
    visir.products, visir.sessions                       catalogues; logs of shops
    import visir_papers                                  the tables of the papers: pip install visir-papers

A name (a string or a path) is accepted wherever an object is. What you get shows itself: in a notebook with pictures,
tables and plots; `.to_pandas()`, `.to_arrow()`, `.to_latex()`, `.to_markdown()`, `.plot()` where they make sense.
Errors are `visir.VisirError` and say what to do next. Names are imported when first used:
`import visir` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir import wiring as _wiring  # noqa: F401  (before all else)
from visir.lazy import lazy

if TYPE_CHECKING:
    from visir import products as products
    from visir import sessions as sessions
    from visir import shortcuts as shortcuts
    from visir import stats as stats
    from visir.collections import open as open
    from visir.collections.check import check as check
    from visir.encoders import Encoder as Encoder
    from visir.encoders import encode as encode
    from visir.encoders import load as load
    from visir.encoders import load_cross_encoder as load_cross_encoder
    from visir.encoders.families import models as models
    from visir.errors import VisirError as VisirError
    from visir.evaluation import Comparison as Comparison
    from visir.evaluation import Evaluation as Evaluation
    from visir.evaluation import denominators as denominators
    from visir.evaluation import explain as explain
    from visir.evaluation.classification.classify import classify as classify
    from visir.evaluation.compare import compare as compare
    from visir.evaluation.evaluate import evaluate as evaluate
    from visir.evaluation.granularity import granularity as granularity
    from visir.evaluation.measures import measures as measures
    from visir.evaluation.mteb import mteb_model as mteb_model
    from visir.evaluation.probes import probe as probe
    from visir.evaluation.stress.stress import stress as stress
    from visir.evaluation.submit import submit as submit
    from visir.evaluation.truncation_cost import truncation as truncation
    from visir.library import Library as Library
    from visir.library import index as index
    from visir.library.query import Query as Query
    from visir.reports.side_by_side import report as report
    from visir.reports.site import publish as publish
    from visir.retrieval import read_run as read_run
    from visir.retrieval.searching import search as search
    from visir.robustness.perturb import perturb as perturb
    from visir.sparse import sparsify as sparsify
    from visir.sparse import words as words
    from visir.studies.profile.profile import profile as profile
    from visir.training import TrainedModel as TrainedModel
    from visir.training import recipes as recipes
    from visir.training import train as train
    from visir.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy(__name__, apart={"papers": "visir-papers"})

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
    visir.products, visir.sessions, visir.papers         catalogues; logs of shops; the tables of the papers

A name (a string or a path) is accepted wherever an object is. What you get shows itself: in a notebook with pictures,
tables and plots; `.to_pandas()`, `.to_arrow()`, `.to_latex()`, `.to_markdown()`, `.plot()` where they make sense.
Errors are `visir.VisirError` and say what to do next. Names are imported when first used:
`import visir` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir import papers, products, sessions, shortcuts
    from visir.collections import open
    from visir.collections.check import check
    from visir.encoders import Encoder, encode, load, load_cross_encoder
    from visir.encoders.families import models
    from visir.errors import VisirError
    from visir.evaluation import Comparison, Evaluation, compare, evaluate, explain
    from visir.evaluation.classification.classify import classify
    from visir.evaluation.granularity import granularity
    from visir.evaluation.measures.measure import measures
    from visir.evaluation.mteb import mteb_model
    from visir.evaluation.probes import probe
    from visir.evaluation.stress.stress import stress
    from visir.evaluation.submit import submit
    from visir.evaluation.truncation_cost import truncation
    from visir.library import Library, index
    from visir.library.query import Query
    from visir.retrieval import read_run
    from visir.retrieval.searching import search
    from visir.robustness.perturb import perturb
    from visir.sparse import sparsify, words
    from visir.studies.profile.profile import profile
    from visir.training import TrainedModel, recipes, train
    from visir.version import __version__

__getattr__, __dir__ = lazy(
    __name__,
    {
        "open": "visir.collections",
        "check": "visir.collections.check",
        "__version__": "visir.version",
        "Encoder": "visir.encoders",
        "load": "visir.encoders",
        "load_cross_encoder": "visir.encoders",
        "models": "visir.encoders.families",
        "encode": "visir.encoders",
        "recipes": "visir.training",
        "train": "visir.training",
        "TrainedModel": "visir.training",
        "VisirError": "visir.errors",
        "Query": "visir.library.query",
        "read_run": "visir.retrieval",
        "search": "visir.retrieval.searching",
        "sparsify": "visir.sparse",
        "words": "visir.sparse",
        "evaluate": "visir.evaluation",
        "classify": "visir.evaluation.classification.classify",
        "compare": "visir.evaluation",
        "explain": "visir.evaluation",
        "measures": "visir.evaluation.measures.measure",
        "Comparison": "visir.evaluation",
        "Evaluation": "visir.evaluation",
        "mteb_model": "visir.evaluation.mteb",
        "stress": "visir.evaluation.stress.stress",
        "profile": "visir.studies.profile.profile",
        "submit": "visir.evaluation.submit",
        "probe": "visir.evaluation.probes",
        "perturb": "visir.robustness.perturb",
        "granularity": "visir.evaluation.granularity",
        "truncation": "visir.evaluation.truncation_cost",
        "index": "visir.library",
        "Library": "visir.library",
        "papers": "visir.papers",
        "products": "visir.products",
        "sessions": "visir.sessions",
        "shortcuts": "visir.shortcuts",
    },
)

__all__ = [
    "Comparison",
    "Encoder",
    "Evaluation",
    "Library",
    "Query",
    "TrainedModel",
    "VisirError",
    "__version__",
    "check",
    "classify",
    "compare",
    "encode",
    "evaluate",
    "explain",
    "granularity",
    "index",
    "load",
    "load_cross_encoder",
    "measures",
    "models",
    "mteb_model",
    "open",
    "papers",
    "perturb",
    "probe",
    "products",
    "profile",
    "read_run",
    "recipes",
    "search",
    "sessions",
    "shortcuts",
    "sparsify",
    "stress",
    "submit",
    "train",
    "truncation",
    "words",
]

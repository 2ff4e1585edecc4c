"""The reference of the Python surface: a short page for each part, with what the parts themselves export."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, NamedTuple

FOLDER = "reference/python"


class Part(NamedTuple):
    """A page: its title, a sentence, and what is on it.

    `targets` are names of objects; a name that ends in `.*` stands for all that its package exports.
    """

    title: str
    about: str
    targets: tuple[str, ...]


PARTS: dict[str, Part] = {
    "collection-records": Part(
        "visir.records: collections and tasks",
        "What is searched.",
        tuple(
            f"visir.records.{name}" for name in ("Collection", "Items", "Task", "TaskFile", "Gallery", "Pools", "Qrels")
        ),
    ),
    "result-records": Part(
        "visir.records: runs and results",
        "What a search answers, and what is measured.",
        tuple(f"visir.records.{name}" for name in ("Run", "Ranks", "Protocol", "Result")),
    ),
    "vector-records": Part(
        "visir.records: vectors",
        "What encoders give.",
        tuple(
            f"visir.records.{name}"
            for name in (
                "Embeddings",
                "SparseEmbeddings",
                "MultiVectorEmbeddings",
                "TokenVectors",
                "Vocabulary",
                "EncoderCard",
            )
        ),
    ),
    "catalogue-records": Part(
        "visir.records: catalogues and views",
        "Products, and collections that were changed on purpose.",
        tuple(f"visir.records.{name}" for name in ("Catalogue", "Corrupted", "Shortcuts", "Injected")),
    ),
    "collections": Part(
        "visir.collections",
        "Collections and tasks are read, drawn, saved.",
        (
            "visir.collections.*",
            *(
                "visir.collections.images.ImageReader",
                "visir.collections.portable.save",
                "visir.collections.portable.load",
            ),
            *("visir.collections.scenes.scenes", "visir.collections.scenes.Scene", "visir.collections.scenes.render"),
        ),
    ),
    "encoders": Part("visir.encoders", "Models that turn pictures and texts into vectors.", ("visir.encoders.*",)),
    "towers": Part(
        "visir.encoders.towers",
        "Networks of one side that visir trains.",
        (
            *("visir.encoders.towers.base.Backbone", "visir.encoders.towers.base.Tower"),
            *("visir.encoders.towers.base.HeadSpec", "visir.encoders.towers.base.Head"),
            *("visir.encoders.towers.resnet.ResNetBackbone", "visir.encoders.towers.resnet.SmallCNNBackbone"),
            *("visir.encoders.towers.gru.GRUBackbone", "visir.encoders.towers.gru.WordVocabulary"),
        ),
    ),
    "retrieval": Part(
        "visir.retrieval",
        "Exact search, indexes, runs.",
        (
            "visir.retrieval.*",
            *(
                "visir.retrieval.exact.search",
                "visir.retrieval.exact.search_both",
                "visir.retrieval.exact.SearchResult",
            ),
            *("visir.retrieval.ranks.ranks_of", "visir.retrieval.fusion.fuse", "visir.retrieval.rerank.rerank"),
        ),
    ),
    "training": Part("visir.training", "Recipes go in, trained models come out.", ("visir.training.*",)),
    "objectives": Part(
        "visir.training.losses",
        "What is minimised in training.",
        (
            *(f"visir.training.losses.{name}" for name in ("InfoNCE", "Triplet", "Cosine")),
            *(f"visir.training.objective.{name}" for name in ("IFM", "LTD", "ITD")),
            *("visir.training.trainer_losses.ObjectiveLoss", "visir.sparse.trainer_loss.D2SLoss"),
        ),
    ),
    "training-loop": Part(
        "visir.training: the loop",
        "For models of your own.",
        tuple(
            f"visir.training.{name}"
            for name in (
                "loop.fit",
                "loop.FitResult",
                "learner.Learner",
                "learner.DualEncoder",
                "checkpoint.Checkpoint",
            )
        ),
    ),
    "evaluation": Part("visir.evaluation", "Systems are measured, compared and explained.", ("visir.evaluation.*",)),
    "classification": Part(
        "visir.evaluation.classification",
        "Pictures are classified by prompts and by a few examples.",
        (
            "visir.evaluation.classification.classify.classify",
            "visir.evaluation.classification.result.Classification",
            "visir.evaluation.classification.result.ClassifierAccuracy",
            "visir.evaluation.classification.result.Accuracy",
            "visir.evaluation.classification.labelling.PictureLabels",
        ),
    ),
    "measures": Part(
        "visir.evaluation.measures",
        "The measures, and significance.",
        ("visir.evaluation.measures.*", "visir.evaluation.measures.Measure"),
    ),
    "stats": Part("visir.stats", "Intervals, tests and corrections, for values of your own too.", ("visir.stats.*",)),
    "published": Part(
        "visir.evaluation.published",
        "Printed tables of papers, and how far a result agrees.",
        ("visir.evaluation.published.*",),
    ),
    "sparse": Part("visir.sparse", "Vectors over words.", ("visir.sparse.*",)),
    "robustness": Part(
        "visir.robustness",
        "Captions and pictures are perturbed.",
        (
            "visir.robustness.perturb.perturb",
            "visir.robustness.perturbations.*",
            "visir.robustness.corruptions.*",
            "visir.robustness.granularity.*",
        ),
    ),
    "shortcuts": Part("visir.shortcuts", "Numbers that an image and its captions share.", ("visir.shortcuts.*",)),
    "library": Part(
        "visir.library",
        "A folder of photos, made searchable.",
        (
            "visir.library.*",
            "visir.library.searcher.Searcher",
            "visir.library.query.Query",
            "visir.library.results.ResultPage",
        ),
    ),
    "service": Part(
        "visir.library.service",
        "The HTTP service over libraries.",
        ("visir.library.service.app.create_app", "visir.library.service.settings.ServiceSettings"),
    ),
    "products": Part("visir.products", "Catalogues of products, and their categories.", ("visir.products.*",)),
    "sessions": Part("visir.sessions", "Logs of shops become sessions.", ("visir.sessions.*",)),
    "papers": Part(
        "visir_papers",
        "Tables and figures of papers, as studies.",
        ("visir_papers.*", "visir_papers.study.Study"),
    ),
    "reports": Part("visir.reports", "Tables and pages.", ("visir.reports.*",)),
    "display": Part("visir.display", "How records show themselves.", ("visir.display.Displayed",)),
    "errors": Part("visir.errors", "What is raised.", ("visir.errors.VisirError",)),
}


def pages() -> dict[str, str]:
    """Path → Markdown of every page; the first one lists what `import visir` offers, and the other pages."""
    rows = [f"| [`{part.title}`]({name}.md) | {part.about} |" for name, part in PARTS.items()]
    index = (
        "# Python\n\n## import visir\n\n"
        "These names are all that most people need. Wherever they take an object (a model, a collection), they take its "
        f"name or path as well.\n\n{_surface()}\n\n"
        "## Parts\n\n| part | what it is |\n|---|---|\n" + "\n".join(rows) + "\n"
    )
    elsewhere = {place for part in PARTS.values() for place in _all_places(part)}
    rest = tuple(place for place in _places("visir.*") if place not in elsewhere)
    parts = {"visir": Part("visir", "What `import visir` offers and no other page has.", rest), **PARTS}
    return {f"{FOLDER}/index.md": index, **{f"{FOLDER}/{name}.md": _page(part) for name, part in parts.items()}}


def _surface() -> str:
    import visir

    lines = ["| name | what it does |", "|---|---|"]
    for name in visir.__all__:
        target = getattr(visir, name)
        first = (inspect.getdoc(target) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        if inspect.ismodule(target):
            lines.append(f"| `visir.{name}` | {first} |")
        elif inspect.isclass(target) or inspect.isfunction(target):
            lines.append(f"| [`visir.{name}`][{_place(target)}] | {first} |")
    return "\n".join(lines)


def _page(part: Part) -> str:
    parts = [f"# {part.title}", part.about]
    places = _all_places(part)
    parts += [f"::: {place}\n    options: {{ heading_level: 2 }}" for place in places]
    return "\n\n".join(parts) + "\n"


def _all_places(part: Part) -> list[str]:
    return list(dict.fromkeys(place for target in part.targets for place in _places(target)))


def _places(target: str) -> list[str]:
    """Where the objects that a target names are defined. Constants and modules are left out."""
    package, _, name = target.rpartition(".")
    if name != "*":
        module = importlib.import_module(package)
        return [_place(getattr(module, name))]
    module = importlib.import_module(package)
    exported = getattr(module, "__all__", ())
    objects = [getattr(module, one) for one in exported]
    return [_place(one) for one in objects if inspect.isclass(one) or inspect.isfunction(one)]


def _place(target: Any) -> str:
    target = inspect.unwrap(target)
    return f"{target.__module__}.{target.__qualname__}"

"""Who stands above: the one file that names rooms which come later on the road, as "module:attribute".

`visir/__init__.py` runs it first of all. What lies below asks `visir.plugins` for a part by its name, and the module is
imported when the part is used. So nothing below names anything above, not even in a string.
"""

from __future__ import annotations

from visir.plugins import BUILT_IN, PARTS

BUILT_IN.update(
    products="visir.products.application:APPLICATION",
    sessions="visir.sessions.application:APPLICATION",
    library="visir.library.application:APPLICATION",
)

CHECKPOINTS = (
    *("adapters", "bag-of-words", "combiner", "embeddings", "joined", "sparse", "towers", "views", "with-whole"),
)
"""Kinds of folders that hold a model."""

PARTS.update(
    {
        # how visir's own records are shown
        "views": "visir.reports.views",
        # what opens the folders that visir made, by their kind, and results of mteb
        "folder library": "visir.library.library:Library.open",
        "folder result": "visir.evaluation.results:load_evaluation",
        "folder classification": "visir.evaluation.classification.labelling:load_classification",
        **{
            f"folder {kind}": "visir.reports.report:StudyReport.load"
            for kind in (
                "stress",
                "granularity",
                "probes",
                "description",
                "ab-test",
                "categories-result",
                "report",
                "site",
            )
        },
        "folder index": "visir.retrieval.kinds:open_index",
        "folder text-index": "visir.retrieval.text.index:TextIndex.open",
        "folder parts": "visir.encoders.parts_folder:Parts",
        "folder sparse-embeddings": "visir.sparse.encoder:load_sparse",
        "folder sessions": "visir.sessions.making:Sessions.open",
        "folder purchase-model": "visir.sessions.prediction.purchase_model:load_model",
        "folder intent-study": "visir.sessions.reports.intent:open_study",
        **{f"folder {kind}": "visir.training.trained:open_checkpoint" for kind in CHECKPOINTS},
        # what else than a manifest knows which files such a folder has
        "check library": "visir.library.check:check_beside_manifest",
        "check parts": "visir.encoders.parts_folder:check_parts",
        "results of mteb": "visir.evaluation.mteb:read_mteb",
        # what searches exactly, for kinds of index that search nearly
        "usual kind of index": "visir.retrieval.kinds:usual_kind",
        # the picture of an id of a collection
        "picture of": "visir.collections.check:picture_of",
        # which module has which family of models
        "catalogue of encoders": "visir.encoders.catalogue",
        "refusal of a folder of transformers": "visir.encoders.models.transformers_models:refusal_of",
        # checkpoints that rooms after the encoders made, by their kind: the module
        "checkpoint sparse": "visir.sparse.encoder",
    }
)

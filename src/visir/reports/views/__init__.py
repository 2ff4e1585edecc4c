"""How records are shown: which function makes the blocks, the table, the plot … of each class.

`visir.display` finds it here by the class's package and name. Files are imported when something is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from visir.plugins import load_target
from visir.reports.formats import to_arrow as to_arrow
from visir.reports.formats import to_latex as to_latex
from visir.reports.formats import to_markdown as to_markdown
from visir.reports.table import Table


class View(NamedTuple):
    """Where the functions of one class are: the module, and their names (or "module:name"); "" for none."""

    module: str
    blocks: str = ""  # what a notebook shows; the table alone where it is left out
    table: str = ""
    arrow: str = ""  # columns for computing, where the table is not enough: of Arrow, or a table
    plot: str = ""
    save: str = ""  # writes a folder, where the report does not
    report: str = ""  # describes it as a `StudyReport`, whose notebook view is its own

    def function(self, name: str) -> Callable[..., Any] | None:
        """The function of one of the fields, None where there is none."""
        if name == "blocks" and self.report and not self.blocks:
            return lambda thing: self._named(self.report)(thing).blocks()
        if name == "save" and self.report and not self.save:
            return lambda thing, folder: self._named(self.report)(thing).save(folder, replace=True)
        if name == "page" and self.report:
            return lambda thing, path, replace: self._named(self.report)(thing).write(path, replace=replace)
        if name == "blocks" and not self.blocks:
            return lambda thing: [self._named(self.table)(thing)]
        made = self._named(getattr(self, name)) if getattr(self, name) else None
        if name != "arrow" or made is None:
            return made
        return lambda thing: to_arrow(columns) if isinstance(columns := made(thing), Table) else columns

    def _named(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = load_target(name if ":" in name else f"{self.module}:{name}")
        return function


def to_notebook(blocks: Sequence[Any], label: str) -> str:
    """The blocks as HTML for the output of a notebook's cell."""
    from visir.reports.shown import to_notebook as shown

    return shown(blocks, label)


_EVALUATION = "visir.reports.views.evaluation"
_RECORDS = "visir.reports.views.records"
_LISTS = "visir.reports.views.lists"
_WORDS = "visir.reports.views.words"
_BY_LABEL = "visir.reports.by_label"
_STRESS = "visir.reports.stress"
_GRANULARITY = "visir.reports.granularity"
_PROBES = "visir.reports.probes"
_CLASSES = "visir.reports.classification"
_PROFILE = "visir.reports.profile"
_RESULT = View(
    "visir.reports.views.evaluation",
    "evaluation_blocks",
    "evaluation_table",
    "evaluation_arrow",
    "evaluation_plot",
    report="visir.reports.evaluation:evaluation_report",
)
_TRAINING = View("visir.reports.training", "training_blocks", "training_table", "training_arrow", "training_plot")
_TRAINED = _TRAINING._replace(report="training_report")
_VECTORS = View(_RECORDS, "embeddings_blocks")

VIEWS = {
    "records.Collection": View(_RECORDS, "collection_blocks", arrow="collection_arrow"),
    "records.Items": View(_RECORDS, "items_blocks"),
    "records.Task": View(_RECORDS, "task_blocks"),
    "records.Catalogue": View(_RECORDS, "catalogue_blocks"),
    "records.Qrels": View(_RECORDS, "qrels_blocks"),
    "records.Run": View(_RECORDS, "run_blocks"),
    "records.EncoderCard": _VECTORS,
    "records.Embeddings": _VECTORS,
    "records.SparseEmbeddings": _VECTORS,
    "records.MultiVectorEmbeddings": _VECTORS,
    "records.Protocol": View(_EVALUATION, "protocol_blocks"),
    "records.Result": _RESULT,
    "collections.Report": View(_LISTS, "check_blocks", "check_table"),
    "encoders.ModelList": View(_LISTS, table="models_table"),
    "training.RecipeList": View(_LISTS, table="recipes_table"),
    "training.TrainedModel": _TRAINED,
    "training.TrainingCurve": _TRAINING,
    "sparse.TopTerms": View(_WORDS, "terms_blocks", "terms_table", "terms_arrow"),
    "sparse.MatchedWords": View(
        _WORDS, "matched_words_blocks", "matched_words_table", "matched_words_arrow", "matched_words_plot"
    ),
    "evaluation.Evaluation": _RESULT,
    "evaluation.Comparison": View(
        _EVALUATION,
        "comparison_blocks",
        "visir.reports.tables:compared_systems_table",
        "comparison_arrow",
        "visir.reports.plots:difference_dots",
        report="comparison_report",
    ),
    "evaluation.Explanation": View(_EVALUATION, "explanation_blocks", "explanation_table"),
    "evaluation.Denominators": View(_EVALUATION, "denominators_blocks", "visir.reports.tables:denominators_table"),
    "evaluation.MeasureList": View(_LISTS, table="measures_table"),
    "evaluation.ChosenWeight": View(_LISTS, table="chosen_weight_table"),
    "evaluation.Submission": View(_LISTS, "submission_blocks"),
    "evaluation.ByLabel": View(_BY_LABEL, "", "by_label_table", "by_label_arrow", "by_label_plot"),
    "evaluation.LabelDifferences": View(_BY_LABEL, "", "differences_table", "differences_arrow", "differences_plot"),
    "evaluation.Truncation": View(
        _BY_LABEL, "truncation_tables", "truncation_table", "truncation_arrow", "truncation_plot"
    ),
    "evaluation.Stress": View(_STRESS, "", "stress_table", "", "stress_plot", "save_stress", "stress_report"),
    "evaluation.StressByLabel": View(_STRESS, "", "stress_by_label_table", "stress_by_label_arrow"),
    "evaluation.GranularityStudy": View(
        _GRANULARITY, "", "granularity_table", "tidy_means", "granularity_plot", report="granularity_report"
    ),
    "evaluation.ProbeResult": View(_PROBES, "", "facts_table", "", "probes_plot", report="probe_report"),
    "evaluation.Classification": View(
        _CLASSES, "", "accuracies_table", "tidy_accuracies", "classification_plot", report="classification_report"
    ),
    "evaluation.PictureLabels": View(_CLASSES, "labels_blocks", "labels_table"),
    "studies.ModelProfile": View(
        _PROFILE, "", "profile_table", "tidy_profile", "strength_dots", report="profile_report"
    ),
    "studies.Audit": View("visir.reports.shortcut_audit", "", "audit_table", "", "audit_plot", report="audit_report"),
    "reports.StudyReport": View("visir.reports.report", "blocks", "table", "", "plot", report="itself"),
    "reports.Plot": View("visir.reports.plots", "plot_blocks"),
    "reports.Table": View("visir.reports.views.parts", table="itself"),
}
"""Package and class to its view; applications name theirs in their `APPLICATION`."""

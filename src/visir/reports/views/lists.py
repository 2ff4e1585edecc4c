"""What lists itself: models, recipes, measures, findings of a check, weights that were tried, files of a submission."""

from __future__ import annotations

from visir.collections.check import Report
from visir.encoders.families import KnownModel, ModelList
from visir.evaluation.measures.measure import MeasureList
from visir.evaluation.submit import Submission
from visir.evaluation.text_weight import ChosenWeight
from visir.reports.page import Block, Paragraph
from visir.reports.table import Cell, Column, Table
from visir.reports.views.parts import facts
from visir.training.shipped import GROUPS, RecipeList

# Models.


NOTE = "empty: depends on the model, or was not verified"


def models_table(models: ModelList) -> Table:
    """One row for each model; the facts of a single one, one below the other."""
    if len(models) == 1:
        return model_facts(models[0])
    columns = [
        Column("model"),
        Column("what it is"),
        Column("takes"),
        Column("vectors"),
        Column("dimension", 0),
        Column("million weights", 0),
        Column("MB", 0),
        Column("licence"),
        Column("languages"),
        Column("here"),
    ]
    return Table.of(columns, [_row(model) for model in models], notes=[NOTE])


def model_facts(model: KnownModel) -> Table:
    """Everything that is known about a model."""
    refusal: list[list[Cell]] = [["cannot be read here", model.refusal]] if model.refusal else []
    rows: list[list[Cell]] = [
        ["name", model.name],
        ["what it is", model.title],
        ["takes", ", ".join(model.takes)],
        ["vectors", model.form or None],
        ["dimension", f"{model.dimension:,}" if model.dimension else None],
        ["million weights", f"{model.parameters:,.1f}" if model.parameters else None],
        ["size of the weights", f"{model.megabytes:,} MB" if model.megabytes else None],
        ["licence", model.licence or None],
        ["languages of texts", model.languages or None],
        ["architecture", model.architecture or None],
        ["family", model.family],
        ["runs code from its page", f"yes: it is loaded as {model.name}?code=trusted" if model.remote_code else "no"],
        *refusal,
        ["packages are installed", model.installed],
        ["on this machine", model.here],
        ["facts from", model.source or None],
    ]
    return Table.of([Column("fact"), Column("value")], rows, caption=model.name, notes=[NOTE])


def _row(model: KnownModel) -> list[Cell]:
    return [
        model.name,
        model.title,
        ", ".join(model.takes),
        model.form or None,
        model.dimension or None,
        model.parameters or None,
        model.megabytes or None,
        model.licence or None,
        model.languages or None,
        here(model),
    ]


def details(model: KnownModel) -> str:
    """The facts of a model in a line."""
    parts = [
        ", ".join(model.takes),
        f"{model.form} {model.dimension:,}" if model.dimension else model.form,
        f"{model.megabytes:,} MB" if model.megabytes else "",
        model.licence,
        {"English": "", "many": "many languages"}.get(model.languages, model.languages),
        "runs code from its page" if model.remote_code else "",
        {"download": "", "yes": "on this machine"}.get(here(model), here(model)),
    ]
    return " · ".join(part for part in parts if part)


def here(model: KnownModel) -> str:
    """Whether a model loads here, in a word or two."""
    if not model.installed:
        return "not installed"
    return "yes" if model.here else "download" if "/" in model.name else "–"


# The list of recipes as a table.


def recipes_table(recipes: RecipeList) -> Table:
    """One row for each recipe, under the heading of its group."""
    rows = [[GROUPS[recipe.group], recipe.name, recipe.title] for recipe in recipes]
    return Table.of([Column("when to use it"), Column("recipe"), Column("what it is")], rows)


# The list of measures: name, aliases, formula, and the other reading.


def measures_table(listed: MeasureList) -> Table:
    """One row for each measure."""
    rows = [
        [measure.pattern, ", ".join(measure.aliases), measure.says, measure.formula, measure.differs]
        for measure in listed.measures.values()
    ]
    columns = ["name", "also called", "question", "formula", "the other reading"]
    return Table.of([Column(name) for name in columns], rows, caption="Measures")


# What a check of a source found: a table of findings, the errors first.


_LEVELS = ("error", "warning", "note")


def check_blocks(report: Report) -> list[Block]:
    """The verdict, how much there is, and the findings."""
    counts = [f"{count:,} {name}" for name, count in report.counts.items()]
    parts: list[Block] = [facts(report.name, *counts), Paragraph(report.verdict)]
    return [*parts, check_table(report)] if report.findings else parts


def check_table(report: Report) -> Table:
    """One row for each finding."""
    columns = [Column("level"), Column("finding"), Column("count", 0), Column("examples")]
    ordered = sorted(report.findings, key=lambda finding: _LEVELS.index(finding.level))
    return Table.of(columns, [(each.level, each.kind, each.count, "; ".join(each.examples)) for each in ordered])


# The weights of a text beside an image that were tried, as a table.


def chosen_weight_table(chosen: ChosenWeight) -> Table:
    """One row for each weight; the best one is marked."""
    rows = [
        [f"{weight:g}", f"{value:.4f}", "chosen" if weight == chosen.text_weight else ""]
        for weight, value in chosen.values.items()
    ]
    return Table.of([Column("share of the text"), Column(f"{chosen.measure} on {chosen.split}"), Column("")], rows)


# The files of a submission, in a notebook.


def submission_blocks(submission: Submission) -> list[Block]:
    """The files, and where they are handed in."""
    rows = [[str(file), submission.where] for file in submission.files]
    return [Table.of([Column("file"), Column("hand in")], rows)]

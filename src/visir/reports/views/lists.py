"""What lists itself: models, recipes, measures, findings of a check, weights that were tried, files of a submission."""

from __future__ import annotations

from collections.abc import Callable

from visir.collections.check import Report
from visir.encoders.families import KnownModel, ModelList
from visir.evaluation.measures import MeasureList
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
        Column("model", of="name"),
        Column("what it is", of="title"),
        Column("takes", of=lambda model: ", ".join(model.takes)),
        Column("vectors", of=_or_none("form")),
        Column("dimension", 0, of=_or_none("dimension")),
        Column("longest text", 0, of=_or_none("tokens")),
        Column("million weights", 0, of=_or_none("parameters")),
        Column("MB", 0, of=_or_none("megabytes")),
        Column("licence", of=_or_none("licence")),
        Column("languages", of=_or_none("languages")),
        Column("here", of=here),
    ]
    return Table.over(models, columns, notes=[NOTE])


def _or_none(name: str) -> Callable[[KnownModel], Cell]:
    return lambda model: getattr(model, name) or None


def model_facts(model: KnownModel) -> Table:
    """Everything that is known about a model."""
    refusal: list[list[Cell]] = [["cannot be read here", model.refusal]] if model.refusal else []
    rows: list[list[Cell]] = [
        ["name", model.name],
        ["what it is", model.title],
        ["takes", ", ".join(model.takes)],
        ["vectors", model.form or None],
        ["dimension", f"{model.dimension:,}" if model.dimension else None],
        ["longest text", f"{model.tokens:,} tokens" if model.tokens else None],
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


def details(model: KnownModel) -> str:
    """The facts of a model in a line."""
    parts = [
        ", ".join(model.takes),
        f"{model.form} {model.dimension:,}" if model.dimension else model.form,
        f"{model.tokens:,} tokens" if model.tokens else "",
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
    columns = [
        Column("when to use it", of=lambda recipe: GROUPS[recipe.group]),
        *(Column("recipe", of="name"), Column("what it is", of="title")),
    ]
    return Table.over(recipes, columns)


# The list of measures: name, aliases, formula, and the other reading.


def measures_table(listed: MeasureList) -> Table:
    """One row for each measure."""
    columns = [
        *(Column("name", of="pattern"), Column("also called", of=lambda measure: ", ".join(measure.aliases))),
        *(Column("question", of="says"), Column("formula", of="formula"), Column("the other reading", of="differs")),
    ]
    return Table.over(listed.measures.values(), columns, caption="Measures")


# What a check of a source found: a table of findings, the errors first.


_LEVELS = ("error", "warning", "note")


def check_blocks(report: Report) -> list[Block]:
    """The verdict, how much there is, and the findings."""
    counts = [f"{count:,} {name}" for name, count in report.counts.items()]
    parts: list[Block] = [facts(report.name, *counts), Paragraph(report.verdict)]
    return [*parts, check_table(report)] if report.findings else parts


def check_table(report: Report) -> Table:
    """One row for each finding."""
    columns = [
        *(Column("level", of="level"), Column("finding", of="kind"), Column("count", 0, of="count")),
        Column("examples", of=lambda finding: "; ".join(finding.examples)),
    ]
    return Table.over(sorted(report.findings, key=lambda finding: _LEVELS.index(finding.level)), columns)


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
    return [Table.pairs(((str(file), submission.where) for file in submission.files), ("file", "hand in"))]

"""The list of models as a table; a single model with everything that is known about it."""

from __future__ import annotations

from visir.encoders.families import KnownModel, ModelList
from visir.reports.page import Block
from visir.reports.table import Cell, Column, Table

NOTE = "empty: depends on the model, or was not verified"


def table(models: ModelList) -> Table:
    """One row for each model; the facts of a single one, one below the other."""
    if len(models) == 1:
        return facts(models[0])
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


def blocks(models: ModelList) -> list[Block]:
    """The table."""
    return [table(models)]


def facts(model: KnownModel) -> Table:
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

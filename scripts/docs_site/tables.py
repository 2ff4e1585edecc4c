"""Tables of the documentation that are printed from the code's own data, so that they are never written twice.

A page holds a line `<!-- table: NAME -->`; the table is put there when the site is built.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, get_args


def filled(markdown: str) -> str:
    """The page with a table in place of every marker; an unknown name stops the build."""
    return re.sub(r"<!-- table: ([\w-]+) -->", lambda found: TABLES[found.group(1)](), markdown)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Iterable[str]) -> str:
        return (
            "| "
            + " | ".join(cell.replace("<", "&lt;").replace("|", "\\|").replace("\n", "<br>") for cell in cells)
            + " |"
        )

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def _families() -> str:
    from visir.encoders.families import every_family

    return _table(
        ("family", "name it as", "example", "needs"),
        (
            (f.title, f"`{f.form}`", f"`{f.example}`", f"`visir[{f.extra}]`" if f.extra else "core")
            for f in every_family()
        ),
    )


def _models() -> str:
    """One table for each group of well-known models."""
    from visir.encoders.families import OF_FAMILIES, models

    listed = models()
    parts = []
    for group in (name for name in listed.groups if name != OF_FAMILIES):
        rows = [
            (
                f"`{model.name}`\n{model.title}" + (" (runs code from its page)" if model.remote_code else ""),
                ", ".join(model.takes),
                f"{model.form} {model.dimension:,}" if model.dimension else model.form,
                f"{model.megabytes:,}" if model.megabytes else "",
                model.licence,
                model.languages,
            )
            for model in listed
            if model.group == group
        ]
        columns = ("model", "takes", "vectors", "MB", "licence", "languages")
        parts.append(f"**{group}**\n\n{_table(columns, rows)}")
    return "\n\n".join([*parts, "An empty cell was not verified. `visir models NAME` says where a fact is from."])


def _measures() -> str:
    """One section for every measure."""
    from visir.evaluation.measures import MEASURES

    return "\n\n".join(_measure(measure) for _, measure in MEASURES.items())


def _measure(measure: Any) -> str:
    rows = {
        "formula": measure.formula,
        "k": measure.cutoff_says,
        "you may also type": ", ".join(f"`{alias}`" for alias in measure.aliases),
        "papers call it": measure.papers,
        "do not confuse with": measure.differs,
        "better": "lower" if measure.best == "low" else "higher",
        "source": measure.source,
    }
    table = _table((f"`{measure.pattern}`", ""), ((name, text) for name, text in rows.items() if text))
    return f"## {measure.title}\n\n{measure.says}\n\n{table}"


def _formats() -> str:
    """One section for every format of collections."""
    from visir.collections.formats import FORMATS

    return "\n\n".join(_format(name, one) for name, one in FORMATS.items())


def _format(name: str, one: Any) -> str:
    layout = one.layout.strip().replace("<", "&lt;")
    parts = [
        f"## {name}",
        f"**{one.title}.**",
        f"Layout: {layout}",
        f"Source: {one.reference}" if one.reference else "",
    ]
    if one.options:
        rows = ((f"`{option.name}`", option.about, _shown_default(option.default)) for option in one.options)
        parts.append(_table(("option", "what it is", "default"), rows))
    return "\n\n".join(part for part in parts if part)


def _shown_default(value: Any) -> str:
    return "" if value is None else f"`{value}`"


def _formats_short() -> str:
    from visir.collections.formats import FORMATS

    return _table(("name", "what it is"), ((f"`{name}`", f.title) for name, f in FORMATS.items()))


def _perturbations() -> str:
    from visir.robustness.perturbations import PERTURBATIONS

    return _table(
        ("name", "title", "family", "what it does", "`severity` counts", "in the profile `paper`"),
        (
            (f"`{name}`", one.title, one.family, one.about, one.severity, _paper_profile(one))
            for name, one in PERTURBATIONS.items()
        ),
    )


def _paper_profile(one: Any) -> str:
    return "not there" if one.paper is None else one.paper_about or "the same"


def _layouts_of_catalogues() -> str:
    from visir.products.opening import FORMATS

    return _table(
        ("name", "what it is", "layout"), ((f"`{name}`", one.title, one.layout) for name, one in FORMATS.items())
    )


def _judgements() -> str:
    from visir.collections.formats import JUDGEMENTS

    return _table(
        ("judgements", "what they are", "layout", "sets"),
        ((f"`{name}`", j.title, j.layout, str(j.sets)) for name, j in JUDGEMENTS.items()),
    )


def _index_kinds() -> str:
    from visir.retrieval.kinds import KINDS, settings_of_kind

    def row(kind: Any) -> tuple[str, ...]:
        settings = "\n".join(f"`{name}={default}`: {about}" for name, default, about in settings_of_kind(kind))
        answers = "exact" if kind.exact else "approximate"
        needs = f"`visir[{kind.extra}]`" if kind.extra else "core"
        return f"`{kind.name}`", kind.title, kind.vectors, answers, settings, needs

    return _table(
        ("kind", "what it is", "vectors", "answers", "settings", "needs"), (row(kind) for _, kind in KINDS.items())
    )


def _export_forms() -> str:
    from visir.retrieval.sparse.export import EXPORTS

    return _table(
        ("form", "what it is, and who reads it", "documents", "queries"),
        ((f"`{name}`", one.title, f"`{one.documents}`", f"`{one.queries}`") for name, one in EXPORTS.items()),
    )


def _recipes(folder: str) -> str:
    """The recipes of one folder: the name, what the file's first paragraph says of it, and published figures."""
    from visir.training.shipped import shipped_recipes

    paths = sorted((one for one in shipped_recipes().values() if one.parent.name == folder), key=lambda one: one.stem)
    rows = [_recipe(path) for path in paths]
    if not any(row[2] for row in rows):
        return _table(("recipe", "what it is"), (row[:2] for row in rows))
    return _table(("recipe", "what it is", "published"), rows)


def _recipe(path: Path) -> tuple[str, str, str]:
    """Name, what it is, and the figures that a paper published, from the comment that opens the file.

    The comment holds the command; a paragraph on what is reproduced, followed by its figures on lines of their own from
    "Published: …" on; and notes that stay in the file. The paper's name stands above the table, not in every row.
    """
    paragraph = path.read_text(encoding="utf-8").split("\n#\n")[1].split("\n\n")[0]
    lines = [line.removeprefix("# ") for line in paragraph.splitlines()]
    first = next((at for at, line in enumerate(lines) if line.startswith("Published:")), len(lines))
    what = re.sub(r"^[^()]*\([^()]*\), (?=Tables? )", "", " ".join(lines[:first]))
    return f"`{path.stem}`", what, "\n".join(lines[first:]).removeprefix("Published: ")


def _settings() -> str:
    """Every key of a recipe, section by section: what the settings class says of itself, values and defaults."""
    from visir.training.recipe import Augmentation, HeadShape, Recipe
    from visir.training.settings import members

    parts = [_section("At the top", Recipe)]
    for name, field in Recipe.model_fields.items():
        for kind in members(field):
            tag = field.discriminator
            title = f"`[{name}]`" + (f', `{tag} = "{_tag(kind, tag)}"`' if isinstance(tag, str) else "")
            parts.append(_section(title, kind))
            inner = {key: one for key, one in kind.model_fields.items() if name == "auxiliary"}
            parts += [_section(f"`[{name}.{key}]`", one) for key, field in inner.items() for one in members(field)]
        if name == "text":
            parts += [_section("`[image.head]`, `[text.head]`", HeadShape), _section("`[image.augment]`", Augmentation)]
    return "\n\n".join(parts)


def _section(title: str, kind: Any) -> str:
    from visir.training.settings import members

    rows = [
        (f"`{key}`", _kind(kind.model_json_schema()["properties"][key]), _default(field))
        for key, field in kind.model_fields.items()
        if not members(field)
    ]
    text = f"### {title}\n\n{_with_bullets(inspect.getdoc(kind) or '')}"
    return text + ("\n\n" + _table(("key", "value", "default"), rows) if rows else "")


def _with_bullets(docstring: str) -> str:
    """A docstring whose section "Attributes:" is a list of Markdown."""
    text, _, attributes = docstring.partition("\n\nAttributes:\n")
    entries = re.sub(
        r"^    (\w+(?:, \w+)*): ", lambda entry: f"- `{entry[1].replace(', ', '`, `')}`: ", attributes, flags=re.M
    )
    return f"{text}\n\n{re.sub(r'^ {8}', '  ', entries, flags=re.M)}".rstrip()


def _default(field: Any) -> str:
    if field.is_required():
        return "–"
    default = field.get_default(call_default_factory=True)
    return f"`{json.dumps('none' if default is None else default, ensure_ascii=False)}`"


def _tag(kind: Any, key: str) -> str:
    return str(get_args(kind.model_fields[key].annotation)[0])


def _kind(schema: dict[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    match schema["type"]:
        case "null":
            return '`"none"`'
        case "array":
            items = schema.get("items") or schema.get("prefixItems", [{}])[0]
            return f"list of {_kind(items)}"
        case "integer" | "number":
            word = "whole number" if schema["type"] == "integer" else "number"
            signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
            bounds = [f"{sign} {schema[name]:g}" for name, sign in signs.items() if name in schema]
            return " ".join([word, ", ".join(bounds)]).strip()
        case "boolean":
            return "`true`, `false`"
    return "text"


def _granularity() -> str:
    from visir.robustness.granularity import FEATURES

    return _table(
        ("feature", "Table 1 calls it", "paper profile", "strict profile", "per noun"),
        (
            (f"`{f.name}`", f.title, f.paper_says, f.strict_says, "strict ÷ nouns" if f.per_noun else "as strict")
            for _, f in FEATURES.items()
        ),
    )


def _corruptions() -> str:
    from visir.robustness.corruptions import CORRUPTIONS, SEVERITIES

    return _table(
        ("name", "what it is", *(f"severity {one}" for one in SEVERITIES)),
        ((f"`{c.name}`", c.about, *(c.describe(one) for one in SEVERITIES)) for _, c in CORRUPTIONS.items()),
    )


def _published() -> str:
    from visir.evaluation.published import PlainTable, as_plain, every_table, open_table

    def row(name: str) -> tuple[str, ...]:
        table = open_table(name)
        shape = as_plain(table)
        kind = "plain" if isinstance(table, PlainTable) else "results"
        holds = f"{len(shape.rows)} × {len(shape.columns)}: " + (", ".join(shape.columns) or "")
        return f"`{name}`", table.title, kind, holds, str(len(shape.doubtful) or "")

    return _table(("name", "title", "kind", "rows × columns", "doubtful cells"), map(row, every_table()))


def _studies() -> str:
    """Every table and figure: what it is, its scales with their hours, or what it waits for."""
    from visir_papers.study import names, read_study

    def row(name: str) -> tuple[str, ...]:
        one = read_study(name)
        scales = ", ".join(f"`{scale}` {_hours(one.scale(scale).hours)}" for scale in one.scales)
        return f"`{name}`", one.paper, one.title, scales or f"not built yet: {one.not_built}"

    return _table(("name", "which", "what", "scales, about"), map(row, names()))


def _hours(hours: float) -> str:
    return f"{hours:g} h" if hours >= 1 else f"{60 * hours:.0f} min"


def _published_doubts() -> str:
    """The doubts as the files state them: one line may be about a whole column."""
    from visir.evaluation.published import CellDoubt, every_table, open_table

    def where(doubt: Any) -> str:
        if isinstance(doubt, CellDoubt):
            return ", ".join(filter(None, (doubt.row, doubt.column)))
        return ", ".join(filter(None, (doubt.system, doubt.collection, f"{doubt.task} {doubt.label}".strip())))

    rows = [(f"`{name}`", where(one), one.reason) for name in every_table() for one in open_table(name).doubtful]
    merged = [
        (name, "; ".join(place for other, place, why in rows if (other, why) == (name, reason)), reason)
        for name, reason in dict.fromkeys((name, reason) for name, _, reason in rows)
    ]
    return _table(("table", "where", "why"), merged)


def _readings() -> str:
    """Every axis of `visir explain` with its choices, and what each is computed from."""
    from visir.evaluation.explaining.readings import AXES

    def row(axis: Any) -> tuple[str, ...]:
        by_need: dict[str, list[str]] = {}
        for choice in axis.choices:
            where = "vectors" if choice.needs in ("vectors", "collection") else "result folder"
            by_need.setdefault(where, []).append(choice.words)
        folder, vectors = ("\n".join(by_need.get(where, ())) for where in ("result folder", "vectors"))
        return axis.asks, folder, vectors

    return _table(("question", "from the result folder", "with the collection and the vectors"), map(row, AXES))


TABLES: dict[str, Callable[[], str]] = {
    "families": _families,
    "models": _models,
    "measures": _measures,
    "formats": _formats,
    "formats-short": _formats_short,
    "perturbations": _perturbations,
    "catalogues": _layouts_of_catalogues,
    "judgements": _judgements,
    "index-kinds": _index_kinds,
    "export-forms": _export_forms,
    "settings": _settings,
    "granularity": _granularity,
    "published": _published,
    "published-doubts": _published_doubts,
    "corruptions": _corruptions,
    "readings": _readings,
    "recipes-own": lambda: _recipes("own"),
    "recipes-small": lambda: _recipes("recipes"),
    "recipes-ltd": lambda: _recipes("ltd"),
    "recipes-shortcuts": lambda: _recipes("shortcuts"),
    "studies": _studies,
}

"""The page of category-to-image search: numbers, errors, answers as pictures, and the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup
from PIL.Image import Image

from visir.errors import ConfigurationError, ImageError, nearest
from visir.products.evaluation import (
    CATEGORIES_RESULT,
    FILES,
    TABLE,
    CategoryEvaluation,
    FirstAnswers,
    Trial,
    contents,
    first_answers,
    hits,
)
from visir.products.reports.evaluation import (
    SETTING_WORDS,
    depth_bars,
    differences_table,
    distance_bars,
    errors_table,
    mean_columns,
    seen_lines,
    seen_table,
    setting_dots,
    setting_head,
    settings_table,
    systems_in_setting,
    words_notes,
)
from visir.products.task import Setting
from visir.records.catalogue import Catalogue
from visir.records.category_tree import NONE, CategoryTree
from visir.reports import page
from visir.reports.page import Block, Branch, Fold, Group, Inline, Paragraph, Section, Thumbnail, inline, thumbnails
from visir.reports.report import Chart, StudyReport
from visir.reports.shown import cut
from visir.reports.table import Column, Table
from visir.robustness.corruptions import pictures

# Answers as pictures: categories from general to specific, and what was found for each.


@dataclass(frozen=True)
class ShownProduct:
    """One product of an answer."""

    id: str  # its id
    title: str  # its title, or its id where it has none
    path: tuple[str, ...]  # the names of the categories of its path, the most general first
    right: bool | None  # whether it is a right answer; None where that is not known


@dataclass(frozen=True)
class CategoryAnswer:
    """A category and the answer to it."""

    name: str  # its name
    id: str  # its id
    level: int  # its level in the tree; 1 is the most general
    relevant: int  # how many products are right
    products: tuple[ShownProduct, ...]  # the answer, best first

    @property
    def hits(self) -> int:
        """How many of the shown products are right."""
        return sum(product.right is True for product in self.products)


CategoryPath = tuple[CategoryAnswer, ...]
"""The categories of one path, the most general first."""


class Products:
    """Titles and paths of products by id."""

    def __init__(self, catalogue: Catalogue, ids: Sequence[str]) -> None:
        shown_ids = pa.array(dict.fromkeys(ids), pa.string())
        rows = catalogue.products.take(pc.index_in(shown_ids, catalogue.products["id"].combine_chunks()))
        self._titles = dict(zip(rows["id"].to_pylist(), rows["title"].to_pylist(), strict=True))
        tree = CategoryTree.of(catalogue)
        paths = (tree.paths[row] for row in tree.rows(rows["category_id"]))
        names = (tuple(tree.names[above] for above in path if above != NONE) for path in paths)
        self._paths = dict(zip(rows["id"].to_pylist(), names, strict=True))

    def product(self, product: str, right: bool | None = None) -> ShownProduct:
        """A product of an answer."""
        return ShownProduct(product, cut(self._titles[product] or product), self._paths[product], right)


def category_paths(trial: Trial, *, count: int = 4, top: int = 8) -> list[CategoryPath]:
    """The paths of categories that are shown, at most one per tree while there are trees left."""
    # Of each tree it is the path with the most to see: the sum over its categories of the right products, as far as
    # they could be shown.
    task = trial.task
    tree, queries = task.tree, {int(row): query for query, row in enumerate(task.rows)}
    positives = task.judgements().positives
    paths = {
        row: [int(above) for above in tree.paths[row] if above != NONE and int(above) in queries] for row in queries
    }
    to_see = {row: sum(min(int(positives[queries[above]]), top) for above in path) for row, path in paths.items()}
    ordered = sorted(queries, key=lambda row: (-to_see[row], tree.ids[row]))
    chosen: list[int] = []
    for rows in (_one_per_tree(ordered, tree.roots), ordered):
        chosen += [row for row in rows if row not in chosen][: count - len(chosen)]
    right = hits(trial, top)
    run = trial.run
    answers = {
        row: run.documents.take(
            pa.array(
                run.indices[
                    run.offsets[queries[row]] : min(run.offsets[queries[row] + 1], run.offsets[queries[row]] + top)
                ]
            )
        ).to_pylist()
        for last in chosen
        for row in paths[last]
    }
    titles = Products(task.catalogue, [product for answer in answers.values() for product in answer])
    return [
        tuple(
            CategoryAnswer(
                tree.names[row],
                tree.ids[row],
                int(tree.depths[row]),
                int(positives[queries[row]]),
                tuple(
                    titles.product(product, bool(right[queries[row], rank]))
                    for rank, product in enumerate(answers[row])
                ),
            )
            for row in paths[last]
        )
        for last in chosen
    ]


def product_thumbnails(catalogue: Catalogue, ids: Sequence[str], *, budget: int) -> dict[str, Thumbnail]:
    """A small picture of each product, or the reason why there is none; together at most `budget` bytes of text."""
    shown = catalogue.pictures()
    shown_ids = pa.array(dict.fromkeys(ids), pa.string())
    rows = dict(
        zip(shown_ids.to_pylist(), pc.index_in(shown_ids, shown.images["id"].combine_chunks()).to_pylist(), strict=True)
    )
    look = pictures(shown, on_screen=True)

    def open_image(product: str) -> Image:
        row = rows[product]
        if row is None:
            raise ImageError(f"product {product!r} has no picture.")
        return look(row)

    return thumbnails(list(rows), open_image, budget=budget)


def _one_per_tree(rows: Sequence[int], roots: np.ndarray) -> list[int]:
    first: dict[int, int] = {}
    for row in rows:
        first.setdefault(int(roots[row]), row)
    return list(first.values())


# The tree of categories with a number at every node, as nested pieces that a page can fold.


@dataclass(frozen=True)
class Node:
    """A category that was a query in some split."""

    name: str  # its name
    id: str  # its id
    products: int  # relevant test products, over all splits
    value: float  # the measure, the mean over the splits in which it was a query
    below: float | None  # the mean value of the categories under it; None where there are none
    # Whether it was a query of a training pair in every split in which it was a query, in some, or in none ("seen",
    # "partly", "unseen").
    seen: str
    children: tuple[Node, ...] = field(default=())  # by falling number of products, then by name

    @property
    def size(self) -> int:
        """How many categories there are at and under the node."""
        return 1 + sum(child.size for child in self.children)


def tree_of(trials: Sequence[Trial], name: str = "rprecision") -> list[Node]:
    """The trees of the categories that are queries in these trials, each with its measure `name`."""
    # The trials are of one system and tell categories apart by id. Where a setting asks some levels only, a category
    # hangs below the nearest one above it that is a query.
    tree = trials[0].task.tree
    values, weights, products = (np.zeros(len(tree)) for _ in range(3))
    seen = np.zeros(len(tree))
    for trial in trials:
        rows = trial.task.rows
        values[rows] += trial.values(name)
        weights[rows] += 1
        products[rows] += trial.task.judgements().positives
        seen[rows] += trial.seen
    is_query = weights > 0
    below: dict[int, list[int]] = {}
    for row in np.flatnonzero(is_query).tolist():
        below.setdefault(_above(tree, is_query, row), []).append(row)

    def node(row: int) -> Node:
        ordered = sorted(below.get(row, []), key=lambda child: (-products[child], tree.names[child], tree.ids[child]))
        children = tuple(node(child) for child in ordered)
        share = seen[row] / weights[row]
        return Node(
            tree.names[row],
            tree.ids[row],
            int(products[row]),
            float(values[row] / weights[row]),
            float(np.mean(_values(children))) if children else None,
            "seen" if share == 1 else "partly" if share else "unseen",
            children,
        )

    return sorted((node(row) for row in below.get(NONE, [])), key=lambda root: (-root.products, root.name))


def _above(tree: CategoryTree, is_query: np.ndarray, row: int) -> int:
    above = int(tree.parents[row])
    while above != NONE and not is_query[above]:
        above = int(tree.parents[above])
    return above


def _values(nodes: Sequence[Node]) -> list[float]:
    """The values of all nodes at and under these."""
    return [value for child in nodes for value in (child.value, *_values(child.children))]


PICTURE_BUDGET = 1_400_000
"""Bytes of text that all pictures of one report may take together."""
_EXPLANATIONS: Mapping[Setting, str] = {
    "all": "Every category that has test products asks, whatever its level.",
    "general": "Only the roots of the trees ask: “Clothing”, “Furniture”.",
    "specific": "Only categories to which a product belongs directly ask: the ends of its path.",
}


def categories_report(
    evaluation: CategoryEvaluation, *, system: str | None = None, count: int = 4, top: int = 8
) -> StudyReport:
    """What an evaluation of category-to-image search says."""
    # system: Whose answers, errors and tree are shown; None takes the one with the best R-precision over all categories
    # (or, without that setting, over the first there is).
    shown, setting = _chosen(evaluation, system)
    trials = evaluation.trials[shown, setting]
    task = trials[0].task
    splits = max(len(trials) for trials in evaluation.trials.values())
    differences, shown_pictures, tree = [], [], []
    if len(evaluation.systems) > 1:
        differences = _differences(evaluation)
    if task.by == "id":
        if paths := category_paths(trials[0], count=count, top=top):
            ids = [product.id for path in paths for category in path for product in category.products]
            pictures = product_thumbnails(evaluation.catalogue, ids, budget=PICTURE_BUDGET)
            shown_pictures = _pictures(paths, pictures, shown)
        if nodes := tree_of(trials):
            tree = _tree(nodes, shown, setting, splits)
    seen = Chart(
        "seen",
        lambda: seen_lines(evaluation),
        "Seen and unseen",
        "Unseen categories tend to be small. Systems that are not trained have seen nothing: their two marks say how "
        "much easier one half is by itself.",
        "R-precision on seen and unseen categories; the numbers are in the table.",
    )
    errors = {key: first_answers(trials) for key, trials in evaluation.trials.items()}
    by_seen: list[Block] = [seen, Fold("All measures", [seen_table(evaluation)])]
    sections = [
        Section("numbers", "Numbers", _numbers(evaluation, trials[0], splits)),
        Section("differences", "Are the differences more than chance?", differences, "Differences"),
        Section("seen", "Seen and unseen categories", by_seen, "Seen and unseen"),
        Section("errors", "Where wrong first answers lie", _errors(evaluation, shown, errors), "Errors"),
        Section("pictures", "Answers as pictures", shown_pictures),
        Section("tree", "The tree of categories", tree, "The tree"),
        Section("made", "How it was made", _method(evaluation)),
    ]
    title = f"Category-to-image search on {evaluation.catalogue.name}"
    seen_columns = ("precision@1", "precision@10", "rprecision")
    printed = [*(settings_table(evaluation, name) for name in evaluation.settings)]
    printed += [differences_table(evaluation)] if differences else []
    return StudyReport(
        *("category-to-image report", title, sections, _facts(evaluation, trials[0], splits)),
        printed=[*printed, seen_table(evaluation, seen_columns), errors_table(errors)],
        files={name: (content, FILES[name]) for name, content in contents(evaluation).items()},
        folder=CATEGORIES_RESULT,
    )


def _facts(evaluation: CategoryEvaluation, trial: Trial, splits: int) -> list[Inline]:
    """What was searched, at a glance."""
    counts = evaluation.catalogue.describe()
    tested = inline("tested on <b>{}</b>", trial.task.fold.name or "one split")
    return [
        inline("products <b>{}</b>", f"{counts['products']:,}"),
        inline("with picture <b>{}</b>", f"{counts['with picture']:,}"),
        inline(
            "categories <b>{}</b> in <b>{}</b> tree{}",
            f"{counts['categories']:,}",
            counts["trees"],
            "" if counts["trees"] == 1 else "s",
        ),
        tested if splits == 1 else inline("splits <b>{}</b>", splits),
        inline("categories told apart by <b>{}</b>", trial.task.by),
    ]


def _numbers(evaluation: CategoryEvaluation, trial: Trial, splits: int) -> list[Block]:
    """The plot of all settings, and the table of each."""
    right = (
        "A product is right when the category is on its path."
        if trial.task.relevance == "path"
        else "A product is right for one category only, the one drawn for it."
    )
    means = f": means over {splits} splits ± standard deviation" if splits > 1 else ""
    lead = (
        f"A query is the name of a category; its answer is all test products in order, best first. {right} In "
        f"percent{means}."
    )
    note = (
        "mAP@k divides by the smaller of k and the number of relevant products (capped_map@k), R-prec is precision at "
        "as many answers as there are relevant products. Bold: the best as printed."
    )
    columns = {setting: mean_columns(evaluation, TABLE, setting) for setting in evaluation.settings}
    settings: list[Block] = [
        Group(
            setting_head(evaluation, setting),
            [
                Paragraph(_EXPLANATIONS[setting], "above"),
                Table.over(systems_in_setting(evaluation, setting), [Column("system", of=str), *columns[setting]]),
            ],
        )
        for setting in evaluation.settings
    ]
    notes = [Paragraph(text, "note") for text in (note, *words_notes(evaluation))]
    return [Paragraph(lead, "lead"), _overview(evaluation), *settings, *notes]


def _differences(evaluation: CategoryEvaluation) -> list[Block]:
    """One system against another; folded where there are many."""
    table = differences_table(evaluation)
    lead = Paragraph("R-precision of one system less that of another, category by category.", "lead")
    if len(evaluation.systems) <= 3:
        return [lead, table]
    beyond = sum(row[-1] == "yes" for row in table.rows)
    return [lead, Fold(f"All {len(table.rows)} comparisons; {beyond} are beyond chance", [table])]


def _errors(
    evaluation: CategoryEvaluation, shown: str, errors: Mapping[tuple[str, Setting], FirstAnswers]
) -> list[Block]:
    """Plots of the errors of one system, and the table of all."""
    own = {setting: errors[shown, setting] for setting in evaluation.settings if (shown, setting) in errors}
    lead = inline("The plots show <b>{}</b>; the table has every system.", shown)
    return [Paragraph(lead, "lead"), page.Figures(_error_charts(own)), errors_table(errors)]


def _pictures(paths: Sequence[CategoryPath], pictures: Mapping[str, Thumbnail], shown: str) -> list[Block]:
    """The answers to the categories of each path, from general to specific."""
    lead = inline(
        "What <b>{}</b> finds, from general to specific categories. A right product has a tick and a solid frame, a "
        "wrong one a cross and a dashed frame.",
        shown,
    )
    blocks: list[Block] = [Paragraph(lead, "lead")]
    for path in paths:
        entries = []
        for category in path:
            tiles = [
                page.Tile(
                    picture=pictures[product.id],
                    alt=product.title,
                    note=inline('<span dir="auto" title="{}">{}</span>', " › ".join(product.path), product.path[-1]),
                    right=bool(product.right),
                    hint=product.title,
                )
                for product in category.products
            ]
            hits = inline(
                "<strong>{} of {}</strong> shown {} right",
                category.hits,
                len(tiles),
                "is" if category.hits == 1 else "are",
            )
            verdict = inline(
                "level {} · {} · {} to be found",
                category.level,
                hits if tiles else inline("<strong>nothing was found</strong>"),
                f"{category.relevant:,}",
            )
            entries.append(page.GalleryEntry(f"“{category.name}”", verdict, [page.Strip(tiles)] if tiles else []))
        crumbs = Markup(' <span class="soft" aria-hidden="true">›</span> ').join(category.name for category in path)
        blocks.append(Group(crumbs, [page.QueryGallery(entries)]))
    return blocks


def _tree(nodes: Sequence[Node], shown: str, setting: Setting, splits: int) -> list[Block]:
    """The tree of categories with the R-precision of one system."""
    lead = inline(
        "{} that asked, with their test products and the R-precision of <b>{}</b>{}. “Below” is the mean of all "
        "categories under one. Open a category to see those in it.",
        SETTING_WORDS[setting].capitalize(),
        shown,
        " (products of all splits; means over the splits)" if splits > 1 else "",
    )
    branches = [_branch(node, is_open=number == 0) for number, node in enumerate(nodes)]
    return [Paragraph(lead, "lead"), page.Tree(branches, ("category", "", "products", "R-prec", "mean below"))]


def _branch(node: Node, *, is_open: bool = False) -> Branch:
    """A category with its number of products, its R-precision, and the mean of those under it."""
    percent = '<b>{}</b><span class="unit"> %</span>'
    below = (
        inline('{}<span class="unit"> %</span><span class="hidden"> below</span>', f"{100 * node.below:.0f}")
        if node.below is not None
        else ""
    )
    words = f" product{'' if node.products == 1 else 's'}, R-precision"
    return Branch(
        node.name,
        [
            inline('{}<span class="hidden">{}</span>', f"{node.products:,}", words),
            inline(percent, f"{100 * node.value:.0f}"),
            below,
        ],
        [_branch(child) for child in node.children],
        hint=node.id,
        tag="unseen" if node.seen == "unseen" else "",
        share=node.value,
        is_open=is_open,
    )


def _method(evaluation: CategoryEvaluation) -> list[Block]:
    """The systems, what unseen means, what must be said, and the protocol cards."""
    systems = [
        (name, "; ".join(f"{key}: {value}" for key, value in card.items())) for name, card in evaluation.cards.items()
    ]
    unseen = (
        "The category was the query of no training pair of the split (a product makes a pair with one category of its "
        "path)."
    )
    notes = _notes(evaluation)
    blocks: list[Block] = [page.Definitions([*systems, ("unseen", unseen)])]
    if notes:
        blocks.append(page.Notice(notes))
    for setting in evaluation.settings:
        trial = evaluation.trials[systems_in_setting(evaluation, setting)[0], setting][0]
        card = Table.pairs(trial.result.protocol.card())
        blocks.append(Fold(f"Protocol card: {SETTING_WORDS[setting].lower()}, first split", [card]))
    return blocks


def _chosen(evaluation: CategoryEvaluation, system: str | None) -> tuple[str, Setting]:
    """The system that is shown, and in which setting."""
    if system is not None and system not in evaluation.systems:
        raise ConfigurationError(
            f"no system {system!r} was evaluated", hint=nearest(system, evaluation.systems), code="no-such-system"
        )
    settings = [setting for setting in evaluation.settings if system and (system, setting) in evaluation.trials]
    setting = settings[0] if settings else evaluation.settings[0]
    systems = systems_in_setting(evaluation, setting)
    best = max(systems, key=lambda name: evaluation.spread(name, setting, "rprecision").mean)
    return system or best, setting


def _overview(evaluation: CategoryEvaluation) -> Chart:
    values = "; ".join(
        f"{name}, {SETTING_WORDS[part].lower()}: {100 * evaluation.spread(name, part, 'rprecision').mean:.1f} %"
        for name, part in evaluation.trials
    )
    several = any(len(trials) > 1 for trials in evaluation.trials.values())
    caption = "Of as many answers as there are relevant products, how many are right."
    caption += " Lines: one standard deviation of the splits to either side." if several else ""
    label = f"R-precision by system and setting. {values}."
    return Chart("settings", lambda: setting_dots(evaluation), "R-precision at a glance", caption, label)


def _error_charts(errors: Mapping[Setting, FirstAnswers]) -> list[Chart]:
    counts = "; ".join(
        f"{SETTING_WORDS[setting].lower()}: {answers.errors.same_tree} wrong in the same tree, "
        f"{answers.errors.different_tree} in another"
        for setting, answers in errors.items()
    )
    return [
        Chart(
            "depths",
            lambda: depth_bars(errors),
            "How much deeper or higher",
            "Wrong first answers in the right tree, by depth(answer) − depth(asked): the thesis's Figure 7.2. It is no "
            "distance: two categories side by side have 0.",
            f"Depth differences of wrong first answers. {counts}.",
        ),
        Chart(
            "distances",
            lambda: distance_bars(errors),
            "How far away",
            "All wrong first answers, by edges between the two categories. 2 is a sibling; between trees the way leads "
            "over a common root above them.",
            "Tree distances of wrong first answers.",
        ),
    ]


def _notes(evaluation: CategoryEvaluation) -> list[str]:
    """What a reader must know: of the catalogue, and of each system and setting what its first noted split says."""
    notes = list(evaluation.catalogue.notes)
    for (system, setting), trials in evaluation.trials.items():
        noted = [trial for trial in trials if trial.result.notes]
        if noted:
            more = f" (and {len(noted) - 1} more splits alike)" if len(noted) > 1 else ""
            text = "; ".join(noted[0].result.notes)
            notes.append(f"{system}, {SETTING_WORDS[setting].lower()}, {noted[0].task.fold.name}: {text}{more}")
    return notes

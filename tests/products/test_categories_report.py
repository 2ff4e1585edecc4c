"""The category-to-image report: tables, plots, pictures, the tree, and a page that runs and fetches nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from refusals import refused
from visir.errors import ConfigurationError
from visir.products.evaluation import CategoryEvaluation, FirstAnswers, evaluate, first_answers
from visir.products.generated import generate_catalogue
from visir.products.opening import TreeErrors
from visir.products.reports.categories import categories_report, category_paths, tree_of
from visir.products.reports.evaluation import (
    depth_bars,
    differences_table,
    distance_bars,
    errors_table,
    seen_lines,
    seen_table,
    setting_dots,
    settings_table,
)
from visir.products.reports.search import places, write_search_page
from visir.products.reports.search import table as answer_table
from visir.products.systems import CategoryVectorSystem, TitleBm25
from visir.products.task import Split, folds
from visir.products.text_search import ProductAnswer
from visir.records import Catalogue, Embeddings, EncoderCard
from visir.reports.formats import to_html
from visir.reports.plot import Plot
from visir.reports.plots import to_svg

HOSTILE = "<script>alert(1)</script>"


def dense(catalogue: Catalogue, name: str = "dense", seed: int = 0) -> CategoryVectorSystem:
    rng = np.random.default_rng(seed)
    card = EncoderCard("random", "imported")
    categories, products = catalogue.categories["id"].combine_chunks(), catalogue.products["id"].combine_chunks()
    return CategoryVectorSystem(
        name,
        Embeddings("text", categories, rng.standard_normal((len(categories), 8)).astype(np.float32), card),
        Embeddings("text+image", products, rng.standard_normal((len(products), 8)).astype(np.float32), card),
    )


@pytest.fixture(scope="module")
def found() -> CategoryEvaluation:
    catalogue = generate_catalogue(150, size=64).catalogue
    return evaluate(catalogue, [TitleBm25(), dense(catalogue)], folds(catalogue, 2))


def words(plot: Plot) -> set[str]:
    return {"".join(one.itertext()) for one in ET.fromstring(to_svg(plot)).iter("{http://www.w3.org/2000/svg}text")}


def test_tables_say_what_was_measured(found: CategoryEvaluation) -> None:
    table = settings_table(found, "general")
    assert table.caption == "Most general categories (3 in each split)"
    spread = found.spread("BM25", "general", "rprecision")
    assert table.texts()[0][0] == "BM25" and table.texts()[0][6:] == [
        f"{100 * spread.mean:.1f}",
        f"{100 * spread.sd:.1f}",
    ]
    seen = seen_table(found, ("rprecision",))
    general = [row for row in seen.rows if row[:2] == ("general", "dense")]
    assert [row[2:4] for row in general] == [("seen", 6)]  # three roots in two splits
    assert len(differences_table(found).rows) == 3
    wrong = errors_table({key: first_answers(trials) for key, trials in found.trials.items()})
    for row in wrong.rows:
        queries, right, same, other, nothing = row[2:7]
        assert queries == right + same + other + nothing  # type: ignore[operator]


def test_mean_distance_of_wrong_answers_by_hand() -> None:
    one = FirstAnswers("specific", 10, 4, 1, TreeErrors(0, 3, 2, {0: 3}, {2: 3, 5: 2}))
    table = errors_table({("s", "specific"): one})
    # (3 * 2 + 2 * 5) / 5
    assert table.texts() == [["specific", "s", "10", "4", "3", "2", "1", "3.20"]]


def test_plots_name_what_they_show(found: CategoryEvaluation) -> None:
    assert {"BM25", "dense", "R-precision, %", "most general categories"} <= words(setting_dots(found))
    assert {"seen", "unseen", "specific: BM25"} <= words(seen_lines(found))
    errors = {
        "all": FirstAnswers("all", 9, 2, 0, TreeErrors(0, 4, 3, {-1: 3, 2: 1}, {1: 4, 4: 3})),
        "general": FirstAnswers("general", 3, 2, 0, TreeErrors(0, 0, 1, {}, {2: 1})),
    }
    # Figure 7.2 leaves out what has no wrong answer in the same tree; -1 to +2 is a whole axis.
    assert {"-1", "0", "+1", "+2", "all categories (4 wrong)"} <= words(depth_bars(errors))  # type: ignore[arg-type]
    assert not any("general" in one for one in words(depth_bars(errors)))  # type: ignore[arg-type]
    assert {"1", "4", "most general categories (1 wrong)"} <= words(distance_bars(errors))  # type: ignore[arg-type]
    right = {"all": FirstAnswers("all", 9, 9, 0, TreeErrors(0, 0, 0, {}, {}))}
    assert "no wrong answer to show" in words(depth_bars(right))  # type: ignore[arg-type]
    assert to_svg(setting_dots(found)) == to_svg(setting_dots(found))


def test_the_tree_has_every_category_that_asked_once(found: CategoryEvaluation) -> None:
    trials = found.trials["dense", "all"]
    roots = tree_of(trials)
    assert [one.name for one in sorted(roots, key=lambda one: one.name)] == ["Animals", "Home and leisure", "Vehicles"]
    asked = {query for one in trials for query in one.task.judgements().queries.to_pylist()}
    assert sum(one.size for one in roots) == len(asked)
    assert sum(one.products for one in roots) == 150
    dogs = next(child for one in roots for child in one.children if child.name == "Dogs")
    values = [
        float(one.values("rprecision")[one.task.judgements().queries.to_pylist().index(dogs.id)])
        for one in trials
        if dogs.id in one.task.judgements().queries.to_pylist()
    ]
    assert dogs.value == pytest.approx(np.mean(values))
    assert dogs.below == pytest.approx(np.mean([child.value for child in dogs.children]))
    # Where only the ends of paths ask, they are roots themselves.
    assert all(not one.children for one in tree_of(found.trials["dense", "specific"]))


def test_pictures_go_from_general_to_specific(found: CategoryEvaluation) -> None:
    trial = found.trials["dense", "all"][0]
    shown = category_paths(trial, count=4, top=5)
    assert len(shown) == 4
    assert len({one[0].name for one in shown[:3]}) == 3  # one of each tree before a second of any
    qrels = trial.task.judgements().to_dict()
    for chain in shown:
        assert [one.level for one in chain] == [1, 2, 3]
        for one in chain:
            assert len(one.products) == 5 and one.relevant == len(qrels[one.id])
            assert one.hits == sum(product.id in qrels[one.id] for product in one.products)


def test_the_page(found: CategoryEvaluation, tmp_path: Path) -> None:
    page = categories_report(found).write(tmp_path / "a.html", command="visir products evaluate X").read_text("utf-8")
    assert page == categories_report(found).write(tmp_path / "b.html", command="visir products evaluate X").read_text(
        "utf-8"
    )
    for heading in ("Numbers", "Seen and unseen", "Where wrong first answers lie", "Answers as pictures", "The tree"):
        assert heading in page
    assert "<script" not in page and not re.search(r'(?:src|href)="(?:https?:)?//', page)
    assert page.count("data:image/jpeg") > 20 and "✓" in page and "✗" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    with refused(ConfigurationError, "dens", code="no-such-system"):
        categories_report(found, system="dens")


def test_by_name_and_one_system_and_one_split(tmp_path: Path) -> None:
    catalogue = generate_catalogue(80, size=64).catalogue
    found = evaluate(catalogue, [dense(catalogue)], folds(catalogue, 2)[:1], by="name", settings=["specific"])
    page = categories_report(found).write(tmp_path / "a.html").read_text("utf-8")
    # Without ids there is no place in the tree, and with one system nothing to compare.
    assert "The tree of categories" not in page and "more than chance" not in page and "±" not in page


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    catalogue = Catalogue.of(
        "evil",
        ids=list("abcd"),
        paths=[[HOSTILE, "x"], [HOSTILE, "y"], ["z"], ["z"]],
        titles=[HOSTILE, None, "z", ""],
    )
    everything = Split(np.zeros(4, bool), np.zeros(4, bool), np.ones(4, bool))
    found = evaluate(catalogue, [dense(catalogue, HOSTILE)], [everything])
    page = categories_report(found).write(tmp_path / "a.html", command=HOSTILE).read_text("utf-8")
    answer = ProductAnswer(HOSTILE, HOSTILE, "cosine", (("a", 0.5), ("b", 0.25)), frozenset("a"), catalogue)
    page += write_search_page(tmp_path / "b.html", answer, command=HOSTILE).read_text("utf-8")
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "product &#39;a&#39; has no picture" in page


def test_a_search_says_what_is_right() -> None:
    catalogue = Catalogue.of("c", ids=["a", "b"], paths=[["X", "Hats"], ["Y"]], titles=["red hat", None])
    table = answer_table(ProductAnswer("hats", "BM25", "BM25", (("a", 1.5), ("b", 0.5)), frozenset("a"), catalogue))
    assert table.texts() == [
        ["1", "1.5000", "yes", "red hat", "X › Hats", "a"],
        ["2", "0.5000", "no", "b", "Y", "b"],
    ]
    assert "1 of 2 belong to a category of this name, which has 1 product" in table.notes[0]
    unknown = answer_table(ProductAnswer("caps", "BM25", "BM25", (), None, catalogue))
    assert "No category has this name" in unknown.notes[0] and "right" not in to_html(unknown).split("</table>")[0]


def test_places_count_answers_in_the_tree() -> None:
    made = places([["A", "B"], ["C"], ["A", "D"], ["A", "B"], ["C"]])
    assert [(one.name, one.ranks) for one in made] == [("A", (1, 3, 4)), ("C", (2, 5))]
    assert [(one.name, one.ranks) for one in made[0].children] == [("B", (1, 4)), ("D", (3,))]

"""Categories inferred for products that have none: by hand, by properties, from a table, on the command line."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from refusals import refused
from visir.cli.main import app
from visir.errors import ConfigurationError
from visir.products import infer_categories, open_catalogue, train, write_inferred
from visir.products.inference import (
    HeldOutPrecision,
    Neighbours,
    NeighbourSettings,
    fit_confidence,
    fit_path_confidence,
    never_falling,
    product_features,
    similarities,
    unseen_products,
)
from visir.products.opening import open_uncategorised
from visir.products.training import held_out
from visir.records import Catalogue, Embeddings, EncoderCard
from visir.records.category_tree import CategoryTree
from visir.stats import of_counts
from visir.storage import FolderError


def plane(angles: list[float], paths: list[list[str]]) -> tuple[Catalogue, Embeddings]:
    """Products as directions in the plane, in degrees."""
    ids = [f"p{row}" for row in range(len(angles))]
    radians = np.deg2rad(angles)
    vectors = np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)
    catalogue = Catalogue.of("plane", ids=ids, paths=paths)
    return catalogue, Embeddings("image", pa.array(ids), vectors, EncoderCard("own", "hand"))


def test_shares_by_hand() -> None:
    catalogue, vectors = plane([0, 0, 90, 180], [["A", "B"], ["A", "C"], ["A", "C"], ["D"]])
    tree = CategoryTree.of(catalogue)
    categories = tree.rows(catalogue.products["category_id"])
    neighbours = Neighbours(product_features(catalogue, vectors), tree, np.array([1, 2, 3]), categories, tree.leaves)
    own = neighbours.mixed(neighbours.evidence(np.array([0])), NeighbourSettings(k=3, tau=1.0))
    weights = np.exp([1.0, 0.0, -1.0])
    expected = {"C": (weights[0] + weights[1]) / weights.sum(), "D": weights[2] / weights.sum(), "A": 0, "B": 0}
    assert own[0] == pytest.approx([expected[name] for name in tree.names], abs=1e-6)
    total = neighbours.with_those_below(own)[0]
    assert total[tree.names.index("A")] == pytest.approx(expected["C"], abs=1e-6)


def test_a_labelled_product_is_not_compared_with_itself() -> None:
    catalogue, vectors = plane([0, 10, 90], [["A"], ["B"], ["C"]])
    tree = CategoryTree.of(catalogue)
    every = np.arange(3)
    neighbours = Neighbours(
        product_features(catalogue, vectors), tree, every, tree.rows(catalogue.products["category_id"]), tree.leaves
    )
    scores, labels, names = neighbours.evidence(every)
    assert labels[:, 0].tolist() == [1, 0, 1] and names is None
    assert np.isinf(scores[:, -1]).all()  # the place of itself
    share = neighbours.mixed((scores, labels, names), NeighbourSettings(k=3, tau=0.1))
    assert share[every, every].tolist() == [0, 0, 0] and share.sum(axis=1) == pytest.approx(1)


def test_word_features_are_those_of_another_implementation() -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    titles = ["red wool dress", "blue wool dress dress", "tin bus"]
    catalogue = Catalogue.of("shop", ids=["a", "b", "c"], paths=[["X"]] * 3, titles=titles)
    matrix = text.TfidfVectorizer(sublinear_tf=True).fit_transform(titles)
    features = product_features(catalogue, "words")
    assert similarities(features.products, features.products) == pytest.approx((matrix @ matrix.T).toarray(), abs=1e-6)


def test_the_map_recovers_a_known_distortion() -> None:
    rng = np.random.default_rng(0)
    shares = rng.uniform(size=20_000)
    fitted = fit_confidence(shares, rng.random(len(shares)) < shares**2)
    middle = np.linspace(0.05, 0.95, 50)
    assert fitted(middle) == pytest.approx(middle**2, abs=0.05)
    assert (np.diff(fitted(np.linspace(0, 1, 200))) >= 0).all()
    sure = fit_confidence(np.full(8, 0.7), np.ones(8, np.bool_))
    assert sure(np.array([0.7])) == pytest.approx((8 + 9 / 10) / 9)  # eight of eight are no certainty


def test_never_falling_is_that_of_another_implementation() -> None:
    isotonic = pytest.importorskip("sklearn.isotonic")
    rng = np.random.default_rng(2)
    for _ in range(50):
        values = rng.random(7)
        assert never_falling(values) == pytest.approx(isotonic.isotonic_regression(values))


def test_confidences_of_a_path_by_hand() -> None:
    """Level 1 is right for 150 of 200; where it is, level 2 is right for 120 of 150, whatever the shares."""
    shares = [np.array([0.5, 0.25])] * 200
    outcomes = [[True, True]] * 120 + [[True, False]] * 30 + [[False, False]] * 50
    fitted = fit_path_confidence(shares, [np.array(outcome) for outcome in outcomes])
    assert fitted(np.array([0.9, 0.1])) == pytest.approx([0.75, 0.75 * 0.8], abs=0.01)
    deeper = fitted(np.array([0.9, 0.5, 0.5]))
    assert len(deeper) == 3 and deeper[2] < deeper[1] < deeper[0]


def test_confidences_are_calibrated_and_follow_the_tree() -> None:
    catalogue = open_catalogue("generated:1500")
    right = dict(zip(*(catalogue.products[name].to_pylist() for name in ("id", "category_id")), strict=True))
    hidden = list(right)[::5]
    inferred = infer_categories(catalogue, products=hidden)
    assert [product.id for product in inferred.products] == hidden
    for product in inferred.products:
        for category in (product.answer, *product.others):
            assert category is not None
            assert all(
                0 <= low <= high <= 1 for high, low in zip(category.confidences, category.confidences[1:], strict=False)
            )
            assert len(category.confidences) == len(category.path)
    answers = [product.answer for product in inferred.products if product.answer is not None]
    accuracy = np.mean([right[p.id] == p.answer.id for p in inferred.products if p.answer is not None])
    assert accuracy > 0.7
    assert np.mean([answer.confidence for answer in answers]) == pytest.approx(accuracy, abs=0.1)
    sure = infer_categories(catalogue, products=hidden, above=0.9)
    within = [f"{right[p.id]} > ".startswith(f"{p.answer.id} > ") for p in sure.products if p.answer is not None]
    assert 100 < len(within) < len(hidden) and np.mean(within) >= 0.9
    assert all(p.answer.confidence >= 0.9 for p in sure.products if p.answer is not None)
    assert sure.held_out.precision >= 0.9 and sure.held_out.interval[0] <= np.mean(within) + 0.02


def test_hidden_categories_are_not_read() -> None:
    """Wrong categories on the products to infer change nothing."""
    catalogue = open_catalogue("generated:300")
    hidden = catalogue.products["id"].to_pylist()[:30]
    wrong = pa.chunked_array(
        [[catalogue.categories["id"][5].as_py()] * 30 + catalogue.products["category_id"].to_pylist()[30:]]
    )
    products = catalogue.products.set_column(4, "category_id", wrong)
    other = Catalogue("generated", products, catalogue.attributes, catalogue.categories, catalogue.root)
    assert infer_categories(other, products=hidden).products == infer_categories(catalogue, products=hidden).products


def table(folder: Path) -> Path:
    lines = ["id,title,category"]
    for n in range(60):
        kind = ("red wool dress", "Clothes > Dresses") if n % 2 else ("tin bus toy", "Toys > Buses")
        lines.append(f"k{n},{kind[0]} {n},{kind[1]}")
    lines += ["u1,blue wool dress,", "u2,a tin bus,", "u3,,"]
    path = folder / "shop.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_table_with_products_without_a_category(tmp_path: Path) -> None:
    path = table(tmp_path)
    assert open_uncategorised(path)[1] == ["u1", "u2", "u3"]
    plain = open_catalogue(path)  # elsewhere they are set aside, as before
    assert plain.products.num_rows == 60 and "3 products without a category" in plain.notes[0]
    inferred = infer_categories(path)
    first, second, silent = inferred.products
    assert first.answer is not None and first.answer.path == ("Clothes", "Dresses") and first.answer.confidence > 0.9
    assert second.answer is not None and second.answer.path == ("Toys", "Buses")
    assert silent.answer is None and inferred.silent == 1
    assert "(no category)" not in repr(inferred)


def test_the_command_writes_a_new_table_and_nothing_else(tmp_path: Path) -> None:
    path, out = table(tmp_path), tmp_path / "inferred.csv"
    before = path.read_bytes()
    result = CliRunner().invoke(app, ["products", "infer", str(path), "--above", "0.8", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "labelled products, each held out once" in " ".join(result.output.split())
    assert path.read_bytes() == before
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "title", "category", "confidence", "confidences", "others"]
    assert [row["category"] for row in rows] == ["Clothes > Dresses", "Toys > Buses", ""]
    assert float(rows[0]["confidence"]) > 0.9 and rows[2]["confidence"] == ""
    again = CliRunner().invoke(app, ["products", "infer", str(path), "--out", str(out)])
    assert again.exit_code != 0 and "exists already" in str(again.exception)
    assert CliRunner().invoke(app, ["products", "infer", str(path), "--out", str(path)]).exit_code != 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("ending", ["tsv", "jsonl", "parquet"])
def test_other_tables(tmp_path: Path, ending: str) -> None:
    inferred = infer_categories(table(tmp_path))
    out = write_inferred(tmp_path / f"new.{ending}", inferred)
    if ending == "parquet":
        assert pq.read_table(out)["category"].to_pylist() == ["Clothes > Dresses", "Toys > Buses", None]
    else:
        assert "Toys > Buses" in out.read_text() and len(out.read_text().splitlines()) == 3 + (ending == "tsv")
    with refused(FolderError, code="exists-already"):
        write_inferred(out, inferred)


def test_faults_are_named_together() -> None:
    catalogue = open_catalogue("generated:100")
    with pytest.raises(
        ConfigurationError, match=r"(?s)unknown product 'product-0-00000'.*above must be.*count must be"
    ):
        infer_categories(catalogue, products=["product-0-00000"], above=1.5, count=0)
    with pytest.raises(ConfigurationError, match="no product is without a category"):
        infer_categories(catalogue)
    with refused(ConfigurationError, "20", code="products-category-reads"):
        infer_categories(catalogue, products=catalogue.products["id"].to_pylist()[:90])
    with refused(ConfigurationError, "wrds", code="configuration-no-such-folder", hint="words"):
        infer_categories(catalogue, "wrds", products=["product-0-000001"])
    with refused(ConfigurationError, code="not-name-table"):
        write_inferred("x.xlsx", infer_categories(catalogue, products=["product-0-000001"]))


def test_the_interval_of_the_precision_is_wilsons() -> None:
    measured = HeldOutPrecision(products=30, answered=20, right=18, exact=9, confidence=0.9)
    assert measured.interval == of_counts(18, 20).ends
    assert HeldOutPrecision(30, 0, 0, 0, 0.0).interval == (0.0, 1.0)


def test_a_trained_model_is_calibrated_on_what_it_has_not_seen(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    catalogue = open_catalogue("generated:200")
    folder = train(catalogue, image="pixels", text="bow:256", out=tmp_path / "model", epochs=1, folds=3, fold=2)
    left_out = held_out(catalogue, 3, 2, 0).test
    unseen = unseen_products(catalogue, folder)
    assert unseen is not None and unseen.tolist() == left_out.tolist()
    hidden = catalogue.products["id"].to_pylist()[:20]
    inferred = infer_categories(catalogue, folder, products=hidden)
    expected = int(left_out[20:].sum())
    assert inferred.held_out.products == expected and f"the {expected} labelled products" in inferred.notes[0]
    other = open_catalogue("generated:150")
    assert unseen_products(other, folder) is None
    assert "confidences can be too high" in infer_categories(other, folder, products=hidden).notes[0]

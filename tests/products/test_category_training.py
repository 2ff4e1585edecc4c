"""Training category models: what comes out, that a kill changes nothing, and that planted structure is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from category_toys import generate_vectors, word_vectors

from refusals import refused
from visir.encoders import load
from visir.errors import EmbeddingError, EncoderError, VisirError
from visir.products.encoding import CatalogueVectors, encode_catalogue
from visir.products.generated import GeneratedCatalogue
from visir.products.model import (
    CategoriesModel,
    CategoriesRecipe,
    CategoryLoss,
    find_categories_recipe,
    load_categories_model,
    read_categories_recipe,
    shipped_categories_recipes,
)
from visir.products.training import train_categories
from visir.records.category_tree import CategoryTree
from visir.training.trained import Epoch

SMALL: dict[str, Any] = {"hidden": (32, 32)}


def recipe(**changes: Any) -> CategoriesRecipe:
    given = {
        "name": "toy",
        "dimension": 32,
        "category": {"head": SMALL},
        "product": {"head": SMALL, **changes.pop("product", {})},
        "optimiser": {"epochs": 3, "batch": 64, **changes.pop("optimiser", {})},
    }
    return CategoriesRecipe.model_validate({**given, **changes})


def halves(vectors: CatalogueVectors) -> tuple[CatalogueVectors, CatalogueVectors]:
    held = np.arange(len(vectors)) % 5 == 0
    return vectors.keep_products(~held), vectors.keep_products(held)


def test_a_model_is_a_folder_that_gives_the_same_vectors(tmp_path: Path) -> None:
    _, vectors = generate_vectors(200)
    model = train_categories(recipe(), *halves(vectors), tmp_path / "m")
    again = load_categories_model(tmp_path / "m")
    categories, products = again.embed(vectors)
    assert np.array_equal(products.vectors, model.embed(vectors)[1].vectors)
    assert categories.ids.to_pylist() == vectors.catalogue.categories["id"].to_pylist()
    assert products.ids.to_pylist() == vectors.catalogue.products["id"].to_pylist()
    assert np.allclose(np.linalg.norm(products.vectors, axis=1), 1, atol=1e-6)
    assert again.modalities == ("image", "title", "attributes")
    assert {one.name for one in (tmp_path / "m").iterdir()} == {
        "heads.safetensors",
        "visir.json",
        "recipe.toml",
        "curve.json",
        "steps.jsonl",
    }
    same = read_categories_recipe(tmp_path / "m" / "recipe.toml")
    assert same == recipe()


def test_a_kill_changes_nothing(tmp_path: Path) -> None:
    _, vectors = generate_vectors(200)
    asked = recipe(product={"attributes": "attention", "absent": "learnt"}, setting="all")
    whole = train_categories(asked, *halves(vectors), tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(epoch: Epoch) -> None:
        if epoch.epoch == 2:
            raise Killed

    with pytest.raises(Killed):
        train_categories(asked, *halves(vectors), tmp_path / "killed", report=kill)
    with refused(VisirError, code="holds-interrupted-training"):
        train_categories(asked, *halves(vectors), tmp_path / "killed")
    resumed = train_categories(asked, *halves(vectors), tmp_path / "killed", resume=True)
    assert resumed.weights == whole.weights


def test_products_that_lack_everything_are_no_error(tmp_path: Path) -> None:
    _, vectors = generate_vectors(120)
    images, titles, attributes = vectors.images, vectors.titles, vectors.attributes
    assert images is not None
    assert titles is not None
    assert attributes is not None
    images.rows[::3] = -1
    titles.rows[::2] = -1
    bare = CatalogueVectors(vectors.catalogue, vectors.categories, images, titles, attributes)
    for absent in ("zero", "learnt"):
        model = train_categories(recipe(product={"absent": absent}), *halves(bare), tmp_path / absent)
        assert np.isfinite(model.embed(bare)[1].vectors).all()


def test_vectors_of_another_encoder_are_refused(tmp_path: Path) -> None:
    _, vectors = generate_vectors(100)
    model = train_categories(recipe(product={"modalities": ("image",)}), *halves(vectors), tmp_path / "m")
    assert set(model.cards) == {"categories", "images"}
    other = CatalogueVectors(vectors.catalogue, word_vectors(["x"] * 113)[:, :5], vectors.images)
    with refused(EmbeddingError, "categories", "5 dimensions", "trained with 48"):
        model.embed(other)
    with refused(EncoderError, code="another-text-encoder", hint=False):
        model.embed_texts(["Wooden dogs"], load("bow"))
    (tmp_path / "m" / "heads.safetensors").write_bytes(b"cut")
    with refused(EncoderError, "- heads.safetensors has 3 bytes", code="checkpoint-damaged"):
        load_categories_model(tmp_path / "m")


def test_the_recipes_that_come_with_visir() -> None:
    read = {name: read_categories_recipe(path) for name, path in shipped_categories_recipes().items()}
    assert len(read) == 11
    for name, one in read.items():
        model = name.removesuffix("-general").removesuffix("-specific")
        assert one.name == model
        assert one.product.modalities == {"i": ("image",), "ia": ("image", "attributes")}.get(
            model.removeprefix("clip-"), ("image", "title", "attributes")
        )
        sharp = model.endswith("-sharp")
        temperature, targets = (0.1, "multi-positive") if sharp else (1.0, "pairs")
        # The thesis, section 7.4.2: 30 epochs, batches of 8 or 128, τ = 1, λ = 0.5.
        assert (one.optimiser.epochs, one.optimiser.name) == (30, "adamw")
        assert one.optimiser.batch == (8 if one.setting == "general" else 128)
        assert one.setting == ("general" if "-general" in name else "specific" if "-specific" in name else "all")
        assert one.objective == CategoryLoss(temperature=temperature, balance=0.5, targets=targets, hierarchy=0.0)
    assert find_categories_recipe("clip-ita").name == "clip-ita.toml"


def found(model: CategoriesModel, made: GeneratedCatalogue, vectors: CatalogueVectors) -> dict[str, float]:
    """R-precision over the products: of most specific categories (seen, unseen) and of most general ones."""
    categories, products = model.embed(vectors)
    tree = CategoryTree.of(vectors.catalogue)
    own = tree.rows(vectors.catalogue.products["category_id"])
    right = tree.contains(np.arange(len(tree))[:, None], own[None, :])
    counts = right.sum(1)
    order = np.argsort(-(categories.vectors @ products.vectors.T), axis=1)
    first = np.arange(len(own)) < counts[:, None]
    precision = (np.take_along_axis(right, order, 1) & first).sum(1) / np.maximum(counts, 1)
    unseen = np.isin(tree.ids, made.unseen)
    leaves, roots = (counts > 0) & (tree.depths == 3), tree.depths == 1
    groups = {"seen": leaves & ~unseen, "unseen": leaves & unseen, "roots": roots}
    return {name: float(precision[group].mean()) for name, group in groups.items()}


def planted_results(
    made: GeneratedCatalogue, vectors: CatalogueVectors, tmp_path: Path, setting: str, **asked: Any
) -> dict[str, dict[str, float]]:
    """R-precision of models that read the picture, and the attributes too; unseen categories are kept from training."""
    tree = CategoryTree.of(vectors.catalogue)
    own = tree.rows(vectors.catalogue.products["category_id"])
    held = np.arange(len(vectors)) % 4 == 0
    unseen = np.isin(np.array(tree.ids)[own], made.unseen)
    results = {}
    for name, parts in (("I", ("image",)), ("IA", ("image", "attributes"))):
        model = train_categories(
            recipe(setting=setting, product={"modalities": parts}, **asked),
            vectors.keep_products(~held & ~unseen),
            vectors.keep_products(held & ~unseen),
            tmp_path / f"{setting}-{name}",
        )
        results[name] = found(model, made, vectors.keep_products(held))
    return results


def test_planted_structure_is_found(tmp_path: Path) -> None:
    made, vectors = generate_vectors(1000, noise=0.5)
    asked = {"optimiser": {"epochs": 10, "batch": 64, "rate": 3e-3}, "objective": {"temperature": 0.1}}
    results = planted_results(made, vectors, tmp_path, "specific", **asked)
    # A picture tells the subject and nothing of its 4 materials; the attribute tells which.
    assert results["I"]["seen"] < 0.4
    assert results["IA"]["seen"] > 0.7
    # One of 88 leaves by chance, one in four for whoever knows the subject alone.
    assert results["IA"]["unseen"] > 0.4
    roots = planted_results(made, vectors, tmp_path, "general", **asked)
    assert roots["I"]["roots"] > 0.9
    assert roots["IA"]["roots"] == pytest.approx(roots["I"]["roots"], abs=0.05)


@pytest.mark.nightly
def test_planted_structure_is_found_by_real_encoders(tmp_path: Path) -> None:
    from visir.files import data_directory

    if not (data_directory() / "mobilenet_v2").is_dir():
        pytest.skip("needs $VISIR_DATA/mobilenet_v2")
    pytest.importorskip("sentence_transformers")
    from visir.products.generated import generate_catalogue

    made = generate_catalogue(1000)
    vectors = encode_catalogue(made.catalogue, image="mobilenet_v2", text="st:all-MiniLM-L6-v2")
    asked = {"optimiser": {"epochs": 30, "batch": 128, "rate": 1e-3}, "objective": {"temperature": 0.1}}
    results = planted_results(made, vectors, tmp_path, "specific", **asked)
    # Measured: 0.14 and 0.27; MobileNetV2 knows photos, not drawn scenes, and 700 products are few to learn them from.
    assert results["IA"]["seen"] > 1.5 * results["I"]["seen"]
    assert results["IA"]["unseen"] > 0.05  # one of 88 by chance; measured 0.18 (without attributes 0.19)
    roots = planted_results(made, vectors, tmp_path, "general", **asked)
    assert roots["IA"]["roots"] == pytest.approx(roots["I"]["roots"], abs=0.05)

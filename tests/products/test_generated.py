"""The generated catalogue: what was planted is there, and nothing else tells the category."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from refusals import refused
from visir.collections.images import ImageReader
from visir.collections.scenes import read_location
from visir.errors import CollectionError
from visir.products import CategoryTree, open_catalogue
from visir.products.generated import MATERIALS, NUISANCE, GeneratedCatalogue, generate_catalogue
from visir.records import Catalogue

N = 8_000


@pytest.fixture(scope="module")
def made() -> GeneratedCatalogue:
    return generate_catalogue(N, seed=3)


def levels(catalogue: Catalogue, level: int) -> list[str]:
    """Per product, the name of its category on a level (1–3)."""
    tree = CategoryTree.of(catalogue)
    return [tree.names[row] for row in tree.paths[tree.rows(catalogue.products["category_id"]), level - 1]]


def information(one: Iterable[object], other: Iterable[object]) -> float:
    """Mutual information in bits, from counts."""
    pairs = Counter(zip(one, other, strict=True))
    n = sum(pairs.values())
    left, right = Counter[object](), Counter[object]()
    for (a, b), count in pairs.items():
        left[a] += count
        right[b] += count
    return sum(c / n * float(np.log2(c * n / (left[a] * right[b]))) for (a, b), c in pairs.items())


def named(catalogue: Catalogue, name: str) -> list[str | None]:
    """Per product, the value of an attribute."""
    values = {row["product_id"]: row["value"] for row in catalogue.attributes.to_pylist() if row["name"] == name}
    return [values.get(one) for one in catalogue.products["id"].to_pylist()]


def test_the_tree_is_whole_whatever_the_number() -> None:
    for n in (1, 300):
        tree = CategoryTree.of(generate_catalogue(n).catalogue)
        assert np.unique(tree.depths, return_counts=True)[1].tolist() == [3, 22, 88]


def test_a_product_is_the_same_whatever_the_number_and_differs_by_seed() -> None:
    few, many = generate_catalogue(20).catalogue, generate_catalogue(50).catalogue
    assert few.products.to_pylist() == many.products.to_pylist()[:20]
    assert few.attributes.to_pylist() == many.attributes.to_pylist()[: few.attributes.num_rows]
    assert generate_catalogue(20, seed=1).catalogue.products["title"] != few.products["title"]
    assert generate_catalogue(20).catalogue.fingerprint == few.fingerprint


def test_only_the_material_tells_the_leaf(made: GeneratedCatalogue) -> None:
    catalogue = made.catalogue
    material = named(catalogue, "material")
    assert levels(catalogue, 3) == [
        f"{MATERIALS[one or '']} {subject.lower()}" for one, subject in zip(material, levels(catalogue, 2), strict=True)
    ]
    # Independent draws leave, from finite counts alone, about (r − 1)(c − 1) / (2 n ln 2) bits (Miller's bias):
    # 4 materials × 22 subjects: 3 · 21 / (2 · 8000 · 0.693) = 0.0057. Three times that is allowed.
    assert information(material, levels(catalogue, 2)) < 3 * 0.0057
    for name, values in NUISANCE.items():
        told = named(catalogue, name)
        assert 0.45 < sum(one is not None for one in told) / N < 0.55
        bias = len(values) * 87 / (2 * N * np.log(2))  # values and "absent", 88 leaves
        assert information(told, levels(catalogue, 3)) < 1.5 * bias
    # Every leaf has its share: 8000 / 88 = 91, and five standard deviations of about 9.5 on either side
    counts = Counter(catalogue.products["category_id"].to_pylist()).values()
    assert len(counts) == 88 and min(counts) > 43 and max(counts) < 139


def test_titles_name_the_subject_as_often_as_asked_and_never_the_material(made: GeneratedCatalogue) -> None:
    subjects = [read_location(path)[0].subject for path in made.catalogue.products["path"].to_pylist()]
    titles = made.catalogue.products["title"].to_pylist()
    share = np.mean([title.endswith(f" {subject}") for title, subject in zip(titles, subjects, strict=True)])
    assert 0.78 < share < 0.82  # 1 − 0.2; a standard deviation is 0.0045
    assert not any(one.lower() in title.lower() for title in titles for pair in MATERIALS.items() for one in pair)
    for noise, named_titles in ((0.0, 50), (1.0, 0)):
        catalogue = generate_catalogue(50, noise=noise).catalogue
        shown = [read_location(path)[0].subject for path in catalogue.products["path"].to_pylist()]
        pairs = zip(catalogue.products["title"].to_pylist(), shown, strict=True)
        assert sum(title.endswith(subject) for title, subject in pairs) == named_titles


def test_pictures_show_the_subject_and_nothing_of_the_material(made: GeneratedCatalogue) -> None:
    catalogue = made.catalogue
    scenes = [read_location(path)[0] for path in catalogue.products["path"].to_pylist()]
    plural = {"sheep": "Sheep", "bus": "Buses"}
    assert levels(catalogue, 2) == [plural.get(one.subject, f"{one.subject}s").capitalize() for one in scenes]
    material = named(catalogue, "material")
    for fact, values in (("colour", 8), ("pattern", 4), ("place", 8)):
        bias = 3 * (values - 1) / (2 * N * np.log(2))
        assert information([getattr(scene, fact) for scene in scenes], material) < 5 * bias
    assert ImageReader(generate_catalogue(3, size=64).catalogue.pictures()).open(2).size == (64, 64)


def test_unseen_categories_are_made_of_seen_parts(made: GeneratedCatalogue) -> None:
    tree = CategoryTree.of(made.catalogue)
    rows = tree.rows(made.unseen)
    assert len(set(made.unseen)) == 8 and tree.leaves[rows].all() and (tree.depths[rows] == 3).all()
    assert len(np.unique(tree.parents[rows])) == 8  # of each subject one at most, so its other three are seen
    assert generate_catalogue(5, seed=3).unseen == made.unseen
    assert generate_catalogue(5, unseen=0).unseen == ()
    assert len(generate_catalogue(5, unseen=22).unseen) == 22


def test_the_door_and_its_faults() -> None:
    assert open_catalogue("generated:1,000", seed="4", noise="0.5").fingerprint == (
        generate_catalogue(1000, seed=4, noise=0.5).catalogue.fingerprint
    )
    with refused(CollectionError, "many", code="not-number-products"):
        open_catalogue("generated:many")
    with refused(CollectionError, code="holds-pictures", hint=False):
        open_catalogue("generated:5", images="none")
    with pytest.raises(CollectionError) as told:
        generate_catalogue(0, seed=-1, size=10, noise=2.0, unseen=23)
    assert "(5 faults)" in str(told.value)

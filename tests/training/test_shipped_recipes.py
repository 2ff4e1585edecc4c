"""The recipes that come with visir: each is valid, says how to run it, and every published row has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import visir
from docs_site.tables import filled
from visir.training.recipe import Recipe, read_recipe
from visir.training.shipped import GROUPS, shipped_recipes
from visir_papers.application import RECIPES

FOLDERS = (Path(visir.__file__).parent / "recipes", RECIPES)
FILES = [
    path
    for folder in FOLDERS
    for path in sorted(folder.rglob("*.toml"))
    if path.read_text().startswith("# visir train ")
]
"""All but the recipes of sparse heads and of category models, which tests/sparse and tests/products look at."""

_SIX = tuple[float, float, float, float, float, float]

# The papers' tables: row -> recipe and i2t R@1, R@5, R@10, t2i R@1, R@5, R@10, as printed.
LTD: dict[str, tuple[str, _SIX]] = {
    "1.1": ("ltd-f30k-infonce", (45.0, 76.4, 85.5, 33.2, 65.5, 76.3)),
    "1.2": ("ltd-f30k-infonce-itd-dual", (44.4, 74.4, 82.8, 33.1, 64.8, 75.7)),
    "1.3": ("ltd-f30k-infonce-itd-constraint", (37.2, 67.3, 77.9, 28.4, 59.5, 71.1)),
    "1.4": ("ltd-f30k-infonce-ltd-dual", (45.8, 75.3, 84.6, 33.7, 66.0, 77.0)),
    "1.5": ("ltd-f30k-infonce-ltd-constraint", (49.7, 78.9, 86.7, 37.5, 68.6, 79.5)),
    "2.1.1": ("ltd-coco-infonce", (32.9, 64.3, 76.5, 23.8, 53.3, 66.9)),
    "2.2.1": ("ltd-coco-infonce-itd-dual", (33.2, 64.3, 76.5, 24.9, 54.2, 67.7)),
    "2.3.1": ("ltd-coco-infonce-itd-constraint", (31.9, 63.0, 75.4, 23.9, 52.9, 66.6)),
    "2.4.1": ("ltd-coco-infonce-ltd-dual", (34.4, 64.1, 76.7, 24.5, 54.0, 67.5)),
    "2.5.1": ("ltd-coco-infonce-ltd-constraint", (35.1, 66.7, 78.6, 25.6, 55.0, 68.7)),
    "2.1.2": ("ltd-coco-infonce", (35.4, 67.8, 80.1, 26.3, 57.5, 70.9)),
    "2.2.2": ("ltd-coco-infonce-itd-dual", (35.4, 67.9, 80.2, 27.4, 58.5, 71.8)),
    "2.3.2": ("ltd-coco-infonce-itd-constraint", (34.3, 67.3, 79.2, 26.4, 57.1, 70.8)),
    "2.4.2": ("ltd-coco-infonce-ltd-dual", (37.0, 68.0, 80.2, 27.1, 58.0, 71.6)),
    "2.5.2": ("ltd-coco-infonce-ltd-constraint", (37.7, 70.4, 81.8, 28.2, 59.2, 72.6)),
    "3.1.1": ("ltd-f30k-triplet", (17.3, 40.5, 54.5, 10.8, 33.6, 48.1)),
    "3.1.2": ("ltd-f30k-triplet-ltd-dual", (28.3, 49.6, 61.7, 22.7, 48.1, 60.3)),
    "3.1.3": ("ltd-f30k-triplet-ltd-constraint", (58.0, 81.5, 89.2, 42.7, 71.7, 80.6)),
    "3.2.1": ("ltd-coco-triplet", (37.2, 67.8, 78.6, 28.5, 57.7, 70.4)),
    "3.2.2": ("ltd-coco-triplet-ltd-dual", (38.0, 68.0, 79.7, 28.6, 58.3, 71.0)),
    "3.2.3": ("ltd-coco-triplet-ltd-constraint", (38.2, 69.3, 81.2, 30.2, 59.9, 72.4)),
    "4.1.1": ("ltd-f30k-fixed-targets", (27.1, 53.1, 64.9, 28.4, 57.2, 67.2)),
    "4.1.2": ("ltd-f30k-tuned-targets", (36.3, 63.7, 75.3, 29.9, 59.9, 71.9)),
    "4.2.1": ("ltd-coco-fixed-targets", (14.1, 34.2, 46.1, 19.7, 44.5, 57.3)),
    "4.2.2": ("ltd-coco-tuned-targets", (28.2, 57.9, 70.7, 22.6, 51.3, 65.0)),
    "Table 3, row Ours": ("ltd-coco-resnet152-triplet", (38.9, 68.5, 79.9, 29.9, 59.1, 71.7)),
    "Table 3, row VSE++": ("vsepp-coco", (41.3, 71.1, 81.2, 30.3, 59.4, 72.4)),
}
# Thesis, chapter 4: (recipe, table) -> the six values.
THESIS: dict[tuple[str, str], _SIX] = {
    ("clip-rn50-f30k", "4.1"): (86.9, 97.4, 99.0, 72.4, 92.1, 95.8),
    ("clip-rn50-f30k-ltd-dual", "4.1"): (86.5, 97.1, 98.5, 72.4, 92.3, 95.9),
    ("vsepp-f30k-infonce", "4.1"): (52.6, 79.8, 87.8, 39.5, 69.8, 79.4),
    ("vsepp-f30k-infonce-ltd-constraint", "4.1"): (54.1, 81.1, 88.6, 42.5, 71.9, 81.3),
    ("clip-rn50-coco", "4.1"): (63.8, 86.1, 92.3, 46.3, 74.8, 84.1),
    ("clip-rn50-coco-ltd-dual", "4.1"): (63.8, 86.1, 92.3, 46.3, 74.7, 84.1),
    ("vsepp-coco-infonce", "4.1"): (42.2, 72.7, 83.2, 30.9, 61.2, 73.5),
    ("vsepp-coco-infonce-ltd-constraint", "4.1"): (43.6, 73.5, 83.7, 32.4, 62.5, 74.7),
    ("clip-rn50-f30k", "4.2"): (86.9, 97.4, 98.8, 72.8, 92.1, 95.6),
    ("clip-rn50-f30k-ifm", "4.2"): (87.4, 97.4, 99.1, 73.2, 92.2, 95.6),
    ("vsepp-f30k-infonce", "4.2"): (52.9, 80.5, 87.6, 40.5, 68.8, 78.9),
    ("vsepp-f30k-ifm", "4.2"): (52.4, 76.9, 85.3, 39.1, 68.8, 78.2),
    ("clip-rn50-coco", "4.2"): (63.5, 86.0, 92.2, 46.3, 74.7, 84.2),
    ("clip-rn50-coco-ifm", "4.2"): (63.0, 86.6, 92.6, 47.2, 75.6, 84.5),
    ("vsepp-coco-infonce", "4.2"): (41.7, 72.5, 83.1, 31.3, 61.1, 73.6),
    ("vsepp-coco-ifm", "4.2"): (40.2, 70.8, 81.6, 30.8, 61.5, 74.3),
    ("clip-rn50-f30k-unique", "4.1"): (57.2, 84.0, 91.0, 44.9, 74.9, 84.2),
    ("clip-rn50-f30k-unique", "4.2"): (57.9, 84.6, 91.3, 43.9, 74.6, 84.4),
    ("clip-rn50-f30k-ltd-dual-unique", "4.1"): (64.0, 87.8, 93.2, 50.7, 79.8, 88.1),
    ("clip-rn50-f30k-ifm-unique", "4.2"): (73.8, 91.5, 95.6, 58.9, 84.4, 91.1),
    ("vsepp-f30k-infonce-unique", "4.1"): (0.1, 0.6, 1.1, 0.1, 0.5, 1.0),
    ("vsepp-f30k-infonce-unique", "4.2"): (0.1, 0.4, 0.8, 0.1, 0.4, 1.0),
    ("vsepp-f30k-infonce-ltd-constraint-unique", "4.1"): (24.7, 51.8, 65.6, 20.7, 49.2, 62.6),
    ("vsepp-f30k-ifm-unique", "4.2"): (0.0, 0.6, 0.9, 0.1, 0.5, 1.0),
    ("clip-rn50-coco-unique", "4.1"): (13.6, 31.5, 42.2, 7.3, 22.1, 32.7),
    ("clip-rn50-coco-unique", "4.2"): (13.9, 32.7, 43.8, 8.8, 24.7, 35.5),
    ("clip-rn50-coco-ltd-dual-unique", "4.1"): (18.9, 41.8, 54.1, 16.5, 39.4, 52.6),
    ("clip-rn50-coco-ifm-unique", "4.2"): (23.4, 46.5, 58.2, 17.1, 38.9, 51.3),
    ("vsepp-coco-infonce-unique", "4.1"): (0.0, 0.1, 0.2, 0.0, 0.1, 0.2),
    ("vsepp-coco-infonce-unique", "4.2"): (0.0, 0.1, 0.2, 0.0, 0.1, 0.2),
    ("vsepp-coco-infonce-ltd-constraint-unique", "4.1"): (3.9, 13.7, 21.6, 3.1, 11.0, 18.1),
    ("vsepp-coco-ifm-unique", "4.2"): (0.0, 0.1, 0.2, 0.0, 0.1, 0.2),
}


def comment(name: str) -> str:
    """The opening comment of a shipped recipe, without its marks."""
    lines = shipped_recipes()[name].read_text().split("\n\n")[0].splitlines()
    assert all(line.startswith("#") for line in lines), name
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)


def shipped(name: str) -> Recipe:
    return read_recipe(shipped_recipes()[name])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_is_valid_opens_with_its_command_and_is_named_as_its_file(path: Path) -> None:
    recipe = read_recipe(path)
    assert recipe.name == path.stem
    own = " --data captions.csv --images photos/" if recipe.group == "own" else ""
    if recipe.name == "composed":  # queries, not captions
        own = " --data FASHIONIQ --model MODEL"
    assert path.read_text().startswith(f"# visir train {path.stem}{own}\n#\n# ")
    assert recipe.title and recipe.group in GROUPS
    assert (recipe.group == "own") == (not recipe.data.collection), "recipes for own data name none"
    assert own or recipe.data.collection.startswith("scenes:") or recipe.data.obtain, "real data: say where to get it"


def test_names_are_unique() -> None:
    assert sorted(shipped_recipes()) == sorted(path.stem for path in FILES)


@pytest.mark.parametrize("row", LTD)
def test_every_row_of_ltd_has_a_recipe_with_its_figures(row: str) -> None:
    name, values = LTD[row]
    said = comment(name)
    assert re.search(rf"(?<![\d.]){re.escape(row)}(?![\d.]*\d)", said), f"{name} does not name row {row}"
    assert figures(values) in said


@pytest.mark.parametrize(("name", "table"), THESIS, ids=lambda one: str(one))
def test_every_row_of_the_thesis_has_a_recipe_with_its_figures(name: str, table: str) -> None:
    said = comment(name)
    assert "Thesis" in said and table in said.split("Published")[0]
    assert figures(THESIS[name, table]) in said


def figures(six: _SIX) -> str:
    """Six values as the comments write them."""
    i2t, t2i = six[:3], six[3:]
    return "; ".join(
        f"{direction} R@1 {one[0]}, R@5 {one[1]}, R@10 {one[2]}" for direction, one in (("i2t", i2t), ("t2i", t2i))
    )


@pytest.mark.parametrize("name", sorted({name for name, _ in LTD.values()}))
def test_rsum_is_the_sum_of_its_six_values(name: str) -> None:
    for line in comment(name).splitlines():
        if "rsum" in line:
            hits = [float(one) for one in re.findall(r"R@\d+ (\d+\.\d)", line)]
            assert f"rsum {sum(hits):.1f}" in line


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_what_a_name_says_is_what_the_recipe_does(name: str) -> None:
    recipe = shipped(name)
    for objective in ("ltd", "itd"):
        found = re.search(rf"{objective}-(dual|constraint)", name)
        settings = getattr(recipe.auxiliary, objective)
        assert (settings is not None) == (found is not None)
        if found:
            assert settings.join == found[1]
            weight = f"β {settings.beta:g}" if found[1] == "dual" else f"η {settings.bound:g}"
            assert weight in comment(name)
    if "triplet" in name or name == "vsepp-coco":
        assert recipe.objective.name == "triplet"
    elif "ifm" in name:
        assert recipe.objective.name == "ifm"
        assert f"ε {recipe.objective.epsilon:g}" in comment(name)
    elif name.endswith("-late"):
        assert recipe.objective.name == "filip"
    else:
        assert recipe.objective.name == ("cosine" if "fixed-targets" in name else "infonce")
    assert (recipe.shortcuts is not None) == name.endswith("-unique")
    if "-f30k-" in f"{name}-":
        assert "flickr30k" in recipe.data.collection and "flickr30k" in str(recipe.data.images)
    if "-coco-" in f"{name}-":
        assert "dataset_coco.json" in recipe.data.collection and recipe.data.images is None


def test_the_page_of_recipes_lists_every_one_with_its_figures() -> None:
    root = Path(__file__).parents[2]
    page = filled((root / "docs" / "reference" / "recipes.md").read_text())
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert sorted(rows) == sorted(path.stem for path in FILES)
    assert all(figures(values) in rows[name] for name, values in LTD.values())


def test_the_paper_reproductions_keep_false_negatives_as_the_papers_did() -> None:
    for path in FILES:
        if path.parent.name in ("ltd", "shortcuts"):
            objective = read_recipe(path).objective
            assert objective.name == "cosine" or objective.false_negatives == "kept", path.stem


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_papers_tables_take_the_readings_of_the_released_code_and_nothing_else_does(path: Path) -> None:
    recipe, of_ltd = read_recipe(path), path.stem.startswith("ltd-")
    released = "average" if of_ltd else "weights"
    assert recipe.averaging.continue_from == released
    assert recipe.schedule.per == ("epoch" if of_ltd else "step")
    if recipe.auxiliary.itd is not None:
        assert recipe.auxiliary.itd.normalise_over == ("positions" if of_ltd else "vocabulary")
    if recipe.auxiliary.ltd is not None:
        of_table = path.parent.name == "shortcuts" and path.stem.endswith("-unique")
        assert recipe.auxiliary.ltd.shortcuts == of_table


def test_two_phases_and_averaging_of_the_ltd_baseline() -> None:
    recipe = shipped("ltd-coco-infonce-ltd-constraint")  # two `extends` away from where it is written
    assert (recipe.optimiser.epochs, recipe.schedule.frozen_epochs, recipe.schedule.tuned_rate) == (60, 30, 0.1)
    assert (recipe.averaging.snapshots, recipe.averaging.share) == (5, 0.1)
    assert shipped("ltd-coco-triplet-ltd-dual").averaging.snapshots == 0

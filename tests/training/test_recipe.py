"""Recipes: faults are told all at once, with line and nearest name; what is written is read back equal."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import visir
from visir.errors import ConfigurationError
from visir.training.recipe import Recipe, expand, find_recipe, read_recipe
from visir.training.settings import to_toml

RECIPES = sorted((Path(visir.__file__).parent / "recipes").glob("*.toml"))

PLAIN = """# visir train plain.toml
name = "plain"

[data]
collection = "scenes:100"

[backbones]
image = "pixels"
text = "bow"
"""


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.toml"
    path.write_text(PLAIN)
    return path


def test_defaults_are_filled_in(plain: Path) -> None:
    recipe = read_recipe(plain)
    assert (recipe.objective.temperature, recipe.objective.siblings, recipe.selection.keep) == (0.05, "apart", "rsum")
    assert recipe.data.train == "train"


def test_changes_win_over_the_file_and_are_read_as_toml(plain: Path) -> None:
    changes = ["optimiser.epochs=3", "model.image.hidden=[64, 32]", "data.collection=scenes:7", "seed = 4"]
    recipe = read_recipe(plain, [*changes, "selection.keep=last"])
    assert (recipe.optimiser.epochs, recipe.model.image.hidden) == (3, (64, 32))
    assert (recipe.data.collection, recipe.seed, recipe.selection.keep) == ("scenes:7", 4, "last")


def test_all_faults_at_once_with_line_and_nearest_name(tmp_path: Path) -> None:
    path = tmp_path / "faulty.toml"
    path.write_text(
        PLAIN
        + """
[optimiser]
epohcs = 3
batch = 1
rate = "fast"

[model.image]
droput = 0.1

[selection]
keep = "rsun"
"""
    )
    with pytest.raises(ConfigurationError) as caught:
        read_recipe(path, ["model.text.hiden=[3]"])
    text = str(caught.value)
    assert "faulty.toml (6 faults)" in text
    assert "line 12: unknown key 'optimiser.epohcs': did you mean 'epochs'?" in text
    assert "line 13: optimiser.batch: Input should be greater than or equal to 2 (found 1)" in text
    assert "line 14: optimiser.rate:" in text and "(found 'fast')" in text
    assert "line 17: unknown key 'model.image.droput': did you mean 'dropout'?" in text
    assert "line 20: selection.keep: 'rsun' is none of its values: did you mean 'rsum'?" in text
    assert "--set model.text.hiden=[3]: unknown key 'model.text.hiden': did you mean 'hidden'?" in text


@pytest.mark.parametrize("name", ["bow:fitted", "bow:fitted:", "bow:fitted:many", "bow:fitted:0"])
def test_a_fitted_bag_of_words_says_how_many(plain: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"backbones\.text.*needs its number of words: bow:fitted:2048"):
        read_recipe(plain, [f"backbones.text={name}"])


def test_missing_keys_and_sections(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.write_text("[data]\n")
    with pytest.raises(ConfigurationError) as caught:
        read_recipe(path)
    for key in ("'name' is missing", "'backbones' is missing", "line 1: the key 'data.collection' is missing"):
        assert key in str(caught.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [("epochs", "not of the form key=value"), ("name.x=1", "'name' is a single value, not a section")],
)
def test_changes_that_are_none(plain: Path, change: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        read_recipe(plain, [change])


def test_broken_toml_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("name = \n")
    with pytest.raises(ConfigurationError, match=r"broken\.toml: not valid TOML: .*line 1"):
        read_recipe(path)


def test_what_is_written_is_read_back_equal(plain: Path, tmp_path: Path) -> None:
    changes = ['data.obtain=say "this"\\nor that — ü', "model.text.hidden=[8]", "selection.patience=2"]
    recipe = read_recipe(plain, changes)
    written = tmp_path / "resolved.toml"
    written.write_text(to_toml(recipe, "visir train resolved.toml"))
    assert read_recipe(written) == recipe
    assert written.read_text().startswith("# visir train resolved.toml\n")
    assert tomllib.loads(written.read_text())["optimiser"]["epochs"] == recipe.optimiser.epochs


def test_the_data_directory_is_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_DATA", "/elsewhere")
    assert expand("karpathy:$VISIR_DATA/flickr8k/x.json") == "karpathy:/elsewhere/flickr8k/x.json"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_shipped_recipes_are_valid_and_open_with_their_command(path: Path) -> None:
    assert path.read_text().startswith(f"# visir train {path.stem}\n")
    assert isinstance(read_recipe(path), Recipe)


def test_there_are_shipped_recipes() -> None:
    assert {"flickr8k-heads.toml", "scenes-heads.toml"} <= {path.name for path in RECIPES}


def test_a_recipe_is_found_by_path_or_by_name(plain: Path) -> None:
    assert find_recipe(plain) == plain
    assert find_recipe("scenes-heads").read_text().startswith("# visir train scenes-heads\n")
    with pytest.raises(ConfigurationError, match="no such file, and no recipe of that name") as caught:
        find_recipe("scene-heads")
    assert "did you mean 'scenes-heads'?" in str(caught.value)

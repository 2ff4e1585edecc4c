"""What a call sets over a recipe: keywords, sections, `set`; every fault at once, in the words of the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import visir
from refusals import refused
from visir.collections import open_collection
from visir.encoders import load
from visir.errors import CollectionError, ConfigurationError
from visir.training.data import TOWERS
from visir.training.recipe import Recipe
from visir.training.shipped import find_recipe

SCENES = "scenes:20?size=64"


def resolved(recipe: Any = "scenes-heads", data: Any = SCENES, more: Any = None, **given: Any) -> Recipe:
    keywords = {name: given.pop(name) for name in list(given) if name in TOWERS.keywords}
    return TOWERS.resolve(recipe, data, keywords, given, more)[0]


def test_keywords_sections_and_set_reach_their_keys() -> None:
    recipe = resolved(
        epochs=3, batch=8, rate=0.1, seed=5, device="cpu", dimension=16, objective={"name": "ifm", "epsilon": 0.2},
        more={"optimiser.clip": None, "schedule": {"warmup": 0.5}},
    )  # fmt: skip
    assert (recipe.optimiser.epochs, recipe.optimiser.batch, recipe.optimiser.rate, recipe.seed) == (3, 8, 0.1, 5)
    assert (recipe.dimension, recipe.optimiser.clip, recipe.schedule.warmup) == (16, None, 0.5)
    assert recipe.objective.name == "ifm" and recipe.objective.epsilon == 0.2
    assert resolved(more=["optimiser.rate=0.5"], rate=0.1).optimiser.rate == 0.5  # `set` wins over keywords
    assert recipe.data.collection == SCENES


def test_a_recipe_is_a_name_a_path_a_dictionary_or_a_recipe() -> None:
    path = find_recipe("scenes-heads")
    named = resolved()
    assert resolved(path) == resolved(str(path)) == resolved(named) == named
    own = {"name": "mine", "extends": "scenes-heads", "optimiser": {"epochs": 2}}
    assert resolved(own) == named.model_copy(
        update={"name": "mine", "title": "", "group": "", "optimiser": named.optimiser.model_copy(update={"epochs": 2})}
    )
    with refused(ConfigurationError, "int", code="recipe-of-another-type"):
        resolved(3)


def test_all_faults_are_told_in_the_words_of_the_call() -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolved(epochs=0, batch="many", image={"head": {"hiden": [3]}}, more={"selection.keep": "best"})
    text = str(caught.value)
    assert "scenes-heads.toml (4 faults)" in text
    assert "epochs=0: optimiser.epochs" in text and "batch='many': optimiser.batch" in text
    assert "image.head.hiden=[3]: unknown key 'image.head.hiden': did you mean 'hidden'?" in text
    assert "selection.keep='best': selection.keep: 'best' is none of its values" in text


def test_unknown_keywords_name_the_right_ones() -> None:
    with pytest.raises(ConfigurationError) as caught:
        visir.train("scenes-heads", lr=1e-4, batch_size=8, epoch=3)
    text = str(caught.value)
    assert "unknown keyword 'lr': it is called 'rate' here" in text
    assert "unknown keyword 'batch_size': it is called 'batch' here" in text
    assert "unknown keyword 'epoch': did you mean 'epochs'?" in text
    assert "visir.train(…, epochs=5, set={'optimiser.rate': 1e-4})" in text


def test_own_data_replaces_all_that_the_recipe_says_of_its_own() -> None:
    recipe = resolved("flickr8k-heads")
    assert recipe.data.collection == SCENES and recipe.data.obtain == "" and recipe.data.train == "train"
    opened = open_collection(SCENES)
    recipe = resolved("flickr8k-heads", opened)
    assert recipe.data.collection == opened.name and "were given in Python" in recipe.data.obtain


def test_models_are_named_by_name_path_or_encoder(tmp_path: Path) -> None:
    both = resolved("heads", model="bow:8")
    assert both.image.encoder == "bow:8" and both.text.encoder == ("bow:8",)  # type: ignore[union-attr]
    sides = resolved("heads", image_model="pixels", text_model=["bow:8", "bow:16"])
    assert sides.image.encoder == "pixels" and sides.text.encoder == ("bow:8", "bow:16")  # type: ignore[union-attr]
    assert resolved("heads", image_model=tmp_path).image.encoder == str(tmp_path)  # type: ignore[union-attr]
    assert resolved("heads", text_model=load("bow:8")).text.encoder == ("bow:8",)  # type: ignore[union-attr]


def test_recipes_for_own_data_ask_for_it() -> None:
    with pytest.raises(ConfigurationError) as caught:
        visir.train("heads")
    assert "heads: which pictures and captions? It is a recipe for data of your own." in str(caught.value)
    assert "visir train heads --data captions.csv --images photos/" in str(caught.value)
    assert 'visir.train(\'heads\', data="captions.csv", images="photos/")' in str(caught.value)


def test_a_folder_in_the_place_of_data_is_pointed_out(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r'The folder to write is named: out="'):
        visir.train("scenes-heads", tmp_path / "out")


def test_the_list_of_recipes_is_grouped_and_a_table() -> None:
    listed = visir.recipes()
    assert listed.groups == ("own", "try", "measured", "ltd", "shortcuts") and len(listed) == 78
    assert repr(listed).splitlines()[1] == "  own: clip-finetune, clip-lora, composed, … (6)"
    assert "| Your own data: name it with --data | clip-finetune |" in " ".join(listed.to_markdown().split())
    assert visir.recipes(within="triplet-ltd").groups == ("measured", "ltd")
    with refused(ConfigurationError, "tripplet", code="no-recipe-holds"):
        visir.recipes(within="tripplet")

"""Recipes: faults are told all at once, with line and nearest name; what is written is read back equal."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.training.losses import InfoNCESettings, TripletSettings
from visir.training.objective import IFMSettings
from visir.training.recipe import GRU, FrozenTexts, SmallCNN, expand, read_recipe
from visir.training.settings import to_toml
from visir.training.shipped import find_recipe, shipped_recipes, summary

PLAIN = """# visir train plain.toml
name = "plain"

[data]
collection = "scenes:100"

[image]
tower = "frozen"
encoder = "pixels"

[text]
tower = "frozen"
encoder = "bow"
"""


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.toml"
    path.write_text(PLAIN)
    return path


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_defaults_are_filled_in(plain: Path) -> None:
    recipe = read_recipe(plain)
    assert recipe.objective.name == "infonce" and recipe.objective.false_negatives == "masked"
    assert (recipe.data.train, recipe.selection.keep, recipe.auxiliary.ltd) == ("train", "rsum", None)
    assert isinstance(recipe.text, FrozenTexts) and recipe.text.encoder == ("bow",)


def test_changes_win_over_the_file_and_are_read_as_toml(plain: Path) -> None:
    changes = ["optimiser.epochs=3", "image.head.hidden=[64, 32]", "data.collection=scenes:7", "seed = 4"]
    recipe = read_recipe(plain, [*changes, "selection.keep=last"])
    assert (recipe.optimiser.epochs, recipe.image.head.hidden) == (3, (64, 32))
    assert (recipe.data.collection, recipe.seed, recipe.selection.keep) == ("scenes:7", 4, "last")


def test_a_change_of_kind_replaces_the_section_whatever_the_order_of_changes(plain: Path) -> None:
    changes = ["text.words=50", "text.tower=gru", "objective.margin=0.3", "objective.name=triplet"]
    for order in (changes, changes[::-1]):
        recipe = read_recipe(plain, order)
        assert isinstance(recipe.text, GRU) and recipe.text.words == 50  # `encoder` of the frozen side is gone
        assert isinstance(recipe.objective, TripletSettings) and recipe.objective.margin == 0.3


def test_all_faults_at_once_with_line_and_nearest_name(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "faulty.toml",
        PLAIN
        + """
[optimiser]
epohcs = 3
batch = 1
rate = "fast"

[image.head]
droput = 0.1

[selection]
keep = "rsun"

[objective]
name = "ifm"
temperature = -1
epsilom = 0.1
""",
    )
    with pytest.raises(ConfigurationError) as caught:
        read_recipe(path, ["text.encodr=bow"])
    text = str(caught.value)
    assert "faulty.toml (8 faults)" in text
    assert "line 16: unknown key 'optimiser.epohcs': did you mean 'epochs'?" in text
    assert "line 17: optimiser.batch: Input should be greater than or equal to 2 (found 1)" in text
    assert "line 18: optimiser.rate:" in text and "(found 'fast')" in text
    assert "line 21: unknown key 'image.head.droput': did you mean 'dropout'?" in text
    assert "line 24: selection.keep: 'rsun' is none of its values: did you mean 'rsum'?" in text
    assert "line 28: objective.temperature: Input should be greater than 0; or Input should be 'own' (found -1)" in text
    assert "line 29: unknown key 'objective.epsilom': did you mean 'epsilon'?" in text
    # The nearest of a frozen text's keys, not of a GRU's: "rate" and "tower" are everybody's, "encoder" is its own.
    assert "--set text.encodr=bow: unknown key 'text.encodr': did you mean 'encoder'? known: encoder, head" in text


def test_every_fault_is_said_once_and_where_it_was_written(plain: Path) -> None:
    changes = [
        "image.hed.hidden=3",
        "objectiv.name=ifm",
        "optimiser=3",
        "text.head.hidden=3",
        "text.encoder=bow:fitted:x",
    ]
    with pytest.raises(ConfigurationError) as caught:
        read_recipe(plain, changes)
    text = str(caught.value)
    assert "(5 faults)" in text
    # Of a section that should not be there, the key that was written under it; not the section around it.
    assert "--set image.hed.hidden=3: unknown key 'image.hed': did you mean 'head'?" in text
    assert "--set objectiv.name=ifm: unknown key 'objectiv': did you mean 'objective'?" in text
    assert "--set optimiser=3: optimiser is a section, not a single value (found 3): optimiser.KEY = …" in text
    assert "--set text.head.hidden=3: text.head.hidden: a list is wanted, as in [1, 2] (found 3)" in text
    assert "--set text.encoder=bow:fitted:x: text.encoder.0: a fitted bag of words needs its number of words" in text


def test_a_recipe_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "x"\n# caf\xe9\n')
    with refused(VisirError, "latin.toml", "2", "0xe9", code="text-not-utf-8"):
        read_recipe(tmp_path / "latin.toml")


def test_a_kind_that_is_none_names_the_nearest_one(plain: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_recipe(plain, ["image.tower=small_cnn", "objective.name=infonec", "objective.temperature=0.1"])
    text = str(caught.value)
    assert "--set image.tower=small_cnn: image.tower: unknown tower 'small_cnn': did you mean 'small-cnn'?" in text
    assert "objective.name=infonec: objective.name: unknown name 'infonec': did you mean 'infonce'?" in text


def test_an_objective_that_does_not_say_its_name_is_the_default_one(plain: Path, tmp_path: Path) -> None:
    assert read_recipe(plain, ["objective.temperature=0.1"]).objective == InfoNCESettings(temperature=0.1)
    unnamed = write(tmp_path, "unnamed.toml", PLAIN + "[objective]\ntemperature = 0.1\n")
    assert read_recipe(unnamed).objective == InfoNCESettings(temperature=0.1)
    # Its name said afterwards is no change of kind; another one is.
    assert read_recipe(unnamed, ["objective.name=infonce"]).objective == InfoNCESettings(temperature=0.1)
    assert read_recipe(unnamed, ["objective.name=ifm"]).objective == IFMSettings()
    # Over a recipe that has a name the change is of that one.
    triplet = write(tmp_path, "triplet.toml", PLAIN + '[objective]\nname = "triplet"\n')
    assert read_recipe(triplet, ["objective.margin=0.3"]).objective == TripletSettings(margin=0.3)
    with refused(ConfigurationError, "--set objective.margin=0.3", "unknown key", "objective.margin"):
        read_recipe(plain, ["objective.margin=0.3"])
    with refused(ConfigurationError, "key", "image.tower", "missing", "one of frozen", "resnet"):
        read_recipe(write(tmp_path, "sides.toml", PLAIN.replace('tower = "frozen"\nencoder = "pixels"', "size = 64")))


@pytest.mark.parametrize("name", ["bow:fitted", "bow:fitted:", "bow:fitted:many", "bow:fitted:0"])
def test_a_fitted_bag_of_words_says_how_many(plain: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"text\.encoder.*needs its number of words: bow:fitted:2048"):
        read_recipe(plain, [f"text.encoder={name}"])


def test_missing_keys_and_sections(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_recipe(write(tmp_path, "empty.toml", "[data]\n[image]\n"))
    for told in (
        "the key 'name' is missing",
        "the key 'text' is missing",
        "line 2: the key 'image.tower' is missing: one of frozen, resnet, small-cnn, pretrained",
    ):
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [("epochs", "not of the form key=value"), ("name.x=1", "name: Input should be a valid string")],
)
def test_changes_that_are_none(plain: Path, change: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        read_recipe(plain, [change])


def test_changes_that_contradict_each_other(plain: Path) -> None:
    with refused(ConfigurationError, "--set name.x=1", "name", code="single-value-not-section", hint=False):
        read_recipe(plain, ["name=a", "name.x=1"])


def test_broken_toml_names_file_and_line(tmp_path: Path) -> None:
    with refused(ConfigurationError, "broken.toml", "line 1", code="not-valid-toml"):
        read_recipe(write(tmp_path, "broken.toml", "name = \n"))
    data = write(tmp_path, "mine.csv", "image,caption\na.jpg,a dog\n")
    with refused(ConfigurationError, "mine.csv", code="no-recipe") as caught:
        read_recipe(data)
    assert caught.value.hint.endswith(f"--data {data}") and "--list" in caught.value.message


def test_none_takes_back_an_optional_key_or_section(plain: Path) -> None:
    recipe = read_recipe(plain, ["optimiser.clip=none", "auxiliary.ltd=none"])
    assert recipe.optimiser.clip is None and recipe.auxiliary.ltd is None
    with pytest.raises(ConfigurationError, match=r"optimiser\.rate: Input should be a valid number.*found 'none'"):
        read_recipe(plain, ["optimiser.rate=none"])


def test_a_recipe_begins_from_another_one(plain: Path) -> None:
    below = """extends = "plain.toml"
name = "below"

[image]
tower = "small-cnn"
width = 16

[text]
rate = 0.1

[auxiliary.ltd]
"""
    write(plain.parent, "below.toml", below)
    last = write(plain.parent, "last.toml", 'extends = "below.toml"\nname = "last"\n[auxiliary]\nltd = "none"\n')
    recipe = read_recipe(plain.parent / "below.toml")
    assert (recipe.name, recipe.data.collection) == ("below", "scenes:100")
    assert isinstance(recipe.image, SmallCNN) and recipe.image.width == 16  # replaced: no `encoder` left over
    assert isinstance(recipe.text, FrozenTexts) and (recipe.text.encoder, recipe.text.rate) == (("bow",), 0.1)
    assert recipe.auxiliary.ltd is not None
    assert read_recipe(last).auxiliary.ltd is None and read_recipe(last).image == recipe.image


def test_a_recipe_may_begin_from_one_that_comes_with_visir(tmp_path: Path) -> None:
    path = write(tmp_path, "mine.toml", 'extends = "scenes-heads"\nname = "mine"\nseed = 5\n')
    theirs = read_recipe(find_recipe("scenes-heads"))
    assert read_recipe(path) == theirs.model_copy(update={"name": "mine", "title": "", "group": "", "seed": 5})


def test_faults_of_a_base_name_its_file_and_line(plain: Path) -> None:
    write(plain.parent, "base.toml", PLAIN.replace("encoder", "encodr"))
    path = write(plain.parent, "over.toml", 'extends = "base.toml"\nsed = 1\n')
    with pytest.raises(ConfigurationError) as caught:
        read_recipe(path)
    text = str(caught.value)
    assert f"{plain.parent / 'base.toml'}, line 9: unknown key 'image.encodr'" in text
    assert "\n  - line 2: unknown key 'sed': did you mean 'seed'?" in text
    assert "the key 'name' is missing" in text  # a name is a recipe's own


def test_bases_that_are_not_there_or_go_in_circles(tmp_path: Path) -> None:
    one = write(tmp_path, "one.toml", 'extends = "two.toml"\n')
    write(tmp_path, "two.toml", 'extends = "one.toml"\n')
    with refused(ConfigurationError, "one.toml → two.toml → one.toml", code="recipes-extend-each-other"):
        read_recipe(one)
    lost = write(tmp_path, "lost.toml", 'name = "x"\nextends = "scene-heads"\n')
    with pytest.raises(ConfigurationError, match=r"lost\.toml, line 2: extends: .*no such file") as caught:
        read_recipe(lost)
    assert "did you mean 'scenes-heads'?" in str(caught.value)
    with refused(ConfigurationError, "line 1", "3", code="extends-not-name-path", hint=False):
        read_recipe(write(tmp_path, "three.toml", "extends = 3\n"))


def test_what_is_written_is_read_back_equal(plain: Path, tmp_path: Path) -> None:
    changes = [
        'data.obtain=say "this"\\nor that — ü',
        "text.head.hidden=[8]",
        "optimiser.clip=none",
        "auxiliary.ltd={}",
    ]
    recipe = read_recipe(plain, changes)
    written = write(tmp_path, "resolved.toml", to_toml(recipe, "visir train resolved.toml"))
    assert read_recipe(written) == recipe
    assert written.read_text().startswith("# visir train resolved.toml\n")
    values = tomllib.loads(written.read_text())
    assert values["optimiser"]["epochs"] == recipe.optimiser.epochs and values["optimiser"]["clip"] == "none"


def test_the_data_directory_is_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIR_DATA", "/elsewhere")
    assert expand("karpathy:$VISIR_DATA/flickr8k/x.json") == "karpathy:/elsewhere/flickr8k/x.json"


def test_there_are_shipped_recipes_and_no_two_of_one_name() -> None:
    assert {"flickr8k-heads", "scenes-heads"} <= shipped_recipes().keys()
    files = list(find_recipe("scenes-heads").parent.rglob("*.toml"))
    assert len(files) == len({one.stem for one in files})


def test_a_recipe_is_found_by_path_or_by_name(plain: Path) -> None:
    assert find_recipe(plain) == plain
    assert find_recipe("scenes-heads").read_text().startswith("# visir train scenes-heads\n")
    with refused(ConfigurationError, code="no-such-file-no") as caught:
        find_recipe("scene-heads")
    assert "did you mean 'scenes-heads'?" in str(caught.value)


def test_the_first_sentence_says_what_a_recipe_is(tmp_path: Path) -> None:
    opening = "# visir train x\n#\n# VSE++ (Faghri et al. 2018), COCO,\n# from scratch. Published: 1.0.\n#\n# More.\n"
    assert summary(write(tmp_path, "x.toml", opening)) == "VSE++ (Faghri et al. 2018), COCO, from scratch."
    assert all(summary(path) for path in shipped_recipes().values())


TRUSTED = """
name = "theirs"
[image]
tower = "frozen"
encoder = "{0}"
[text]
tower = "frozen"
encoder = ["bow:64", "{0}"]
"""


@pytest.mark.parametrize("model", ["theirs/model?code=trusted", "vllm:http://127.0.0.1:9/v1"])
def test_a_recipe_of_somebody_else_lets_no_code_run(tmp_path: Path, model: str) -> None:
    from visir.encoders.devices import CodeNotTrustedError

    path = tmp_path / "theirs.toml"
    path.write_text(TRUSTED.format(model))
    with refused(CodeNotTrustedError, "theirs.toml", model):
        read_recipe(path)
    with refused(CodeNotTrustedError, "theirs.toml", model):  # what is written over it is not all of it
        read_recipe(path, ["image.encoder=pixels"])
    assert read_recipe(path, ["image.encoder=pixels", "text.encoder=bow:64"]).name == "theirs"
    # Who names the model has read its code.
    named = model.replace("theirs", f"mine-{tmp_path.name}").replace(":9", ":8")
    path.write_text(TRUSTED.format(named))
    assert read_recipe(path, [f"image.encoder={named}"]).name == "theirs"


@pytest.mark.parametrize(
    "text", ["optimiser.rate=inf", "schedule.warmup=inf", "objective.temperature=nan", f"seed={2**63}"]
)
def test_numbers_that_nothing_computes_with_are_refused(text: str) -> None:
    with refused(ConfigurationError, f"--set {text}"):
        read_recipe(find_recipe("scenes-heads"), [text])


def test_recipes_of_sparse_heads_and_of_categories_let_no_code_run_either(tmp_path: Path) -> None:
    from visir.encoders.devices import CodeNotTrustedError
    from visir.products.model import read_categories_recipe
    from visir.sparse.recipe import read_sparse_recipe

    model = "their/model?code=trusted"
    sparse = write(tmp_path, "sparse.toml", f'name = "theirs"\nencoder = "{model}"\n')
    categories = write(tmp_path, "categories.toml", f'name = "theirs"\n[encoders]\nimage = "{model}"\n')
    for read, path in ((read_sparse_recipe, sparse), (read_categories_recipe, categories)):
        with refused(CodeNotTrustedError, path.name, model):
            read(path)
    assert read_sparse_recipe(sparse, ["encoder=pixels"]).encoder == "pixels"
    assert read_categories_recipe(categories, ["encoders.image=pixels"]).encoders.image == "pixels"


@pytest.mark.parametrize("key", ["collection", "images"])
def test_a_recipe_of_somebody_else_asks_no_address_for_its_data(tmp_path: Path, key: str) -> None:
    address = "http://127.0.0.1:9/a.csv"
    path = write(tmp_path, "theirs.toml", f'name = "theirs"\n[data]\n{key} = "{address}"\n' + SIDES)
    with refused(ConfigurationError, "theirs.toml", address, code="data-address-nobody"):
        read_recipe(path)
    assert getattr(read_recipe(path, [f"data.{key}={address}"]).data, key) == address
    assert getattr(read_recipe(path, [f"data.{key}=here.csv"]).data, key) == "here.csv"


SIDES = """
[image]
tower = "frozen"
encoder = "pixels"
[text]
tower = "frozen"
encoder = "bow:64"
"""

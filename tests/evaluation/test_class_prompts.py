"""Templates, CLIP's lists, and class names matched with the classes of the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from class_toys import colour_model
from refusals import refused
from visir.errors import ConfigurationError
from visir.evaluation.classification.class_names import (
    ClassNames,
    class_vectors,
    clip_names,
    clip_prompts,
    cosines,
    filled,
    free_names,
    list_name,
    resolve_names,
    templates_of,
    tidied,
)


def test_the_lists_of_clip() -> None:
    imagenet = clip_prompts("clip/imagenet")
    assert (len(imagenet.classes), len(imagenet.templates)) == (1000, 80)
    assert clip_prompts("clip/imagenet-7").templates[0] == "itap of a {}."
    assert len(clip_prompts("clip/imagenet-7").classes) == 1000
    assert len(clip_names()) == 28
    assert clip_prompts("clip/FER2013").classes[2] == ("fearful",)
    assert ("happy", "smiling") in clip_prompts("clip/fer2013").classes
    names = {"OxfordIIITPet": "oxfordpets", "DTD": "describabletextures", "SVHN": None, "GTSRB": "gtsrb"}
    assert {name: list_name(name) for name in names} == names
    for name in clip_names():
        assert templates_of(name).texts


def test_an_unknown_list_names_the_nearest() -> None:
    with refused(ConfigurationError, meant="clip/food101", hint="clip/birdsnap"):
        templates_of("clip/food11")


def test_own_templates(tmp_path: Path) -> None:
    assert templates_of("a photo of {c}.").texts == ("a photo of {c}.",)
    (tmp_path / "t.txt").write_text("a {}.\n\nmy {}.\n")
    assert templates_of(tmp_path / "t.txt").texts == ("a {}.", "my {}.")
    assert filled("a {c} in a box", "cat {1}") == "a cat {1} in a box"
    with pytest.raises(ConfigurationError, match="'a photo': no gap for the class"):
        templates_of(["a photo"])
    with refused(ConfigurationError, "several gaps"):
        templates_of("a {} and a {}")
    with refused(ConfigurationError, code="neither-template-nor-file"):
        templates_of("a photo")


def test_labels_become_words() -> None:
    labels = ["001.Black_footed_Albatross", "annual_crop", "747-400", "0 - zero", "2012 BMW M3"]
    assert [tidied(label) for label in labels] == [
        *("Black footed Albatross", "annual crop", "747-400", "zero", "2012 BMW M3")
    ]
    names = resolve_names(None, ["1_cat", "2_cat"])  # two classes stay two
    assert names.names == (("1_cat",), ("2_cat",))


def test_names_are_matched_by_their_letters() -> None:
    names = resolve_names("Tabby-Cat, dog", ["dog", "tabby_cat"])
    assert names.classes == ("tabby_cat", "dog")
    assert names.names == (("Tabby-Cat",), ("dog",))
    assert resolve_names("dog,cat,bird", ["cat", "dog"]).classes == ("dog", "cat", "bird")  # one more class
    assert resolve_names({"n1": "a cat"}, ["n1", "n2"]).classes == ("n1",)  # some of the classes


def test_names_are_matched_by_place_only_where_that_is_safe() -> None:
    assert resolve_names("zero,one", ["0", "1"]).origin == "given, matched by place"
    assert resolve_names(["tench", "goldfish"], ["n01440764", "n01443537"]).classes == ("n01440764", "n01443537")
    ordered = ["Airplane", "Automobile", "Tabby"]
    assert resolve_names(["airplane", "car", "cat"], ordered, ordered=True).names[1] == ("car",)
    # EuroSAT: CLIP's list has another order than the folders; by place, forests would be crops.
    folders = ["AnnualCrop", "Forest", "HerbaceousVegetation", "Highway", "Industrial", "Pasture", "PermanentCrop",
               "Residential", "River", "SeaLake"]  # fmt: skip
    with refused(ConfigurationError, "10", "AnnualCrop", code="no-class-called-no"):
        resolve_names("clip/eurosat", folders, ordered=True)


def test_names_from_files(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    assert resolve_names(str(tmp_path / "names.txt"), ["cat", "dog"]).names == (("cat",), ("dog",))
    (tmp_path / "names.csv").write_text('label,name\nn1,a cat\nn2,"dog, big"\n')
    assert resolve_names(tmp_path / "names.csv", ["n1", "n2"]).names == (("a cat",), ("dog, big",))
    (tmp_path / "names.json").write_text('{"n1": ["cat", "kitty"], "n2": "dog"}')
    assert resolve_names(tmp_path / "names.json", ["n1", "n2"]).names == (("cat", "kitty"), ("dog",))
    with refused(ConfigurationError, "missing.txt", code="no-such-file-class"):
        resolve_names("missing.txt", ["cat"])


def test_what_does_not_fit_is_refused() -> None:
    with refused(ConfigurationError, "dgo", "dog", code="no-class-called-no"):
        resolve_names("cat,dgo", ["cat", "dog"])
    with refused(ConfigurationError, "cat", code="class-names-repeat", hint=False):
        free_names("cat,cat")
    with refused(ConfigurationError, code="nothing-choose"):
        free_names("cat")
    assert len(free_names("clip/imagenet")) == 1000  # with two cranes


def test_an_ensemble_is_the_mean_of_unit_vectors() -> None:
    """By hand, as the notebook of CLIP does it."""
    model = colour_model()
    templates = ["a {}.", "a photo of a {}, on a table.", "{}"]
    names = ClassNames(("red", "dark"), (("red",), ("green", "blue")), "given")
    expected = []
    for several in (["red"], ["green", "blue"]):
        prompts = [template.replace("{}", name) for name in several for template in templates]
        vectors = np.asarray(model.encode_texts(prompts), float)
        mean = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(axis=0)
        expected.append(mean / np.linalg.norm(mean))
    vectors = class_vectors(model, names, templates_of(templates))
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert cosines(np.array([[2.0, 0, 0]]), np.eye(3)[:2]).tolist() == [[1.0, 0.0]]

"""`visir.classify` from folders and vectors to numbers, plots, pages and labels."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import visir
from class_toys import COLOURS, class_folder, colour_model, picture
from manifests import seal
from refusals import refused
from visir.errors import CollectionError, ConfigurationError, EncoderError, ProtocolError, VisirError
from visir.evaluation.classification.labelling import PictureLabels, find_truth, load_classification
from visir.evaluation.classification.result import Classification, Predictions, mean_per_class
from visir.files import read_json
from visir.stats.means import wilson
from visir.storage import FolderError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return class_folder(tmp_path_factory.mktemp("colours") / "colours", noise=60)


@pytest.fixture
def few(folder: Path) -> Classification:
    pytest.importorskip("sklearn")
    result = visir.classify(folder, colour_model(), shots=(1, 2, 4), draws=3)
    assert isinstance(result, Classification)
    return result


def test_zero_shot_is_the_nearest_class_vector(folder: Path) -> None:
    model = colour_model()
    result = visir.classify(folder, model, templates=["a {}.", "the {} thing"])
    assert isinstance(result, Classification) and result.classes == ("blue", "green", "red")
    pictures = [visir.open(folder).image(name) for name in result.ids]
    vectors = np.asarray(model.encode_images(pictures), float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for key, templates in (
        (("zero-shot, plain", 0), ["a photo of a {}."]),
        (("zero-shot", 0), ["a {}.", "the {} thing"]),
    ):
        classes = []
        for name in result.classes:
            prompts = np.asarray(model.encode_texts([template.format(name) for template in templates]), float)
            mean = (prompts / np.linalg.norm(prompts, axis=1, keepdims=True)).mean(axis=0)
            classes.append(mean / np.linalg.norm(mean))
        assert result.predictions[key].predicted[0].tolist() == (vectors @ np.array(classes).T).argmax(1).tolist()
    assert {name.split("/")[0] for name in result.ids} == {"test"} and len(result.ids) == 12
    assert result.chance == pytest.approx(1 / 3) and result.majority == pytest.approx(1 / 3)
    assert dict(result.protocol)["prompts"].startswith("2 templates")
    assert result.accuracy("zero-shot").top5 is None


def test_few_shots(few: Classification, folder: Path) -> None:
    assert [(row.method, row.shots, row.draws) for row in few.accuracies[:3]] == [
        *(("zero-shot, plain", 0, 1), ("zero-shot", 0, 1), ("linear-probe", 1, 3))
    ]
    assert len(few.accuracies) == 2 + 3 * 3
    for method in ("linear-probe", "tip-adapter", "tip-adapter-f"):
        value = few.accuracy(method, 4).top1
        assert value.mean > 0.6
        assert value.low <= value.mean <= value.high or value.deviation == 0  # draws that are equal have no interval
        assert few.accuracy(method).shots == 4
    again = visir.classify(folder, colour_model(), shots="1,2,4", draws=3, methods=["linear-probe"])
    assert isinstance(again, Classification)
    own, other = few.predictions["linear-probe", 2], again.predictions["linear-probe", 2]
    assert own.predicted.tolist() == other.predicted.tolist() and own.settings == other.settings
    other = visir.classify(folder, colour_model(), shots=2, draws=3, methods="linear-probe", seed=1).predictions[
        "linear-probe", 2
    ]  # type: ignore[union-attr]
    assert len(other.ranks) == 3


def test_only_the_pictures_that_are_drawn_are_encoded(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    seen: list[int] = []

    def vectors(images: list[object]) -> np.ndarray:
        seen.append(len(images))
        return np.stack([np.asarray(image, float).mean((0, 1)) for image in images])  # type: ignore[call-overload]

    place = class_folder(tmp_path / "many", train=30, test=2)
    model = visir.Encoder.wrap("counting", image=vectors)
    visir.classify(place, model, shots=2, draws=2, methods="linear-probe")
    assert sum(seen) <= 6 + 2 * 2 * 3 + 1  # one shows the dimension


def test_a_model_without_texts(folder: Path) -> None:
    pytest.importorskip("sklearn")
    model = colour_model(texts=False)
    with refused(EncoderError, "colours", "texts", code="encodes-no"):
        visir.classify(folder, model)
    result = visir.classify(folder, model, shots=4, draws=2)
    assert isinstance(result, Classification)
    assert {method for method, _ in result.predictions} == {"linear-probe", "tip-adapter", "tip-adapter-f"}
    assert "the cache alone" in dict(result.protocol)["tip-adapter"]


def test_a_class_with_fewer_pictures_than_shots_is_named(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    place = class_folder(tmp_path / "few", train=5)
    (place / "train" / "red" / "4.png").unlink()
    result = visir.classify(place, colour_model(), shots=(2, 5), draws=2, methods="linear-probe")
    assert isinstance(result, Classification)
    assert result.notes == ("fewer pictures than 5 shots, all are taken: red (4)",)
    everything = visir.classify(place, colour_model(), shots="all", methods="linear-probe")
    assert isinstance(everything, Classification)
    assert everything.accuracy().shots == -1 and everything.accuracy().draws == 1


def test_settings_are_chosen_on_the_validation_split(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    place = class_folder(tmp_path / "val", train=4, val=3)
    auto = visir.classify(place, colour_model(), shots=4, draws=2)
    cross = visir.classify(place, colour_model(), shots=4, draws=2, tuning="cross-validation")
    fixed = visir.classify(place, colour_model(), shots=4, draws=2, tuning="fixed")
    clip = visir.classify(place, colour_model(), shots=4, draws=2, tuning="clip", methods="linear-probe")
    for result, text in (
        (auto, "chosen on val"),
        (cross, "cross-validated"),
        (fixed, "fixed"),
        (clip, "chosen on val"),
    ):
        assert isinstance(result, Classification) and text in dict(result.protocol)["settings"]
    assert fixed.accuracy("linear-probe").settings == ("C = 10", "C = 10")  # type: ignore[union-attr]
    assert "as CLIP" in dict(clip.protocol)["linear-probe"]  # type: ignore[union-attr]


def test_shots_are_never_among_what_is_measured(folder: Path, tmp_path: Path) -> None:
    with refused(CollectionError, "train", code="shots-among-measured"):
        visir.classify(folder, colour_model(), shots=1, split="train")
    flat = class_folder(tmp_path / "flat", train=2, test=0)
    with refused(CollectionError, "train", code="no-split-draw-shots", hint="split_by"):
        visir.classify(flat / "train", colour_model(), shots=1)
    with refused(CollectionError, code="no-split-val-choose"):
        visir.classify(folder, colour_model(), shots=1, tuning="validation")


def test_given_vectors(folder: Path) -> None:
    model = colour_model()
    pictures = visir.encode(model, visir.open(folder))
    texts = {name: np.asarray(model.encode_texts([f"a photo of a {name}."]))[0] for name in COLOURS}
    given = visir.classify(folder, {"image": pictures, "text": texts})
    own = visir.classify(folder, model, templates="a photo of a {}.")
    assert isinstance(given, Classification) and isinstance(own, Classification)
    assert given.predictions["zero-shot", 0].ranks.tolist() == own.predictions["zero-shot", 0].ranks.tolist()
    with refused(ConfigurationError, code="zero-shot-needs-vectors-classes"):
        visir.classify(folder, {"image": pictures})
    with refused(VisirError, "blue", code="no-vector-class-more", hint=False):
        visir.classify(folder, {"image": pictures, "text": {"red": [1.0, 0, 0]}})


def test_some_of_the_classes_and_names_of_them(folder: Path) -> None:
    with refused(CollectionError, "blue", "red", "green", code="folders-called-like-classes"):
        visir.classify(folder, colour_model(), classes="red,blue")
    result = visir.classify(folder, colour_model(), classes={"red": "red", "blue": "blue"}, truth="folder")
    assert isinstance(result, Classification)
    assert result.classes == ("red", "blue") and result.notes == ("4 pictures of other classes are left out",)
    wrong = visir.classify(folder, colour_model(), classes={"red": "blue", "blue": "red", "green": "green"})
    assert wrong.accuracy().mean_per_class.mean < 0.5  # type: ignore[union-attr]


def test_pairs_in_memory() -> None:
    pairs = [(picture(colour, seed, 10), colour) for seed, colour in enumerate([*COLOURS, *COLOURS])]
    result = visir.classify(pairs, colour_model())
    assert isinstance(result, Classification) and result.accuracy().top1.mean == 1.0
    numbered = [(image, list(COLOURS).index(colour)) for image, colour in pairs]
    named = visir.classify(numbered, colour_model(), classes=list(COLOURS))
    assert isinstance(named, Classification) and named.names == ("red", "green", "blue")
    assert named.accuracy().top1.mean == 1.0


def test_what_shows_itself(few: Classification, tmp_path: Path) -> None:
    lines = repr(few).splitlines()
    assert lines[0] == "Classification(colours on colours: 12 pictures, 3 classes)" and len(lines) <= 6
    assert "chance 33.3 %" in lines[-1]
    assert "tip-adapter-f" in few.to_markdown() and "mean per class" in few.to_latex()
    assert few.to_arrow().num_rows == 2 * len(few.accuracies)
    for options in ({}, {"by": "class"}, {"by": "confusion", "method": "zero-shot"}):
        assert few.plot(**options).axes
    assert "linear-probe" in str(few._repr_html_())
    confusion = few.confusion("zero-shot")
    assert sum(confusion["pictures"].to_pylist()) == 12
    assert set(few.per_class("zero-shot")) == set(few.classes)
    with refused(VisirError, "3", code="shots-not-measured"):
        few.accuracy("linear-probe", 3)
    with refused(VisirError, "lda", code="no-such-method"):
        few.accuracy("lda")
    few.save(tmp_path / "out")
    assert {file.name for file in (tmp_path / "out").iterdir()} >= {
        *("classification.json", "classification.csv", "classes.csv", "predictions.parquet", "classification.html")
    }
    saved = read_json(tmp_path / "out" / "classification.json")
    assert saved["accuracies"][0]["method"] == "zero-shot, plain" and saved["protocol"]["ties"]
    assert pq.read_table(tmp_path / "out" / "predictions.parquet").num_rows == 12 * (2 + 3 * 3 * 3)
    again = visir.open(tmp_path / "out")
    assert isinstance(again, Classification) and again.to_dict() == few.to_dict()
    assert again.predicted().equals(few.predicted()) and again.ids == few.ids
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(VisirError):
        few.save(tmp_path / "mine")


def test_two_classifications_are_compared_picture_by_picture(few: Classification, folder: Path, tmp_path: Path) -> None:
    other = visir.classify(folder, colour_model("others"), shots=(2, 4), draws=3, seed=1)
    assert isinstance(other, Classification)
    with refused(ProtocolError, "linear-probe", "4 shots", "12 pictures", hint="--allow queries"):
        visir.compare(few, other)
    few.save(tmp_path / "few")
    other.save(tmp_path / "other")
    comparison = visir.compare(tmp_path / "few", tmp_path / "other", allow=["queries"])
    assert comparison.systems == ("colours", "others")
    assert {row.measure for row in comparison.differences} == {"hit@1"}
    assert {row.task for row in comparison.differences} >= {
        "zero-shot",
        "linear-probe, 2 shots",
        "tip-adapter, 4 shots",
    }
    row = comparison["others", "linear-probe, 4 shots hit@1"]
    assert row.value == pytest.approx(other.accuracy("linear-probe", 4).top1.mean)
    assert row.baseline_value == pytest.approx(few.accuracy("linear-probe", 4).top1.mean)
    zero_shot = visir.classify(folder, colour_model("more"))
    assert visir.compare(few, zero_shot)["more", "zero-shot hit@1"].difference == 0  # nothing else is common
    prompts = visir.classify(folder, colour_model("more"), templates=["a {}."])
    with refused(ProtocolError, "{}"):
        visir.compare(few, prompts)


def test_a_damaged_folder_says_what_to_do(few: Classification, tmp_path: Path) -> None:
    few.save(tmp_path / "few")
    content = read_json(tmp_path / "few" / "classification.json")
    file = tmp_path / "few" / "classification.json"
    file.write_text(json.dumps({name: value for name, value in content.items() if name != "seed"}))
    with pytest.raises(FolderError, match=r"classification\.json: has (.|\n)*visir classify"):
        load_classification(tmp_path / "few")
    seal(tmp_path / "few")
    assert load_classification(tmp_path / "few").seed == 0  # as the first version wrote it
    file.write_text(json.dumps({name: value for name, value in content.items() if name != "names"}))
    seal(tmp_path / "few")
    with refused(FolderError, "no", "names", code="damaged", hint="visir classify"):
        visir.open(tmp_path / "few")
    (tmp_path / "few" / "predictions.parquet").unlink()
    with pytest.raises(VisirError, match=r"predictions\.parquet: missing"):
        visir.open(tmp_path / "few")


def test_photos_without_classes_are_labelled(tmp_path: Path) -> None:
    for place, colour in enumerate(("red", "blue", "blue")):
        (tmp_path / "photos" / "2021").mkdir(parents=True, exist_ok=True)
        picture(colour, place, 5).save(tmp_path / "photos" / "2021" / f"{place}.png")
    labels = visir.classify(tmp_path / "photos", colour_model(), classes="red,green,blue")
    assert isinstance(labels, PictureLabels) and len(labels) == 3
    assert labels.to_arrow()["class"].to_pylist() == ["red", "blue", "blue"] and labels["2021/0.png"] == "red"
    assert labels.to_arrow().column_names[:4] == ["id", "class", "score", "share"]
    assert "blue 2, red 1" in repr(labels) and "blue" in labels.to_markdown() and labels._repr_html_()
    file = labels.save(tmp_path / "labels.csv")
    assert file.read_text().splitlines()[1].startswith('"2021/0.png","red",0.9')
    with refused(VisirError, "labels.csv", code="exists-already"):
        labels.save(file)
    with refused(CollectionError, code="no-classes"):
        visir.classify(tmp_path / "photos", colour_model())
    with refused(CollectionError, code="shots-need-pictures-classes"):
        visir.classify(tmp_path / "photos", colour_model(), classes="red,blue", shots=1)


def test_a_single_photo_and_tables_with_absolute_paths(folder: Path, tmp_path: Path) -> None:
    photo = folder / "test" / "red" / "0.png"
    for source in (photo, str(photo), picture("red", 0)):
        labels = visir.classify(source, colour_model(), classes="red,blue")
        assert isinstance(labels, PictureLabels) and labels.to_arrow()["class"].to_pylist() == ["red"]
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"image": [str(photo)] * 2, "kind": ["red", "red"]})
    assert visir.open(table, id="kind").images["path"][0].as_py() == str(photo)
    (tmp_path / "x.csv").write_text(f"path;species\n{photo};red\n{folder}/test/blue/1.png;blue\n")
    result = visir.classify(tmp_path / "x.csv", colour_model(), truth="species")
    assert isinstance(result, Classification) and result.accuracy().top1.mean == 1.0
    with refused(CollectionError, hint="--truth COLUMN"):
        visir.classify(tmp_path / "x.csv", colour_model())
    with refused(ConfigurationError, "image=…", code="says-how-source-read", hint="classify"):
        visir.classify(tmp_path / "x.csv", colour_model(), image="path")
    with refused(CollectionError, "trian", code="no-split-draw-shots", meant="train"):
        visir.classify(folder, colour_model(), shots=1, train="trian")


def test_options_are_checked_before_anything_is_opened() -> None:
    with pytest.raises(ConfigurationError, match=r"shots '3x' is no number(.|\n)*unknown method 'svm'"):
        visir.classify("nowhere", "nothing", shots=("3x", 1), methods=["svm"])
    with refused(ConfigurationError, "cv", code="unknown-tuning"):
        visir.classify("nowhere", "nothing", tuning="cv")  # type: ignore[arg-type]


def test_a_broken_picture_is_left_out_and_counted(tmp_path: Path) -> None:
    place = class_folder(tmp_path / "broken", train=1, test=3)
    (place / "test" / "red" / "1.png").write_bytes(b"no picture")
    with refused(VisirError, "broken"):
        visir.classify(place, colour_model())
    result = visir.classify(place, colour_model(), skip_broken=True)
    assert isinstance(result, Classification)
    assert len(result.ids) == 8 and result.notes == ("1 picture left out that cannot be read",)
    assert dataclasses.is_dataclass(result)


def test_facts_of_generated_scenes() -> None:
    result = visir.classify("scenes:60?size=64", colour_model(), truth="colour", templates="a {} animal")
    assert isinstance(result, Classification) and len(result.classes) > 3
    assert dict(result.protocol)["classes"].endswith("from column colour; names in prompts from the data")


def test_a_repeated_row_measures_the_same_classes(tmp_path: Path) -> None:
    """The folders have other names than the classes: they are never taken instead of the column."""
    lines = []
    for number in range(12):
        colour, file = ("red", "blue")[number % 2], tmp_path / ("a", "b")[number // 6] / f"{number}.png"
        file.parent.mkdir(exist_ok=True)
        picture(colour, number).save(file)
        lines.append(f"{file.parent.name}/{file.name},{colour}")
    table = tmp_path / "t.csv"
    for rows in (lines, [*lines, lines[0]]):
        table.write_text("\n".join(["image,label", *rows]) + "\n")
        result = visir.classify(table, colour_model())
        assert isinstance(result, Classification)
        assert result.classes == ("blue", "red") and len(result.ids) == 12
        assert dict(result.protocol)["classes"].startswith("2, from column label")
    table.write_text("\n".join(["image,label", *lines, "a/0.png,blue"]) + "\n")
    with refused(CollectionError, "a/0.png", "label", "red", "line 2", "but", "blue", "line 14"):
        visir.classify(table, colour_model())


def test_names_of_classes_and_pictures_without_one(tmp_path: Path) -> None:
    labels = ["blue", "blue ", "red", " red", "Red", "", " "]
    for number, label in enumerate(labels):
        picture(label.strip().lower() or "green", number).save(tmp_path / f"{number}.png")
    lines = [f"{number}.png,{label}" for number, label in enumerate(labels)]
    (tmp_path / "t.csv").write_text("\n".join(["image,label", *lines]) + "\n")
    result = visir.classify(tmp_path / "t.csv", colour_model())
    assert isinstance(result, Classification)
    assert result.classes == ("Red", "blue", "red") and result.truth.tolist() == [1, 1, 2, 2, 0]
    assert result.notes == (
        "classes differ only in capitals, each counts as one of its own: 'Red' and 'red'",
        "2 pictures without a class left out",
    )


def test_declared_names_of_classes_have_no_white_space_at_their_ends() -> None:
    order = {"classes": '["b ", "a"]'}
    schema = pa.schema([pa.field("image_id", pa.string()), pa.field("class", pa.string(), metadata=order)])
    facts = pa.table([["1", "2", "3"], ["b ", "a", "b"]], schema=schema)
    truth = find_truth(visir.records.Collection.build("toy", images={"id": ["1", "2", "3"]}, facts=facts))
    assert truth is not None and truth.classes == ("b", "a") and truth.codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize("given", [False, True])
def test_shots_that_are_measured_too_are_counted(tmp_path: Path, given: bool) -> None:
    pytest.importorskip("sklearn")
    place = class_folder(tmp_path / "leak", train=4, test=4)
    model = colour_model()

    def notes(shots: int | str) -> tuple[str, ...]:
        source = {"image": visir.encode(model, visir.open(place))} if given else model
        result = visir.classify(place, source, shots=shots, draws=1, methods="linear-probe")
        assert isinstance(result, Classification)
        return result.notes

    assert notes(4) == ()
    for number in (0, 1):
        (place / "test" / "red" / f"{number}.png").write_bytes((place / "train" / "red" / f"{number}.png").read_bytes())
    for shots in (4, "all"):
        (note,) = notes(shots)
        assert note.startswith("2 pictures drawn from train are also measured (the same")


def test_pairs_with_one_picture_for_each_class() -> None:
    pairs = [(picture(colour, seed, 10), colour) for seed, colour in enumerate(COLOURS)]
    for classes in (None, list(COLOURS)):
        result = visir.classify(pairs, colour_model(), classes=classes)
        assert isinstance(result, Classification) and sorted(result.classes) == sorted(COLOURS)
        assert result.accuracy().top1.mean == 1.0
    several = [(image, [colour, "a colour"]) for image, colour in pairs]
    with refused(CollectionError, "2", code="class-with-captions"):
        visir.classify(several, colour_model())
    labels = visir.classify(
        [(image, f"a {colour} boat") for image, colour in pairs], colour_model(), classes="red,blue"
    )
    assert isinstance(labels, PictureLabels)  # captions that are no classes


@pytest.mark.parametrize(("right", "mean"), [(4, 0.8), (5, 1.0)])
def test_the_interval_of_a_mean_over_classes_by_hand(right: int, mean: float) -> None:
    """Two classes of five that are alike are worth 2² / (1/5 + 1/5) = 10 pictures, with as many degrees of freedom."""
    truth = np.repeat([0, 1], 5)
    predicted = np.where(np.arange(10) % 5 < right, truth, 1 - truth).astype(np.int32)
    estimate = mean_per_class(Predictions(predicted[None], np.ones((1, 10), np.int32)), truth, 2)
    assert estimate.mean == pytest.approx(mean)
    assert (estimate.low, estimate.high) == pytest.approx(wilson(mean, 10, 2.228139), abs=1e-6)


@pytest.mark.parametrize("chances", [(0.6,) * 5, (0.9,) * 5, (0.5, 0.5, 0.98, 0.98, 0.98)])
def test_the_interval_of_a_mean_over_classes_holds_with_small_classes(chances: tuple[float, ...]) -> None:
    """Classes of 2, 3 and three times 100: a class of two that are both right is not certain."""
    rng, truth, held = np.random.default_rng(0), np.repeat(np.arange(5), (2, 3, 100, 100, 100)), 0
    for _ in range(300):
        predicted = np.where(rng.random(305) < np.array(chances)[truth], truth, (truth + 1) % 5).astype(np.int32)
        estimate = mean_per_class(Predictions(predicted[None], predicted[None]), truth, 5)
        held += estimate.low <= np.mean(chances) <= estimate.high
    assert held >= 282  # 94 %

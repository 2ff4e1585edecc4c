"""From a recipe to a checkpoint that encodes: over generated scenes, with encoders that need no download."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import visir
from manifests import content_of
from refusals import refused
from visir.collections import open_collection
from visir.encoders import encode, load
from visir.encoders.towers.pretrained_backbone import own_temperature
from visir.errors import CollectionError, ConfigurationError, ImageError, VisirError
from visir.files import read_json
from visir.training import build
from visir.training.learner import validate
from visir.training.planning import plan
from visir.training.recipe import Recipe, read_recipe
from visir.training.run import train
from visir.training.trained import Epoch, read_steps

SCENES = "scenes:120?size=64"
FROZEN: dict[str, Any] = {
    "image": {"tower": "frozen", "encoder": "pixels", "views": ["whole", "mirrored"],
              "head": {"scaling": "standard"}},
    "text": {"tower": "frozen", "encoder": ["bow:64", "bow:fitted:2048"],
             "head": {"hidden": [24], "shortcut": True, "dropout": 0.1, "scaling": "standard"}},
}  # fmt: skip
SCRATCH: dict[str, Any] = {
    "image": {"tower": "small-cnn", "size": 64, "width": 8, "augment": {"crop": 0.6, "flip": True}},
    "text": {"tower": "gru", "words": 16, "hidden": 16, "word_dropout": 0.1},
    "auxiliary": {"ltd": {"target": "bow:32", "hidden": 16}, "itd": {"join": "dual", "beta": 0.1, "words": 8}},
}


def small(**changes: Any) -> Recipe:
    values: dict[str, Any] = {
        "name": "small",
        "dimension": 16,
        "data": {"collection": SCENES},
        "optimiser": {"epochs": 3, "batch": 32, "rate": 0.003},
        **FROZEN,
    }
    return Recipe.model_validate(values | changes)


def trained(recipe: Recipe, folder: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISIR_CACHE", str(folder / "cache"))
        return train(recipe, out=folder / "out").path


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(small(), tmp_path_factory.mktemp("heads"))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(small(**SCRATCH), tmp_path_factory.mktemp("scratch"))


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_the_folder_holds_what_it_should_and_nothing_of_the_way_there(heads: Path, scratch: Path) -> None:
    common = ["curve.json", "recipe.toml", "steps.jsonl", "towers.safetensors", "visir.json"]
    assert names(heads) == sorted([*common, "image_base_encoder", "text_base_encoder"])
    assert names(scratch) == sorted([*common, "text_backbone"])
    assert read_recipe(heads / "recipe.toml") == small()
    description = content_of(heads)
    facts = description["facts"]
    assert [epoch["epoch"] for epoch in facts["curve"]] == [1, 2, 3]
    assert facts["curve"] == read_json(heads / "curve.json")
    assert facts["validation"] == facts["curve"][facts["chosen_epoch"] - 1]["validation"]
    assert facts["trained_on"]["split"] == open_collection(SCENES).split("train").fingerprint
    assert facts["peak_memory"]["process"] > 1e7
    # 96 training scenes with five captions each, in batches of 32: 15 steps an epoch.
    assert [step.step for step in read_steps(heads / "steps.jsonl")] == list(range(1, 46))


def test_objectives_of_the_recipe_are_in_the_log(scratch: Path) -> None:
    first = next(read_steps(scratch / "steps.jsonl"))
    assert first.losses.keys() == {"loss", "contrastive", "ltd", "itd"}
    assert first.facts.keys() == {"temperature", "ltd multiplier"}
    # λ is 1 before the first step and η is 0.2: L + 1 · (L_ltd / 0.2 − 1) + 0.1 · L_itd.
    parts = first.losses
    expected = parts["contrastive"] + parts["ltd"] / 0.2 - 1 + 0.1 * parts["itd"]
    assert parts["loss"] == pytest.approx(expected, rel=1e-5)
    assert content_of(scratch)["facts"]["objective"].keys() == {"temperature", "ltd multiplier"}


@pytest.mark.parametrize("which", ["heads", "scratch"])
def test_the_loaded_encoder_gives_the_validated_figures_end_to_end(which: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(which)
    encoder = load(folder)
    assert encoder.modalities == {"image", "text"} and encoder.dimension == 16
    split = open_collection(SCENES).split("val")
    images, texts = (encode(encoder, split, side).normalise() for side in ("image", "text"))
    found = validate(images.vectors, texts.vectors, images.rows(split.captions["image_id"]))
    assert found == pytest.approx(content_of(folder)["facts"]["validation"])
    # What the store gave in one go is what single inputs give.
    alone = encoder.encode_texts([split.captions["text"][0].as_py()])
    alone /= np.linalg.norm(alone)
    np.testing.assert_allclose(alone[0], texts.vectors[0], atol=1e-5)
    result = visir.evaluate(split, encoder).result
    assert 100 * result.aggregates["t2i"]["hit@10"] == pytest.approx(found["t2i hit@10"])


@pytest.mark.parametrize(("which", "changes"), [("heads", {}), ("scratch", SCRATCH)])
def test_an_interrupted_training_resumes_to_the_same_file(
    which: str, changes: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    unbroken: Path = request.getfixturevalue(which)

    def interrupt(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    recipe = small(**changes)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, out=tmp_path / "out", report=interrupt)
    with refused(VisirError, code="holds-interrupted-training") as caught:
        train(recipe, out=tmp_path / "out")
    assert "--resume" in str(caught.value)
    again = train(recipe, out=tmp_path / "out", resume=True).path
    for name in ("towers.safetensors", "steps.jsonl"):
        assert (again / name).read_bytes() == (unbroken / name).read_bytes()


def test_a_training_whose_hidden_log_is_gone_goes_on(heads: Path, tmp_path: Path) -> None:
    """A cleaner of temporary files took it, or a copy without hidden files; the state is whole."""

    def interrupt(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(small(), out=tmp_path / "out", report=interrupt)
    (tmp_path / "out" / ".visir-claims").unlink()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with refused(VisirError, code="holds-interrupted-training"):
        train(small(), out=tmp_path / "out")
    again = train(small(), out=tmp_path / "out", resume=True).path
    for name in ("towers.safetensors", "steps.jsonl"):
        assert (again / name).read_bytes() == (heads / name).read_bytes()
    assert (again / "mine.txt").read_text() == "mine" and not (again / "state.safetensors").exists()


def test_folders_that_hold_something_are_left_alone(heads: Path, tmp_path: Path) -> None:
    with refused(VisirError, code="holds-finished-checkpoint"):
        train(small(), out=heads)
    (tmp_path / "thesis.tex").write_text("x")
    with refused(VisirError, code="not-a-trainings-folder"):
        train(small(), out=tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "x"
    with refused(VisirError, "thesis.tex", code="file-not-folder"):
        train(small(), out=tmp_path / "thesis.tex")


def test_a_training_that_would_move_nothing_is_refused(clip: str, tmp_path: Path) -> None:
    tuned = {"tower": "pretrained", "encoder": clip}
    fixed = {"tower": "frozen", "encoder": clip, "head": {"identity": True}}
    width = load(clip).dimension
    with pytest.raises(ConfigurationError, match=r"nothing to train: both sides are fixed.*\n  → give a side a head"):
        train(small(image=fixed, text=fixed, dimension=width), out=tmp_path / "out")
    with pytest.raises(ConfigurationError, match=r"schedule\.frozen_epochs = 1: nothing is left to train while"):
        train(small(image=tuned, text=tuned, dimension=width, schedule={"frozen_epochs": 1}), out=tmp_path / "out")


def test_two_trainings_do_not_share_a_folder(tmp_path: Path) -> None:
    def another(_: Epoch) -> None:
        with refused(VisirError, code="another-process-training-folder"):
            train(small(seed=1), out=tmp_path / "out", resume=True)
        assert "seed = 0" in (tmp_path / "out" / "recipe.toml").read_text()
        raise InterruptedError

    with pytest.raises(InterruptedError):
        train(small(), out=tmp_path / "out", report=another)
    train(small(), out=tmp_path / "out", resume=True)  # the lock went with its holder
    assert not (tmp_path / "out" / ".visir-claims").exists()


def test_a_refused_resumption_leaves_the_recipe_of_the_state(tmp_path: Path) -> None:
    def stop(_: Epoch) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        train(small(), out=tmp_path / "out", report=stop)
    with refused(ConfigurationError, "recipe.seed", "interrupted with 0", "now 1"):
        train(small(seed=1), out=tmp_path / "out", resume=True)
    assert read_recipe(tmp_path / "out" / "recipe.toml") == small()


def test_a_picture_that_changed_since_the_state_is_another_training(tmp_path: Path) -> None:
    """Half of such a training would be over other vectors than the rest."""

    def stop(_: Epoch) -> None:
        raise InterruptedError

    rows = ["image,caption,split"]
    for number in range(8):
        Image.new("RGB", (70, 70), (25 * number, 0, 99)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,thing {number},{'train' if number < 6 else 'val'}")
    (tmp_path / "pairs.csv").write_text("\n".join(rows))
    recipe = small(data={"collection": str(tmp_path / "pairs.csv")}, optimiser={"epochs": 2, "batch": 4})
    with pytest.raises(InterruptedError):
        train(recipe, out=tmp_path / "out", report=stop)
    before = (tmp_path / "0.png").read_bytes()
    Image.new("RGB", (70, 70), (0, 200, 0)).save(tmp_path / "0.png")
    with refused(ConfigurationError, "examples.train.pictures"):
        train(recipe, out=tmp_path / "out", resume=True)
    (tmp_path / "0.png").write_bytes(before)
    train(recipe, out=tmp_path / "out", resume=True)


def test_a_full_disk_at_the_very_end_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("visir.encoders.models.towers.write_files", full)
        with refused(VisirError, "No space left", code="training-done-checkpoint-could") as caught:
            train(small(), out=tmp_path / "out")
    assert "the same command with --resume then writes it" in str(caught.value)
    epochs: list[Epoch] = []
    checkpoint = train(small(), out=tmp_path / "out", resume=True, report=epochs.append).path
    assert not epochs, "nothing was trained again"
    assert load(checkpoint).dimension == 16
    modes = {(checkpoint / name).stat().st_mode & 0o777 for name in ("towers.safetensors", "visir.json")}
    assert len(modes) == 1, "whoever may read the one may read the other"


def test_a_picture_that_is_not_where_the_others_are_says_so(tmp_path: Path) -> None:
    rows = ["image,caption,split"]
    photos = tmp_path / "my photos"
    photos.mkdir()
    for number in range(6):
        if number != 2:
            Image.new("RGB", (80, 80), (40 * number, 0, 0)).save(photos / f"{number}.png")
        rows.append(f"{number}.png,a dog {number},{'train' if number < 4 else 'val'}")
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("\n".join(rows))
    data = {"collection": str(pairs), "images": str(photos)}
    with pytest.raises(ImageError) as caught:
        train(small(data=data, **{side: SCRATCH[side] for side in ("image", "text")}), out=tmp_path / "out")
    assert caught.value.message == (
        "pairs (train): 1 of 4 pictures cannot be read: image '2.png': not found in my photos/, where others are."
    )
    assert str(caught.value.hint).splitlines() == [
        "mend its name; or say where it is beside these: images=[PLACE, PLACE] (--images; in a recipe data.images); "
        "or take them out of the list",
        f"  → all such pictures: visir data check {pairs} --images '{photos}'",
    ]


@pytest.mark.parametrize("sides", [SCRATCH, FROZEN], ids=["scratch", "frozen"])
def test_pictures_that_validation_lacks_are_named_before_anything_is_read(
    tmp_path: Path, sides: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISIR_CACHE", str(tmp_path / "cache"))
    rows = ["image,caption,split"]
    for number in range(8):
        if number not in (5, 7):
            Image.new("RGB", (80, 80), (40 * number, 0, 0)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,a dog {number},{'train' if number < 4 else 'val'}")
    (tmp_path / "pairs.csv").write_text("\n".join(rows))
    recipe = small(
        data={"collection": str(tmp_path / "pairs.csv")}, **{side: sides[side] for side in ("image", "text")}
    )
    few = {"data": recipe.data.collection, "model": "pixels", "out": tmp_path / "out"}
    calls = [lambda: plan(recipe), lambda: train(recipe, out=tmp_path / "out"), lambda: visir.sparsify(**few)]
    for call in calls:
        with pytest.raises(ImageError, match=r"pairs \(val\): 2 of 4 pictures cannot be read: image '5.png'.*'7.png'"):
            call()
    assert not list((tmp_path / "cache").rglob("*.npy")) and not (tmp_path / "out").exists()


def test_a_broken_picture_says_what_finds_the_others(tmp_path: Path) -> None:
    rows = ["image,caption,split"]
    for number in range(6):
        path = tmp_path / f"{number}.png"
        Image.new("RGB", (80, 80), (40 * number, 0, 0)).save(path)
        rows.append(f"{path.name},a dog {number},{'train' if number < 4 else 'val'}")
    (tmp_path / "2.png").write_bytes((tmp_path / "2.png").read_bytes()[:60])
    (tmp_path / "pairs.csv").write_text("\n".join(rows))
    data = {"collection": str(tmp_path / "pairs.csv")}
    with refused(ImageError, "image", "2.png") as caught:
        train(small(data=data, **{side: SCRATCH[side] for side in ("image", "text")}), out=tmp_path / "out")
    assert f"→ all such pictures: visir data check {tmp_path / 'pairs.csv'}" in str(caught.value)
    with refused(ImageError, hint="get the photos"):
        obtain = {"obtain": "get the photos"}
        train(small(data=data | obtain, image=SCRATCH["image"], text=SCRATCH["text"]), out=tmp_path / "out")


def test_a_loss_that_is_no_number_leaves_the_ids_of_its_batch(tmp_path: Path) -> None:
    recipe = small(optimiser={"epochs": 1, "batch": 32, "rate": 1e30, "clip": None})
    with refused(VisirError, "captions", code="epoch-step-learning-rate"):
        train(recipe, out=tmp_path / "out")
    stopped = read_json(tmp_path / "out" / "stopped-batch.json")
    assert len(stopped["captions"]) == 32
    assert set(stopped["captions"]) <= set(open_collection(SCENES).captions["id"].to_pylist())


def test_missing_data_says_what_to_get(tmp_path: Path) -> None:
    data = {"collection": "$VISIR_DATA/nowhere.json", "obtain": "download it to $VISIR_DATA"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISIR_DATA", str(tmp_path))
        with pytest.raises(CollectionError) as caught:
            train(small(data=data), out=tmp_path / "out")
    assert "nowhere.json: no such file" in str(caught.value)
    assert f"→ download it to {tmp_path}" in str(caught.value)


def test_missing_word_vectors_say_what_to_get(tmp_path: Path) -> None:
    data = {"collection": SCENES, "obtain": "get GloVe and put it under $VISIR_DATA/glove"}
    text = {"tower": "gru", "vectors": "$VISIR_DATA/glove/nowhere.txt"}
    with refused(CollectionError, "text.vectors", "nowhere.txt", code="no-such-file") as caught:
        train(small(data=data, text=text), out=tmp_path / "out")
    assert "get GloVe" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"image": {"tower": "frozen", "encoder": "bow"}}, "encodes no images"),
        ({"text": {"tower": "frozen", "encoder": "pixels"}}, "encodes no texts"),
        ({"image": {"tower": "frozen", "encoder": "pixls"}}, "unknown encoder 'pixls'"),
        ({"image": {"tower": "pretrained", "encoder": "pixels"}}, "cannot be tuned"),
        ({"image": {"tower": "pretrained", "encoder": "colpali"}}, "colpali: late-interaction models cannot be tuned"),
        (
            {"image": {"tower": "pretrained", "encoder": "vidore/colqwen2-v1.0-hf"}},
            r"late-interaction models cannot be tuned.*\n  → tower = .frozen. trains a head over it; .*openai/clip",
        ),
        (
            {"image": {"tower": "pretrained", "encoder": "clip"}},
            "unknown encoder 'clip'.*\n  → did you mean openai/clip",
        ),
        ({"image": {"tower": "small-cnn", "head": {"scaling": "standard"}}}, r"image\.head\.scaling = .standard"),
        ({"objective": {"name": "infonce", "temperature": "own"}}, "needs one pretrained model"),
        (
            {"objective": {"name": "cosine"}},
            r'"cosine" has no negatives; both sides are trained.*\n  → hold one side fixed',
        ),
        (
            {"image": {"tower": "frozen", "encoder": "pixels", "head": {"identity": True}}},
            r"small: image\.head: an identity head gives what it takes: \d+ dimensions, not 16",
        ),
        ({"data": {"collection": SCENES, "validation": "vall"}}, r"data\.validation: .*unknown split 'vall'"),
        ({"data": {"collection": "scenes:10?size=64"}}, r"data\.\w+: .*captions of one image only in '\w+'"),
        ({**SCRATCH, "image": {**SCRATCH["image"], "cache": 60}}, r"image\.cache=64 or more; 0 decodes"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(VisirError, match=complaint):
        train(small(**changes), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_seed_decides_the_fresh_weights_and_nobody_elses(tmp_path: Path) -> None:
    from visir.training.build import build_model

    split = open_collection(SCENES).split("train")

    def first(seed: int) -> torch.Tensor:
        tower = build_model(small(**SCRATCH, seed=seed), split, "cpu").towers["image"]
        return next(tower.parameters()).detach().clone()

    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    zero = first(0)
    assert torch.equal(torch.rand(1), before)  # torch's own generator is as it was
    assert torch.equal(zero, first(0)) and not torch.equal(zero, first(1))


def test_a_split_without_captions_is_refused(tmp_path: Path) -> None:
    with pytest.raises((CollectionError, ConfigurationError), match="train"):
        train(small(data={"collection": SCENES, "train": "restval"}), out=tmp_path / "out")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small random CLIP of open_clip's: an encoder that can be tuned, and that has a temperature."""
    open_clip = pytest.importorskip("open_clip")
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("clip")
    vision = {"image_size": 32, "layers": 2, "width": 32, "patch_size": 8, "head_width": 8}
    text = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2}
    (folder / "visir-run.json").write_text(json.dumps({"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}))
    open_clip.add_model_config(folder / "visir-run.json")
    with torch.random.fork_rng():
        torch.manual_seed(3)
        state = open_clip.create_model("visir-run").state_dict()
    save_file({name: one.contiguous() for name, one in state.items()}, str(folder / "weights.safetensors"))
    return f"openclip:visir-run/{folder / 'weights.safetensors'}"


def test_a_pretrained_model_is_loaded_once_and_tuned_at_its_own_temperature(clip: str, tmp_path: Path) -> None:
    side = {"tower": "pretrained", "encoder": clip}
    recipe = small(
        dimension=24,
        image={**side, "augment": {"flip": True}, "rate": 1e-4},
        text=side,
        objective={"name": "infonce", "temperature": "own", "learn_temperature": True},
        optimiser={"epochs": 2, "batch": 48, "chunk": 16, "rate": 1e-3},
        schedule={"frozen_epochs": 1, "tuned_rate": 0.5},
        selection={"keep": "last"},
    )
    with pytest.MonkeyPatch.context() as patch:
        loads: list[str] = []
        real = build.load
        patch.setattr(build, "load", lambda name, **options: loads.append(name) or real(name, **options))
        path = train(recipe, out=tmp_path / "out").path
    assert loads == [clip]
    steps = list(read_steps(path / "steps.jsonl"))
    assert steps[0].facts["temperature"] == pytest.approx(0.07, rel=1e-3)  # open_clip begins at 1 / 0.07
    # All of it came trained: in the first epoch only the temperature moves, in the second everything does.
    own, tuned = load(clip), load(path)
    split = open_collection(SCENES).split("val")
    before, after = (encode(one, split, "text").normalise().vectors for one in (own, tuned))
    assert before.shape == after.shape == (60, 24) and not np.allclose(before, after, atol=1e-3)
    curve = read_json(path / "curve.json")
    images, texts = (encode(tuned, split, one).normalise() for one in ("image", "text"))
    found = validate(images.vectors, texts.vectors, images.rows(split.captions["image_id"]))
    assert found == pytest.approx(curve[-1]["validation"])


def test_a_checkpoint_is_tuned_further_with_another_objective_and_stands_alone(scratch: Path, tmp_path: Path) -> None:
    first = shutil.copytree(scratch, tmp_path / "first")
    side = {"tower": "pretrained", "encoder": str(first)}
    recipe = small(
        data={"collection": "scenes:120?size=64&seed=1"},
        image={**side, "augment": {"crop": 0.6, "flip": True}},
        text=side,
        objective={"name": "ifm", "temperature": "own"},
        optimiser={"epochs": 2, "batch": 32, "chunk": 16, "rate": 1e-3},
    )
    started = own_temperature(load(first))
    path = train(recipe, out=tmp_path / "out").path
    assert next(read_steps(path / "steps.jsonl")).facts["temperature"] == pytest.approx(started)
    before, split = load(first), open_collection("scenes:120?size=64&seed=1").split("val")
    shutil.rmtree(first)
    after = load(path)
    images, texts = (encode(after, split, one).normalise() for one in ("image", "text"))
    found = validate(images.vectors, texts.vectors, images.rows(split.captions["image_id"]))
    facts = content_of(path)["facts"]
    # Twelve pictures, some nearly alike: rounding, which depends on the batch, may move one of 60 captions a rank.
    assert found == pytest.approx(facts["validation"], abs=100 / 60 + 1e-6)
    assert not np.allclose(before.encode_texts(["a red circle"]), after.encode_texts(["a red circle"]), atol=1e-3)
    assert facts["trained_on"]["image source"] == facts["trained_on"]["text source"] == before.card.fingerprint

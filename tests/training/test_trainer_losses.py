"""visir's losses in sentence-transformers' trainers: the numbers of visir's own step, and real trainings."""

from __future__ import annotations

import csv
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import visir
from photo_toys import photos_and_clip
from refusals import refused
from visir.encoders.models.sentence import packaged_model
from visir.encoders.towers.base import Head, HeadSpec, Tower
from visir.encoders.towers.pretrained_backbone import PretrainedBackbone
from visir.errors import ConfigurationError, VisirError
from visir.files import data_directory
from visir.training.learner import DualEncoder
from visir.training.objective import Auxiliary, build_objective
from visir.training.optimiser import Precision
from visir.training.similarities import VectorPairs
from visir.training.trainer_losses import ObjectiveLoss, checked

pytest.importorskip("sentence_transformers")
pytest.importorskip("datasets")

ROWS = torch.tensor([0, 0, 1, 2, 3, 4])
"""Two captions of the first picture."""
LTD: dict[str, Any] = {"bound": 0.2, "hidden": 16}
CASES: dict[str, tuple[Any, Any]] = {
    "infonce": ({"name": "infonce", "learn_temperature": True}, {}),
    "kept": ({"name": "infonce", "false_negatives": "kept"}, {}),
    "triplet": ({"name": "triplet", "negatives": "sum"}, {}),
    "sigmoid": ({"name": "sigmoid"}, {}),
    "several": ({"name": "multi-positive"}, {}),
    "ifm": ({"name": "ifm", "epsilon": 0.2}, {}),
    "cosine": ({"name": "cosine"}, {}),
    "ltd constraint": ({"name": "infonce"}, {"ltd": {**LTD, "join": "constraint"}}),
    "ltd dual": ({"name": "ifm"}, {"ltd": {**LTD, "join": "dual"}}),
    "itd": ({"name": "triplet"}, {"itd": {"bound": 6.0, "words": 8}}),
    "itd by position": ({"name": "infonce"}, {"itd": {"normalise_over": "positions"}, "ltd": LTD}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return photos_and_clip(tmp_path_factory.mktemp("clip"))


def sentence_model(path: Path | str) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(path), device="cpu")


def own_model(clip: Path) -> dict[str, Tower]:
    """visir's towers of the same CLIP, under heads that change nothing."""
    encoder = visir.load(str(clip), device="cpu")
    backbones = {side: PretrainedBackbone.of(encoder, side) for side in ("image", "text")}
    return {
        side: Tower(backbone, Head(HeadSpec(backbone.outputs, backbone.outputs, identity=True)))
        for side, backbone in backbones.items()
    }


def batch_of(folder: Path, towers: dict[str, Tower]) -> tuple[Any, Any, list[str]]:
    """Pictures and captions as visir's towers take them."""
    rows = list(csv.DictReader((folder / "photos.csv").open(encoding="utf-8")))
    texts = [rows[place]["caption"] for place in range(6)]
    pictures = [Image.open(folder / "photos" / f"{row:03}.jpg").convert("RGB") for row in ROWS.tolist()]
    images, captions = towers["image"].backbone, towers["text"].backbone
    assert images is not None and captions is not None
    return (
        images.collate([images.prepare(picture) for picture in pictures]),
        captions.collate([captions.prepare(text) for text in texts]),
        texts,
    )


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_are_those_of_visirs_own_step(folder: Path, case: str) -> None:
    """Three updates by AdamW: losses, gradients, weights and multipliers."""
    objective, auxiliary = CASES[case]
    clip = folder / "clip"
    towers, model = own_model(clip), sentence_model(clip)
    images, texts, captions = batch_of(folder, towers)
    pixels = images if isinstance(images, Tensor) else images["pixel_values"]
    features: list[dict[str, Any]] = [{"pixel_values": pixels, "modality": "image"}, model.preprocess(captions)]
    targets = torch.randn(6, 5, generator=torch.Generator().manual_seed(1)) if "ltd" in auxiliary else None
    labels = ROWS if targets is None else torch.cat([ROWS[:, None], targets], dim=1)
    loss = ObjectiveLoss(model, objective, auxiliary, target_width=None if targets is None else 5, seed=3)
    tokens = (features[1]["input_ids"] + 1) * features[1]["attention_mask"] if "itd" in auxiliary else None
    with torch.random.fork_rng():
        torch.manual_seed(3)
        own = build_objective(
            loss.settings,
            checked(Auxiliary, auxiliary, ""),
            dimension=24,
            target_width=None if targets is None else 5,
            vocabulary=None if tokens is None else 1 + len(model.tokenizer),
            own_temperature=None,
        )
    learner = DualEncoder(towers, own)
    learner.prepare(Precision("float32", torch.device("cpu")))
    model.train()
    optimisers = [
        torch.optim.AdamW([weight for weight in part.parameters() if weight.requires_grad], 0.01)
        for part in (learner, loss)
    ]
    for step in range(3):
        pairs = VectorPairs(
            learner.vectors("anchor", images), learner.vectors("positive", texts), ROWS, targets, tokens
        )
        losses = learner.losses(pairs)
        loss.at_step(0, step)
        total = loss(features, labels)
        assert total.item() == pytest.approx(losses.total.item(), rel=1e-6, abs=1e-6)
        for optimiser, value in zip(optimisers, (losses.total, total), strict=True):
            optimiser.zero_grad()
            value.backward()
        compare(towers, model, own, loss, gradients=True)
        for optimiser in optimisers:
            optimiser.step()
        learner.after_step({name: float(part) for name, part in losses.parts.items()})
        loss.after_step()
        assert {name: float(fact) for name, fact in loss.facts().items()} == pytest.approx(
            {name: float(fact) for name, fact in learner.facts().items()}, rel=1e-6
        )
    compare(towers, model, own, loss, gradients=False, atol=1e-4)  # AdamW divides by gradients as small as rounding


def compare(towers: Any, model: Any, own: Any, loss: Any, *, gradients: bool, atol: float = 1e-6) -> None:
    theirs = {name.removeprefix("0.model."): weight for name, weight in model.named_parameters()}
    pairs = [
        (weight, theirs[name.removeprefix("network.model.")])
        for tower in towers.values()
        for name, weight in tower.backbone.named_parameters()
    ]
    pairs += list(zip(own.parameters(), loss.objective.parameters(), strict=True))
    moved = 0
    for one, other in pairs:
        values = (one.grad, other.grad) if gradients else (one.detach(), other.detach())
        assert (values[0] is None) == (values[1] is None)
        if values[0] is not None and values[1] is not None:
            torch.testing.assert_close(values[0], values[1], rtol=1e-5, atol=atol)
            moved += int(values[0].abs().max() > 0)
    assert moved > 60  # both towers


def test_negatives_in_further_columns_are_candidates_of_the_anchor(folder: Path) -> None:
    model = sentence_model(folder / "clip")
    loss = ObjectiveLoss(model, {"name": "infonce", "temperature": 0.1})
    vectors = [torch.randn(4, 24, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    unit = [torch.nn.functional.normalize(part, dim=-1) for part in vectors]
    to_all = torch.cat([unit[0] @ part.T for part in unit[1:]], dim=1) / 0.1
    own = torch.arange(4)
    both = torch.nn.functional.cross_entropy(to_all, own), torch.nn.functional.cross_entropy(to_all[:, :4].T, own)
    assert float(loss.compute_loss_from_embeddings(vectors)) == pytest.approx(float(sum(both)) / 2, rel=1e-5)
    with refused(ConfigurationError, code="loss-without-negatives"):
        ObjectiveLoss(model, "cosine").compute_loss_from_embeddings(vectors)


def test_what_is_missing_is_said(folder: Path) -> None:
    model = sentence_model(folder / "clip")
    with refused(ConfigurationError, code="loss-settings"):
        ObjectiveLoss(model, {"name": "infonce", "temprature": 0.1})
    with pytest.raises(ConfigurationError, match=r"auxiliary\.ltd"):
        ObjectiveLoss(model, "infonce", {"ltd": {}})
    loss = ObjectiveLoss(model, "infonce", {"ltd": LTD}, target_width=5)
    vectors = [torch.randn(4, 24) for _ in range(2)]
    with refused(ConfigurationError, code="loss-without-callback"):
        loss.compute_loss_from_embeddings(vectors, torch.randn(4, 5))
    loss.at_step(0, 0)
    with refused(ConfigurationError, code="labels-of-another-shape"):
        loss.compute_loss_from_embeddings(vectors, torch.randn(4, 9))
    with refused(VisirError, code="targets-not-finite"):
        loss.compute_loss_from_embeddings(vectors, torch.full((4, 5), torch.nan))


# Real trainings, on captions of Flickr8k.


def flickr8k(pairs: int, *, first: int = 0) -> tuple[list[str], list[str], list[int]]:
    """Two captions of each of so many photos, and their numbers."""
    path = data_directory() / "flickr8k" / "dataset_flickr8k.karpathy_schema.json.xz"
    if not path.is_file():
        pytest.skip("no Flickr8k")
    with lzma.open(path) as file:
        images = [image for image in json.load(file)["images"] if image["split"] == "train"]
    chosen = [[sentence["raw"] for sentence in image["sentences"]] for image in images[first : first + pairs]]
    return [texts[0] for texts in chosen], [texts[1] for texts in chosen], list(range(first, first + pairs))


def hits(model: Any, anchors: list[str], positives: list[str]) -> float:
    vectors = [np.asarray(visir.load(model).encode_texts(texts)) for texts in (anchors, positives)]
    return float((np.argmax(vectors[0] @ vectors[1].T, axis=1) == np.arange(len(anchors))).mean())


def train_texts(path: Path | None, out: Path, seed: int, *, resume: bool = False, epochs: int = 2) -> tuple[Any, Any]:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    anchors, positives, _ = flickr8k(64)
    model = sentence_model(path or packaged_model())
    targets = np.asarray(visir.load("st:all-MiniLM-L6-v2", device="cpu").encode_texts(positives))
    data = Dataset.from_dict({"anchor": anchors, "positive": positives, "label": targets.tolist()})
    objective = {"name": "infonce", "learn_temperature": True}
    loss = ObjectiveLoss(model, objective, {"ltd": {"bound": 0.2, "hidden": 64}}, target_width=384, seed=seed)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(out),
        num_train_epochs=epochs,
        per_device_train_batch_size=16,
        learning_rate=2e-5,
        learning_rate_mapping={"objective": 3e-3},
        seed=seed,
        logging_steps=1,
        save_strategy="epoch",
        use_cpu=True,
        report_to=[],
    )
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=loss, callbacks=[loss.callback()]
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer, loss


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_text_model_is_trained_saved_and_loaded(tmp_path: Path, seed: int) -> None:
    trainer, _ = train_texts(None, tmp_path / "run", seed)
    logs = [entry for entry in trainer.state.log_history if "ltd" in entry]
    assert len(logs) == 8 and logs[-1]["ltd multiplier"] > logs[0]["ltd multiplier"] >= 1.0
    assert logs[-1]["ltd"] < logs[0]["ltd"]  # the decoder learns
    checkpoint = tmp_path / "run" / "checkpoint-8"
    card = (checkpoint / "README.md").read_text(encoding="utf-8")
    assert "Keep the Caption Information" in card and "multiplier" not in card
    anchors, positives, _ = flickr8k(200, first=1000)
    assert hits(str(checkpoint), anchors, positives) >= hits("st:all-MiniLM-L6-v2", anchors, positives) - 0.02


def test_a_training_goes_on_with_what_the_loss_had_learnt(folder: Path, tmp_path: Path) -> None:
    clip = folder / "clip"
    _, expected = train_texts(clip, tmp_path / "whole", 0)
    for name in ("README.md", "visir_loss.safetensors"):
        assert (tmp_path / "whole" / "checkpoint-4" / name).is_file()
    (tmp_path / "whole" / "checkpoint-8").rename(tmp_path / "apart")
    again, loss = train_texts(clip, tmp_path / "whole", 0, resume=True)
    assert again.state.global_step == 8
    for name, tensor in expected.objective.state_dict().items():
        torch.testing.assert_close(loss.objective.state_dict()[name], tensor, rtol=1e-5, atol=1e-6)
    (tmp_path / "whole" / "checkpoint-8" / "visir_loss.safetensors").unlink()
    with refused(ConfigurationError, code="loss-state-missing"):
        train_texts(clip, tmp_path / "whole", 0, resume=True, epochs=3)


def test_a_clip_is_trained_on_pictures_and_captions(folder: Path, tmp_path: Path) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    rows = list(csv.DictReader((folder / "photos.csv").open(encoding="utf-8")))
    pictures = [Image.open(folder / "photos" / row["image"]).convert("RGB") for row in rows]
    data = Dataset.from_dict(
        {
            "image": pictures,
            "caption": [row["caption"] for row in rows],
            "label": [int(row["image"].removesuffix(".jpg")) for row in rows],
        }
    )
    model = sentence_model(folder / "clip")
    loss = ObjectiveLoss(model, {"name": "multi-positive", "temperature": 0.1}, {"itd": {"join": "dual", "beta": 0.01}})
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "run"),
        num_train_epochs=4,
        per_device_train_batch_size=20,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        report_to=[],
    )
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=loss, callbacks=[loss.callback()]
    )
    trainer.train()
    logs = [entry["contrastive"] for entry in trainer.state.log_history if "contrastive" in entry]
    assert np.mean(logs[-5:]) < np.mean(logs[:5])
    model.save_pretrained(str(tmp_path / "tuned"))
    tuned = visir.load(str(tmp_path / "tuned"), device="cpu")
    expected = model.encode(rows[0]["caption"], normalize_embeddings=True)
    found = np.asarray(tuned.encode_texts([rows[0]["caption"]]))[0]
    np.testing.assert_allclose(found / np.linalg.norm(found), expected, atol=1e-5)


# Two processes.

SCRIPT = Path(__file__).with_name("two_trainers.py")


@pytest.fixture(scope="module")
def weights(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process and two leave."""
    pytest.importorskip("accelerate")
    out = tmp_path_factory.mktemp("trainers")
    command = [str(SCRIPT), str(folder / "clip"), str(out)]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for options in ([], launch):
        run = [sys.executable, *options, *command]
        done = subprocess.run(run, capture_output=True, text=True, timeout=280, env=environment, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.mark.parametrize("case", ["plain", "local loss"])
def test_two_processes_have_the_gradient_of_one_with_both_batches(weights: Path, case: str) -> None:
    """Under torchrun: the trainer's model is in DistributedDataParallel, and the loss gathers everybody's pairs."""
    one, first, second = (torch.load(weights / f"{case}-{name}.pt") for name in ("1-0", "2-0", "2-1"))
    assert first.keys() == one.keys() and any(name.startswith("objective.auxiliary") for name in one)
    for name, weight in one.items():
        assert torch.equal(first[name], second[name]), name  # both processes keep the same
        torch.testing.assert_close(first[name], weight, rtol=1e-5, atol=2e-5)

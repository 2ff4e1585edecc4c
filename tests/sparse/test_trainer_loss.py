"""D2S in `SparseEncoderTrainer`: the numbers of visir's own step, and a training that becomes a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sparse_toys import PIECES, batch, head, recipe
from sparse_toys import planted as examples_of
from torch import nn

import visir
from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.sparse.recipe import ExpansionSettings
from visir.sparse.run import SparseLearner
from visir.sparse.trainer_loss import D2SLoss
from visir.training.optimiser import Precision
from visir.training.similarities import VectorPairs
from visir.training.trainer_losses import ObjectiveLoss

pytest.importorskip("datasets")
sys.path.append(str(Path(__file__).parents[1] / "encoders"))


class Weigher(nn.Module):
    """A sparse head as a model of columns."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.head = head(inputs=inputs)

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        return {"sentence_embedding": self.head(features["dense"])}


@pytest.mark.parametrize("variant", ["none", "free", "caption", "caption+word"])
def test_loss_and_gradients_are_those_of_visirs_own_step(variant: Any) -> None:
    train = examples_of(20, seed=1)
    settings = recipe(expansion={"variant": variant}, optimiser={"epochs": 4, "batch": 7}, loss={"eta": 0.01})
    learner, model = SparseLearner(settings, head(inputs=6), train), Weigher(6)
    learner.prepare(Precision("float32", torch.device("cpu")))
    loss = D2SLoss(model, settings.loss, settings.expansion, frequencies=train.frequencies, seed=settings.seed)
    loss.begin(4, learner.steps)
    for place in ((0, 0), (1, 2), (3, 5)):
        images, texts, own = batch(seed=sum(place))
        learner.at_step(*place)
        loss.at_step(*place)
        pairs = VectorPairs(images, texts, torch.arange(7), tokens=own, rows=torch.arange(7) + 7 * place[1])
        losses = learner.losses(pairs)
        mask = (own < len(PIECES)).long()
        columns = [{"dense": images}, {"dense": texts, "input_ids": own * mask, "attention_mask": mask}]
        total = loss(columns, torch.stack([images, texts], dim=1))
        assert total.item() == pytest.approx(losses.total.item(), rel=1e-6)
        assert loss.facts() == pytest.approx(dict(learner.facts()))
        for part, value in ((learner, losses.total), (model, total)):
            part.zero_grad()
            value.backward()
        moved = 0
        for name, weight in learner.head.named_parameters():
            other = dict(model.head.named_parameters())[name]
            assert weight.grad is not None and other.grad is not None
            torch.testing.assert_close(other.grad, weight.grad, rtol=1e-5, atol=1e-6)
            moved += int(weight.grad.abs().max() > 0)
        assert moved >= 4


def test_what_is_missing_is_said() -> None:
    with refused(ConfigurationError, code="expansion-without-frequencies"):
        D2SLoss(Weigher(6), expansion=ExpansionSettings())
    with refused(ConfigurationError, code="loss-settings"):
        D2SLoss(Weigher(6), {"etta": 1.0})
    images, texts, _ = batch()
    columns = [{"dense": images}, {"dense": texts}]
    labels = torch.stack([images, texts], dim=1)
    with refused(ConfigurationError, code="loss-without-callback"):
        D2SLoss(Weigher(6))(columns, labels)
    with refused(ConfigurationError, code="labels-of-another-shape"):
        D2SLoss(Weigher(6), {"warmup": 0.0})(columns, labels[:, 0])
    with refused(VisirError, code="targets-not-finite"):
        D2SLoss(Weigher(6), {"warmup": 0.0}, expansion={"variant": "free"})(columns, labels * torch.nan)
    loss = D2SLoss(Weigher(6), expansion={"variant": "none"})
    loss.at_step(0, 0)
    with refused(ConfigurationError, code="expansion-without-tokens"):
        loss(columns, labels)


def trained(folder: Path, loss_of: Any, label: bool) -> tuple[Any, Any]:
    """A SPLADE with random weights learns to say captions."""
    import tiny_sentence
    from datasets import Dataset
    from sentence_transformers import SparseEncoder, SparseEncoderTrainer, SparseEncoderTrainingArguments

    captions = [f"a {colour} {thing} on the {place}" for colour in ("red", "blue", "green") for thing in
                ("dog", "cat", "car", "boat") for place in ("grass", "street")]  # fmt: skip
    others = [" ".join(reversed(text.split())) for text in captions]
    model = SparseEncoder(str(tiny_sentence.save_splade(folder / "splade")), device="cpu")
    columns: dict[str, Any] = {"anchor": captions, "positive": others}
    if label:
        teacher = visir.load("st:all-MiniLM-L6-v2", device="cpu")
        sides = [np.asarray(teacher.encode_texts(texts)) for texts in (captions, others)]
        columns["label"] = np.stack(sides, axis=1).tolist()
    loss, callbacks = loss_of(model)
    arguments = SparseEncoderTrainingArguments(
        output_dir=str(folder / "out"),
        num_train_epochs=6,
        per_device_train_batch_size=12,
        learning_rate=3e-3,
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        report_to=[],
    )
    data = Dataset.from_dict(columns)
    trainer = SparseEncoderTrainer(model=model, args=arguments, train_dataset=data, loss=loss, callbacks=callbacks)
    trainer.train()
    model.save_pretrained(str(folder / "tuned"))
    return trainer, model


def check_loads(folder: Path, model: Any) -> None:
    encoder = visir.load(str(folder / "tuned"), device="cpu")
    assert encoder.form == "sparse"
    expected = model.encode(["a red dog"], convert_to_sparse_tensor=False).cpu().numpy()
    np.testing.assert_allclose(np.asarray(encoder.encode_texts(["a red dog"])), expected, atol=1e-5)


def test_a_splade_learns_to_rank_as_a_dense_model(tmp_path: Path) -> None:
    def loss_of(model: Any) -> tuple[Any, Any]:
        loss = D2SLoss(model, {"temperature": 0.05, "eta": 1e-4}, {"variant": "caption"})
        return loss, [loss.callback()]

    trainer, model = trained(tmp_path, loss_of, label=True)
    logs = [entry for entry in trainer.state.log_history if "i2t" in entry]
    assert len(logs) == 12 and logs[-1]["p_c"] == 1.0 and logs[0]["p_c"] == 0.0
    assert [entry["eta"] for entry in logs][-1] == 1e-4
    assert np.mean([entry["i2t"] for entry in logs[-3:]]) < logs[0]["i2t"]
    check_loads(tmp_path, model)


def test_a_contrastive_loss_stands_inside_the_librarys_own(tmp_path: Path) -> None:
    """IFM over dot products, under `SpladeLoss`."""
    from sentence_transformers.sparse_encoder.losses import SpladeLoss

    def loss_of(model: Any) -> tuple[Any, Any]:
        inner = ObjectiveLoss(model, {"name": "ifm", "temperature": 1.0, "epsilon": 0.1})
        assert inner.similarity == "dot"
        return SpladeLoss(model, inner, document_regularizer_weight=1e-4, query_regularizer_weight=1e-4), []

    trainer, model = trained(tmp_path, loss_of, label=False)
    losses = [float(entry["base_loss"]) for entry in trainer.state.log_history if "base_loss" in entry]
    assert np.mean(losses[-3:]) < losses[0]
    check_loads(tmp_path, model)

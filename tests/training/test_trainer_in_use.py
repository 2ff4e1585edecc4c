"""visir's losses in the trainers of sentence-transformers, as people use them: resumed, wrapped, several, misfed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from refusals import refused
from visir.errors import ConfigurationError, VisirError
from visir.sparse.trainer_loss import D2SLoss
from visir.training.trainer_losses import ObjectiveLoss, TrainerLoss

pytest.importorskip("sentence_transformers")
pytest.importorskip("datasets")
sys.path.append(str(Path(__file__).parents[1] / "encoders"))

ANCHORS = [
    f"a {colour} {thing}" for colour in ("red", "blue", "green", "dog") for thing in ("dog", "cat", "car", "sky")
]
POSITIVES = [" ".join(reversed(text.split())) for text in ANCHORS]
TARGETS = np.random.default_rng(0).normal(size=(16, 5)).tolist()
SIDES = np.random.default_rng(1).normal(size=(16, 2, 6)).tolist()
LTD: dict[str, Any] = {"ltd": {"hidden": 8, "bound": 0.2}}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`dense`, `splade` and `colbert`: tiny, with random weights."""
    import tiny_multi_vector
    import tiny_sentence

    folder = tmp_path_factory.mktemp("models")
    tiny_sentence.save(folder / "dense")
    tiny_sentence.save_splade(folder / "splade")
    tiny_multi_vector.save_text(folder / "colbert")
    return folder


def dense(models: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(models / "dense"), device="cpu")


def pairs(**more: Any) -> Any:
    from datasets import Dataset

    return Dataset.from_dict({"anchor": ANCHORS, "positive": POSITIVES, **more})


def trainer_of(model: Any, loss: Any, data: Any, out: Path, callbacks: Any = (), **settings: Any) -> Any:
    """Two epochs of four updates."""
    import sentence_transformers as library

    kind = f"{type(model).__name__}Trainer"
    given: dict[str, Any] = {
        "output_dir": str(out),
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "use_cpu": True,
        "report_to": [],
    }
    arguments = getattr(library, f"{kind[:-7]}TrainingArguments")(**{**given, **settings})
    return getattr(library, kind)(
        model=model, args=arguments, train_dataset=data, eval_dataset=data, loss=loss, callbacks=list(callbacks)
    )


def decoding(models: Path, seed: int = 0) -> tuple[Any, ObjectiveLoss]:
    model = dense(models)
    objective = {"name": "infonce", "learn_temperature": True}
    return model, ObjectiveLoss(model, objective, LTD, target_width=5, seed=seed)


def same(first: nn.Module, second: nn.Module) -> bool:
    held = second.state_dict()
    return all(torch.equal(tensor, held[name]) for name, tensor in first.state_dict().items())


# A training that goes on.


def test_two_losses_of_two_data_sets_go_on_to_the_same_bits(models: Path, tmp_path: Path) -> None:
    def run(resume: bool) -> tuple[Any, dict[str, ObjectiveLoss], Any]:
        model = dense(models)
        losses = {
            name: ObjectiveLoss(model, {"name": name, "learn_temperature": True}, LTD, target_width=5, seed=seed)
            for seed, name in enumerate(("infonce", "ifm"))
        }
        followed = [loss.callback(name) for name, loss in losses.items()]
        data = {name: pairs(label=TARGETS) for name in losses}
        trainer = trainer_of(model, losses, data, tmp_path / "out", followed, save_strategy="epoch")
        trainer.train(resume_from_checkpoint=resume)
        return model, losses, trainer

    model, losses, trainer = run(resume=False)
    assert trainer.state.global_step == 16
    assert {"infonce ltd multiplier", "ifm ltd multiplier"} <= set(trainer.state.log_history[-2])
    # λ of a loss moves in the updates of its own data set
    assert [int(loss.objective.state_dict()["joins.ltd.steps"]) for loss in losses.values()] == [8, 8]
    shutil.rmtree(tmp_path / "out" / "checkpoint-16")
    again, others, _ = run(resume=True)
    assert same(model, again) and all(same(losses[name], others[name]) for name in losses)


def test_two_callbacks_of_one_name_are_refused(models: Path, tmp_path: Path) -> None:
    model, loss = decoding(models)
    losses = {"one": loss, "two": ObjectiveLoss(model, "ifm", LTD, target_width=5)}
    data = {name: pairs(label=TARGETS) for name in losses}
    trainer = trainer_of(model, losses, data, tmp_path, [one.callback() for one in losses.values()])
    with refused(ConfigurationError, code="callbacks-of-one-name"):
        trainer.train()


def test_a_training_goes_on_elsewhere_and_never_with_the_loss_of_another(models: Path, tmp_path: Path) -> None:
    def run(out: str, seed: int = 0, **settings: Any) -> ObjectiveLoss:
        resume = settings.pop("resume", None)
        model, loss = decoding(models, seed)
        trainer = trainer_of(
            model, loss, pairs(label=TARGETS), tmp_path / out, [loss.callback()], save_strategy="epoch", **settings
        )
        trainer.train(resume_from_checkpoint=resume)
        return loss

    whole = run("whole")
    run("other", seed=1)
    half = str(tmp_path / "whole" / "checkpoint-4")
    assert same(run("new", resume=half), whole)
    assert same(run("other", resume=half), whole)  # where a checkpoint-4 of another training lay
    (tmp_path / "whole").rename(tmp_path / "moved")
    half = str(tmp_path / "moved" / "checkpoint-4")
    with refused(ConfigurationError, code="loss-state-missing"):
        run("newer", resume=half)
    assert same(run("newest", resume=half, resume_from_checkpoint=half), whole)


# What moves beside the weights.


def test_evaluation_moves_nothing(models: Path, tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    model, loss = decoding(models)
    sparse = SparseEncoder(str(models / "splade"), device="cpu")
    weights = D2SLoss(sparse, {"eta": 1e-3}, {"variant": "caption", "sampled_per": "caption"})
    cases: list[tuple[Any, TrainerLoss, Any]] = [
        (model, loss, pairs(label=TARGETS)),
        (sparse, weights, pairs(label=SIDES)),
    ]
    for number, (of, one, data) in enumerate(cases):
        trainer = trainer_of(of, one, data, tmp_path / str(number), [one.callback()])
        trainer.train()
        before = {name: tensor.clone() for name, tensor in one.state_dict().items()}, dict(one.facts())
        first, second = trainer.evaluate()["eval_loss"], trainer.evaluate()["eval_loss"]
        assert first == second and dict(one.facts()) == before[1]
        assert all(torch.equal(one.state_dict()[name], tensor) for name, tensor in before[0].items())


def test_a_multiplier_moves_once_an_update_that_accumulates(models: Path, tmp_path: Path) -> None:
    model, loss = decoding(models)
    trainer = trainer_of(
        model, loss, pairs(label=TARGETS), tmp_path, [loss.callback()], gradient_accumulation_steps=2, bf16=True
    )
    trainer.train()
    assert int(loss.objective.state_dict()["joins.ltd.steps"]) == trainer.state.global_step == 4


def test_a_second_training_needs_its_callback_too(models: Path, tmp_path: Path) -> None:
    model, loss = decoding(models)
    trainer_of(model, loss, pairs(label=TARGETS), tmp_path, [loss.callback()]).train()
    with refused(ConfigurationError, code="loss-without-callback"):
        trainer_of(model, loss, pairs(label=TARGETS), tmp_path).train()


def test_nothing_is_kept_where_nobody_reads_it(models: Path, tmp_path: Path) -> None:
    model = dense(models)
    loss = ObjectiveLoss(model, "infonce")
    trainer_of(model, loss, pairs(), tmp_path).train()
    assert loss._parts == []


def test_a_loss_that_is_no_number_stops_before_the_multiplier_moves(models: Path, tmp_path: Path) -> None:
    model, loss = decoding(models)
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    with refused(VisirError, code="loss-not-finite"):
        trainer_of(model, loss, pairs(label=TARGETS), tmp_path, [loss.callback()]).train()
    assert loss.facts()["ltd multiplier"] == 1.0


# Losses over losses.


def test_inside_losses_over_losses(models: Path, tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.losses import AdaptiveLayerLoss, MatryoshkaLoss

    model = dense(models).eval()
    inner = ObjectiveLoss(model, "infonce")
    features = [model.preprocess(texts[:4]) for texts in (ANCHORS, POSITIVES)]
    with torch.no_grad():
        vectors = [model(dict(column))["sentence_embedding"] for column in features]
        parts = [inner.compute_loss_from_embeddings([part[:, :width] for part in vectors]) for width in (32, 8)]
        total = MatryoshkaLoss(model, inner, [32, 8])(features, None)
    assert float(total) == pytest.approx(float(sum(parts)), rel=1e-5)
    trainer_of(model, AdaptiveLayerLoss(model, inner), pairs(), tmp_path).train()
    for auxiliary in (LTD, {"itd": {"words": 8}}):
        loss = ObjectiveLoss(model, "infonce", auxiliary, target_width=5)
        data = pairs(label=TARGETS) if "ltd" in auxiliary else pairs()
        with refused(ConfigurationError, code="decoder-of-another-width"):
            trainer_of(model, MatryoshkaLoss(model, loss, [32, 8]), data, tmp_path, [loss.callback()]).train()


# What is given wrongly.


@pytest.mark.parametrize("label", [[0.8, 0.2] * 8, [[2**25 + row, *TARGETS[row]] for row in range(16)]])
def test_labels_that_number_no_anchors_are_refused(models: Path, tmp_path: Path, label: list[Any]) -> None:
    """Scores would make all pairs those of anchor 0, which are no negatives of each other: a loss of 0."""
    model, loss = decoding(models)
    loss = loss if isinstance(label[0], list) else ObjectiveLoss(model, "infonce")
    with refused(ConfigurationError, code="labels-no-whole-numbers"):
        trainer_of(model, loss, pairs(label=label), tmp_path, [loss.callback()]).train()


def test_d2s_takes_pairs_of_a_sparse_model(models: Path, tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    with refused(ConfigurationError, code="loss-of-other-vectors"):
        D2SLoss(dense(models))
    model = SparseEncoder(str(models / "splade"), device="cpu")
    with refused(ConfigurationError, code="loss-without-negatives"):
        trainer_of(
            model, D2SLoss(model, {"warmup": 0.0}), pairs(negative=POSITIVES[::-1], label=SIDES), tmp_path
        ).train()


def test_itd_says_that_the_second_column_has_no_texts(models: Path) -> None:
    model = dense(models)
    loss = ObjectiveLoss(model, "infonce", {"itd": {"words": 8}})
    loss.at_step(0, 0)
    with refused(ConfigurationError, code="positives-without-tokens"):
        loss.compute_loss_from_embeddings([torch.randn(4, 32)] * 2)


# Several vectors for each text.


def test_filip_of_a_colbert_is_its_equation(models: Path, tmp_path: Path) -> None:
    """Means over a text's vectors of the best match on the other side, both ways, over the library's own vectors."""
    from sentence_transformers import MultiVectorEncoder

    model = MultiVectorEncoder(str(models / "colbert"), device="cpu")
    loss = ObjectiveLoss(model, {"name": "filip", "temperature": 0.1})
    model.eval()
    sets = [model.encode_query(ANCHORS[:4]), model.encode_document(POSITIVES[:4])]
    unit = [[np.asarray(one, np.float64) for one in side] for side in sets]
    tables = [
        np.array([[(query @ other.T).max(axis=1).mean() for other in others] for query in queries]) / 0.1
        for queries, others in (unit, unit[::-1])
    ]
    expected = np.mean([np.log(np.exp(table).sum(axis=1)) - np.diag(table) for table in tables])
    features = [
        {**model.preprocess(texts[:4], prompt=model.prompts[task], task=task), "task": task}
        for texts, task in ((ANCHORS, "query"), (POSITIVES, "document"))
    ]
    assert float(loss(features).detach()) == pytest.approx(expected, rel=1e-5)
    trainer = trainer_of(model, loss, pairs(), tmp_path, [loss.callback()], num_train_epochs=6, learning_rate=2e-4)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before and loss.facts()["temperature"] != 0.1
    for wrong, other in ((model, "infonce"), (dense(models), "filip")):
        with refused(ConfigurationError, code="loss-of-other-vectors"):
            ObjectiveLoss(wrong, other)

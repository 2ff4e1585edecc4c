"""Captions in fixed prompts: drawn by place or averaged in training, averaged in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from planted import TEXT, objective, recipe, towers

import visir
from refusals import refused
from visir.encoders.towers.base import PromptInputs
from visir.errors import ConfigurationError
from visir.training.examples import PromptedTexts
from visir.training.inputs import EpochRandom, VectorSource
from visir.training.learner import DualEncoder
from visir.training.optimiser import Precision

SMALL: dict[str, Any] = {"data": "scenes:40?size=64", "epochs": 2, "batch": 24}
PROMPTS = ["a photo of {}", "{}", "a picture: {}!"]


def source(prompting: Any, texts: int = 300) -> PromptedTexts:
    # Text r in prompt p has the vector [p, r].
    places = np.array([[p, r] for p in range(3) for r in range(texts)], np.float32)
    return PromptedTexts(VectorSource(places[None]), 3, prompting)


def test_a_prompt_is_drawn_for_each_caption_by_its_place() -> None:
    rows, epoch = np.arange(300), EpochRandom(0, 1)
    drawn = source("drawn").batch(rows, epoch, rows)
    assert isinstance(drawn, torch.Tensor) and drawn[:, 1].tolist() == rows.tolist()
    counts = torch.bincount(drawn[:, 0].long())
    assert counts.min() > 70  # each about a hundred times
    part = source("drawn").batch(rows[[5, 250]], epoch, rows[[5, 250]])
    assert isinstance(part, torch.Tensor) and torch.equal(part, drawn[[5, 250]])  # whatever the batch
    other = source("drawn").batch(rows, EpochRandom(0, 2), rows)
    assert isinstance(other, torch.Tensor) and not torch.equal(other, drawn)


@pytest.mark.parametrize("draw", [None, EpochRandom(0, 0)])
def test_averaged_and_in_use_all_prompts_are_there(draw: EpochRandom | None) -> None:
    batch = source("averaged" if draw else "drawn").batch(np.array([7, 3]), draw)
    assert isinstance(batch, PromptInputs) and len(batch) == 3
    assert batch["2"].tolist() == [[2, 7], [2, 3]]


@pytest.mark.parametrize("prompting", ["drawn", "averaged"])
@pytest.mark.parametrize("name", ["scenes-heads", "scenes-vse"])
def test_the_checkpoint_averages_as_validation_did(name: str, prompting: str, tmp_path: Path) -> None:
    changes = {"text.prompts": PROMPTS, "text.prompting": prompting}
    run = visir.train(name, out=tmp_path / "run", set=changes, **SMALL)
    model = visir.load(run)
    assert model.card.text_preprocessing["prompts"] == PROMPTS
    rule = run.recipe["data"]["split_by"]
    held_out = visir.open(SMALL["data"]).split("val") if rule is None else None
    if held_out is not None:
        result = visir.evaluate(held_out, model).result
        assert result is not None
        assert 100 * result.mean("t2i", "hit@5") == pytest.approx(run.validation["t2i hit@5"])
    # The mean over the prompts, by hand, from the same towers without them.
    plain = visir.load(run)
    plain.prompts = ()  # type: ignore[attr-defined]
    units = []
    for prompt in PROMPTS:
        vectors = plain.embed_texts([prompt.replace("{}", "two red circles")])
        units.append(vectors / np.linalg.norm(vectors))
    np.testing.assert_allclose(model.embed_texts(["two red circles"]), np.mean(units, axis=0), rtol=0, atol=1e-6)


def test_the_mean_over_prompts_is_a_unit_vector_again() -> None:
    learner = DualEncoder(towers(), objective(recipe()))
    learner.prepare(Precision("float32", torch.device("cpu")))
    texts = torch.randn(5, TEXT, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        first, second = learner.vectors("positive", texts), learner.vectors("positive", -2 * texts + 1)
        mean = learner.vectors("positive", PromptInputs({"0": texts, "1": -2 * texts + 1}))
    assert float((first + second).norm(dim=1).max()) < 1.9  # they point apart
    torch.testing.assert_close(mean.norm(dim=1), torch.ones(5))
    torch.testing.assert_close(mean, torch.nn.functional.normalize(first + second, dim=1))


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r'text.prompts.0: .*one place for the caption: "a photo of {}"'):
        visir.train("scenes-heads", set={"text.prompts": ["a photo"]}, **SMALL)
    with refused(ConfigurationError, "text.prompts", "together with shortcuts"):
        visir.train("scenes-vse", set={"text.prompts": PROMPTS, "shortcuts.kind": "unique"}, **SMALL)

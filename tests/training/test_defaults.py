"""What losses take where a recipe says nothing: the values of the papers, in settings and in classes alike."""

from __future__ import annotations

import inspect

import pytest

from visir.sparse.loss import SparseLoss
from visir.sparse.recipe import LossSettings
from visir.training.losses import (
    InfoNCE,
    InfoNCESettings,
    MultiPositive,
    MultiPositiveSettings,
    OwnScale,
    Sigmoid,
    SigmoidSettings,
    Triplet,
    TripletSettings,
)
from visir.training.objective import IFM, IFMSettings, LTDSettings
from visir.training.settings import Settings


def test_latent_target_decoding_section_4() -> None:
    """ "For the InfoNCE loss, we use a temperature value τ of 0.05"; "we set β to 1"; "η is set to 0.2"."""
    assert InfoNCESettings().temperature == 0.05 and not InfoNCESettings().learn_temperature
    assert InfoNCE().temperature.value == pytest.approx(0.05)
    assert (LTDSettings().beta, LTDSettings().bound) == (1.0, 0.2)


def test_vse_thesis_appendix_4_d_2() -> None:
    """ "A triplet loss function with a margin parameter α = 0.2", of the hardest negative (VSE++, section 3.2)."""
    settings = TripletSettings()
    assert (settings.margin, settings.negatives) == (0.2, "hardest")
    assert (Triplet().margin, Triplet().negatives) == (0.2, "hardest")


def test_sparse_thesis_section_3_5_1() -> None:
    """ "We set the temperature τ to 0.001 and experiment with […] η ∈ [1e-5, 1e-2]"; λ = ½ as in the released code."""
    settings = LossSettings()
    assert (settings.temperature, settings.balance) == (0.001, 0.5)
    assert 1e-5 <= settings.eta <= 1e-2
    assert SparseLoss() == SparseLoss(temperature=0.001, balance=0.5)


@pytest.mark.parametrize(
    ("settings", "loss"),
    [
        (InfoNCESettings(), InfoNCE),
        (IFMSettings(), IFM),
        (MultiPositiveSettings(), MultiPositive),
        (TripletSettings(), Triplet),
        (LossSettings(), SparseLoss),
    ],
)
def test_a_class_alone_takes_what_its_settings_take(settings: Settings, loss: type) -> None:
    names = {"learnt": "learn_temperature"}
    for name, parameter in inspect.signature(loss).parameters.items():
        if parameter.default is not parameter.empty:
            assert parameter.default == getattr(settings, names.get(name, name)), name


def test_siglip_section_3_2() -> None:
    """t' = log 10 and b = −10 at the start, both learnt."""
    settings, loss = SigmoidSettings(), Sigmoid()
    assert (settings.temperature, settings.bias) == (0.1, -10)
    assert settings.learn_temperature and settings.learn_bias
    assert loss.temperature.value == pytest.approx(0.1) and loss.bias.item() == -10
    assert loss.bias.requires_grad and loss.temperature.log_scale.requires_grad


def test_a_recipe_passes_its_settings_on() -> None:
    built = InfoNCESettings(temperature=0.3, false_negatives="kept").build(OwnScale(None))
    assert built.temperature.value == pytest.approx(0.3) and built.false_negatives == "kept"
    hinge = TripletSettings(margin=0.4, negatives="sum", false_negatives="kept", reduction="sum").build(OwnScale(None))
    assert (hinge.margin, hinge.negatives, hinge.false_negatives, hinge.reduction) == (0.4, "sum", "kept", "sum")

"""The shortcut audit: how much retrieval does a training lose per bit of shortcut?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visir.display import Plotted, Tabular, brief
from visir.errors import ConfigurationError, nearest, raise_faults
from visir.records.shortcuts import MOST_BITS
from visir.studies.trial import WITH, WITHOUT, DualEncoderTrial, run_trials
from visir.training.data import KEYWORDS, TOWERS, RecipeChanges
from visir.training.recipe import Recipe, ShortcutSettings

# The four setups of thesis section 4.3, each as one training with its evaluations.

BASELINE, UNIQUE, ALONE = "baseline", "unique", ("images", "captions")


def setup_trial(recipe: Recipe, setup: str, seed: int) -> DualEncoderTrial:
    """`recipe` in one setup, evaluated without shortcuts and, where it was trained with some, also with them."""
    # - "baseline": I, no shortcuts
    # - "unique": II
    # - "images", "captions": III, unique shortcuts on one modality alone. The thesis evaluates it without any; with
    #   them says whether a model has learnt less, or merely misses the stamp.
    # - "bits3": IV, 3 bits
    # Other settings of the recipe's `[shortcuts]` are taken over. Every setup of a recipe has a folder of its own name,
    # so that the audit and the figure share their trainings.
    usual = recipe.shortcuts or ShortcutSettings()
    changes: dict[str, dict[str, Any]] = {
        UNIQUE: {"kind": "unique", "bits": 0, "on": "both"},
        **{modality: {"kind": "unique", "bits": 0, "on": modality} for modality in ALONE},
    }
    number = setup.removeprefix("bits")
    if number != setup and number.isdecimal():
        changes[setup] = {"kind": "bits", "bits": int(number)}
    if setup != BASELINE and setup not in changes:
        raise ConfigurationError(
            f"there is no setup {setup!r}.", hint=nearest(setup, [BASELINE, *changes, "bits3"]), code="no-setup"
        )
    settings = None if setup == BASELINE else usual.model_copy(update=changes[setup])
    evaluations: dict[str, str | None] = {WITHOUT: None}
    if settings is not None:
        evaluations[WITH] = str(settings.record())
    return DualEncoderTrial(
        f"{setup}/seed{seed}", recipe.model_copy(update={"seed": seed, "shortcuts": settings}), evaluations
    )


BITS = (0, 2, 4, 6, 8, 10)

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Tabular, Plotted):
    """The result of an audit."""

    name: str
    bits: Sequence[int]  # (b,) how many bits of shortcut were trained with; 0 is the constant 0 0 0 0 0 0
    seeds: Sequence[int]
    baseline: Floats  # (seeds,) rsum of the recipe without any
    without: Floats  # (b, seeds) rsum (0–600) of the split without and with its shortcuts
    with_shortcuts: Floats

    def __repr__(self) -> str:
        rsums = zip(self.bits, self.without.mean(1), strict=True)
        without = ", ".join(f"{bits} bits {rsum:.1f}" for bits, rsum in rsums)
        lost = f"lost per bit: {self.loss_per_bit.mean():.2f} %"
        return brief(self, self.name, f"rsum without shortcuts: {without}", lost)

    @property
    def loss_per_bit(self) -> Floats:
        """(seeds,) the one number: percent of retrieval lost per bit of shortcut; 0 loses nothing."""
        #     Σ_n n · (r(0) − r(n))  /  ( r(0) · Σ_n n² )  · 100
        # the slope of the least-squares line through the origin, of the relative loss over the bits; r(n) is the rsum
        # *without* shortcuts after training with n bits. It is measured from 0 bits, not from the baseline: a model
        # that was trained under a constant stamp has less to go by where the stamp is missing (in thesis Figure 4.5 a
        # VSE++ falls from 412.8 to 344.4 with 0 bits), and that is no shortcut.
        # A model that collapses at n bits cannot lose more; the number then depends on the largest n. Compare audits of
        # the same bits.
        n = np.asarray(self.bits, np.float64)
        at_zero = self.without[list(self.bits).index(0)]
        loss: Floats = 100 * (n[:, None] * (at_zero - self.without)).sum(0) / (at_zero * (n**2).sum())
        return loss


def trials_of(recipe: Recipe, bits: Sequence[int] = BITS, seeds: Sequence[int] = (0,)) -> list[DualEncoderTrial]:
    """The trainings of an audit: for every seed the recipe itself, and the recipe with 0 and more bits of shortcut."""
    # Settings of `[shortcuts]` other than `kind` and `bits` are taken over, so an audit can be of shortcuts per
    # caption, or of packed ones.
    faults = []
    if 0 not in bits or len(set(bits)) < 2:
        faults.append(f"bits {list(bits)}: 0, which losses are measured from, and at least one more")
    faults += [f"bits {number}: {0} to {MOST_BITS}" for number in bits if not 0 <= number <= MOST_BITS]
    for name, values in (("bits", bits), ("seeds", seeds)):
        if len(set(values)) < len(values):
            faults.append(f"{name} {list(values)}: each once")
    raise_faults(ConfigurationError, f"audit of {recipe.name}", faults)
    setups = [BASELINE, *(f"bits{number}" for number in bits)]
    return [setup_trial(recipe, setup, seed) for seed in seeds for setup in setups]


def audit(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    data: str | Path | None = None,
    *,
    out: str | Path | None = None,
    bits: Sequence[int] = BITS,
    seeds: Sequence[int] = (0,),
    jobs: int | None = None,
    set: RecipeChanges | None = None,
    **changes: Any,
) -> Audit:
    """Train a recipe with more and more bits of shortcut, evaluate without and with them, and measure what it lost."""
    # What is in `out` is not done again: a killed audit goes on, and more bits or seeds can be added later. A
    # pretrained model is audited by fine-tuning it (`tower = "pretrained"`).
    keywords = {name: changes.pop(name) for name in KEYWORDS if name in changes}
    recipe, _ = TOWERS.resolve(recipe, data, keywords, changes, set)
    out = Path(out) if out is not None else Path("runs") / f"audit-{recipe.name}"
    trials = trials_of(recipe, bits, seeds)
    run_trials(trials, out, jobs=jobs)
    rsums = {
        trial.name: {label: result.mean("both", "rsum") for label, result in trial.results(out).items()}
        for trial in trials
    }
    return Audit(
        recipe.name,
        sorted(bits),
        list(seeds),
        np.array([rsums[f"baseline/seed{seed}"][WITHOUT] for seed in seeds]),
        *(
            np.array([[rsums[f"bits{number}/seed{seed}"][label] for seed in seeds] for number in sorted(bits)])
            for label in (WITHOUT, WITH)
        ),
    )

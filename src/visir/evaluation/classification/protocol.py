"""The protocol of a classification: everything on which its numbers depend."""

from __future__ import annotations

from collections.abc import Sequence

from visir.evaluation.classification.class_names import ClassNames
from visir.evaluation.classification.features import Features
from visir.evaluation.classification.few_shot import ALL, FEW_SHOT
from visir.evaluation.classification.result import Key
from visir.evaluation.classification.shot_probe import FIXED, STRENGTHS
from visir.evaluation.classification.templates import PLAIN, Templates
from visir.evaluation.classification.tip_adapter import ALPHA, ALPHAS, BETA, BETAS, SCALE
from visir.evaluation.classification.truth import LabelledPictures
from visir.evaluation.classification.tuning import FOLDS, VALIDATION_SHOTS


def protocol_of(
    part: LabelledPictures,
    labelled: LabelledPictures,
    split: str | None,
    names: ClassNames,
    templates: Templates,
    features: Features,
    shots: Sequence[int],
    draws: int,
    tuning: str,
    train: str,
    validation: str,
    seed: int,
    keys: Sequence[Key],
) -> tuple[tuple[str, str], ...]:
    """(label, value) rows."""
    collection = labelled.collection
    methods = {method for method, _ in keys}
    in_prompts = f"names in prompts from {names.origin}"
    rows = [
        ("pictures", f"{collection.name} · {part.collection.fingerprint[:12]}: {len(part.codes):,}"),
        ("split", split or "all"),
        ("classes", f"{len(names):,}, from {labelled.where}" + (f"; {in_prompts}" if features.has_texts else "")),
        ("model", features.name),
    ]
    if "zero-shot" in methods:
        ensemble = len(templates.texts) > 1
        rows.append(("prompts", f"{templates}" + ("; mean of unit vectors, to length 1 again" if ensemble else "")))
        if "zero-shot, plain" in methods:
            rows.append(("plain reading", f"one template: {PLAIN!r}"))
    if methods & set(FEW_SHOT):
        counts = ", ".join("all" if count == ALL else str(count) for count in shots)
        rows += [
            ("shots", f"{counts} of each class; fewer shots are among more"),
            ("drawn", f"{draws} times from {train}, seed {seed}"),
            ("settings", _settings(tuning, validation)),
        ]
    if "linear-probe" in methods:
        rows.append(("linear-probe", _probe(tuning)))
    if methods & {"tip-adapter", "tip-adapter-f"}:
        text = f"{SCALE:g} × cosine with the class vectors" if features.has_texts else "no texts: the cache alone"
        grid, usual = f"β of {_span(BETAS)}", f"β = {BETA:g}"
        if features.has_texts:
            grid, usual = f"α of {_span(ALPHAS)}, {grid}", f"α = {ALPHA:g}, {usual}"
        rows.append(("tip-adapter", f"{text}; {grid}; {usual} where not chosen; one vector for each shot, no crops"))
    rows += [
        ("ties", "against the model"),
        (
            "intervals",
            "95 %: of one draw Wilson over pictures; of several Student's t over draws",
        ),
    ]
    return tuple(rows)


def _settings(tuning: str, validation: str) -> str:
    if tuning == "fixed":
        return "fixed"
    if validation:
        return f"chosen on {validation}: as many pictures of each class as shots, at most {VALIDATION_SHOTS}"
    return f"cross-validated on the shots, at most {FOLDS} folds; fixed with one shot"


def _probe(tuning: str) -> str:
    if tuning == "clip":
        return (
            "as CLIP: vectors as the model gives them, C from 1e-6 to 1e6 by halving, by accuracy; fitted anew to all"
        )
    return (
        f"logistic regression on unit vectors, C of {_span(STRENGTHS)} by likelihood, {FIXED:g} where it is not chosen"
    )


def _span(values: Sequence[float]) -> str:
    return f"{values[0]:g} … {values[-1]:g}"

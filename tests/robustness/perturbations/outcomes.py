"""All that a perturbation makes of one caption, over many seeds."""

from __future__ import annotations

from visir.robustness.perturb import perturb_texts


def outcomes(name: str, text: str, *, severity: int = 1, draws: int = 200) -> set[str]:
    """What comes out for `draws` different caption ids."""
    ids = [str(i) for i in range(draws)]
    return set(perturb_texts([text] * draws, ids, name, severity=severity).texts.to_pylist())


def one(name: str, text: str, *, severity: int = 1) -> str:
    """What comes out by the paper profile."""
    return perturb_texts([text], ["0"], name, severity=severity, profile="paper").texts[0].as_py()

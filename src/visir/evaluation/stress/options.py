"""The options of a stress study: names and values, with all faults listed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from visir.encoders.base import Encoder
from visir.errors import ConfigurationError, VisirError, nearest, raise_faults
from visir.evaluation.systems import System
from visir.records import Collection
from visir.robustness.corruptions import CORRUPTIONS, SEVERITIES
from visir.robustness.perturbations import find, names_in
from visir.robustness.perturbations.base import NOT_DAMAGE, Profile


def names_of(
    system: System, perturbations: Sequence[str] | None, pictures: Sequence[str] | None, profile: Profile = "sound"
) -> dict[str, list[str]]:
    """The names of the conditions of a study."""
    requested: dict[str, tuple[Sequence[str] | None, Any]] = {
        "t2i": (perturbations, [name for name in names_in(profile) if find(name).family not in NOT_DAMAGE]),
        "i2t": (pictures, CORRUPTIONS),
    }
    names: dict[str, list[str]] = {}
    faults = []
    for task, (chosen, known) in requested.items():
        offered = system.conditions(task)
        possible = list(known) if offered is None else sorted(offered, key=[*known, *offered].index)
        names[task] = possible if chosen is None else list(dict.fromkeys(chosen))
        for perturbation in names[task]:
            fault = _unknown(perturbation, task)
            if fault:
                faults.append(fault)
            elif offered is not None and perturbation not in offered:
                faults.append(
                    f"{system.name} has no answers to {perturbation!r}; it has {', '.join(possible) or 'none'}"
                )
    if not faults and not any(names.values()):
        faults.append("nothing is perturbed: name perturbations of captions or corruptions of pictures")
    raise_faults(ConfigurationError, f"stress of {system.name}", faults)
    return names


def _unknown(name: str, task: str) -> str:
    """Why there is no such perturbation; "" if there is. Those of captions may be joined: "char_swap+synonym_noun"."""
    try:
        for step in name.split("+") if task == "t2i" else []:
            find(step)
    except VisirError as fault:
        return f"{fault.message} ({fault.hint})"
    if task == "i2t" and name not in CORRUPTIONS:
        return f"unknown {CORRUPTIONS.kind} {name!r} ({nearest(name, CORRUPTIONS)})"
    return ""


def check_study(
    collection: Collection,
    names: Mapping[str, Sequence[str]],
    severity: int,
    picture_severity: int,
    seed: int,
    profile: str,
    estimator: object,
) -> None:
    """Check the other options of a study."""
    faults = []
    if severity < 1:
        faults.append(f"severity {severity}: from 1")
    if picture_severity not in SEVERITIES and names["i2t"]:
        faults.append(f"severity of pictures {picture_severity}: 1 to {SEVERITIES[-1]}")
    if seed < 0:
        faults.append(f"seed {seed} must not be negative")
    if profile not in ("sound", "paper"):
        faults.append(f"profile {profile!r} ({nearest(profile, ('sound', 'paper'))})")
    if estimator is not None and not isinstance(estimator, Encoder):
        faults.append("the estimator is an encoder")
    carried = [str(view) for view in (collection.injected, collection.corrupted) if view is not None]
    faults += [f"the collection is a view already ({view}); begin from the plain one" for view in carried]
    raise_faults(ConfigurationError, f"stress on {collection.name}", faults)

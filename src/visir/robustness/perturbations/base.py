"""What a perturbation is: a function of a caption, a stream of random numbers and a severity, that describes itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from visir.errors import VisirError
from visir.plugins import PERTURBATIONS as GROUP
from visir.registry import Registry
from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.random_stream import RandomStream

Family = Literal["typos", "synonyms", "distractions", "word order", "paraphrases", "meaning"]
Profile = Literal["sound", "paper"]

NOT_DAMAGE: frozenset[Family] = frozenset({"paraphrases", "meaning"})
"""Families that damage no caption: it is right in other words, or says something else that is wrong. A study of
brittleness takes them only where they are named: a model should not find the picture of a caption that is wrong."""

Change = Callable[[TaggedCaption, RandomStream, int], str]
"""(caption, random numbers, severity) → the perturbed text; the text itself, unchanged, when it cannot be perturbed."""


@dataclass(frozen=True)
class Perturbation:
    """One way to perturb a caption.

    Args:
        name: As in the authors' logs: "nearby_char".
        title: As Table 4 prints it: "Nearby Character".
        family: What kind of damage it does.
        level: "word" or "sentence", as in section 4.1.
        change: The sound version; equal arguments give equal texts.
        about: What it does, in one sentence.
        paper: What the released code of the brittleness paper does; None for a perturbation that it does not have.
        paper_about: How the released code differs; "" where it does not, or has no such perturbation.
        severity: What the severity counts ("characters", "words", "changes"); "" where there is nothing to count.
        needs_words: Whether it needs tokens and tags (then `TaggedCaption` has them), or the text alone.
        on: The same on another keyboard, for those that need one: `find("nearby_char:azerty")`.
    """

    name: str
    title: str
    family: Family
    level: Literal["word", "sentence"]
    change: Change
    about: str
    paper: Change | None = None
    paper_about: str = ""
    severity: str = ""
    needs_words: bool = False
    on: Callable[[str], Change] | None = None


PERTURBATIONS: Registry[Perturbation] = Registry("perturbation", group=GROUP, of=Perturbation)
"""All perturbations, in the order of Table 4; those of other packages come last."""


def names_in(profile: Profile) -> list[str]:
    """The names of all perturbations of a profile: every one in "sound", those of the released code in "paper".

    Example:
        >>> from visir.robustness.perturbations import names_in
        >>> names_in("paper")[:2]
        ['char_swap', 'missing_char']
    """
    return [name for name, entry in PERTURBATIONS.items() if profile == "sound" or entry.paper is not None]


def find(name: str) -> Perturbation:
    """The perturbation of a name.

    On a named keyboard there is no paper profile, since the released code knows one keyboard only.

    Args:
        name: "nearby_char"; a perturbation that needs a keyboard may name it: "nearby_char:azerty".

    Raises:
        VisirError: For an unknown name, with the nearest one.

    Example:
        >>> find("nearby_char:azerty").about.endswith("The keyboard is azerty.")
        True
    """
    plain, colon, keyboard = name.partition(":")
    perturbation = PERTURBATIONS.get(plain)
    if not colon:
        return perturbation
    if perturbation.on is None:
        with_keyboard = ", ".join(other for other, about in PERTURBATIONS.items() if about.on)
        raise VisirError(
            f"{plain} looks at no keyboard: {name!r}", hint=f"those that do: {with_keyboard}", code="looks-no-keyboard"
        )
    return replace(
        perturbation,
        name=name,
        change=perturbation.on(keyboard),
        about=f"{perturbation.about} The keyboard is {keyboard}.",
        paper=None,
        paper_about="",
    )

"""A perturbation: captions in capital letters."""

from visir.robustness.language.tagged_captions import TaggedCaption
from visir.robustness.perturbations import Perturbation
from visir.robustness.random_stream import RandomStream


def shout(caption: TaggedCaption, random: RandomStream, severity: int) -> str:
    """The caption in capital letters; nothing is drawn, and there is nothing to count."""
    return caption.text.upper()


SHOUT = Perturbation(
    name="shout",
    title="Shout",
    family="typos",
    level="sentence",
    change=shout,
    about="All letters as capitals.",
)

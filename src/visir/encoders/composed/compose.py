"""`compose`: a model and a rule become an encoder of texts with images."""

from __future__ import annotations

from os import PathLike

from visir.encoders.base import Encoder
from visir.encoders.composed.encoder import ComposedEncoder
from visir.encoders.composed.rule import CompositionRule
from visir.encoders.loading import load


def compose(model: Encoder | str | PathLike[str], rule: CompositionRule | str) -> Encoder:
    """Let a model answer a text and an image together: the baselines of composed retrieval.

    Its vectors of texts and of images stay as they are, and the store keeps those alone: another weight encodes
    nothing again.

    Args:
        model: An encoder, or a name that `visir.load` takes.
        rule: "sum(0.5)": the weighted sum of the unit vectors, 0.5 being the share of the text; "text" or "image":
            one of the two alone.

    Returns:
        The encoder. `load` takes the same as a name: "MODEL?compose=sum(0.5)".

    Raises:
        ConfigurationError: The rule is none of these.
        EncoderError: The model does not read what the rule needs.

    Example:
        >>> import visir
        >>> def colours(images):
        ...     return [image.resize((1, 1)).getpixel((0, 0)) for image in images]
        >>> def words(texts):
        ...     return [[1 + 99 * (name in text) for name in ("red", "green", "blue")] for text in texts]
        >>> mine = visir.Encoder.wrap("mine", image=colours, text=words)
        >>> sorted(compose(mine, "sum(0.7)").modalities)
        ['image', 'text', 'text+image']
    """
    return ComposedEncoder(load(model), CompositionRule.parse(rule))

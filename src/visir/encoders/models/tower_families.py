"""How one vector is read out of a vision tower alone, or a text tower alone, of `transformers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from visir.encoders.models.text_inputs import TextInputs
from visir.encoders.models.tokens import Tokens
from visir.encoders.models.towers import PixelInputs
from visir.encoders.towers.base import Inputs
from visir.encoders.towers.pretrained_backbone import PretrainedTower
from visir.encoders.truncation import TextLimit
from visir.records import Modality

# What text towers with a tokenizer of `transformers` have in common, whatever the model behind it.


class TokenTower(PretrainedTower):
    """A text tower that reads what `tokens` makes of a text."""

    modality: Modality = "text"
    tokens: Tokens

    def prepare(self, items: Sequence[Any]) -> list[Any]:
        """int32 token ids of each text."""
        return list(self.tokens.ids(items))

    def text_limit(self) -> TextLimit | None:
        """As the tokenizer cuts."""
        return self.tokens.text_limit()

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would lose a token (or a word, where words are counted)."""
        return self.tokens.truncate(texts, ending)

    def text_inputs(self) -> TextInputs | None:
        """As the tokenizer, where another library can do what it does."""
        return self.tokens.text_inputs()

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """The tokenizer's outputs that the model takes, (n, L): "input_ids" and, of most, "attention_mask"."""
        return self.tokens.collate(prepared)

    def values(self) -> dict[str, Any]:
        """The tokenizer's settings, and what is done to texts before."""
        return self.tokens.values()


POOLINGS = ("pooler", "cls", "mean")
"""What is read: the model's own pooled vector, its first token, or the mean of the tokens that stand for patches."""


@dataclass(frozen=True)
class TowerFamily:
    """What one family of vision towers does its own way."""

    pooling: str = "pooler"  # what is read unless the name says otherwise; one of `POOLINGS`
    # Whether the model's own pooled vector means something: some have one that no checkpoint trained.
    pooler: bool = True
    reason: str = ""  # why this, in words


_FIRST = TowerFamily("cls", pooler=False, reason="its pooler is in few checkpoints; classifiers read the first token")
_PATCHES = TowerFamily("mean", pooler=False, reason="it has no first token and no pooler")

FAMILIES: Mapping[str, TowerFamily] = {
    "vit": _FIRST,
    "deit": _FIRST,
    "vit_msn": TowerFamily("cls", pooler=False, reason="it has no pooler; its classifier reads the first token"),
    "ijepa": _PATCHES,
    "flava_image_model": _FIRST,
}
"""By the model type in `config.json`. Every other vision tower is read by its own pooled vector: DINOv2 and DINOv3
(the first token behind the last norm), SigLIP and AIMv2 (attention pooling), CLIP (the first token behind a norm; its
projection, where it has one), ConvNeXt, Swin, ResNet (the mean of the last map)."""


def tower_family_of(model_type: str) -> TowerFamily:
    """What is known of a type of vision tower."""
    return FAMILIES.get(model_type, TowerFamily())


def pooled_image(model: Any, pixels: PixelInputs, pooling: str) -> Tensor:
    """(n, width) vectors of a batch of images."""
    output = model(**({"pixel_values": pixels} if isinstance(pixels, Tensor) else pixels))
    projected = getattr(output, "image_embeds", None)
    if pooling == "pooler":
        pooled: Tensor = output.pooler_output if projected is None else projected
        return pooled.flatten(1)  # of convolutional networks (n, width, 1, 1)
    states: Tensor = output.last_hidden_state
    if states.ndim == 4:  # a map (n, width, rows, columns), without a first token
        return states.mean(dim=(2, 3))
    if pooling == "cls":
        return states[:, 0]
    prefix = prefix_tokens(model)
    if isinstance(pixels, Mapping) and "pixel_attention_mask" in pixels:
        mask = pixels["pixel_attention_mask"][..., None].to(states.dtype)
        return (states * mask).sum(dim=1) / mask.sum(dim=1)
    return states[:, prefix:].mean(dim=1)


def pooled_text(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    """(n, width) vectors of a batch of texts: the projection where the tower has one, else its own pooled vector."""
    output = model(**tokens)
    projected = getattr(output, "text_embeds", None)
    pooled: Tensor = output.pooler_output if projected is None else projected
    return pooled


def prefix_tokens(model: Any) -> int:
    """Tokens before those of patches: the first token and the registers."""
    return int(has_first_token(model)) + int(getattr(model.config, "num_register_tokens", 0) or 0)


def has_first_token(model: Any) -> bool:
    """Whether a vision tower has a token before those of patches that stands for the whole image."""
    if model.config.model_type == "dinov3_convnext":  # the pooled map stands there
        return True
    names = {name.rpartition(".")[2] for name, _ in model.named_parameters()}
    return bool(names & {"cls_token", "class_embedding", "class_token"})

"""What X-VLM and ALBEF share: BERT cut in two, a text tower and a tower that looks at the image, and the heads.

Source: Li et al. 2021, ALBEF (arXiv 2107.07651); Zeng et al. 2022, X-VLM (arXiv 2111.08276). The lower layers of BERT
read the text alone; the upper ones begin with the text's tokens and attend to the image's tokens (cross-attention)
between their self-attention and their feed-forward layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from visir.encoders.models.fusion_config import Sizes

UNUSED = (
    "text_encoder.cls.*",  # masked language modelling, in pre-training
    "text_encoder.pooler.*",
    "text_encoder.embeddings.position_ids",
    "temp",
)
"""Names in the authors' files that neither vectors nor matching scores need, in both families."""


@dataclass(frozen=True)
class FusionFamily:
    """What differs between the two."""

    kind: str  # "xvlm" or "albef"
    vision_name: str  # the image tower's name in the authors' files
    # Sizes to the image tower, which takes pixels to tokens (n, t, vision_width), the first of them for the whole
    # image.
    build_vision: Callable[[Sizes], nn.Module]
    # The width of the text to the matching head (its second output is the logit of "match").
    build_matching: Callable[[int], nn.Module]
    # The name of one of its weights, to the name in the authors' files.
    vision_key: Callable[[str], str] = lambda key: key
    unused: Sequence[str] = ()  # further names in the authors' files that are used in training only


class FusionModel(nn.Module):
    """Both towers, their projections, the fusion layers and the matching head."""

    def __init__(self, family: FusionFamily, sizes: Sizes) -> None:
        super().__init__()
        self.family, self.sizes = family, sizes
        width = int(sizes.text["hidden_size"])
        self.vision = family.build_vision(sizes)
        self.vision_proj = nn.Linear(sizes.vision_width, sizes.dimension)
        self.text = _text_layers(sizes)
        self.text_proj = nn.Linear(width, sizes.dimension)
        self.fusion = _fusion_layers(sizes)
        self.itm_head = family.build_matching(width)

    def official_names(self) -> dict[str, str]:
        """Each weight's name here, to its name in the authors' files."""
        fused = int(self.sizes.text["fusion_layer"])
        return {key: _official(key, self.family, fused) for key in self.state_dict()}

    def expected_shapes(self) -> dict[str, Sequence[int]]:
        """The shape of every weight, by its name in the authors' files."""
        names = self.official_names()
        return {names[key]: tuple(value.shape) for key, value in self.state_dict().items()}

    def take(self, state: Mapping[str, Tensor]) -> None:
        """Copy weights from the authors' names; they must be there (`check_weights`)."""
        self.load_state_dict({key: state[name] for key, name in self.official_names().items()})

    def match(self, words: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        """(n,) logits of "match" of n texts with one image."""
        # image: (t, vision_width) tokens of the image, whose keys and values are computed once and broadcast.
        states = self.fusion(encoder_embeds=words, attention_mask=mask, encoder_hidden_states=image[None])
        logits: Tensor = self.itm_head(states.last_hidden_state[:, 0, :])[:, 1]
        return logits


def _text_layers(sizes: Sizes) -> nn.Module:
    from transformers import BertConfig, BertModel

    settings = {**_text_settings(sizes), "num_hidden_layers": sizes.text["fusion_layer"]}
    model: nn.Module = BertModel(BertConfig(**settings), add_pooling_layer=False)
    return model


def _fusion_layers(sizes: Sizes) -> nn.Module:
    """The upper layers, as BLIP's text model (which descends from this one), entered behind its embeddings."""
    from transformers import BlipTextConfig, BlipTextModel

    settings = _text_settings(sizes)
    layers = int(sizes.text["num_hidden_layers"]) - int(sizes.text["fusion_layer"])
    # is_decoder is what gives the layers cross-attention there; texts are not masked causally unless asked for.
    settings |= {"num_hidden_layers": layers, "encoder_hidden_size": sizes.vision_width, "is_decoder": True}
    settings |= {"vocab_size": 1, "pad_token_id": 0, "max_position_embeddings": 1}
    model = BlipTextModel(BlipTextConfig(**settings), add_pooling_layer=False)
    model.embeddings = None
    return model  # type: ignore[no-any-return]


def _text_settings(sizes: Sizes) -> dict[str, Any]:
    settings = {key: value for key, value in sizes.text.items() if key != "fusion_layer"}
    return {**settings, "attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}


def _official(key: str, family: FusionFamily, fused: int) -> str:
    """ "fusion.encoder.layer.0.output.dense.bias" is layer 6 there, where `fused` is 6."""
    part, _, name = key.partition(".")
    if part == "vision":
        return f"{family.vision_name}.{family.vision_key(name)}"
    if part == "text":
        return f"text_encoder.{name}"
    if part == "fusion":
        layer, _, name = name.removeprefix("encoder.layer.").partition(".")
        return f"text_encoder.encoder.layer.{int(layer) + fused}.{name}"
    return key

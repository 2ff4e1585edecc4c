"""What differs between the dual encoders of `transformers`.

How long a text may be, how it is padded, where the dimension is written, which modules belong to which half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from visir.encoders.models.pretrained_towers import temperature
from visir.encoders.models.tokens import Padding


def _features(output: Any) -> Tensor:
    """The projections: themselves before transformers 5, since then the `pooler_output` of a record."""
    features: Tensor = output.pooler_output if hasattr(output, "pooler_output") else output
    return features


@dataclass(frozen=True)
class DualFamily:
    """What one family does its own way.

    Attributes:
        model: The class in `transformers`.
        limit: Tokens a text may have, from the model's configuration.
        padding, inputs: See `Tokens`; as the family's published processor and training did it.
        dimension: Of the common space, from the model's configuration.
        parts: The children of the model that each tower uses.
        unused: What lies in them and is never computed.
        image, text: The projections before normalisation, from the model and a batch.
        temperature: The one that the model was trained to.
    """

    model: str
    limit: Callable[[Any], int] = lambda config: int(config.text_config.max_position_embeddings)
    padding: Padding = "longest"
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    dimension: Callable[[Any], int] = lambda config: int(config.projection_dim)
    image_parts: tuple[str, ...] = ("vision_model", "visual_projection")
    text_parts: tuple[str, ...] = ("text_model", "text_projection")
    unused: tuple[str, ...] = ()
    image: Callable[[Any, Any], Tensor] = lambda model, pixels: _features(model.get_image_features(pixel_values=pixels))
    text: Callable[[Any, Any], Tensor] = lambda model, tokens: _features(model.get_text_features(**tokens))
    temperature: Callable[[Any], float | None] = lambda model: temperature(model.logit_scale)


FAMILIES: Mapping[str, DualFamily] = {
    # Radford et al. 2021. OpenAI's own code pads every text to 77. With the causal mask and the vector taken at the
    # end token, padding cannot reach it, so padding to the longest gives the same vector for a sixth of the work.
    "clip": DualFamily("CLIPModel"),
    # Chen et al. 2022: CLIP with XLM-RoBERTa, whose positions begin after the padding id (514 positions, 512 tokens).
    "altclip": DualFamily(
        "AltCLIPModel",
        limit=lambda config: int(config.text_config.max_position_embeddings) - int(config.text_config.pad_token_id) - 1,
    ),
    # Jia et al. 2021, COYO-ALIGN: the text tower is a BERT with 512 positions, but was trained on 64 tokens and its
    # published processor pads to 64. (That processor does not cut; a longer text would be seen at positions that were
    # never trained, so here it is cut at 64.)
    "align": DualFamily(
        "AlignModel",
        limit=lambda config: min(64, int(config.text_config.max_position_embeddings)),
        padding="max_length",
        unused=("text_model.pooler",),
        temperature=lambda model: float(model.temperature.detach()),
    ),
    # Xu et al. 2022: CLIP's tokenizer and 77 positions.
    "groupvit": DualFamily("GroupViTModel"),
    # Zhai et al. 2023: trained on texts padded to 64 without a mask, the vector taken at the last position, which is
    # mostly padding. Padding to the longest, or handing over the mask, gives another vector.
    "siglip": DualFamily(
        "SiglipModel",
        padding="max_length",
        inputs=("input_ids",),
        dimension=lambda config: int(config.vision_config.hidden_size),
    ),
    # Li et al. 2022: the first token of either tower. The text tower's cross-attention is for the matching head.
    "blip": DualFamily(
        "BlipForImageTextRetrieval",
        dimension=lambda config: int(config.image_text_hidden_size),
        image_parts=("vision_model", "vision_proj"),
        text_parts=("text_encoder", "text_proj"),
        unused=("text_encoder.encoder.layer.*.crossattention",),
        image=lambda model, pixels: model.vision_proj(model.vision_model(pixel_values=pixels).last_hidden_state[:, 0]),
        text=lambda model, tokens: model.text_proj(model.text_encoder(**tokens).last_hidden_state[:, 0]),
        temperature=lambda model: None,  # it was learnt, and is not in the checkpoints
    ),
}

"""What differs between the dual encoders of `transformers`.

How long a text may be, how it is padded, where the dimension is written, which modules belong to which half. A class
that nobody has described here is read by `UNDESCRIBED`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from visir.encoders.models.pretrained_towers import temperature
from visir.encoders.models.tokens import Padding

PixelInputs = Tensor | Mapping[str, Tensor]
"""(n, 3, H, W), or named tensors where a model takes more than pixels."""


def _features(output: Any) -> Tensor:
    """The projections: themselves before transformers 5, since then the `pooler_output` of a record."""
    features: Tensor = output.pooler_output if hasattr(output, "pooler_output") else output
    return features


def _image_features(model: Any, pixels: PixelInputs) -> Tensor:
    named = {"pixel_values": pixels} if isinstance(pixels, Tensor) else pixels
    return _features(model.get_image_features(**named))


def _text_features(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    return _features(model.get_text_features(**tokens))


def _causal_text_features(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    """Text features with the causal mask written out: (n, 1, length, length), lowest where a token may not look."""
    words = tokens["attention_mask"].bool()
    allowed = (
        torch.ones(words.shape[1], words.shape[1], dtype=torch.bool, device=words.device).tril() & words[:, None, None]
    )
    dtype = next(model.text_model.parameters()).dtype
    mask = torch.zeros(allowed.shape, dtype=dtype, device=words.device)
    mask = mask.masked_fill(~allowed, torch.finfo(dtype).min)
    return _text_features(model, {"input_ids": tokens["input_ids"], "attention_mask": mask})


def _answers_of_queries(model: Any, pixels: Any) -> Tensor:
    """(n, queries, dimension) unit vectors: what each of BLIP-2's query tokens takes from an image."""
    states = model.vision_model(pixel_values=pixels).last_hidden_state.to(model.query_tokens.dtype)
    queries = model.query_tokens.expand(len(states), -1, -1)
    answers = model.qformer(query_embeds=queries, encoder_hidden_states=states).last_hidden_state
    vectors = model.vision_projection(answers.to(model.vision_projection.weight.dtype))
    return torch.nn.functional.normalize(vectors, dim=-1)


def _first_of_qformer(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    words = model.embeddings(input_ids=tokens["input_ids"])
    mask = tokens["attention_mask"]
    states = model.qformer(query_embeds=words, query_length=0, attention_mask=mask).last_hidden_state[:, 0]
    vectors = model.text_projection(states.to(model.text_projection.weight.dtype))
    return torch.nn.functional.normalize(vectors, dim=-1)


_PADDED_POSITIONS = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "altclip_text_model", "longformer")
"""Text models whose positions begin behind the padding id: of 514 positions, 512 are for tokens."""


def positions(config: Any) -> int | None:
    """The tokens a text model has positions for; None where its configuration does not say."""
    most = getattr(config, "max_position_embeddings", None)
    if most is None:
        return None
    return int(most) - int(config.pad_token_id) - 1 if config.model_type in _PADDED_POSITIONS else int(most)


def at_most(trained: int) -> Callable[[Any], int | None]:
    """The tokens a text model was trained on, where it has positions for more."""
    return lambda config: min(trained, positions(config) or trained)


@dataclass(frozen=True)
class DualFamily:
    """What one family does its own way."""

    # Tokens a text may have, from the configuration of the text tower; None is the tokenizer's own limit.
    limit: Callable[[Any], int | None] = positions
    padding: Padding = "longest"  # see `Tokens`; as the family's published processor and training did it
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    # Of the common space, from the model's configuration; None finds it out by a trial.
    dimension: Callable[[Any], int | None] = lambda config: int(config.projection_dim)
    # The children of the model that each tower uses; a name that ends in * is a beginning.
    image_parts: tuple[str, ...] = ("vision_model", "visual_projection")
    text_parts: tuple[str, ...] = ("text_model", "text_projection")
    unused: tuple[str, ...] = ()  # what lies in them and is never computed
    # The projections before normalisation, from the model and a batch.
    image: Callable[[Any, Any], Tensor] = _image_features
    text: Callable[[Any, Any], Tensor] = _text_features
    # The one that the model was trained to.
    temperature: Callable[[Any], float | None] = lambda model: temperature(model.logit_scale)
    described: bool = True  # whether somebody has compared this reading with the family's own
    # The configuration of the text tower, from the model's.
    text_config: Callable[[Any], Any] = lambda config: getattr(config, "text_config", config)
    several: bool = False  # whether an image has several vectors: (n, t, dimension)


_SIGLIP = DualFamily(
    padding="max_length", inputs=("input_ids",), dimension=lambda config: int(config.vision_config.hidden_size)
)

FAMILIES: Mapping[str, DualFamily] = {
    # Radford et al. 2021. OpenAI's own code pads every text to 77. With the causal mask and the vector taken at the
    # end token, padding cannot reach it, so padding to the longest gives the same vector for a sixth of the work.
    "CLIPModel": DualFamily(),
    # Chuang et al. 2025, MetaCLIP 2: CLIP with XLM-V's tokenizer.
    "MetaClip2Model": DualFamily(),
    # Lüddecke & Ecker 2022: CLIP's two towers below a decoder of masks, pictures of 352 pixels, positions interpolated.
    "CLIPSegModel": DualFamily(),
    # Fini et al. 2024, trained by LiT. The text tower is causal. In transformers 5.23 it looks ahead when no text of a
    # batch is padded: then a text alone has another vector than in company.
    "Aimv2Model": DualFamily(text=_causal_text_features),
    # Chen et al. 2022: CLIP with XLM-RoBERTa.
    "AltCLIPModel": DualFamily(),
    # Yang et al. 2022: CLIP with a Chinese BERT; trained on texts of 52 tokens, which its authors' code cuts at.
    "ChineseCLIPModel": DualFamily(limit=at_most(52), unused=("text_model.pooler",)),
    # Jia et al. 2021, COYO-ALIGN: the text tower is a BERT with 512 positions, but was trained on 64 tokens and its
    # published processor pads to 64. (That processor does not cut; a longer text would be seen at positions that were
    # never trained, so here it is cut at 64.)
    "AlignModel": DualFamily(
        limit=at_most(64),
        padding="max_length",
        unused=("text_model.pooler",),
        temperature=lambda model: float(model.temperature.detach()),
    ),
    # Xu et al. 2022: CLIP's tokenizer and 77 positions.
    "GroupViTModel": DualFamily(),
    # Minderer et al. 2022 and 2023: CLIP tuned to find objects by name; its towers still give one vector each. A text
    # is the name of an object: 16 tokens.
    "OwlViTModel": DualFamily(),
    "Owlv2Model": DualFamily(),
    # Singh et al. 2022: the projection of the first token of either tower; texts of 77 tokens.
    "FlavaModel": DualFamily(
        limit=at_most(77),
        image_parts=("image_model", "image_projection"),
        text_parts=("text_model", "text_projection"),
        unused=("image_model.pooler", "text_model.pooler", "image_model.embeddings.mask_token"),
        image=lambda model, pixels: _image_features(model, pixels)[:, 0],
        text=lambda model, tokens: _text_features(model, tokens)[:, 0],
    ),
    # Zhai et al. 2023: trained on texts padded to 64 without a mask, the vector taken at the last position, which is
    # mostly padding. Padding to the longest, or handing over the mask, gives another vector.
    "SiglipModel": _SIGLIP,
    # Tschannen et al. 2025, the NaFlex models: pictures keep their proportions.
    "Siglip2Model": _SIGLIP,
    # TIPSv2, Google 2026: the first token of a picture, the mean of the tokens of a text; no projections.
    "Tipsv2Model": DualFamily(
        padding="max_length",
        dimension=lambda config: int(config.vision_config.hidden_size),
        image_parts=("vision_model",),
        text_parts=("text_model",),
        unused=("vision_model.embeddings.mask_token",),
        temperature=lambda model: float(model.temperature.detach()),
    ),
    # Any vision model and any text model with a projection each, trained by their owners.
    "VisionTextDualEncoderModel": DualFamily(),
    # Li et al. 2022: the first token of either tower. The text tower's cross-attention is for the matching head.
    "BlipForImageTextRetrieval": DualFamily(
        dimension=lambda config: int(config.image_text_hidden_size),
        image_parts=("vision_model", "vision_proj"),
        text_parts=("text_encoder", "text_proj"),
        unused=("text_encoder.encoder.layer.*.crossattention",),
        image=lambda model, pixels: model.vision_proj(model.vision_model(pixel_values=pixels).last_hidden_state[:, 0]),
        text=lambda model, tokens: model.text_proj(model.text_encoder(**tokens).last_hidden_state[:, 0]),
        temperature=lambda model: None,  # it was learnt, and is not in the checkpoints
    ),
    # Li et al. 2023, BLIP-2: a small transformer asks a frozen vision tower 32 questions; it reads texts, too.
    "Blip2ForImageTextRetrieval": DualFamily(
        dimension=lambda config: int(config.image_text_hidden_size),
        image_parts=("vision_model", "query_tokens", "qformer", "vision_projection"),
        text_parts=("embeddings", "qformer", "text_projection"),
        image=_answers_of_queries,
        text=_first_of_qformer,
        temperature=lambda model: None,
        text_config=lambda config: config.qformer_config,
        several=True,
    ),
}
"""By the class of `transformers` that has both towers."""

UNDESCRIBED = DualFamily(
    dimension=lambda config: None,
    image_parts=("vision*", "visual*", "image*"),
    text_parts=("text*",),
    temperature=lambda model: None,
    described=False,
)
"""A class that has `get_image_features` and `get_text_features`, and of which nothing more is known: texts are padded
to the longest of a batch, with a mask, and cut at the positions there are. The card says so."""


def family_of_class(class_name: str) -> DualFamily:
    """What is known of a class."""
    return FAMILIES.get(class_name, UNDESCRIBED)

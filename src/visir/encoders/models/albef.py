"""ALBEF: ViT-B/16 at 384 pixels, BERT in two towers, and a matching head.

Source: Li et al. 2021, Align before Fuse (NeurIPS; arXiv 2107.07651), and the layout of the checkpoints that its
authors publish.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from visir.encoders.models.fusion_config import BERT, Sizes, merged, whole_numbers
from visir.encoders.models.fusion_encoder import FusionEncoder, FusionSource, load_fusion
from visir.encoders.models.fusion_model import FusionFamily
from visir.encoders.models.hub import positive_number
from visir.errors import EncoderError

VIT: Mapping[str, Any] = {
    "vision_width": 768,
    "patch_size": 16,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
}
"""ViT-B/16. In the authors' code these numbers are fixed; here a configuration can change them (`vision_config`)."""
MAX_TOKENS = 30
_POSITIONS = "visual_encoder.pos_embed"


class VitTokens(nn.Module):
    """timm's vision transformer: [CLS] and the patches behind the last norm."""

    def __init__(self, sizes: Sizes) -> None:
        from timm.models.vision_transformer import VisionTransformer

        super().__init__()
        vision = sizes.vision
        self.vit = VisionTransformer(
            img_size=sizes.image,
            patch_size=vision["patch_size"],
            embed_dim=vision["vision_width"],
            depth=vision["num_hidden_layers"],
            num_heads=vision["num_attention_heads"],
            num_classes=0,
            global_pool="",
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """(n, 1 + patches, width) of (n, 3, H, W)."""
        tokens: Tensor = self.vit.forward_features(pixels)
        return tokens

    def set_grad_checkpointing(self, enable: bool) -> None:
        """Keep fewer activations in training."""
        self.vit.set_grad_checkpointing(enable)


FAMILY = FusionFamily(
    kind="albef",
    vision_name="visual_encoder",
    build_vision=VitTokens,
    build_matching=lambda width: nn.Linear(width, 2),
    vision_key=lambda key: key.removeprefix("vit."),
    # The momentum copies (what they distil from) and the queues of negatives.
    unused=("visual_encoder_m.*", "text_encoder_m.*", "*_proj_m.*", "*_queue", "queue_ptr"),
)


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> FusionEncoder:
    """Load `albef:FILE`, a checkpoint of the authors' code."""
    # Options in the name: `config` (the configuration it was trained with, YAML or JSON), `image_size` (other than the
    # weights' own: position embeddings are resized), `tokenizer` (vocab.txt of bert-base-uncased or its folder; beside
    # the checkpoint otherwise), `max_length` (tokens, 30), `max_words` (30), `template`.
    del revision  # refused by `load`: a file has none
    return load_fusion(name, FAMILY, _sizes, max_length=MAX_TOKENS, options=("image_size",), device=device, dtype=dtype)


def _sizes(source: FusionSource) -> Sizes:
    """The published sizes, changed by the configuration; the input's side is read off the weights unless declared."""
    # At another size the position embeddings are resized (bicubic), as the authors' code does before it loads them:
    # their pre-trained checkpoint is at 256 pixels, and their retrieval evaluates it at 384 (`?image_size=384`).
    config, name = source.config, source.name
    defaults = {**VIT, "vision_width": config.get("vision_width", VIT["vision_width"])}
    vision = merged(name, "vision_config", defaults, config.get("vision_config"))
    text = merged(name, "text_config", BERT, config.get("bert_config"))
    sides = {"image_res": config.get("image_res"), "embed_dim": config.get("embed_dim", 256)}
    whole_numbers(name, {key: value for key, value in sides.items() if value is not None} | vision, (*sides, *VIT))
    declared = positive_number(name, source.options, "image_size") or (sides["image_res"] if source.declared else None)
    patch, positions = vision["patch_size"], source.state.get(_POSITIONS)
    own = 384 if positions is None or positions.ndim != 3 else _side(len(positions[0]) - 1) * patch
    size = declared or own
    if size % patch:
        raise EncoderError(
            f"{name}: {size} pixels are no whole number of patches of {patch}.", code="pixels-no-whole-number"
        )
    if size != own and positions is not None:
        source.state[_POSITIONS] = _resized(positions, size // patch)
    return Sizes(int(size), vision, text, sides["embed_dim"])


def _resized(positions: Tensor, side: int) -> Tensor:
    """(1, 1 + side², width) from (1, 1 + n², width): [CLS]'s own is kept, the grid of the others is scaled."""
    before = _side(positions.shape[1] - 1)
    grid = positions[:, 1:].float().unflatten(1, (before, before)).permute(0, 3, 1, 2)
    grid = torch.nn.functional.interpolate(grid, size=(side, side), mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1].float(), grid.permute(0, 2, 3, 1).flatten(1, 2)], 1)


def _side(count: int) -> int:
    return math.isqrt(max(count, 1))

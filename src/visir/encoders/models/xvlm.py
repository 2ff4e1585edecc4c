"""X-VLM: a Swin transformer at 384 pixels, BERT in two towers, and a matching head.

Source: Zeng, Zhang and Li 2022, Multi-Grained Vision Language Pre-Training (ICML; arXiv 2111.08276), and the layout of
the checkpoints that its authors publish. Swin: Liu et al. 2021. The token for the whole image is the mean of its
patches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from visir.encoders.models.fusion_config import BERT, Sizes, merged, whole_numbers
from visir.encoders.models.fusion_encoder import FusionEncoder, FusionSource, load_fusion
from visir.encoders.models.fusion_model import FusionFamily
from visir.errors import EncoderError

SWIN: Mapping[str, Any] = {
    "vision_width": 1024,
    "window_size": 12,
    "embed_dim": 128,
    "depths": [2, 2, 18, 2],
    "num_heads": [4, 8, 16, 32],
}
"""Swin-B, under the names of the authors' `config_swinB_384.json`."""
MAX_TOKENS = 40
_PATCH = 4
_TABLE = "vision_encoder.layers.0.blocks.0.attn.relative_position_bias_table"


class SwinTokens(nn.Module):
    """timm's Swin transformer; the mean of its patches, and the patches."""

    def __init__(self, sizes: Sizes) -> None:
        from timm.models.swin_transformer import SwinTransformer

        super().__init__()
        vision = sizes.vision
        self.swin = SwinTransformer(
            img_size=sizes.image,
            patch_size=_PATCH,
            window_size=vision["window_size"],
            embed_dim=vision["embed_dim"],
            depths=tuple(vision["depths"]),
            num_heads=tuple(vision["num_heads"]),
            num_classes=0,
            drop_path_rate=0.0,
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """(n, 1 + patches, width) of (n, 3, H, W)."""
        patches = self.swin.forward_features(pixels).flatten(1, 2)
        return torch.cat([patches.mean(1, keepdim=True), patches], 1)

    def set_grad_checkpointing(self, enable: bool) -> None:
        """Keep fewer activations in training."""
        self.swin.set_grad_checkpointing(enable)


def _matching_head(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 2 * width), nn.LayerNorm(2 * width), nn.GELU(), nn.Linear(2 * width, 2))


def _vision_key(key: str) -> str:
    """timm merges patches at the beginning of a stage, the first Swin code at the end of the one before."""
    return re.sub(
        r"^layers\.(\d+)\.downsample", lambda match: f"layers.{int(match[1]) - 1}.downsample", key.removeprefix("swin.")
    )


FAMILY = FusionFamily(
    kind="xvlm",
    vision_name="vision_encoder",
    build_vision=SwinTokens,
    build_matching=_matching_head,
    vision_key=_vision_key,
    # Two tables that follow from the sizes, and the head for boxes of pre-training.
    unused=("vision_encoder.*.relative_position_index", "vision_encoder.*.attn_mask", "bbox_head.*"),
)


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> FusionEncoder:
    """Load `xvlm:FILE`, a checkpoint of the authors' code."""
    # Options in the name: `config` (the configuration it was trained with, YAML or JSON, where sizes differ from the
    # published models'), `tokenizer` (vocab.txt of bert-base-uncased or its folder; beside the checkpoint otherwise),
    # `max_length` (tokens, 40 unless the configuration says otherwise), `max_words` (30), `template`.
    del revision  # refused by `load`: a file has none
    return load_fusion(name, FAMILY, _sizes, max_length=MAX_TOKENS, device=device, dtype=dtype)


def _sizes(source: FusionSource) -> Sizes:
    """The published sizes, changed by the configuration; the window is read off the weights where it says nothing."""
    # The last stage is one window, so the window gives the input's side: 7, 12 and 15 are 224, 384 and 480 pixels.
    config, name = source.config, source.name
    if config.get("use_roberta") or config.get("use_clip_vit") or not config.get("use_swin", True):
        raise EncoderError(
            f"{name}: X-VLM with RoBERTa, CLIP's ViT or DeiT is not read.",
            hint="the published retrieval checkpoints have Swin-B and BERT (use_swin: True, use_roberta: False)",
        )
    vision_config = config.get("vision_config")
    table = source.state.get(_TABLE)
    defaults = dict(SWIN) if table is None else {**SWIN, "window_size": (int(len(table) ** 0.5) + 1) // 2}
    vision = merged(name, "vision_config", defaults, vision_config)
    text = merged(name, "text_config", BERT, config.get("text_config"))
    stages = len(vision["depths"])
    whole = vision["window_size"] * _PATCH * 2 ** (stages - 1)
    declared_sizes = {config["image_res"]} if source.declared and "image_res" in config else set()
    declared_sizes |= {vision_config["image_res"]} if vision_config and "image_res" in vision_config else set()
    if len(declared_sizes) > 1:
        raise EncoderError(
            f"{name}: image_res is {' and '.join(map(str, sorted(declared_sizes)))} in the configuration."
        )
    sizes = Sizes(declared_sizes.pop() if declared_sizes else whole, vision, text, config.get("embed_dim", 256))
    whole_numbers(name, {"image_res": sizes.image, "embed_dim": sizes.dimension}, ("image_res", "embed_dim"))
    return sizes

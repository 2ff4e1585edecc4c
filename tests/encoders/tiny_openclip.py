"""Small random models of open_clip's real architectures."""

from __future__ import annotations

import json
from pathlib import Path

import open_clip
import torch
from safetensors.torch import save_file

TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2}
ARCHITECTURES = {
    # RN50 with its own depths, a quarter of its width: the same stem, bottlenecks and attention pooling.
    "tiny-RN50": {
        "embed_dim": 48,
        "vision_cfg": {"image_size": 64, "layers": [3, 4, 6, 3], "width": 16, "patch_size": None},
        "text_cfg": TEXT,
    },
    "tiny-ViT": {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "patch_size": 8, "head_width": 8},
        "text_cfg": TEXT,
    },
    "tiny-CoCa": {
        "embed_dim": 24,
        "vision_cfg": {
            "image_size": 32,
            "layers": 2,
            "width": 32,
            "patch_size": 8,
            "head_width": 8,
            "attentional_pool": True,
            "attn_pooler_heads": 4,
            "output_tokens": True,
        },
        "text_cfg": {**TEXT, "context_length": 76, "embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {"context_length": 76, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 1},
        "custom_text": True,
    },
}
# PE-Core's own tower of pictures, in its smallest size, beside a small one of texts.
ARCHITECTURES["tiny-PE-Core"] = {
    "embed_dim": 512,
    "vision_cfg": {
        "image_size": 384,
        "timm_model_name": "vit_pe_core_tiny_patch16_384",
        "timm_model_pretrained": False,
        "timm_pool": "map",
        "timm_proj": None,
    },
    "text_cfg": {**TEXT, "context_length": 32},
    "custom_text": True,
}
ARCHITECTURES["tiny-RN50-quickgelu"] = {**ARCHITECTURES["tiny-RN50"], "quick_gelu": True}
ARCHITECTURES["tiny-ViT-quickgelu"] = {**ARCHITECTURES["tiny-ViT"], "quick_gelu": True}


def save_zoo(folder: Path) -> Path:
    """Random weights of every architecture, `NAME.safetensors`; the architectures are added to open_clip's own."""
    (folder / "configs").mkdir()
    for name, config in ARCHITECTURES.items():
        (folder / "configs" / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder / "configs")
    for name in ("tiny-RN50", "tiny-ViT", "tiny-CoCa", "tiny-PE-Core"):
        torch.manual_seed(3)
        save_weights(open_clip.create_model(name).eval(), folder / f"{name}.safetensors")
    return folder


def save_weights(model: torch.nn.Module, path: Path) -> None:
    """Random weights that carry the signal through: open_clip's initial values let all inputs look alike."""
    with torch.no_grad():
        for key, value in model.named_parameters():
            if value.ndim >= 2:
                value.copy_(torch.randn_like(value) * (1.2 / value[0].numel() ** 0.5))
            elif "logit" not in key:
                value.add_(torch.randn_like(value) * 0.1)
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, path)

"""Small random towers: vision models that make vectors of images alone, and the text towers of dual encoders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiny_dual
import tiny_transformers as tiny
import torch
import transformers

_VISION = tiny_dual.VISION
_VIT = {name: value for name, value in _VISION.items() if name != "intermediate_size"}


def save(kind: str, folder: Path) -> Any:
    """Save a tower of `kind` with its image processor or tokenizer, and return it in evaluation mode."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    model = BUILDERS[kind](folder).eval()
    tiny._spread(model)
    model.save_pretrained(folder)
    if kind == "timm":
        _as_timm(folder)
    return model


def _vision(model: str, config: str, image: str = "CLIPImageProcessor", **settings: Any) -> Callable[[Path], Any]:
    def build(folder: Path) -> Any:
        pixels = tiny_dual.CLIP_PIXELS if image == "CLIPImageProcessor" else tiny_dual.SQUARE
        tiny.image_processor(image, folder, **pixels)
        return getattr(transformers, model)(getattr(transformers, config)(**settings))

    return build


def _clip_text(model: str) -> Callable[[Path], Any]:
    def build(folder: Path) -> Any:
        words = tiny.clip_tokenizer(folder)
        text = dict(tiny_dual.LAYERS, vocab_size=words, max_position_embeddings=77, projection_dim=24)
        return getattr(transformers, model)(transformers.CLIPTextConfig(**text, **tiny._ends(words)))

    return build


def _siglip_text(folder: Path) -> Any:
    words = tiny.sentencepiece_tokenizer(folder)
    text = dict(tiny_dual.LAYERS, vocab_size=words, max_position_embeddings=64, projection_size=32)
    return transformers.SiglipTextModel(transformers.SiglipTextConfig(**text))


def _naflex(folder: Path) -> Any:
    transformers.Siglip2ImageProcessor(patch_size=8, max_num_patches=30).save_pretrained(folder)
    config = transformers.Siglip2VisionConfig(**tiny_dual.LAYERS, patch_size=8, num_patches=16)
    return transformers.Siglip2VisionModel(config)


def _timm(folder: Path) -> Any:
    config = transformers.TimmWrapperConfig(architecture="test_vit")
    return transformers.TimmWrapperModel(config)


def _as_timm(folder: Path) -> None:
    """The files as timm publishes them: no model type, and the preprocessing inside the configuration."""
    pretrained = {"input_size": [3, 160, 160], "interpolation": "bicubic", "crop_pct": 0.95, "mean": [0.5] * 3}
    config = {"architecture": "test_vit", "num_classes": 0, "pretrained_cfg": {**pretrained, "std": [0.5] * 3}}
    (folder / "config.json").write_text(json.dumps(config))


_SIZES = {"hidden_sizes": [16, 24, 32, 32], "depths": [1, 1, 1, 1]}
BUILDERS: dict[str, Callable[[Path], Any]] = {
    "aimv2": _vision("Aimv2VisionModel", "Aimv2VisionConfig", **_VISION),
    "clip": _vision("CLIPVisionModel", "CLIPVisionConfig", **_VISION),
    "clip projected": _vision("CLIPVisionModelWithProjection", "CLIPVisionConfig", **_VISION, projection_dim=24),
    "convnext": _vision("ConvNextModel", "ConvNextConfig", "ViTImageProcessor", **_SIZES),
    "dinov2": _vision("Dinov2Model", "Dinov2Config", "BitImageProcessor", **_VIT),
    "dinov2 registers": _vision(
        "Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", "BitImageProcessor", **_VIT, num_register_tokens=3
    ),
    "dinov3": _vision("DINOv3ViTModel", "DINOv3ViTConfig", "DINOv3ViTImageProcessor", **_VISION, num_register_tokens=3),
    "dinov3 convnext": _vision("DINOv3ConvNextModel", "DINOv3ConvNextConfig", "DINOv3ViTImageProcessor", **_SIZES),
    "metaclip_2": _vision("MetaClip2VisionModelWithProjection", "MetaClip2VisionConfig", **_VISION, projection_dim=24),
    "resnet": _vision(
        "ResNetModel", "ResNetConfig", "ViTImageProcessor", **_SIZES, embedding_size=16, layer_type="basic"
    ),
    "siglip": _vision("SiglipVisionModel", "SiglipVisionConfig", "SiglipImageProcessor", **_VISION),
    "siglip2": _naflex,
    "swin": _vision(
        "SwinModel", "SwinConfig", "ViTImageProcessor",
        image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4,
    ),
    "timm": _timm,
    "vit": _vision("ViTForImageClassification", "ViTConfig", "ViTImageProcessor", **_VISION),
    "clip text": _clip_text("CLIPTextModel"),
    "clip text projected": _clip_text("CLIPTextModelWithProjection"),
    "siglip text": _siglip_text,
}  # fmt: skip
TEXTS = tuple(kind for kind in BUILDERS if "text" in kind)
IMAGES = tuple(kind for kind in BUILDERS if "text" not in kind)

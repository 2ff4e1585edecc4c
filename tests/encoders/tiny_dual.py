"""Small random dual encoders of every class of `transformers` that has image and text features, and odd inputs.

Each is saved as its authors publish it: the model, and one processor with its image processor and its tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tiny_transformers as tiny
import torch
import transformers
from PIL import Image

TEXTS = [*tiny.CAPTIONS, "🐕🦺🏖️", "word " * 500, "草地上有一只狗在跑", "one line\nand another", " ", "A"]
CLIP_PIXELS = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
SQUARE = {"size": {"height": 32, "width": 32}}
LAYERS = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
VISION = {**LAYERS, "image_size": 32, "patch_size": 8}


def photos() -> list[Image.Image]:
    """Twenty odd pictures: grey, two levels, 16 bits, palette, CMYK, alpha, one pixel wide, panorama, EXIF."""
    made = tiny.photos()
    colour, wide = made[2], made[8]
    made += [colour.convert("1"), colour.convert("LA"), colour.resize((1, 300)), wide.resize((900, 30))]
    deep = np.asarray(colour.convert("L")).astype(np.uint16) * 257
    made += [Image.fromarray(deep), Image.new("RGB", (50, 20), (255, 255, 255))]
    turned = colour.copy()
    turned.getexif()[0x0112] = 6
    return [*made, turned]


def save(kind: str, folder: Path) -> Any:
    """Save a model of `kind` with its processor into `folder`, and return the model in evaluation mode."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    model = BUILDERS[kind](folder).eval()
    tiny._spread(model)
    model.save_pretrained(folder)
    return model


def _processor(name: str, folder: Path, image: str, tokenizer: str, **settings: Any) -> None:
    """One processor of its own class from an image processor and the tokenizer's files that lie in the folder."""
    words = getattr(transformers, tokenizer).from_pretrained(folder)
    getattr(transformers, name)(getattr(transformers, image)(**settings), words).save_pretrained(folder)


def _chinese_clip(folder: Path) -> Any:
    words = tiny.wordpiece_tokenizer(folder, limit=512)
    _processor(
        "ChineseCLIPProcessor", folder, "ChineseCLIPImageProcessor", "BertTokenizer", **SQUARE, do_center_crop=False
    )
    text = dict(LAYERS, vocab_size=words, max_position_embeddings=512)
    return transformers.ChineseCLIPModel(
        transformers.ChineseCLIPConfig(text_config=text, vision_config=VISION, projection_dim=24)
    )


def _metaclip_2(folder: Path) -> Any:
    words = tiny.unigram_tokenizer(folder)
    _processor("CLIPProcessor", folder, "CLIPImageProcessor", "AutoTokenizer", **CLIP_PIXELS)
    text = dict(LAYERS, vocab_size=words, max_position_embeddings=77, bos_token_id=0, eos_token_id=2, pad_token_id=1)
    return transformers.MetaClip2Model(
        transformers.MetaClip2Config(text_config=text, vision_config=VISION, projection_dim=24)
    )


def _clipseg(folder: Path) -> Any:
    words = tiny.clip_tokenizer(folder)
    _processor("CLIPSegProcessor", folder, "ViTImageProcessor", "CLIPTokenizer", size={"height": 48, "width": 48})
    text = dict(LAYERS, vocab_size=words, max_position_embeddings=77, **tiny._ends(words))
    config = transformers.CLIPSegConfig(
        text_config=text, vision_config=VISION, projection_dim=24, extract_layers=[0, 1], reduce_dim=8,
        decoder_num_attention_heads=4, decoder_intermediate_size=16,
    )  # fmt: skip
    return transformers.CLIPSegForImageSegmentation(config)  # as it is published: the towers below a decoder


def _aimv2(folder: Path) -> Any:
    words = tiny.clip_tokenizer(folder)
    _processor("CLIPProcessor", folder, "CLIPImageProcessor", "CLIPTokenizer", **CLIP_PIXELS)
    text = dict(LAYERS, vocab_size=words, max_position_embeddings=77, eos_token_id=words - 1)
    return transformers.Aimv2Model(transformers.Aimv2Config(text_config=text, vision_config=VISION, projection_dim=24))


def _owlvit(folder: Path, name: str = "OwlViT") -> Any:
    words = tiny.clip_tokenizer(folder)
    config = folder / "tokenizer_config.json"
    config.write_text(config.read_text().replace('"model_max_length": 77', '"model_max_length": 16'))
    _processor(f"{name}Processor", folder, f"{name}ImageProcessor", "CLIPTokenizer", **SQUARE)
    text = dict(LAYERS, vocab_size=words, max_position_embeddings=16, **tiny._ends(words))
    made = getattr(transformers, f"{name}Config")(text_config=text, vision_config=VISION, projection_dim=24)
    return getattr(transformers, f"{name}ForObjectDetection")(made)


def _owlv2(folder: Path) -> Any:
    return _owlvit(folder, "Owlv2")


def _flava(folder: Path) -> Any:
    words = tiny.wordpiece_tokenizer(folder, limit=512)
    _processor(
        "FlavaProcessor",
        folder,
        "FlavaImageProcessor",
        "BertTokenizer",
        **SQUARE,
        crop_size={"height": 32, "width": 32},
    )
    config = transformers.FlavaConfig(
        text_config=dict(LAYERS, vocab_size=words, max_position_embeddings=512),
        image_config=VISION, multimodal_config=LAYERS, hidden_size=32, projection_dim=24, init_codebook=False,
        image_codebook_config={"hidden_size": 8},
    )  # fmt: skip
    return transformers.FlavaForPreTraining(config)


def _tipsv2(folder: Path) -> Any:
    letters = "abcdefghijklmnopqrstuvwxyz▁.,'0123456789"
    words = {word: place for place, word in enumerate(["<pad>", "<unk>", *letters])}
    tokenizer = transformers.Tipsv2Tokenizer(vocab=words, merges=[])
    image = transformers.Tipsv2ImageProcessor(**SQUARE)
    transformers.Tipsv2Processor(image, tokenizer).save_pretrained(folder)
    vision = {name: value for name, value in VISION.items() if name != "intermediate_size"}
    return transformers.Tipsv2Model(
        transformers.Tipsv2Config(
            text_config=dict(LAYERS, vocab_size=len(words), max_position_embeddings=64), vision_config=vision
        )
    )


def _siglip2(folder: Path) -> Any:
    letters = "abcdefghijklmnopqrstuvwxyz▁.,'0123456789"
    words = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *letters]
    # As it is published: no mask, padding on the right.
    tokenizer = transformers.Siglip2Tokenizer(
        vocab={word: place for place, word in enumerate(words)}, merges=[], model_input_names=["input_ids"],
        padding_side="right", model_max_length=64,
    )  # fmt: skip
    image = transformers.Siglip2ImageProcessor(patch_size=8, max_num_patches=30)
    transformers.Siglip2Processor(image, tokenizer).save_pretrained(folder)
    return transformers.Siglip2Model(
        transformers.Siglip2Config(
            text_config=dict(LAYERS, vocab_size=len(words), max_position_embeddings=64, projection_size=32),
            vision_config=dict(LAYERS, patch_size=8, num_patches=16),
        )
    )


def _vision_text(folder: Path) -> Any:
    words = tiny.wordpiece_tokenizer(folder, limit=512)
    _processor("VisionTextDualEncoderProcessor", folder, "ViTImageProcessor", "BertTokenizer", **SQUARE)
    text = transformers.BertConfig(**LAYERS, vocab_size=words, max_position_embeddings=512)
    vision = transformers.ViTConfig(**VISION)
    config = transformers.VisionTextDualEncoderConfig.from_vision_text_configs(vision, text, projection_dim=24)
    return transformers.VisionTextDualEncoderModel(config)


BUILDERS: dict[str, Callable[[Path], Any]] = {
    "aimv2": _aimv2,
    "chinese_clip": _chinese_clip,
    "clipseg": _clipseg,
    "flava": _flava,
    "metaclip_2": _metaclip_2,
    "owlvit": _owlvit,
    "owlv2": _owlv2,
    "siglip2": _siglip2,
    "tipsv2": _tipsv2,
    "vision-text-dual-encoder": _vision_text,
}

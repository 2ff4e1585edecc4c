"""Tiny X-VLM and ALBEF checkpoints in the layout of their authors' code, and what that code computes with them.

`fusion_reference.json` was made by running the authors' code (X-VLM and ALBEF as published on GitHub; transformers
4.30, timm 0.9, torch 2.15, CPU) on exactly the weights, configurations, photos and captions of this file. It holds, for
each of the two, every name and shape of the model's `state_dict`, the captions and token ids, the vectors before
normalisation, and the logit of "match" of every pair. The weights are not kept: `weights` makes them from their names.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "fusion_reference.json").read_text())
KINDS = ("xvlm", "albef")
CAPTIONS = [
    "A dog runs across the green grass.",
    "Two children in RED jackets climb a snowy hill, laughing!",
    "A person-like <person> w/ two dogs: one's #1; the other (small) isn't!  ok?\n",
    "Ein Hund läuft über die Wiese – schnell",
    "犬が草の上を走る",
    "tabs\tand   spaces",
    "dog " * 50,
    "a1b2c3d4e5f6g7h8i9j0 " * 4,
]

_BERT = {
    "architectures": ["BertForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 64,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 64,
    "model_type": "bert",
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "pad_token_id": 0,
    "type_vocab_size": 2,
    "vocab_size": 92,
    "fusion_layer": 2,
}
_SWIN = {"ckpt": "", "vision_width": 64, "image_res": 64, "window_size": 4, "embed_dim": 16}
_SWIN |= {"depths": [2, 2, 2], "num_heads": [2, 4, 8]}
_VIT = {"vision_width": 48, "patch_size": 16, "num_hidden_layers": 2, "num_attention_heads": 3}
_XVLM = """
vision_config: 'configs/config_vision.json'
use_clip_vit: False
use_swin: True
image_res: 64
patch_size: 32
use_roberta: False
text_config: 'configs/config_bert.json'
text_encoder: 'data/bert-base-uncased'
max_tokens: 40
embed_dim: 24
temp: 0.07
k_test: 4
optimizer: {opt: adamW, lr: 3e-5, weight_decay: 0.01}
"""
_ALBEF = """
bert_config: 'configs/config_bert.json'
vision_config: 'configs/config_vision.json'
image_res: 64
queue_size: 8
momentum: 0.995
vision_width: 48
embed_dim: 24
temp: 0.07
k_test: 4
distill: True
"""


def photos() -> list[Image.Image]:
    """Five photos of odd sizes, with coarse colour and fine noise."""
    random = np.random.RandomState(3)
    made = []
    for width, height in [(37, 53), (64, 64), (301, 97), (5, 3), (11, 400)]:
        coarse = Image.fromarray(random.randint(0, 256, (5, 7, 3)).astype(np.uint8))
        noise = random.randint(0, 24, (height, width, 3)).astype(np.uint8)
        made.append(Image.fromarray(np.asarray(coarse.resize((width, height), Image.Resampling.NEAREST)) // 2 + noise))
    return made


def weights(shapes: dict[str, list[int]]) -> dict[str, torch.Tensor]:
    """A weight for every name, from the name alone, large enough to carry the signal through."""
    made = {}
    for name, shape in shapes.items():
        values = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape)
        if len(shape) >= 2:
            values = values if "embed" in name and "proj" not in name else values * 1.5 / np.prod(shape[1:]) ** 0.5
        elif ("norm" in name.lower() or name.startswith("itm_head.1.")) and name.endswith("weight"):
            values = 1 + 0.1 * values
        else:
            values = np.full(shape, 0.07) if name == "temp" else 0.1 * values
        made[name] = torch.from_numpy(np.asarray(values, np.float32).reshape(shape))
    return made


def write_config(kind: str, folder: Path) -> Path:
    """The configuration in the authors' files: `folder`/configs/Retrieval.yaml and what it names."""
    configs = folder / "configs"
    configs.mkdir(parents=True, exist_ok=True)
    width = {"xvlm": 64, "albef": 48}[kind]
    (configs / "config_bert.json").write_text(json.dumps({**_BERT, "encoder_width": width}))
    (configs / "config_vision.json").write_text(json.dumps({"xvlm": _SWIN, "albef": _VIT}[kind]))
    path = configs / "Retrieval.yaml"
    path.write_text({"xvlm": _XVLM, "albef": _ALBEF}[kind])
    return path


def write_vocabulary(folder: Path) -> Path:
    """A vocabulary of 92 word pieces."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{one}" for one in letters)]
    words += ["dog", "the", "grass", "run", "##ning", "person", "child", "##ren", "like", "red", "犬", "草"]
    words += ["small", "isnt", "ok"]
    path = folder / "vocab.txt"
    path.write_text("\n".join(words) + "\n", encoding="utf-8")
    return path


def write(kind: str, folder: Path) -> str:
    """A checkpoint with its vocabulary beside it; returns the name that `load` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    config = write_config(kind, folder)
    write_vocabulary(folder)
    file = folder / "checkpoint_best.pth"
    torch.save({"model": weights(REFERENCE[kind]["shapes"]), "config": {"image_res": 64}, "epoch": 3}, file)
    return f"{kind}:{file}?config={config}"

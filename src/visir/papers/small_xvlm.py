"""A small X-VLM for generated scenes: the two-stage model of smoke runs, trained in a minute or two.

The published checkpoints cannot come with visir. What a protocol does to a two-stage model can be shown with any of the
kind: Swin and BERT, whose upper layers look at the image, a contrastive first stage and a matching head. This one is
trained as they are (Li et al. 2021, section 3.2; Zeng et al. 2022), by a contrastive loss over the batch and by
matching of each pair and of two negatives from the batch, and is kept as its authors keep theirs.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from visir.fingerprint import hash_json
from visir.records import Collection
from visir.storage import FolderKind, changing
from visir.studies.experiment import ExperimentContext
from visir.training.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

CHECKPOINT_FILE = "checkpoint.pth"
XVLM = FolderKind("small-xvlm", "a small X-VLM")
_VISION = {"vision_width": 64, "window_size": 4, "embed_dim": 32, "depths": [1, 2], "num_heads": [2, 4]}
_TEXT: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 40,
    "fusion_layer": 2,
}
_SIDE, _DIMENSION, _BATCH, _RATE = 32, 64, 32, 2e-3
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_EASE = 0.25
"""How far similarities are flattened before negatives are drawn by them. The authors draw the hardest ones; with these
an untrained model learns to answer "no" to every pair, and keeps doing so for long."""


class SmallXvlm(Settings):
    """What a small X-VLM is trained on."""

    source: str  # a collection with pictures, whose split "train" is used
    steps: int = 700  # training steps, of 32 pairs of image and caption each


def small_xvlm(settings: SmallXvlm, folder: Path, *, seed: int = 0) -> str:
    """Train a small X-VLM, unless the folder holds one already."""
    # The folder has the same files as the authors' releases: the checkpoint, its configuration, and a vocabulary, here
    # of the words of the captions.
    from visir.collections import open_collection
    from visir.encoders.models.captions import plain_caption
    from visir.training.recipe import expand

    config, checkpoint = folder / "configs" / "Retrieval.json", folder / CHECKPOINT_FILE
    name = f"xvlm:{checkpoint}?config={config}"
    if checkpoint.is_file():
        return name
    train = open_collection(expand(settings.source)).split("train")
    words = Counter(word for text in train.captions["text"].to_pylist() for word in plain_caption(text).split())
    vocabulary = [*_SPECIAL, *sorted(words)]
    text = {**_TEXT, "vocab_size": len(vocabulary)}
    vision_config = {"use_swin": True, "image_res": _SIDE, "embed_dim": _DIMENSION, "vision_config": _VISION}
    import torch

    with changing(folder, XVLM, busy=f"{folder}: another process is training it; waiting for it") as change:
        if checkpoint.is_file():
            return name
        change.write_json(config.relative_to(folder).as_posix(), {**vision_config, "text_config": text})
        change.write("vocab.txt", "\n".join(vocabulary).encode() + b"\n")
        state = _trained(train, text, checkpoint, settings.steps, seed)
        with change.replacing(checkpoint.name) as path:
            torch.save({"model": state, "config": {"image_res": _SIDE}}, path)
    return name


def _trained(train: Collection, text: dict[str, Any], checkpoint: Path, steps: int, seed: int) -> dict[str, Tensor]:
    """The weights under the authors' names."""
    import torch
    from torch import nn

    from visir.collections.images import ImageReader
    from visir.encoders.models.captions import find_vocabulary
    from visir.encoders.models.fusion_config import BERT, Sizes
    from visir.encoders.models.fusion_model import FusionModel
    from visir.encoders.models.fusion_towers import FusionImageTower, FusionTextTower
    from visir.encoders.models.xvlm import FAMILY

    files, reader = find_vocabulary("small X-VLM", None, checkpoint), ImageReader(train)
    drawn = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = FusionModel(FAMILY, Sizes(_SIDE, _VISION, {**BERT, **text}, _DIMENSION)).train()
        for layer in (*model.text.modules(), *model.fusion.modules(), *model.itm_head.modules()):
            if isinstance(layer, nn.Linear):  # BERT's own deviation, 0.02, is made for a width of 768
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
        image_half = FusionImageTower(model)
        text_half = FusionTextTower(model, files, max_length=40, max_words=30, template="{}")
        pixels = image_half.collate(image_half.prepare([reader.open(row) for row in range(train.images.num_rows)]))
        tokens = text_half.prepare(train.captions["text"].to_pylist())
        captions = _captions_of(train)
        inverse = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
        parameters = [*model.parameters(), inverse]
        optimiser = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps, pct_start=0.1)
        for _ in range(steps):
            rows = drawn.choice(len(captions), min(_BATCH, len(captions)), replace=False)
            words = text_half.collate([tokens[drawn.choice(captions[row])] for row in rows])
            image = image_half.network.tokens(cast("Tensor", pixels)[torch.from_numpy(rows)])
            mask = cast("Any", words)["attention_mask"]
            loss = _loss(model, inverse.exp(), image, text_half.network.tokens(words), mask)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            schedule.step()
    names = model.official_names()
    state = {names[key]: value.detach() for key, value in model.state_dict().items()}
    return state | {"temp": (-inverse).exp().detach()}


def _loss(model: Any, scale: Tensor, image: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """The contrastive loss plus twice the matching loss of each pair, and of its image and its text with another
    one."""
    # image: (n, t, width) tokens of the images.
    import torch
    from torch.nn.functional import cross_entropy, normalize

    vectors = normalize(model.vision_proj(image[:, 0]), dim=-1), normalize(model.text_proj(words[:, 0]), dim=-1)
    logits = scale * vectors[0] @ vectors[1].T
    own = torch.arange(len(image))
    contrastive = (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2
    with torch.no_grad():
        eased = (_EASE * logits).masked_fill(torch.eye(len(image), dtype=torch.bool), -math.inf)
        texts, images = (torch.multinomial(matrix.softmax(1), 1)[:, 0] for matrix in (eased, eased.T))
    at_image, at_text = torch.cat([own, own, images]), torch.cat([own, texts, own])
    states = model.fusion(
        encoder_embeds=words[at_text], attention_mask=mask[at_text], encoder_hidden_states=image[at_image]
    )
    match = torch.cat([torch.ones_like(own), torch.zeros_like(own), torch.zeros_like(own)])
    matching: Tensor = cross_entropy(model.itm_head(states.last_hidden_state[:, 0]), match)
    return contrastive + 2 * matching


def _captions_of(train: Collection) -> list[list[int]]:
    """The rows of each image's captions, in the order of the images."""
    image_rows = {name: row for row, name in enumerate(train.images["id"].to_pylist())}
    captions: list[list[int]] = [[] for _ in image_rows]
    for row, image in enumerate(train.captions["image_id"].to_pylist()):
        captions[image_rows[image]].append(row)
    return captions


def small_of(settings: SmallXvlm, context: ExperimentContext) -> str:
    """The small X-VLM of these settings and the cell's seed, as `visir.load` takes it."""
    key = hash_json(settings.model_dump(mode="json"))[:10]
    with context.locks.process:
        return small_xvlm(settings, context.shared / f"small-xvlm-{key}" / f"seed{context.seed}", seed=context.seed)

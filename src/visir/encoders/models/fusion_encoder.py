"""X-VLM and ALBEF as encoders: vectors for the first stage, a matching head for the second, from one checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import torch
from torch import Tensor

from visir.encoders.devices import pick_device
from visir.encoders.models.captions import find_vocabulary
from visir.encoders.models.fusion_config import Sizes, read_config, scalars
from visir.encoders.models.fusion_cross_encoder import FusionCrossEncoder
from visir.encoders.models.fusion_model import UNUSED, FusionFamily, FusionModel
from visir.encoders.models.fusion_towers import FusionImageTower, FusionTextTower
from visir.encoders.models.model_files import loading
from visir.encoders.models.model_names import positive_number, template_of
from visir.encoders.models.official_weights import check_weights, read_checkpoint
from visir.encoders.models.pretrained_towers import PretrainedTowersEncoder, random_weights
from visir.encoders.weights import hash_state
from visir.errors import EncoderError
from visir.files import user_path
from visir.options import split_options
from visir.records import EncoderCard

OPTIONS = ("config", "tokenizer", "max_length", "max_words", "template")
MAX_WORDS = 30
"""Both authors' evaluations cut captions to 30 words."""


class FusionEncoder(PretrainedTowersEncoder):
    """X-VLM or ALBEF for retrieval."""

    # Vectors are the projections of the first token of either tower before normalisation; their cosine is what the
    # authors' evaluation orders the first stage by. `cross_encoder` is its second stage.

    def __init__(
        self,
        card: EncoderCard,
        model: FusionModel,
        image: FusionImageTower,
        text: FusionTextTower,
        *,
        device: str,
        temperature: float | None,
    ) -> None:
        super().__init__(card, {"image": image, "text": text}, device=device, temperature=temperature)
        self.cross_encoder = FusionCrossEncoder(card, model.eval(), image, text, device=device)


@dataclass(frozen=True)
class FusionSource:
    """What was found in the checkpoint, and what was asked for."""

    name: str
    state: dict[str, Tensor]  # weights under the authors' names for retrieval
    config: Mapping[str, Any]  # what the configuration file says, or else the checkpoint itself
    declared: bool  # whether `config` is a file that the user named
    options: dict[str, str]  # those in the encoder's name


def load_fusion(
    name: str,
    family: FusionFamily,
    sizes_of: Callable[[FusionSource], Sizes],
    *,
    max_length: int,
    options: tuple[str, ...] = (),
    device: str | None,
    dtype: str,
) -> FusionEncoder:
    """Load the encoder called "KIND:FILE?option=value&…"."""
    # Weights, and the sizes that do not show in them, make the card's hash; weights used in training only do not.
    bare, chosen = split_options(name, (*OPTIONS, *options), error=EncoderError)
    device, template = pick_device(device), template_of(name, chosen)
    path = user_path(bare.removeprefix(f"{family.kind}:"))
    with loading(name):
        state, own = read_checkpoint(name, path)
        config = read_config(name, user_path(chosen["config"])) if "config" in chosen else scalars(own)
        source = FusionSource(name, for_retrieval(state), config, "config" in chosen, chosen)
        sizes = sizes_of(source)
        files = find_vocabulary(name, chosen.get("tokenizer"), path)
        model = build(family, source, sizes).to(device, getattr(torch, dtype))
        image = FusionImageTower(model)
        text = FusionTextTower(
            model,
            files,
            max_length=positive_number(name, chosen, "max_length") or _tokens(source, max_length),
            max_words=positive_number(name, chosen, "max_words") or MAX_WORDS,
            template=template,
        )
        card = EncoderCard(
            name=name,
            family=family.kind,
            weights=_fingerprint(model, source.state),
            image_preprocessing=image.values(),
            text_preprocessing=text.values(),
            dtype=dtype,
        )
    temperature = float(source.state["temp"]) if "temp" in source.state else None
    return FusionEncoder(card, model, image, text, device=device, temperature=temperature)


def build(family: FusionFamily, source: FusionSource, sizes: Sizes) -> FusionModel:
    """The model with the weights of `source`; one `EncoderError` lists all that do not fit."""
    with random_weights(), torch.device("meta"):  # shapes alone: a file of another model is refused without the memory
        expected = FusionModel(family, sizes).expected_shapes()
    check_weights(source.name, source.state, expected, (*UNUSED, *family.unused))
    with random_weights():
        model = FusionModel(family, sizes)
    model.take(source.state)
    return model.eval()


def for_retrieval(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of pre-training under the names that they have in retrieval."""
    # There the text encoder is a model for masked words, whose layers are one level down (`text_encoder.bert.`).
    return {key.replace("text_encoder.bert.", "text_encoder."): value for key, value in state.items()}


def _tokens(source: FusionSource, default: int) -> int:
    value = source.config.get("max_tokens", default)
    if type(value) is not int or value < 3:
        raise EncoderError(f"{source.name}: max_tokens is {value!r}.", hint="at least 3: [CLS], a token, [SEP]")
    return value


def _fingerprint(model: FusionModel, state: Mapping[str, Tensor]) -> str:
    """Over weights and sizes: the number of heads does not show in the weights."""
    used = hash_state({key: state[key] for key in model.expected_shapes()})
    sizes = orjson.dumps(model.sizes.to_dict(), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(used.encode() + sizes, digest_size=16).hexdigest()

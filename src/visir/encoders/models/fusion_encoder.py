"""X-VLM and ALBEF as encoders: vectors for the first stage, a matching head for the second, from one checkpoint."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from visir.encoders.cross_encoder import CrossEncoder, Tokens, of_one_image
from visir.encoders.devices import pick_device
from visir.encoders.inputs import Pixels
from visir.encoders.models.fusion_config import Sizes, read_config, scalars
from visir.encoders.models.fusion_model import UNUSED, FusionFamily, FusionImageTower, FusionModel, FusionTextTower
from visir.encoders.models.hub import loading, positive_number, template_of
from visir.encoders.models.precision import inference, to_vectors
from visir.encoders.models.pretrained_towers import PretrainedTowersEncoder, random_weights
from visir.encoders.models.small import find_vocabulary
from visir.encoders.towers.base import to_device
from visir.encoders.weights import hash_state
from visir.errors import EncoderError, raise_faults
from visir.files import user_path
from visir.options import split_options
from visir.records import EncoderCard

if TYPE_CHECKING:
    from PIL.Image import Image


# Checkpoints as a paper's own code saves them: read without running anything in them, checked name by name.

State = Mapping[str, Tensor]


def read_checkpoint(name: str, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights in a file of `torch.save`, and the plain values of the configuration that lies beside them."""
    # A training run saves `{"model": weights, "config": …, "optimizer": …}`, a published file sometimes the weights
    # alone; both are read. The file is mapped, not read: optimiser states cost no memory.
    # Nothing in the file is executed (`weights_only`); a file that cannot be read in this way is an `EncoderError` that
    # names the class in it and how to save the weights alone.
    if not path.is_file():
        raise EncoderError(f"{name}: there is no file {path}.", hint="name the checkpoint file itself", code="no-file")
    try:
        # Files of PyTorch before 1.6 are no archives, and cannot be mapped.
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except UnpicklingError as fault:
        raise EncoderError(
            f"{name}: {path} holds more than weights and plain values ({_refused(fault)}); reading it would run code.",
            hint="where you trust it, save the weights alone: "
            "torch.save({'model': torch.load(OLD, weights_only=False)['model']}, NEW)",
            code="holds-more-weights-plain",
        ) from fault
    except (OSError, RuntimeError, EOFError, ValueError, LookupError) as fault:
        raise EncoderError(
            f"{name}: {path} cannot be read as a checkpoint: {str(fault).splitlines()[0] if str(fault) else fault!r}",
            hint="the file is damaged, cut short, or of another kind; fetch it again and compare its size",
        ) from fault
    state = content.get("model", content) if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise EncoderError(
            f"{name}: {path} holds no weights by name.",
            hint="expected {'model': state_dict, …}, or a state_dict alone",
            code="holds-no-weights-name",
        )
    config = content.get("config")
    return dict(state), dict(config) if isinstance(config, Mapping) else {}


def check_weights(name: str, state: State, expected: Mapping[str, Sequence[int]], ignored: Sequence[str]) -> None:
    """Raise one `EncoderError` that lists every weight that is of another shape, missing, or not known."""
    missing = [f"missing: {key} {tuple(shape)}" for key, shape in expected.items() if key not in state]
    shapes = [
        f"wrong shape: {key} is {tuple(state[key].shape)}, expected {tuple(shape)}"
        for key, shape in expected.items()
        if key in state and tuple(state[key].shape) != tuple(shape)
    ]
    unknown = [
        f"unexpected: {key} {tuple(value.shape)}"
        for key, value in state.items()
        if key not in expected and not any(fnmatchcase(key, pattern) for pattern in ignored)
    ]
    counts = f"{len(shapes)} of another shape, {len(missing)} missing, {len(unknown)} unexpected"
    raise_faults(
        EncoderError,
        f"{name}: the weights are not those of this model; {counts}",
        shapes + missing + unknown,
        hint="is it a checkpoint of this architecture, for retrieval? another size is declared with ?config=FILE",
    )


def _refused(fault: UnpicklingError) -> str:
    """The class that `weights_only` refused, from torch's long message."""
    text = str(fault)
    _, separator, rest = text.partition("GLOBAL ")
    return rest.split()[0] if separator and rest.split() else text.splitlines()[0]


# The matching head of X-VLM and ALBEF, as the second stage of a search.


class FusionCrossEncoder(CrossEncoder):
    """The logit of "match", unbounded, higher is better: the second of the matching head's two outputs."""

    # It is what the authors' evaluation ranks by: the `k_test` candidates of the first stage (128 on Flickr30k, 256 on
    # COCO) by this logit alone, every other candidate behind them (it scores them −100). The other common reading, the
    # softmax probability of "match", saturates towards 1.0, where float32 has few steps left to rank by.
    # The text layers do not look at the image, so a text's tokens are what leaves them: they are computed once, and a
    # pair costs the fusion layers only.

    def __init__(
        self, card: EncoderCard, model: FusionModel, image: FusionImageTower, text: FusionTextTower, *, device: str
    ) -> None:
        self.card = replace(card, family=f"{card.family}-itm")
        self._model, self._image, self._text, self._device = model, image, text, device
        self._dtype = next(model.parameters()).dtype

    def preprocess(self, image: Image) -> Pixels:
        """One RGB image, uint8 (H, W, 3), as for the vectors."""
        pixels: Pixels = self._image.prepare([image])[0]
        return pixels

    def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
        """(1 + patches, width) of each image, behind the last layer of the image tower."""
        pixels = self._image.collate(batch)
        assert isinstance(pixels, Tensor)
        with inference():
            return list(self._image.network.tokens(pixels.to(self._device, self._dtype)))

    def text_tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """(length, width) of each text, behind the last of the text layers."""
        ids = self._text.prepare(texts)
        with inference():
            words = self._text.network.tokens(to_device(self._text.collate(ids), self._device))
            # A copy of its own for each text: a view would keep the padded batch.
            return [row[: len(tokens)].clone() for row, tokens in zip(words, ids, strict=True)]

    def match(self, images: Sequence[Tokens], texts: Sequence[Tokens]) -> NDArray[np.float32]:
        """(n,) logits of "match"."""
        scores = np.empty(len(texts), np.float32)
        with inference():
            for image, pairs in of_one_image(images):
                words = pad_sequence(list(texts[pairs]), batch_first=True)
                lengths = torch.tensor([len(tokens) for tokens in texts[pairs]], device=words.device)
                mask = (torch.arange(words.shape[1], device=words.device) < lengths[:, None]).long()
                scores[pairs] = to_vectors(self._model.match(words, mask, image))
        return scores

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As for the vectors."""
        return self._text.truncate(texts, ending)


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

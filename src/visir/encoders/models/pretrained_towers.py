"""Encoders made of towers, and how a tower is taken out of a model."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from visir.encoders.base import Encoder
from visir.encoders.devices import COMPILED
from visir.encoders.inputs import Pixels
from visir.encoders.intake import faults_named
from visir.encoders.models.compiled_towers import CompiledTowers
from visir.encoders.models.precision import begin_vectors, inference, no_vectors, stacked, to_vectors
from visir.encoders.models.text_side import TextSide, side_of_tower
from visir.encoders.towers.base import Inputs
from visir.encoders.towers.pretrained_backbone import PretrainedTower
from visir.encoders.truncation import TextLimit
from visir.errors import EncoderError
from visir.records import EncoderCard, Modality

if TYPE_CHECKING:
    from PIL.Image import Image

M = TypeVar("M", bound=nn.Module)


class PretrainedTowersEncoder(Encoder):
    """Images, texts or both through the towers of a pretrained model."""

    # Vectors are the projections before normalisation. The same towers are what is tuned, so there is one way from an
    # image or a text to its vector.

    def __init__(
        self,
        card: EncoderCard,
        pretrained_towers: Mapping[Modality, PretrainedTower],
        *,
        device: str,
        temperature: float | None = None,
        bias: float | None = None,
    ) -> None:
        self.card, self.modalities = card, frozenset(pretrained_towers)
        self.dimension = next(iter(pretrained_towers.values())).outputs
        self._pretrained_towers, self._device = dict(pretrained_towers), device
        self.computes_ahead = device.startswith("cuda")
        self.is_slow_here = device == "cpu" and card.dtype == "float32"
        self._compiled = CompiledTowers(self.pretrained_tower)
        self._temperature, self._bias = temperature, bias
        for pretrained_tower in pretrained_towers.values():
            pretrained_tower.network.eval()

    def preprocess(self, image: Image) -> Pixels:
        """One RGB image, float32 (3, H, W), by the model's own preprocessing; bytes of that shape for a GPU, which
        makes the same numbers of them (`GreyLevels`)."""
        tower = self.pretrained_tower("image")
        as_bytes = self.computes_ahead and tower.levels is not None
        pixels: Pixels = (tower.prepare_levels if as_bytes else tower.prepare)([image])[0]
        return pixels

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension) projections of n preprocessed images."""
        return self._embed(self.pretrained_tower("image"), batch)

    def begin_images(self, batch: Sequence[Pixels]) -> Callable[[], NDArray[np.float32]]:
        """See `Encoder.begin_images`."""
        if not self.computes_ahead or not len(batch):
            return super().begin_images(batch)  # type: ignore[return-value]  # one vector for each
        with inference(), faults_named(self, "images"):
            return begin_vectors(self._features(self.pretrained_tower("image"), batch))

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) projections of n texts."""
        pretrained_tower = self.pretrained_tower("text")
        return self._embed(pretrained_tower, pretrained_tower.prepare(texts) if len(texts) else [])

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """(n,) tokens, as the text tower counts them."""
        return np.array([len(tokens) for tokens in self.pretrained_tower("text").prepare(texts)], np.int64)

    def text_limit(self) -> TextLimit | None:
        """As the text tower reads."""
        return self.pretrained_tower("text").text_limit() if "text" in self.modalities else None

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """As the text tower does it."""
        return self.pretrained_tower("text").truncate(texts, ending)

    def pretrained_tower(self, modality: Modality) -> PretrainedTower:
        """One tower, sharing its weights with this encoder."""
        if modality not in self._pretrained_towers:
            raise self.cannot(modality)
        return self._pretrained_towers[modality]

    def text_side(self) -> TextSide | None:
        """See `visir.encoders.models.text_side`."""
        return side_of_tower(self.pretrained_tower("text"))

    def own_temperature(self) -> float | None:
        """See `visir.encoders.towers.pretrained_backbone.own_temperature`."""
        return self._temperature

    def own_bias(self) -> float | None:
        """See `visir.encoders.towers.pretrained_backbone.own_bias`."""
        return self._bias

    def _embed(self, pretrained_tower: PretrainedTower, prepared: Sequence[Any]) -> NDArray[np.float32]:
        if not len(prepared):
            return no_vectors(self.dimension)
        if self._device == COMPILED:
            inputs = pretrained_tower.collate(prepared)
            return self._compiled.vectors(pretrained_tower.modality, self.card, inputs)
        with inference():
            return to_vectors(self._features(pretrained_tower, prepared))

    def _features(self, pretrained_tower: PretrainedTower, prepared: Sequence[Any]) -> Tensor:
        """(n, dimension) on the device."""
        dtype = next(pretrained_tower.network.parameters()).dtype
        levels = pretrained_tower.levels
        moved: Inputs
        if levels is not None and prepared[0].dtype == np.uint8:
            moved = levels.on_device(stacked(prepared, pin=self.computes_ahead).to(self._device, non_blocking=True)).to(
                dtype
            )
        else:
            moved = moved_inputs(pretrained_tower.collate(prepared), self._device, dtype)
        features: Tensor = pretrained_tower.network(moved)
        return features


def moved_inputs(inputs: Inputs, device: str, dtype: torch.dtype) -> Inputs:
    """Collated inputs on a device; those with fractions (pixels) in the dtype of the weights."""
    if isinstance(inputs, Tensor):
        return inputs.to(device, dtype if inputs.is_floating_point() else None)
    return {name: value.to(device, dtype if value.is_floating_point() else None) for name, value in inputs.items()}


def check_pictures(
    name: str, tower: PretrainedTower, place: str, sizes: Collection[int | Sequence[int]], device: str
) -> None:
    """Check that a tower takes the pictures that its own preprocessing makes, before any work begins with it."""
    from PIL import Image

    random, shapes = np.random.default_rng(0), ((48, 67), (67, 48))
    prepared = tower.prepare([Image.fromarray(random.integers(0, 256, (*shape, 3), np.uint8)) for shape in shapes])
    stated = sorted({(size, size) if isinstance(size, int) else tuple(size) for size in sizes})
    wanted = " or ".join(f"{height} × {width}" for height, width in stated)
    hint = f"let the sizes in {place} (size, crop_size) be those of the model{wanted and f', {wanted}'}, or fetch "
    hint += "that file again from where the model comes"
    made = [array.shape[-2:] for array in prepared]
    if made[0] != made[1]:
        first, second = (f"{height} × {width}" for height, width in made)
        raise EncoderError(
            f"{name}: its image processor makes pictures of several sizes, {first} pixels of one and {second} of "
            f"another ({place}); the model takes one size{wanted and f', {wanted}'}.",
            hint=hint,
        )
    if tuple(made[0]) in stated:
        return
    try:
        with inference():
            tower.network(moved_inputs(tower.collate(prepared), device, next(tower.network.parameters()).dtype))
    except Exception as fault:
        first = next((line.strip() for line in str(fault).splitlines() if line.strip()), type(fault).__name__)
        raise EncoderError(
            f"{name}: its image processor makes pictures of {made[0][0]} × {made[0][1]} pixels ({place}), and the "
            f"model takes {wanted or 'no such pictures'}: {first}",
            hint=hint,
        ) from fault


def of_torch(device: str | None, dtype: str) -> tuple[str | None, str]:
    """The device and the dtype that PyTorch loads the towers with, which OpenVINO compiles from the CPU in float32."""
    return ("cpu", "float32") if device == COMPILED else (device, dtype)


def dtype_on_card(device: str | None, dtype: str) -> str:
    """The arithmetic as the card has it: compiled networks round in another way."""
    return f"{dtype} (openvino)" if device == COMPILED else dtype


def part(module: M, *, only: Sequence[str] = (), without: Sequence[str] = ()) -> M:
    """`module` with fewer weights, sharing those it keeps; what is left out is None in it."""
    taken = copy.copy(module)
    for table in ("_modules", "_parameters", "_buffers"):
        members = {
            name: None
            if (only and name not in only) or any(fnmatchcase(name, pattern) for pattern in without)
            else value
            for name, value in getattr(module, table).items()
        }
        if table == "_modules":
            for name, child in members.items():
                inner = [
                    pattern.partition(".")[2] for pattern in without if fnmatchcase(name, pattern.partition(".")[0])
                ]
                if child is not None and any(inner):
                    members[name] = part(child, without=[pattern for pattern in inner if pattern])
        taken.__dict__[table] = members
    return taken


def temperature(log_inverse: Tensor) -> float:
    """`1 / exp(log_inverse)`: CLIP and its kin learn the logarithm of the inverse temperature."""
    return math.exp(-float(log_inverse.detach()))


def bias_of(model: Any) -> float | None:
    """The learnt bias of a sigmoid loss, of a model that has one (SigLIP, in transformers and in open_clip)."""
    bias = getattr(model, "logit_bias", None)
    return None if bias is None else float(bias.detach())


@contextmanager
def random_weights() -> Iterator[None]:
    """Build an architecture whose weights come later: torch's random numbers are left as they were, nobody is
    warned."""
    # transformers warns of every weight that it did not find, and open_clip of a model without any.
    from transformers.utils import logging as transformers_logging

    root, level = logging.getLogger(), transformers_logging.get_verbosity()
    root.addFilter(_without_weights)
    transformers_logging.set_verbosity_error()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        transformers_logging.set_verbosity(level)
        root.removeFilter(_without_weights)


def _without_weights(record: logging.LogRecord) -> bool:
    return "weights" not in record.getMessage()


def recompute_activations(model: Any, name: str) -> None:
    """Turn on gradient checkpointing in a model of `transformers`; `EncoderError` where it has none."""
    # The public switch goes on to the embeddings of the text tower, which an image tower has none of.
    again = partial(checkpoint, use_reentrant=False)
    try:
        model._set_gradient_checkpointing(enable=True, gradient_checkpointing_func=again)
    except ValueError as fault:
        raise no_checkpointing(name) from fault


def no_checkpointing(name: str) -> EncoderError:
    """The error for a model that cannot compute its activations again."""
    return EncoderError(
        f"checkpointing: {name} has no switch for computing activations again.",
        hint="leave it out; optimiser.chunk (GradCache) bounds the memory of any model",
        code="no-switch-computing-activations",
    )

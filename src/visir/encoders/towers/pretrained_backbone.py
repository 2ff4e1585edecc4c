"""One modality of a loaded model as a backbone: used as it is, tuned, or fixed beside adapters that are trained."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from visir.encoders.base import Encoder
from visir.encoders.families import PRETRAINED_TOWERS
from visir.encoders.towers.adapters import AdapterSpec, inject, merge, pattern_of
from visir.encoders.towers.base import Backbone, Inputs, Tower, TowerReader, no_checkpointing
from visir.errors import EncoderError
from visir.records import Modality

LATE_INTERACTION = "late-interaction models"
M = TypeVar("M", bound=nn.Module)


class Adapter(NamedTuple):
    """What was put beside the weights of a backbone."""

    base: Encoder  # whose weights they are
    config: Any  # the settings of peft


class PretrainedBackbone(Backbone):
    """What one modality of a model needs, and nothing of the other one."""

    # Towers of several libraries differ by their reader and their network, and by the functions that are given here;
    # none of them holds weights, or a tower that is copied to be tuned would keep those of the model.
    # An encoder is made of these, and its `forward` is theirs: features are the model's projections before
    # normalisation. A training takes a copy (`of`), so that the encoder keeps its own weights, because its card is the
    # key under which its vectors are kept. In a model that was loaded in another precision the copy is float32 from
    # here on; mixed precision is the training loop's business.
    # Batch normalisation (CLIP's ResNets, ALIGN, GroupViT's projections) keeps the running statistics that came with
    # the weights, in training too; its scales and offsets are tuned. The other reading, statistics of every batch,
    # makes a vector depend on its neighbours: then a batch in chunks, or over several processes, is not the batch.

    kind: ClassVar[str] = "pretrained"
    adapter: Adapter | None = None
    # Every weight that this modality uses and no other; it takes what `collate` gives and returns the (n, outputs)
    # projections.
    network: nn.Module

    def __init__(
        self,
        network: nn.Module,
        reader: TowerReader | None = None,
        *,
        outputs: int = 0,
        options: Mapping[str, Any] | None = None,
        files: Callable[[], dict[str, bytes]] = dict,
        checkpoint: Callable[[Any], None] | None = None,
    ) -> None:
        # options: Plain values that the family's function in `PRETRAINED_TOWERS` needs beside the files.
        # files: From which it is built again without the hub and its first folder.
        # checkpoint: Turns on gradient checkpointing in the network, where that has it.
        super().__init__(reader)
        self.network, self.outputs = network, outputs
        self._options, self._files, self._checkpoint = options or {}, files, checkpoint

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        modality: Modality,
        adapter: Any = None,
        *,
        checkpointing: bool = False,
        where: str = "adapter",
    ) -> PretrainedBackbone:
        """A copy of the image tower or the text tower of an encoder: all of it is tuned, or the adapters alone."""
        # adapter: an `AdapterSpec`, or the settings of peft, which `where` names in errors.
        if modality not in encoder.modalities:
            raise encoder.cannot(modality)
        backbone = copy.deepcopy(_tunable(encoder).pretrained_tower(modality))._tuned()
        if checkpointing:
            backbone.checkpoint_gradients()
        if adapter is not None:
            if isinstance(adapter, AdapterSpec):
                adapter = adapter.config(pattern_of(adapter.chosen(backbone.base_module())))
            backbone.adapter = Adapter(encoder, adapter)
            backbone.network.requires_grad_(False)
            inject(backbone.base_module(), adapter, where)
        return backbone

    def _tuned(self) -> Self:
        files = self.files()  # now, because the folder they are in may be gone when training ends
        self._files = lambda: files
        self.network.float().requires_grad_(True)
        return self

    def merged(self) -> PretrainedBackbone:
        """A copy with the adapters added to its weights."""
        backbone = copy.deepcopy(self)
        merge(backbone.base_module())
        backbone.adapter = None
        backbone.network.float().requires_grad_(True)
        return backbone

    def train(self, mode: bool = True) -> Self:
        """As `nn.Module.train`, but batch normalisation stays with its running statistics."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs) projections before normalisation; what has fractions is brought to the weights' dtype."""
        levels = self.reader.levels
        if isinstance(inputs, Tensor) and inputs.dtype == torch.uint8 and levels is not None:
            inputs = levels.on_device(inputs)
        dtype = next(self.network.parameters()).dtype
        if isinstance(inputs, Tensor):
            inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
        elif any(value.is_floating_point() for value in inputs.values()):
            inputs = {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}
        vectors: Tensor = self.network(inputs)
        return vectors

    def pretrained_modules(self) -> Sequence[nn.Module]:
        """All of it came trained; beside adapters it is fixed for good, and none is told."""
        return () if self.adapter else (self.network,)

    def spec(self) -> dict[str, Any]:
        """Family and modality, and what the family needs beside the files."""
        vocabulary = self.preprocessing().get("vocabulary")
        known = {"vocabulary": vocabulary} if vocabulary else {}
        return {"family": self.reader.family, "modality": self.modality, **known, **self._options}

    def files(self) -> dict[str, bytes]:
        """Configuration, tokenizer and image processor: all that `load` needs but the weights."""
        return self._files()

    def checkpoint_gradients(self) -> None:
        """See `Backbone`."""
        if self._checkpoint is None:
            raise no_checkpointing(f"a tower of {self.reader.family}")
        self._checkpoint(self.network)

    def base_module(self) -> nn.Module:
        """The model as its own library has it, without what this tower does not use: adapters name its modules."""
        model = getattr(self.network, "model", None)
        return model if isinstance(model, nn.Module) else self.network

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> PretrainedBackbone:
        """The architecture with random weights, from the files of one; the hub and the first folder are not asked."""
        module, _, function = PRETRAINED_TOWERS.get(spec["family"]).partition(":")
        backbone: PretrainedBackbone = getattr(import_module(module), function)(folder, spec["modality"], spec)
        if backbone.preprocessing().get("vocabulary") != spec.get("vocabulary"):
            raise EncoderError(
                f"{folder}: its tokenizer gives other ids than the one the text tower was trained with.",
                hint="copy the whole checkpoint again, or install the model libraries in the versions that trained it",
                code="tokenizer-gives-other-ids",
            )
        return backbone._tuned()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Only weights are worth a copy; tokenizers hold locks, which cannot be copied, and nothing that changes.
        other = copy.copy(self)
        memo[id(self)] = other
        other.__dict__["_modules"] = {name: copy.deepcopy(module, memo) for name, module in self._modules.items()}
        return other


class TrainedTower(PretrainedBackbone):
    """What visir trained, tuned further like any other model: the head that it was trained with belongs to it."""

    network: Tower

    def __init__(self, tower: Tower) -> None:
        super().__init__(
            tower,
            outputs=tower.outputs,
            options=tower.spec(),
            files=tower.files,
            checkpoint=lambda network: network.checkpoint_gradients(),
        )

    @property
    def reader(self) -> TowerReader:
        """That of the tower, looked up, because a copy of this one has a network of its own."""
        return replace(self.network.reader, family="towers")


def adapted_towers(towers: Mapping[Modality, Tower]) -> dict[Modality, PretrainedBackbone]:
    """The backbones that have adapters, the image's first."""
    backbones = {side: tower.backbone for side, tower in sorted(towers.items())}
    return {side: each for side, each in backbones.items() if isinstance(each, PretrainedBackbone) and each.adapter}


def merged_tower(tower: Tower) -> Tower:
    """A tower without adapters, of the same vectors; the tower itself where it has none."""
    backbone = tower.backbone
    if not isinstance(backbone, PretrainedBackbone) or backbone.adapter is None:
        return tower
    return Tower(backbone.merged(), copy.deepcopy(tower.head))


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedBackbone:
    """A trained tower with random weights, from the `files` of a tower that lie in `folder`."""
    with torch.random.fork_rng(devices=[]):
        return TrainedTower(Tower.load(folder, spec))


# Encoders whose towers can be tuned, and what they were trained with.


@runtime_checkable
class Tunable(Protocol):
    """An encoder whose towers can be tuned."""

    def pretrained_tower(self, modality: Modality) -> PretrainedBackbone:
        """One tower, sharing its weights with the encoder."""

    # The temperature and the bias that the model was trained to, or that the objective stood at when the towers were
    # kept; None where it has none.
    temperature: float | None
    bias: float | None


def own_temperature(encoder: Encoder) -> float | None:
    """The temperature at which the encoder's cosines were trained; None where it has none (BLIP, sentence encoders)."""
    # CLIP, AltCLIP, GroupViT and open_clip's models keep the logarithm of the inverse temperature, ALIGN the
    # temperature itself. SigLIP was trained with a sigmoid of `scale · cosine + bias`; in a softmax over candidates the
    # bias cancels, and `1 / scale` is the temperature at which the same logits enter it.
    return _tunable(encoder).temperature


def own_bias(encoder: Encoder) -> float | None:
    """The bias that stood beside the encoder's cosines in a sigmoid loss (SigLIP), or None where it has none."""
    return _tunable(encoder).bias


def _tunable(encoder: Encoder) -> Tunable:
    if isinstance(encoder, Tunable):
        return encoder
    kind = f"encoders of the family {encoder.card.family!r}"
    raise not_tunable(encoder.card.name, LATE_INTERACTION if encoder.form == "multi-vector" else kind)


def not_tunable(name: str, kind: str) -> EncoderError:
    """The error for a model that cannot be tuned, nor take adapters; `kind` says what it is, in the plural."""
    return EncoderError(
        f"{name}: {kind} cannot be tuned, and take no adapters here; they are only used as they are.",
        hint=f'tower = "frozen" trains a head over it; families that can be tuned: {", ".join(PRETRAINED_TOWERS)} '
        "(models with one vector for each picture and text, such as openai/clip-vit-base-patch32)",
        code="cannot-tuned-take-no",
    )


# How a tower is taken out of a model.


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


@contextmanager
def random_weights() -> Iterator[None]:
    """Build an architecture whose weights come later: torch's random numbers stay as they were, nobody is warned."""
    # transformers warns of every weight that it did not find, and open_clip of a model without any.
    from transformers.utils import logging as transformers_logging

    def without_weights(record: logging.LogRecord) -> bool:
        return "weights" not in record.getMessage()

    root, level = logging.getLogger(), transformers_logging.get_verbosity()
    root.addFilter(without_weights)
    transformers_logging.set_verbosity_error()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        transformers_logging.set_verbosity(level)
        root.removeFilter(without_weights)


def recompute_activations(model: Any, name: str) -> None:
    """Turn on gradient checkpointing in a model of `transformers`; `EncoderError` where it has none."""
    # The public switch goes on to the embeddings of the text tower, which an image tower has none of.
    again = partial(checkpoint, use_reentrant=False)
    try:
        model._set_gradient_checkpointing(enable=True, gradient_checkpointing_func=again)
    except ValueError as fault:
        raise no_checkpointing(name) from fault

"""One modality of a loaded model as a backbone: used as it is, tuned, or fixed beside adapters that are trained."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from visir.encoders.base import Encoder
from visir.encoders.families import BACKBONES, PRETRAINED_TOWERS
from visir.encoders.intake import TextLimit
from visir.encoders.models.image_processors import GreyLevels
from visir.encoders.models.text_inputs import JoinedInputs, TextInputs
from visir.encoders.towers.adapters import AdapterSpec, inject, merge, pattern_of
from visir.encoders.towers.base import Backbone, Head, HeadSpec, Inputs, Tower, own_backbone
from visir.errors import EncoderError
from visir.records import Modality
from visir.storage import Scratch
from visir.storage.disk import files_below

if TYPE_CHECKING:
    from visir.encoders.models.text_inputs import Tokens

LATE_INTERACTION = "late-interaction models"
M = TypeVar("M", bound=nn.Module)


class Adapter(NamedTuple):
    """What was put beside the weights of a backbone."""

    base: Encoder  # whose weights they are
    config: Any  # the settings of peft


# The texts of an encoder as inputs, network and vectors: what `text_network` makes a network of. An encoder has one
# where it has a method `text_side`; a tower where its `text_inputs` gives any.

_KNOWN = ("torch", "transformers", "sentence_transformers", "open_clip", "visir")
"""Packages whose modules may be traced. Code that comes with a model runs by its user's word alone, also where it could
be left out."""


@dataclass(frozen=True)
class TextSide:
    """Texts on their way to vectors."""

    network: nn.Module  # takes what `inputs` gives, by name, and returns the (n, d) vectors
    reader: TextInputs  # makes the inputs of texts without PyTorch
    # Makes them as the encoder does, on the CPU; `reader` has to give the same.
    inputs: Callable[[Sequence[str]], Mapping[str, Tensor]]

    def then(self, module: nn.Module) -> TextSide:
        """The same, with a module behind the network."""
        return replace(self, network=nn.Sequential(self.network, module))


def text_side_of(encoder: Encoder) -> TextSide | None:
    """The text side of an encoder by PyTorch on the CPU in float32; None where it has none, or runs code of its own."""
    own: Callable[[], TextSide | None] | None = getattr(encoder, "text_side", None)
    if own is None or "text" not in encoder.modalities or encoder.form != "dense":
        return None
    if encoder.cross_encoder is not None or encoder.card.dtype != "float32" or encoder.card.code_revisions:
        return None
    side = own()
    if side is None or any(type(part).__module__.partition(".")[0] not in _KNOWN for part in side.network.modules()):
        return None
    weights = list(side.network.parameters())
    return side if all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in weights) else None


def joined_sides(sides: Sequence[TextSide]) -> TextSide:
    """Several side by side: their vectors, each brought to length 1 (a zero vector stays), joined end to end."""

    def inputs(texts: Sequence[str]) -> Mapping[str, Tensor]:
        return {
            f"{number}.{name}": tensor
            for number, side in enumerate(sides)
            for name, tensor in side.inputs(texts).items()
        }

    return TextSide(_Joined(sides), JoinedInputs([side.reader for side in sides]), inputs)


class FirstValues(nn.Module):
    """The first values of each vector."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self._outputs = outputs

    def forward(self, vectors: Tensor) -> Tensor:
        """(n, outputs) of (n, d) vectors."""
        return vectors[:, : self._outputs]


class OneInput(nn.Module):
    """What is given, under its name: of inputs that are the vectors already."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """(n, d), as given."""
        return inputs[self._name]


class _Joined(nn.Module):
    def __init__(self, sides: Sequence[TextSide]) -> None:
        super().__init__()
        self.networks = nn.ModuleList([side.network for side in sides])
        self._names = [side.reader.names for side in sides]

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        parts = []
        for number, (network, names) in enumerate(zip(self.networks, self._names, strict=True)):
            vectors = network({name: inputs[f"{number}.{name}"] for name in names})
            lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
            parts.append(vectors / torch.where(lengths > 0, lengths, torch.ones_like(lengths)))
        return torch.cat(parts, dim=1)


@dataclass(frozen=True)
class TowerReader:
    """How pictures or texts become what the network of a tower takes. Thread-safe."""

    family: str  # a key of `PRETRAINED_TOWERS`
    modality: Modality
    prepare: Callable[[Sequence[Any]], list[Any]]  # as `PretrainedBackbone.prepare_all`
    collate: Callable[[Sequence[Any]], Inputs]  # as `Backbone.collate`
    values: Callable[[], dict[str, Any]]  # as `Backbone.preprocessing`
    limit: Callable[[], TextLimit | None] = lambda: None  # as `Encoder.text_limit`
    text_inputs: Callable[[], TextInputs | None] = lambda: None  # as `PretrainedBackbone.text_inputs`
    levels: GreyLevels | None = None  # of pictures that can be prepared as bytes
    prepare_levels: Callable[[Sequence[Any]], list[Any]] | None = None

    @classmethod
    def of_tokens(cls, family: str, tokens: Tokens, **others: Any) -> TowerReader:
        """What a tokenizer of transformers makes of texts."""
        known = {"values": tokens.values, "limit": tokens.text_limit, "text_inputs": tokens.text_inputs}
        return cls(family, "text", tokens.ids, tokens.collate, **{**known, **others})


def stacked_pixels(prepared: Sequence[Any]) -> Tensor:
    """(n, …) of n arrays."""
    return torch.from_numpy(np.stack(prepared))


class PretrainedBackbone(Backbone):
    """What one modality of a model needs, and nothing of the other one."""

    # Towers of several libraries differ by their reader and their network, and by the functions that are given here;
    # none of them holds weights, or a tower that is copied to be tuned would keep those of the model. A subclass may
    # have methods in their place.
    # An encoder is made of these, and its `forward` is theirs: features are the model's projections before
    # normalisation. A training takes a copy (`of`), so that the encoder keeps its own weights, because its card is the
    # key under which its vectors are kept. In a model that was loaded in another precision the copy is float32 from
    # here on; mixed precision is the training loop's business.
    # Batch normalisation (CLIP's ResNets, ALIGN, GroupViT's projections) keeps the running statistics that came with
    # the weights, in training too; its scales and offsets are tuned. The other reading, statistics of every batch,
    # makes a vector depend on its neighbours: then a batch in chunks, or over several processes, is not the batch.

    kind: ClassVar[str] = "pretrained"
    family: str  # its key in `PRETRAINED_TOWERS`
    # Turns what `prepare_levels` gives into what `prepare` gives; None where pictures have no such form.
    levels: GreyLevels | None = None
    as_bytes: bool = False
    """Whether pictures are prepared as bytes, for a GPU; `forward` takes either, to the same bits (`GreyLevels`)."""
    adapter: Adapter | None = None
    # Every weight that this modality uses and no other; it takes what `collate` gives and returns the (n, outputs)
    # projections.
    network: nn.Module
    reader: TowerReader
    _files: Mapping[str, bytes] | None = None

    def __init__(
        self,
        network: nn.Module | None = None,
        reader: TowerReader | None = None,
        *,
        outputs: int = 0,
        options: Mapping[str, Any] | None = None,
        files: Callable[[], dict[str, bytes]] = dict,
        checkpoint: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__()
        if network is not None:
            self.network = network
        if reader is not None:
            self.reader, self.levels, self.family, self.modality = reader, reader.levels, reader.family, reader.modality
        self.outputs, self._options, self._own_files, self._checkpoint = outputs, options or {}, files, checkpoint

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
        self._files = self.files()  # now, because the folder they are in may be gone when training ends
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

    def prepare_all(self, items: Sequence[Any]) -> list[Any]:
        """Upright RGB images to pixels, or texts to int32 token ids, one entry each. Thread-safe."""
        return self.reader.prepare(items)

    def prepare_levels(self, items: Sequence[Any]) -> list[Any]:
        """Upright RGB images as bytes (3, H, W), for towers that have `levels`. Thread-safe."""
        assert self.reader.prepare_levels is not None, "a tower that has levels"
        return self.reader.prepare_levels(items)

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """Several prepared items to one batch on the CPU."""
        return self.reader.collate(prepared)

    def text_limit(self) -> TextLimit | None:
        """As `Encoder.text_limit`."""
        return self.reader.limit()

    def preprocessing(self) -> dict[str, Any]:
        """Everything between an input and the network, for the encoder's card."""
        return self.reader.values()

    def prepare(self, item: Any) -> Any:
        """An image to float32 (3, H, W) by the model's own preprocessing, or a text to its int32 token ids."""
        return (self.prepare_levels if self.as_bytes and self.levels else self.prepare_all)([item])[0]

    def text_inputs(self) -> TextInputs | None:
        """What `prepare` and `collate` make of texts, made without PyTorch; None where only PyTorch's libraries can."""
        return self.reader.text_inputs()

    def text_side(self) -> TextSide | None:
        """The text side of a text tower; None where it has no `text_inputs`."""
        reader = self.text_inputs()
        if reader is None:
            return None
        [name, *more] = reader.names

        def inputs(texts: Sequence[str]) -> Mapping[str, Tensor]:
            batch = self.collate(self.prepare_all(texts))
            return {name: batch} if isinstance(batch, Tensor) else batch

        takes_tensor = not more and isinstance(self.collate(self.prepare_all(["a"])), Tensor)
        return TextSide(nn.Sequential(OneInput(name), self.network) if takes_tensor else self.network, reader, inputs)

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs) projections before normalisation; what has fractions is brought to the weights' dtype."""
        if isinstance(inputs, Tensor) and inputs.dtype == torch.uint8 and self.levels is not None:
            inputs = self.levels.on_device(inputs)
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
        """Family and modality, and what the family needs beside the files that `save` writes."""
        vocabulary = self.preprocessing().get("vocabulary")
        known = {"vocabulary": vocabulary} if vocabulary else {}
        return {"family": self.family, "modality": self.modality, **known, **self.options()}

    def options(self) -> dict[str, Any]:
        """Plain values that the family's function in `PRETRAINED_TOWERS` needs beside the `files`."""
        return dict(self._options)

    def files(self) -> dict[str, bytes]:
        """By relative POSIX path, the files from which it is built again without the hub and its first folder: no
        weights that matter."""
        return self._own_files()

    def checkpoint_gradients(self) -> None:
        """Keep fewer activations in training and compute them again (Chen et al. 2016)."""
        if self._checkpoint is None:
            raise no_checkpointing(f"a tower of {self.family}")
        self._checkpoint(self.network)

    def base_module(self) -> nn.Module:
        """The model as its own library has it, without what this tower does not use: adapters name its modules."""
        model = getattr(self.network, "model", None)
        return model if isinstance(model, nn.Module) else self.network

    def save(self, folder: Path) -> None:
        """Configuration, tokenizer and image processor: all that `load` needs but the weights."""
        for name, content in (self.files() if self._files is None else self._files).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> PretrainedBackbone:
        """The architecture with random weights, from what `save` wrote; the hub and the first folder are not asked."""
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
    """A backbone with the head that it was trained with: what visir trained is tuned further like any other model."""

    family = "towers"
    network: Tower

    def __init__(self, tower: Tower) -> None:
        super().__init__()
        self.network = tower
        self.modality, self.outputs = self._backbone.modality, tower.head.spec.outputs

    @property
    def _backbone(self) -> Backbone:
        return own_backbone(self.network.backbone)  # looked up, because a copy of this tower has a network of its own

    def prepare_all(self, items: Sequence[Any]) -> list[Any]:
        """As the backbone does it."""
        return [self._backbone.prepare(item) for item in items]

    def prepare_sized(self, item: Any) -> Any:
        """As the backbone does it."""
        return self._backbone.prepare_sized(item)

    def text_limit(self) -> TextLimit | None:
        """As the backbone reads."""
        return self._backbone.text_limit()

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """As the backbone does it."""
        return self._backbone.collate(prepared)

    def text_inputs(self) -> TextInputs | None:
        """As the backbone, where it is of a model that has them."""
        return self._backbone.text_inputs() if isinstance(self._backbone, PretrainedBackbone) else None

    def preprocessing(self) -> dict[str, Any]:
        """As on the card of the encoder it was taken from."""
        return self._backbone.preprocessing()

    def options(self) -> dict[str, Any]:
        """The shapes of backbone and head."""
        return describe_tower(self.network)

    def files(self) -> dict[str, bytes]:
        """What the backbone saves beside its weights: a vocabulary, a tokenizer."""
        with Scratch.temporary("backbone") as scratch:
            folder = scratch.folder("files")
            self._backbone.save(folder)
            scratch.written("files")
            return {name: (folder / name).read_bytes() for name in files_below(folder)}

    def checkpoint_gradients(self) -> None:
        """Compute activations again, in a backbone that can: one that was a tower itself."""
        if not isinstance(self._backbone, PretrainedBackbone):
            raise no_checkpointing(f"a tower of kind {self._backbone.kind!r}")
        self._backbone.checkpoint_gradients()


def merged_tower(tower: Tower) -> Tower:
    """A tower without adapters, of the same vectors; the tower itself where it has none."""
    backbone = tower.backbone
    if not isinstance(backbone, PretrainedBackbone) or backbone.adapter is None:
        return tower
    return Tower(backbone.merged(), copy.deepcopy(tower.head))


def describe_tower(tower: Tower) -> dict[str, Any]:
    """Plain values from which `build_tower` builds the same architecture."""
    backbone = own_backbone(tower.backbone)
    return {"head": tower.head.spec.to_dict(), "backbone": {"kind": backbone.kind, **backbone.spec()}}


def build_tower(folder: Path, entry: Mapping[str, Any]) -> Tower:
    """The tower that `describe_tower` described, without its weights; `folder` has what its backbone saved."""
    spec = dict(entry["backbone"])
    module, _, name = BACKBONES.get(spec.pop("kind")).partition(":")
    backbone: Backbone = getattr(import_module(module), name).load(folder, spec)
    return Tower(backbone, Head(HeadSpec.from_dict(entry["head"])))


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedBackbone:
    """A trained tower with random weights, from the `files` of a tower that lie in `folder`."""
    with torch.random.fork_rng(devices=[]):
        return TrainedTower(build_tower(folder, spec))


# Encoders whose towers can be tuned, and what they were trained with.


@runtime_checkable
class Tunable(Protocol):
    """An encoder whose towers can be tuned."""

    def pretrained_tower(self, modality: Modality) -> PretrainedBackbone:
        """One tower, sharing its weights with the encoder."""

    def own_temperature(self) -> float | None:
        """The temperature that the model was trained to; None when it has none."""


def own_temperature(encoder: Encoder) -> float | None:
    """The temperature at which the encoder's cosines were trained; None where it has none (BLIP, sentence encoders)."""
    # CLIP, AltCLIP, GroupViT and open_clip's models keep the logarithm of the inverse temperature, ALIGN the
    # temperature itself. SigLIP was trained with a sigmoid of `scale · cosine + bias`; in a softmax over candidates the
    # bias cancels, and `1 / scale` is the temperature at which the same logits enter it.
    return _tunable(encoder).own_temperature()


def own_bias(encoder: Encoder) -> float | None:
    """The bias that stood beside the encoder's cosines in a sigmoid loss (SigLIP), or None where it has none."""
    own = getattr(_tunable(encoder), "own_bias", None)
    return None if own is None else own()


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


def no_checkpointing(name: str) -> EncoderError:
    """The error for a model that cannot compute its activations again."""
    return EncoderError(
        f"checkpointing: {name} has no switch for computing activations again.",
        hint="leave it out; optimiser.chunk (GradCache) bounds the memory of any model",
        code="no-switch-computing-activations",
    )

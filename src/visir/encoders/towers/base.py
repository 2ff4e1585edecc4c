"""Backbones and towers: a backbone reads images or texts, a head brings its features into the common space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.families import BACKBONES
from visir.encoders.intake import TextLimit
from visir.encoders.models.image_processors import NORMALISATIONS, GreyLevels, ImageInput, check_sliver
from visir.encoders.models.text_inputs import JoinedInputs, TextInputs
from visir.errors import EncoderError
from visir.records import Modality

if TYPE_CHECKING:
    from PIL.Image import Image

    from visir.encoders.base import Encoder
    from visir.encoders.models.text_inputs import Tokens


# Heads: small networks that bring the features of a backbone, or of a frozen encoder, into the common space.

_BLOCK = 4096
_ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU}


_WIDEST = 2**20
"""A checkpoint of somebody else's may ask for more memory than there is."""


@dataclass(frozen=True)
class HeadSpec:
    """The shape of one head.

    Attributes:
        inputs, outputs: Dimensions of the features and of the common space.
        identity: The features are the vectors, as they are; everything below must then be left at its default.
        hidden: Widths of the hidden layers; () is a linear head, as in VSE++.
        activation, layer_norm: What follows each hidden layer (the norm comes first). LTD's baseline has one hidden
            layer with a ReLU and no norm.
        shortcut: A linear map from the inputs straight to the outputs, added to what the hidden layers give: the head
            begins as a linear one and learns what is left. Without hidden layers it would be the same map twice, and is
            refused.
        scaling: What happens to the features first: "unit" divides by their length, "standard" subtracts the mean and
            divides by the standard deviation of the training vectors (`Head.fit_scaling`; kept with the weights),
            "none".
        dropout: On the inputs of every layer, in training only.
        batch_norm: Batch normalisation of the outputs, as LTD has it under the triplet loss.
    """

    inputs: int
    outputs: int
    identity: bool = False
    hidden: tuple[int, ...] = ()
    activation: Literal["gelu", "relu"] = "gelu"
    layer_norm: bool = True
    shortcut: bool = False
    scaling: Literal["unit", "standard", "none"] = "none"
    dropout: float = 0.0
    batch_norm: bool = False

    def __post_init__(self) -> None:
        widths = (self.inputs, self.outputs, *self.hidden)
        if not 1 <= min(widths) <= max(widths) <= _WIDEST:
            between = f"1 to {_WIDEST:,} everywhere"
            raise EncoderError(f"a head cannot be {' → '.join(map(str, widths))} wide.", hint=between)
        if self.shortcut and not self.hidden:
            raise EncoderError("a head without hidden layers has no use for a shortcut.", hint="leave one of them out")
        if not self.identity:
            return
        if self.inputs != self.outputs:
            raise EncoderError(
                f"an identity head gives what it takes: {self.inputs} dimensions, not {self.outputs}.",
                hint=f"set the dimension to {self.inputs}, or give the head a layer (identity = false)",
            )
        if replace(self, identity=False) != HeadSpec(self.inputs, self.outputs):
            raise EncoderError("an identity head has no other settings.", hint="leave them out, or identity")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> HeadSpec:
        """From what `to_dict` gave, read back from JSON."""
        return cls(**{**values, "hidden": tuple(values["hidden"])})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


class Head(nn.Module):
    """A linear map, or an MLP: (n, inputs) to (n, outputs). The result is not normalised."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.spec = spec
        if spec.scaling == "standard":
            self.register_buffer("mean", torch.zeros(spec.inputs))
            self.register_buffer("deviation", torch.ones(spec.inputs))
        self.dropout = nn.Dropout(spec.dropout)
        self.layers = nn.Sequential() if spec.identity else _layers(spec)
        self.shortcut = nn.Linear(spec.inputs, spec.outputs) if spec.shortcut else None
        self.norm = nn.BatchNorm1d(spec.outputs) if spec.batch_norm else None

    def fit_scaling(self, *views: NDArray[Any]) -> None:
        """Take mean and standard deviation from the training vectors, for scaling "standard".

        `views` are (n, inputs) arrays, taken together as if they lay under each other. They are read in blocks, so they
        may be memory-mapped and larger than the memory.

        Any other scaling has nothing to fit. A dimension whose deviation is below the root mean square of all
        deviations is divided by that instead. Full standardising would blow up what hardly ever varies (a rare word's
        place in a bag of words) into the loudest input of all, and divide a constant by zero.
        """
        if self.spec.scaling != "standard":
            return
        mean, deviation = _spread(views)
        usual = float(np.sqrt(np.mean(deviation**2)))
        deviation = np.maximum(deviation, usual) if usual > 0 else np.ones_like(deviation)
        self.mean.copy_(torch.from_numpy(mean))
        self.deviation.copy_(torch.from_numpy(deviation))

    def forward(self, vectors: Tensor, owners: Tensor | None = None) -> Tensor:
        """(n, inputs) features to (n, outputs). A zero vector (an empty text) stays zero under "unit".

        Args:
            vectors: The features.
            owners: (n,) the item, from 0, that each row is a part of, where items have several: what dropout leaves out
                of the inputs is then the same for all rows of an item.
        """
        if self.spec.scaling == "unit":
            vectors = nn.functional.normalize(vectors, dim=-1)
        elif self.spec.scaling == "standard":
            vectors = (vectors - self.mean) / self.deviation
        if owners is None or not self.training or self.spec.dropout == 0 or not len(vectors):
            vectors = self.dropout(vectors)
        else:
            vectors = vectors * self.dropout(vectors.new_ones(int(owners[-1]) + 1, vectors.shape[1]))[owners]
        result: Tensor = self.layers(vectors)
        if self.shortcut is not None:
            result = result + self.shortcut(vectors)
        return result if self.norm is None else self.norm(result)


def _spread(views: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation (of the population) of each column, in float64."""
    # Two passes: sums of squares, from which one would do, lose the deviation of a column that is far from zero.

    def mean_of(number: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> NDArray[np.float64]:
        total = np.zeros(views[0].shape[1])
        for view in views:
            for start in range(0, len(view), _BLOCK):
                total += number(view[start : start + _BLOCK].astype(np.float64)).sum(axis=0)
        return total / sum(map(len, views))

    mean = mean_of(lambda block: block)
    return mean, np.sqrt(mean_of(lambda block: (block - mean) ** 2))


def _layers(spec: HeadSpec) -> nn.Sequential:
    widths = [spec.inputs, *spec.hidden]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers.append(nn.Linear(before, after))
        if spec.layer_norm:
            layers.append(nn.LayerNorm(after))
        layers += [_ACTIVATIONS[spec.activation](), nn.Dropout(spec.dropout)]
    return nn.Sequential(*layers, nn.Linear(widths[-1], spec.outputs))


Inputs = Tensor | Mapping[str, Tensor]
"""What enters a backbone's forward pass for a batch: one tensor or several by name, the first axis the batch."""


class PromptInputs(dict[str, Any]):
    """The inputs of a batch of texts under several prompts, by prompt: a text's vector is the mean over them."""


LENGTHS = "lengths"
"""The name of an input that says how long each sequence of a padded batch is; it stays on the CPU."""


def to_device(inputs: Inputs, device: str | torch.device) -> Inputs:
    """A collated batch on `device`; out of pinned memory it is copied while the device still computes."""
    # What is called "lengths" stays on the CPU: packing sequences needs it there, and to ask a GPU for it would be to
    # wait until it has done all its work.
    if isinstance(inputs, Tensor):
        return inputs.to(device, non_blocking=True)
    if isinstance(inputs, PromptInputs):
        return PromptInputs({prompt: to_device(of_prompt, device) for prompt, of_prompt in inputs.items()})
    return {
        name: tensor if name == LENGTHS else tensor.to(device, non_blocking=True) for name, tensor in inputs.items()
    }


@dataclass(frozen=True)
class TowerReader:
    """How pictures or texts become what a network takes: no weights, so copies of a tower share it. Thread-safe.

    It is the same in training and in use: augmentation changes the picture, or the words, before or after it.

    Attributes:
        family: The library that it is of, a key of `visir.encoders.families.PRETRAINED_TOWERS`; of a network from
            scratch its kind.
        modality: What it reads.
        prepare: From upright RGB images of PIL, or texts, to an entry for each.
        collate: From those to one batch on the CPU: stacked, or padded to the longest.
        values: Everything in it that changes the numbers, for the encoder's card.
        limit: As `Encoder.text_limit`.
        text_inputs: What `prepare` and `collate` make of texts, made without PyTorch; None where that cannot be.
        levels: Turns pictures as bytes, which `prepare_levels` gives, into what `prepare` gives; None where there is no
            such form.
        prepare_levels: From images to bytes (3, H, W).
        prepare_sized: As `Backbone.prepare_sized`, where that is another way.
    """

    family: str
    modality: Modality
    prepare: Callable[[Sequence[Any]], list[Any]]
    collate: Callable[[Sequence[Any]], Inputs]
    values: Callable[[], dict[str, Any]]
    limit: Callable[[], TextLimit | None] = lambda: None
    text_inputs: Callable[[], TextInputs | None] = lambda: None
    levels: GreyLevels | None = None
    prepare_levels: Callable[[Sequence[Any]], list[Any]] | None = None
    prepare_sized: Callable[[Any], Any] | None = None

    def prepared(self, items: Sequence[Any], *, as_bytes: bool = False) -> list[Any]:
        """As `prepare`; on demand pictures as bytes, where there is such a form."""
        has_bytes = self.levels is not None and self.prepare_levels is not None
        return (self.prepare_levels if as_bytes and has_bytes else self.prepare)(items)  # type: ignore[misc]

    @classmethod
    def of_tokens(cls, family: str, tokens: Tokens, **others: Any) -> TowerReader:
        """What a tokenizer of transformers makes of texts."""
        known = {"values": tokens.values, "limit": tokens.text_limit, "text_inputs": tokens.text_inputs}
        return cls(family, "text", tokens.ids, tokens.collate, **{**known, **others})


def stacked_pixels(prepared: Sequence[Any]) -> Tensor:
    """(n, …) of n arrays."""
    return torch.from_numpy(np.stack(prepared))


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


class Backbone(nn.Module, ABC):
    """A network of one modality and its reader: images or texts in, feature vectors out.

    Preparing is split from the forward pass so that threads can do it while the model computes. An encoder is made of
    these, and they are what is tuned, adapted, compiled, exported and saved.

    Attributes:
        kind: Its key in `visir.encoders.families.BACKBONES`.
        outputs: The width of its features.
        as_bytes: Whether pictures are prepared as bytes, for a GPU, where there is such a form; `forward` takes either,
            to the same bits (`GreyLevels`).
    """

    kind: ClassVar[str]
    outputs: int
    as_bytes: bool = False

    def __init__(self, reader: TowerReader | None = None) -> None:
        # None where `reader` looks it up in other modules, of which a copy has its own.
        super().__init__()
        self._reader = reader

    @property
    def reader(self) -> TowerReader:
        """How inputs become what the network takes."""
        assert self._reader is not None, "given, or looked up"
        return self._reader

    @property
    def modality(self) -> Modality:
        """What it reads."""
        return self.reader.modality

    def prepare(self, item: Any) -> Any:
        """One upright RGB PIL image, or one text, to what enters the forward pass. Pure, cheap and thread-safe."""
        return self.reader.prepared([item], as_bytes=self.as_bytes)[0]

    def prepare_all(self, items: Sequence[Any]) -> list[Any]:
        """As `prepare`, of several images or texts; never as bytes."""
        return self.reader.prepare(items)

    def prepare_sized(self, item: Any) -> Any:
        """As `prepare`, for a picture that a random crop has brought to the input's size: not resized or cut again."""
        return (self.reader.prepare_sized or self.prepare)(item)

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would be truncated; none where nothing is (`Encoder.truncate`)."""
        limit = self.reader.limit()
        return list(texts) if limit is None else limit.truncate(texts, ending)

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """Several prepared items to one batch on the CPU."""
        return self.reader.collate(prepared)

    @abstractmethod
    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs) features of a batch, on the device of the weights."""

    def preprocessing(self) -> dict[str, Any]:
        """Everything between an input and the network, for the encoder's card."""
        return self.reader.values()

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Plain values from which `load` builds the same architecture; part of a checkpoint's `visir.json`."""

    def files(self) -> dict[str, bytes]:
        """By relative POSIX path, the files that `load` needs: no weights that matter (a vocabulary)."""
        return {}

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """The architecture that `spec` describes, its weights still to be put in; `folder` has the `files`."""

    def save(self, folder: Path) -> None:
        """Write the files into `folder`, which exists."""
        for name, content in self.files().items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    def pretrained_modules(self) -> Sequence[nn.Module]:
        """The modules whose weights came trained (an ImageNet network, GloVe vectors): fixed in a first phase."""
        return ()

    def checkpoint_gradients(self) -> None:
        """Keep fewer activations in training and compute them again (Chen et al. 2016)."""
        raise no_checkpointing(f"a tower of kind {self.kind!r}")

    def text_side(self) -> TextSide | None:
        """See `TextSide`; None where PyTorch's libraries alone can make the inputs."""
        reader = self.reader.text_inputs()
        if reader is None:
            return None
        [name, *more] = reader.names

        def inputs(texts: Sequence[str]) -> Mapping[str, Tensor]:
            batch = self.collate(self.prepare_all(texts))
            return {name: batch} if isinstance(batch, Tensor) else batch

        takes_tensor = not more and isinstance(self.collate(self.prepare_all(["a"])), Tensor)
        return TextSide(nn.Sequential(OneInput(name), self) if takes_tensor else self, reader, inputs)


def no_checkpointing(name: str) -> EncoderError:
    """The error for a model that cannot compute its activations again."""
    return EncoderError(
        f"checkpointing: {name} has no switch for computing activations again.",
        hint="leave it out; optimiser.chunk (GradCache) bounds the memory of any model",
        code="no-switch-computing-activations",
    )


class Tower(Backbone):
    """A backbone with a head, and so a backbone again; without one, a head over vectors that a frozen encoder gave and
    the store keeps."""

    kind: ClassVar[str] = "towers"

    def __init__(self, backbone: Backbone | None, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.outputs = head.spec.outputs

    @property
    def reader(self) -> TowerReader:
        """That of the backbone."""
        return own_backbone(self.backbone).reader

    @property
    def inputs(self) -> int:
        """The length of the features that it takes."""
        return self.head.spec.inputs

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs) vectors of a batch; not normalised."""
        vectors: Tensor = self.head(inputs if self.backbone is None else self.backbone(inputs))
        return vectors

    def project(self, vectors: Tensor) -> Tensor:
        """(n, outputs) vectors from those of a frozen encoder, in use."""
        projected: Tensor = self.head(vectors)
        return projected

    def spec(self) -> dict[str, Any]:
        """The shapes of backbone and head."""
        backbone = own_backbone(self.backbone)
        return {"head": self.head.spec.to_dict(), "backbone": {"kind": backbone.kind, **backbone.spec()}}

    def files(self) -> dict[str, bytes]:
        """Those of the backbone."""
        return own_backbone(self.backbone).files()

    @classmethod
    def load(cls, folder: Path, spec: Mapping[str, Any]) -> Self:
        """See `Backbone.load`."""
        known = dict(spec["backbone"])
        module, _, name = BACKBONES.get(known.pop("kind")).partition(":")
        backbone: Backbone = getattr(import_module(module), name).load(folder, known)
        return cls(backbone, Head(HeadSpec.from_dict(spec["head"])))

    def pretrained_modules(self) -> Sequence[nn.Module]:
        """Those of the backbone."""
        return () if self.backbone is None else self.backbone.pretrained_modules()

    def checkpoint_gradients(self) -> None:
        """In the backbone."""
        own_backbone(self.backbone).checkpoint_gradients()


def own_backbone(backbone: Backbone | None) -> Backbone:
    """The backbone of a tower that is known to have one."""
    assert backbone is not None, "a tower without a backbone has a frozen encoder"
    return backbone


# What backbones over pixels share: resize and crop on the way in, normalisation on the device.


class PixelBackbone(Backbone):
    """A backbone whose input is a square of `size` × `size` pixels, as bytes until it is on the device."""

    # A quarter of the memory traffic of floats, and the threads that prepare do no arithmetic.

    _scale: Tensor
    _shift: Tensor

    def __init__(self, size: int, shorter: int) -> None:
        made = ImageInput((size, size), "imagenet", "crop", shorter, "bilinear")

        def sized(image: Image) -> NDArray[np.uint8]:
            return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))

        def pixels(images: Sequence[Image]) -> list[NDArray[np.uint8]]:
            for image in images:
                check_sliver(image, made.shorter)
            return [np.ascontiguousarray(made.prepare(image).transpose(2, 0, 1)) for image in images]

        super().__init__(TowerReader(self.kind, "image", pixels, stacked_pixels, made.to_dict, prepare_sized=sized))
        self.size = size
        mean, deviation = (torch.tensor(values, dtype=torch.float64) for values in NORMALISATIONS["imagenet"])
        # (p/255 - m)/s = p·1/(255 s) - m/s; constants, so they are no part of a checkpoint.
        self.register_buffer("_scale", (1 / (255 * deviation)).float().view(3, 1, 1), persistent=False)
        self.register_buffer("_shift", (mean / deviation).float().view(3, 1, 1), persistent=False)

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, outputs) features of (n, 3, size, size) bytes."""
        if not isinstance(inputs, Tensor):
            raise EncoderError(f"{self.kind} takes one tensor of pixels, not {sorted(inputs)}.")
        # Channels last is the layout in which convolutions on CPU and tensor cores are fastest.
        pixels = inputs.to(self._scale.dtype).contiguous(memory_format=torch.channels_last)
        return self.features(pixels * self._scale - self._shift)

    @abstractmethod
    def features(self, pixels: Tensor) -> Tensor:
        """(n, outputs) features of (n, 3, size, size) normalised pixels."""


# A head over several vectors for each item: each is brought into the common space by itself (late interaction).

VECTORS, PRESENT, WHOLE = "vectors", "present", "whole"
"""Names of the inputs of a `SetTower`: the (m, inputs) vectors of all items, one after another; (n, t) booleans, row i
beginning with as many True as item i has vectors; and, for a tower that knows wholes, (n, whole inputs)."""
SHARE = 0.3
"""How much of a vector's own part is added to that of the whole, at the beginning; it is learnt."""


class SetTower(Tower):
    """A head over the sets of vectors that a frozen encoder of form "multi-vector" gave."""

    # With a second head, `whole`, an item also has one vector of all of it, and each of its vectors becomes
    #     share · head(its own features) + whole(those of the item)        brought to length 1
    # In training, what dropout leaves out of the inputs is the same for all vectors of an item: a feature that is
    # missing at one place and there at the next is hardly missing.

    def __init__(self, head: Head, whole: Head | None = None) -> None:
        super().__init__(None, head)
        self.whole = whole
        self.share = None if whole is None else nn.Parameter(torch.tensor(SHARE))

    @property
    def inputs(self) -> int:
        """The length of the vectors of the frozen encoder: of a part, and of the whole behind it."""
        return self.head.spec.inputs + (0 if self.whole is None else self.whole.spec.inputs)

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, t, dimension) vectors of length 1, rows of zeros after the last one of an item."""
        assert not isinstance(inputs, Tensor), "sets of vectors come with the places that they take"
        present = inputs[PRESENT]
        owners = torch.repeat_interleave(torch.arange(len(present), device=present.device), present.sum(1))
        vectors = self.head(inputs[VECTORS], owners)
        if self.whole is not None:
            vectors = self.share * vectors + self.whole(inputs[WHOLE])[owners]
        vectors = functional.normalize(vectors, dim=-1)
        sets = vectors.new_zeros(*present.shape, vectors.shape[-1])
        sets[present] = vectors
        return sets

    def project(self, vectors: Tensor) -> Tensor:
        """(n, dimension) vectors of length 1 from those of a frozen encoder."""
        parts = self.head(vectors[:, : self.head.spec.inputs])
        if self.whole is not None:
            parts = self.share * parts + self.whole(vectors[:, self.head.spec.inputs :])
        return functional.normalize(parts, dim=-1)

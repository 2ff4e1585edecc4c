"""What X-VLM and ALBEF share: BERT cut in two, a text tower and a tower that looks at the image, and the heads.

Source: Li et al. 2021, ALBEF (arXiv 2107.07651); Zeng et al. 2022, X-VLM (arXiv 2111.08276). The lower layers of BERT
read the text alone; the upper ones begin with the text's tokens and attend to the image's tokens (cross-attention)
between their self-attention and their feed-forward layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from visir.encoders.models.fusion_config import Sizes
from visir.encoders.models.hub import loading, read_small_files
from visir.encoders.models.image_input import ImageInput
from visir.encoders.models.pretrained_towers import random_weights, recompute_activations
from visir.encoders.models.small import CaptionTokens
from visir.encoders.models.tower_families import TokenTower
from visir.encoders.towers.base import Inputs
from visir.encoders.towers.pretrained_backbone import PretrainedTower
from visir.records import Modality

UNUSED = (
    "text_encoder.cls.*",  # masked language modelling, in pre-training
    "text_encoder.pooler.*",
    "text_encoder.embeddings.position_ids",
    "temp",
)
"""Names in the authors' files that neither vectors nor matching scores need, in both families."""


@dataclass(frozen=True)
class FusionFamily:
    """What differs between the two."""

    kind: str  # "xvlm" or "albef"
    vision_name: str  # the image tower's name in the authors' files
    # Sizes to the image tower, which takes pixels to tokens (n, t, vision_width), the first of them for the whole
    # image.
    build_vision: Callable[[Sizes], nn.Module]
    # The width of the text to the matching head (its second output is the logit of "match").
    build_matching: Callable[[int], nn.Module]
    # The name of one of its weights, to the name in the authors' files.
    vision_key: Callable[[str], str] = lambda key: key
    unused: Sequence[str] = ()  # further names in the authors' files that are used in training only


class FusionModel(nn.Module):
    """Both towers, their projections, the fusion layers and the matching head."""

    def __init__(self, family: FusionFamily, sizes: Sizes) -> None:
        super().__init__()
        self.family, self.sizes = family, sizes
        width = int(sizes.text["hidden_size"])
        self.vision = family.build_vision(sizes)
        self.vision_proj = nn.Linear(sizes.vision_width, sizes.dimension)
        self.text = _text_layers(sizes)
        self.text_proj = nn.Linear(width, sizes.dimension)
        self.fusion = _fusion_layers(sizes)
        self.itm_head = family.build_matching(width)

    def official_names(self) -> dict[str, str]:
        """Each weight's name here, to its name in the authors' files."""
        fused = int(self.sizes.text["fusion_layer"])
        return {key: _official(key, self.family, fused) for key in self.state_dict()}

    def expected_shapes(self) -> dict[str, Sequence[int]]:
        """The shape of every weight, by its name in the authors' files."""
        names = self.official_names()
        return {names[key]: tuple(value.shape) for key, value in self.state_dict().items()}

    def take(self, state: Mapping[str, Tensor]) -> None:
        """Copy weights from the authors' names; they must be there (`check_weights`)."""
        self.load_state_dict({key: state[name] for key, name in self.official_names().items()})

    def match(self, words: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        """(n,) logits of "match" of n texts with one image."""
        # image: (t, vision_width) tokens of the image, whose keys and values are computed once and broadcast.
        states = self.fusion(encoder_embeds=words, attention_mask=mask, encoder_hidden_states=image[None])
        logits: Tensor = self.itm_head(states.last_hidden_state[:, 0, :])[:, 1]
        return logits


def _text_layers(sizes: Sizes) -> nn.Module:
    from transformers import BertConfig, BertModel

    settings = {**_text_settings(sizes), "num_hidden_layers": sizes.text["fusion_layer"]}
    model: nn.Module = BertModel(BertConfig(**settings), add_pooling_layer=False)
    return model


def _fusion_layers(sizes: Sizes) -> nn.Module:
    """The upper layers, as BLIP's text model (which descends from this one), entered behind its embeddings."""
    from transformers import BlipTextConfig, BlipTextModel

    settings = _text_settings(sizes)
    layers = int(sizes.text["num_hidden_layers"]) - int(sizes.text["fusion_layer"])
    # is_decoder is what gives the layers cross-attention there; texts are not masked causally unless asked for.
    settings |= {"num_hidden_layers": layers, "encoder_hidden_size": sizes.vision_width, "is_decoder": True}
    settings |= {"vocab_size": 1, "pad_token_id": 0, "max_position_embeddings": 1}
    model = BlipTextModel(BlipTextConfig(**settings), add_pooling_layer=False)
    model.embeddings = None
    return model  # type: ignore[no-any-return]


def _text_settings(sizes: Sizes) -> dict[str, Any]:
    settings = {key: value for key, value in sizes.text.items() if key != "fusion_layer"}
    return {**settings, "attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}


def _official(key: str, family: FusionFamily, fused: int) -> str:
    """ "fusion.encoder.layer.0.output.dense.bias" is layer 6 there, where `fused` is 6."""
    part, _, name = key.partition(".")
    if part == "vision":
        return f"{family.vision_name}.{family.vision_key(name)}"
    if part == "text":
        return f"text_encoder.{name}"
    if part == "fusion":
        layer, _, name = name.removeprefix("encoder.layer.").partition(".")
        return f"text_encoder.encoder.layer.{int(layer) + fused}.{name}"
    return key


# The towers of X-VLM and ALBEF: the authors' preprocessing, and one of the two towers with its projection.

FAMILIES = {"xvlm": "visir.encoders.models.xvlm", "albef": "visir.encoders.models.albef"}
"""Kind to the module whose `FAMILY` it is."""


class _Projected(nn.Module):
    """A tower and its projection; the vector is the projection of the tower's first token."""

    def __init__(self, tower: nn.Module, proj: nn.Module) -> None:
        super().__init__()
        self.tower: Any = tower
        self.proj = proj

    def tokens(self, inputs: Inputs) -> Tensor:
        """(n, t, width): everything the tower says of each input."""
        if isinstance(inputs, Tensor):
            patches: Tensor = self.tower(inputs)
            return patches
        words: Tensor = self.tower(**inputs).last_hidden_state
        return words

    def forward(self, inputs: Inputs) -> Tensor:
        vectors: Tensor = self.proj(self.tokens(inputs)[:, 0, :])
        return vectors


class _FusionTower(PretrainedTower):
    """What the two towers have in common."""

    family: ClassVar[str] = "fusion"
    network: _Projected

    def __init__(self, model: FusionModel) -> None:
        self.kind, self.sizes, self.outputs = model.family.kind, model.sizes, model.sizes.dimension


class FusionImageTower(_FusionTower):
    """Images squeezed to a square (bicubic), normalised with CLIP's mean and deviation."""

    modality: Modality = "image"

    def __init__(self, model: FusionModel) -> None:
        super().__init__(model)
        self.network = _Projected(model.vision, model.vision_proj)
        side = self.sizes.image
        self.input = ImageInput(size=(side, side), normalise="clip", resize="squash", interpolation="bicubic")

    def prepare(self, items: Sequence[Any]) -> list[Any]:
        """uint8 (H, W, 3) of each image."""
        return [self.input.prepare(image) for image in items]

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """float32 (n, 3, H, W)."""
        return torch.from_numpy(self.input.batch(prepared))

    def values(self) -> dict[str, Any]:
        """How images become inputs."""
        return self.input.to_dict()

    def spec(self) -> dict[str, Any]:
        """The sizes."""
        return {"model": self.kind, "sizes": self.sizes.to_dict()}

    def files(self) -> dict[str, bytes]:
        """None: the sizes say everything."""
        return {}

    def checkpoint_gradients(self) -> None:
        """timm's own switch."""
        self.network.tower.set_grad_checkpointing(True)


class FusionTextTower(TokenTower, _FusionTower):
    """Texts as plain captions through BERT's uncased tokenizer and the lower layers."""

    def __init__(
        self, model: FusionModel, files: dict[str, bytes], *, max_length: int, max_words: int, template: str
    ) -> None:
        super().__init__(model)
        self.network = _Projected(model.text, model.text_proj)
        self._files = files
        self._options = {"max_length": max_length, "max_words": max_words, "template": template}
        self.tokens = CaptionTokens(
            files,
            vocabulary=int(self.sizes.text["vocab_size"]),
            positions=int(self.sizes.text["max_position_embeddings"]),
            max_length=max_length,
            max_words=max_words,
            template=template,
        )

    def spec(self) -> dict[str, Any]:
        """The sizes, and how long a caption may be."""
        return {"model": self.kind, "sizes": self.sizes.to_dict(), **self._options}

    def files(self) -> dict[str, bytes]:
        """The vocabulary."""
        return dict(self._files)

    def checkpoint_gradients(self) -> None:
        """transformers' own switch."""
        recompute_activations(self.network.tower, f"the text tower of {self.kind}")


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedTower:
    """One tower with random weights, from the `files` of a tower that lie in `folder`."""
    with loading(str(folder), folder), random_weights():
        model = FusionModel(_family(str(spec["model"])), Sizes.from_dict(spec["sizes"]))
        if modality == "image":
            return FusionImageTower(model)
        options = {key: spec[key] for key in ("max_length", "max_words", "template")}
        return FusionTextTower(model, read_small_files(folder), **options)


def _family(kind: str) -> FusionFamily:
    family: FusionFamily = import_module(FAMILIES[kind]).FAMILY
    return family

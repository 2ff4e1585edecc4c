"""X-VLM and ALBEF: BERT cut in two, a text tower and a tower that looks at the image, and a matching head.

Source: Li et al. 2021, ALBEF (arXiv 2107.07651); Zeng et al. 2022, X-VLM (arXiv 2111.08276). The lower layers of BERT
read the text alone; the upper ones begin with the text's tokens and attend to the image's tokens (cross-attention)
between their self-attention and their feed-forward layer.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

import orjson
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from visir.encoders.checkpoints import read_torch_file
from visir.encoders.cross_encoder import Tokens
from visir.encoders.devices import pick_device
from visir.encoders.intake import Pixels
from visir.encoders.models.hub import hash_state, loading, positive_number, read_small_files, template_of
from visir.encoders.models.image_processors import ImageInput
from visir.encoders.models.precision import inference
from visir.encoders.models.small import CaptionTokens, find_vocabulary
from visir.encoders.models.towers import MatchingHead, PretrainedTowersEncoder
from visir.encoders.towers.base import Inputs, TowerReader, to_device
from visir.encoders.towers.pretrained_backbone import (
    PretrainedBackbone,
    random_weights,
    recompute_activations,
)
from visir.errors import EncoderError, raise_faults
from visir.files import read_json, read_text, user_path
from visir.options import split_options
from visir.records import EncoderCard, Modality

BERT: Mapping[str, Any] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "vocab_size": 30522,
    "pad_token_id": 0,
    "fusion_layer": 6,
}
"""BERT-base, its upper half given cross-attention, under the names of the authors' `config_bert.json`."""

_PARTS = ("vision_config", "text_config", "bert_config")


@dataclass(frozen=True)
class Sizes:
    """What decides the architecture beside the family; plain values."""

    image: int  # side of the square input in pixels
    vision: Mapping[str, Any]  # the image tower's own sizes, as the family names them
    text: Mapping[str, Any]  # BERT's, under the names of `BERT`; layers from `fusion_layer` on look at the image
    dimension: int = 256  # of the common space

    @property
    def vision_width(self) -> int:
        """The width of an image token."""
        return int(self.vision["vision_width"])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`."""
        return cls(**values)


def read_config(name: str, path: Path) -> dict[str, Any]:
    """A configuration file of the authors' kind: YAML or JSON of plain values."""
    # `vision_config`, `text_config` and `bert_config` may be paths of further files. These are relative to the folder
    # that the authors' code runs in, which is above the folder `configs`: they are looked for there and beside the
    # file.
    values = _mapping(name, path)
    faults = []
    for part in _PARTS:
        if not isinstance(values.get(part), str):
            continue
        if Path(values[part]).is_absolute() or ".." in Path(values[part]).parts:
            faults.append(f"{part}: {values[part]!r} lies elsewhere")
            continue
        tried = [folder / values[part] for folder in (path.parent, path.parent.parent)]
        file = next((candidate for candidate in tried if candidate.is_file()), None)
        if file is None:
            faults.append(f"{part}: none of {', '.join(map(str, tried))} is there")
        else:
            values[part] = _mapping(name, file)
    raise_faults(EncoderError, f"{name}: {path} names files that are not there", faults, hint="keep them beside it")
    return values


def scalars(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint's own configuration says by itself, without paths on the machine it was trained on."""
    return {key: value for key, value in config.items() if key not in _PARTS or isinstance(value, Mapping)}


def merged(name: str, part: str, defaults: Mapping[str, Any], values: Any) -> dict[str, Any]:
    """`defaults` with those of their keys that the mapping `given` (the value of `part`) has; other keys are left."""
    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        raise EncoderError(f"{name}: {part} is {values!r}, not a mapping.", hint="see the authors' configuration files")
    return {key: values.get(key, value) for key, value in defaults.items()}


def whole_numbers(name: str, values: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Raise one `EncoderError` for every one of `keys` that is there and is no positive whole number."""
    faults = [
        f"{key}: {values[key]!r} is not a positive whole number"
        for key in keys
        if key in values and not (type(values[key]) is int and values[key] > 0)
    ]
    raise_faults(EncoderError, f"{name}: faults in the configuration", faults)


def _mapping(name: str, path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise EncoderError(
            f"{name}: there is no configuration file {path}.",
            hint="config=FILE, YAML or JSON",
            code="no-configuration-file",
        )
    # YAML is not quite a superset: PyYAML reads JSON's 1e-12 as a text.
    values = read_json(path) if path.suffix == ".json" else _yaml(path)
    if not isinstance(values, dict):
        raise EncoderError(f"{path}: holds {type(values).__name__}, not keys and values.")
    return values


def _yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(read_text(path))
    except yaml.YAMLError as fault:
        raise EncoderError(f"{path}: not YAML: {str(fault).splitlines()[0]}", hint="plain values only") from fault


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
    # The architecture of a checkpoint, the tokens of a text unless something says otherwise, and further options.
    sizes_of: Callable[[FusionSource], Sizes]
    max_tokens: int
    options: tuple[str, ...] = ()
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


def image_tower(model: FusionModel) -> PretrainedBackbone:
    """Images squeezed to a square (bicubic), normalised with CLIP's mean and deviation."""
    side = model.sizes.image
    made = ImageInput(size=(side, side), normalise="clip", resize="squash", interpolation="bicubic")
    return PretrainedBackbone(
        _Projected(model.vision, model.vision_proj),
        TowerReader(
            "fusion",
            "image",
            prepare=lambda images: [made.prepare(image) for image in images],
            collate=lambda prepared: torch.from_numpy(made.batch(prepared)),
            values=made.to_dict,
        ),
        outputs=model.sizes.dimension,
        options={"model": model.family.kind, "sizes": model.sizes.to_dict()},
        files=dict,  # the sizes say everything
        checkpoint=lambda network: network.tower.set_grad_checkpointing(True),
    )


def text_tower(
    model: FusionModel, files: dict[str, bytes], *, max_length: int, max_words: int, template: str
) -> PretrainedBackbone:
    """Texts as plain captions through BERT's uncased tokenizer and the lower layers."""
    kind, sizes = model.family.kind, model.sizes
    tokens = CaptionTokens(
        files,
        vocabulary=int(sizes.text["vocab_size"]),
        positions=int(sizes.text["max_position_embeddings"]),
        max_length=max_length,
        max_words=max_words,
        template=template,
    )
    limits = {"max_length": max_length, "max_words": max_words, "template": template}
    return PretrainedBackbone(
        _Projected(model.text, model.text_proj),
        TowerReader.of_tokens("fusion", tokens),
        outputs=sizes.dimension,
        options={"model": kind, "sizes": sizes.to_dict(), **limits},
        files=lambda: dict(files),
        checkpoint=lambda network: recompute_activations(network.tower, f"the text tower of {kind}"),
    )


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedBackbone:
    """One tower with random weights, from the `files` of a tower that lie in `folder`."""
    with loading(str(folder), folder), random_weights():
        model = FusionModel(FAMILIES[str(spec["model"])], Sizes.from_dict(spec["sizes"]))
        if modality == "image":
            return image_tower(model)
        options = {key: spec[key] for key in ("max_length", "max_words", "template")}
        return text_tower(model, read_small_files(folder), **options)


# Weights as a paper's own code saves them, checked name by name.

State = Mapping[str, Tensor]


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


# The matching head of X-VLM and ALBEF, as the second stage of a search.


class FusionCrossEncoder(MatchingHead):
    """The matching head of X-VLM and ALBEF."""

    # The authors' evaluation ranks by it: the `k_test` candidates of the first stage (128 on Flickr30k, 256 on COCO) by
    # this logit alone, every other candidate behind them (it scores them −100).
    # The text layers do not look at the image, so a text's tokens are what leaves them: they are computed once, and a
    # pair costs the fusion layers only.

    def image_tokens(self, batch: Sequence[Pixels]) -> list[Tokens]:
        """(1 + patches, width) of each image, behind the last layer of the image tower."""
        image: Any = self._image
        with inference(self._device):
            return list(image.network.tokens(image.collate(batch).to(self._device, self._dtype)))

    def text_tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """(length, width) of each text, behind the last of the text layers."""
        ids = self._text.prepare_all(texts)
        with inference(self._device):
            words = self._text.network.tokens(to_device(self._text.collate(ids), self._device))
            # A copy of its own for each text: a view would keep the padded batch.
            return [row[: len(tokens)].clone() for row, tokens in zip(words, ids, strict=True)]

    def logits(self, image: Tokens, texts: Sequence[Tokens]) -> Tensor:
        """See `MatchingHead`."""
        words = pad_sequence(list(texts), batch_first=True)
        lengths = torch.tensor([len(tokens) for tokens in texts], device=words.device)
        mask = (torch.arange(words.shape[1], device=words.device) < lengths[:, None]).long()
        logits: Tensor = self._model.match(words, mask, image)
        return logits


OPTIONS = ("config", "tokenizer", "max_length", "max_words", "template")
MAX_WORDS = 30
"""Both authors' evaluations cut captions to 30 words."""


@dataclass(frozen=True)
class FusionSource:
    """What was found in the checkpoint, and what was asked for."""

    name: str
    state: dict[str, Tensor]  # weights under the authors' names for retrieval
    config: Mapping[str, Any]  # what the configuration file says, or else the checkpoint itself
    declared: bool  # whether `config` is a file that the user named
    options: dict[str, str]  # those in the encoder's name


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> PretrainedTowersEncoder:
    """Load `xvlm:FILE` or `albef:FILE`, a checkpoint of the authors' code."""
    # Options in the name: `config` (the configuration it was trained with, YAML or JSON, where sizes differ from the
    # published models'), `tokenizer` (vocab.txt of bert-base-uncased or its folder; beside the checkpoint otherwise),
    # `max_length` (tokens; 40 of X-VLM and 30 of ALBEF unless the configuration says otherwise), `max_words` (30),
    # `template`; of ALBEF `image_size` (other than the weights' own: position embeddings are resized).
    # Weights, and the sizes that do not show in them, make the card's hash; weights used in training only do not.
    del revision  # refused by `load`: a file has none
    family = FAMILIES[name.partition(":")[0]]
    bare, chosen = split_options(name, (*OPTIONS, *family.options), error=EncoderError)
    device, template = pick_device(device), template_of(name, chosen)
    path = user_path(bare.removeprefix(f"{family.kind}:"))
    with loading(name):
        state, own = read_torch_file(path, name)
        config = read_config(name, user_path(chosen["config"])) if "config" in chosen else scalars(own)
        source = FusionSource(name, for_retrieval(state), config, "config" in chosen, chosen)
        sizes = family.sizes_of(source)
        files = find_vocabulary(name, chosen.get("tokenizer"), path)
        model = build(family, source, sizes).to(device, getattr(torch, dtype))
        image = image_tower(model)
        text = text_tower(
            model,
            files,
            max_length=positive_number(name, chosen, "max_length") or _tokens(source, family.max_tokens),
            max_words=positive_number(name, chosen, "max_words") or MAX_WORDS,
            template=template,
        )
        card = EncoderCard(
            name=name,
            family=family.kind,
            weights=_fingerprint(model, source.state),
            image_preprocessing=image.preprocessing(),
            text_preprocessing=text.preprocessing(),
            dtype=dtype,
        )
    temperature = float(source.state["temp"]) if "temp" in source.state else None
    # Vectors are the projections of the first token of either tower before normalisation; their cosine is what the
    # authors' evaluation orders the first stage by, and the matching head is its second stage.
    encoder = PretrainedTowersEncoder(card, {"image": image, "text": text}, device=device, temperature=temperature)
    encoder.cross_encoder = FusionCrossEncoder(card, model.eval(), image, text, device=device)
    return encoder


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


# ALBEF: ViT-B/16 at 384 pixels. Source: Li et al. 2021, Align before Fuse (NeurIPS; arXiv 2107.07651), and the layout
# of the checkpoints that its authors publish.

VIT: Mapping[str, Any] = {
    "vision_width": 768,
    "patch_size": 16,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
}
"""ViT-B/16. In the authors' code these numbers are fixed; here a configuration can change them (`vision_config`)."""
_POSITIONS = "visual_encoder.pos_embed"


class VitTokens(nn.Module):
    """timm's vision transformer: [CLS] and the patches behind the last norm."""

    def __init__(self, sizes: Sizes) -> None:
        from timm.models.vision_transformer import VisionTransformer

        super().__init__()
        vision = sizes.vision
        self.vit = VisionTransformer(
            img_size=sizes.image,
            patch_size=vision["patch_size"],
            embed_dim=vision["vision_width"],
            depth=vision["num_hidden_layers"],
            num_heads=vision["num_attention_heads"],
            num_classes=0,
            global_pool="",
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """(n, 1 + patches, width) of (n, 3, H, W)."""
        tokens: Tensor = self.vit.forward_features(pixels)
        return tokens

    def set_grad_checkpointing(self, enable: bool) -> None:
        """Keep fewer activations in training."""
        self.vit.set_grad_checkpointing(enable)


def _albef_sizes(source: FusionSource) -> Sizes:
    """The published sizes, changed by the configuration; the input's side is read off the weights unless declared."""
    # At another size the position embeddings are resized (bicubic), as the authors' code does before it loads them:
    # their pre-trained checkpoint is at 256 pixels, and their retrieval evaluates it at 384 (`?image_size=384`).
    config, name = source.config, source.name
    defaults = {**VIT, "vision_width": config.get("vision_width", VIT["vision_width"])}
    vision = merged(name, "vision_config", defaults, config.get("vision_config"))
    text = merged(name, "text_config", BERT, config.get("bert_config"))
    sides = {"image_res": config.get("image_res"), "embed_dim": config.get("embed_dim", 256)}
    whole_numbers(name, {key: value for key, value in sides.items() if value is not None} | vision, (*sides, *VIT))
    declared = positive_number(name, source.options, "image_size") or (sides["image_res"] if source.declared else None)
    patch, positions = vision["patch_size"], source.state.get(_POSITIONS)
    own = 384 if positions is None or positions.ndim != 3 else _side(len(positions[0]) - 1) * patch
    size = declared or own
    if size % patch:
        raise EncoderError(
            f"{name}: {size} pixels are no whole number of patches of {patch}.", code="pixels-no-whole-number"
        )
    if size != own and positions is not None:
        source.state[_POSITIONS] = _resized(positions, size // patch)
    return Sizes(int(size), vision, text, sides["embed_dim"])


def _resized(positions: Tensor, side: int) -> Tensor:
    """(1, 1 + side², width) from (1, 1 + n², width): [CLS]'s own is kept, the grid of the others is scaled."""
    before = _side(positions.shape[1] - 1)
    grid = positions[:, 1:].float().unflatten(1, (before, before)).permute(0, 3, 1, 2)
    grid = torch.nn.functional.interpolate(grid, size=(side, side), mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1].float(), grid.permute(0, 2, 3, 1).flatten(1, 2)], 1)


def _side(count: int) -> int:
    return math.isqrt(max(count, 1))


# X-VLM: a Swin transformer at 384 pixels (Liu et al. 2021); the token for the whole image is the mean of its patches.
# Source: Zeng, Zhang and Li 2022, Multi-Grained Vision Language Pre-Training (ICML; arXiv 2111.08276), and the layout
# of the checkpoints that its authors publish.

SWIN: Mapping[str, Any] = {
    "vision_width": 1024,
    "window_size": 12,
    "embed_dim": 128,
    "depths": [2, 2, 18, 2],
    "num_heads": [4, 8, 16, 32],
}
"""Swin-B, under the names of the authors' `config_swinB_384.json`."""
_PATCH = 4
_TABLE = "vision_encoder.layers.0.blocks.0.attn.relative_position_bias_table"


class SwinTokens(nn.Module):
    """timm's Swin transformer; the mean of its patches, and the patches."""

    def __init__(self, sizes: Sizes) -> None:
        from timm.models.swin_transformer import SwinTransformer

        super().__init__()
        vision = sizes.vision
        self.swin = SwinTransformer(
            img_size=sizes.image,
            patch_size=_PATCH,
            window_size=vision["window_size"],
            embed_dim=vision["embed_dim"],
            depths=tuple(vision["depths"]),
            num_heads=tuple(vision["num_heads"]),
            num_classes=0,
            drop_path_rate=0.0,
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """(n, 1 + patches, width) of (n, 3, H, W)."""
        patches = self.swin.forward_features(pixels).flatten(1, 2)
        return torch.cat([patches.mean(1, keepdim=True), patches], 1)

    def set_grad_checkpointing(self, enable: bool) -> None:
        """Keep fewer activations in training."""
        self.swin.set_grad_checkpointing(enable)


def _matching_head(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 2 * width), nn.LayerNorm(2 * width), nn.GELU(), nn.Linear(2 * width, 2))


def _vision_key(key: str) -> str:
    """timm merges patches at the beginning of a stage, the first Swin code at the end of the one before."""
    return re.sub(
        r"^layers\.(\d+)\.downsample", lambda match: f"layers.{int(match[1]) - 1}.downsample", key.removeprefix("swin.")
    )


def _xvlm_sizes(source: FusionSource) -> Sizes:
    """The published sizes, changed by the configuration; the window is read off the weights where it says nothing."""
    # The last stage is one window, so the window gives the input's side: 7, 12 and 15 are 224, 384 and 480 pixels.
    config, name = source.config, source.name
    if config.get("use_roberta") or config.get("use_clip_vit") or not config.get("use_swin", True):
        raise EncoderError(
            f"{name}: X-VLM with RoBERTa, CLIP's ViT or DeiT is not read.",
            hint="the published retrieval checkpoints have Swin-B and BERT (use_swin: True, use_roberta: False)",
        )
    vision_config = config.get("vision_config")
    table = source.state.get(_TABLE)
    defaults = dict(SWIN) if table is None else {**SWIN, "window_size": (int(len(table) ** 0.5) + 1) // 2}
    vision = merged(name, "vision_config", defaults, vision_config)
    text = merged(name, "text_config", BERT, config.get("text_config"))
    stages = len(vision["depths"])
    whole = vision["window_size"] * _PATCH * 2 ** (stages - 1)
    declared_sizes = {config["image_res"]} if source.declared and "image_res" in config else set()
    declared_sizes |= {vision_config["image_res"]} if vision_config and "image_res" in vision_config else set()
    if len(declared_sizes) > 1:
        raise EncoderError(
            f"{name}: image_res is {' and '.join(map(str, sorted(declared_sizes)))} in the configuration."
        )
    sizes = Sizes(declared_sizes.pop() if declared_sizes else whole, vision, text, config.get("embed_dim", 256))
    whole_numbers(name, {"image_res": sizes.image, "embed_dim": sizes.dimension}, ("image_res", "embed_dim"))
    return sizes


ALBEF = FusionFamily(
    kind="albef",
    sizes_of=_albef_sizes,
    max_tokens=30,
    options=("image_size",),
    vision_name="visual_encoder",
    build_vision=VitTokens,
    build_matching=lambda width: nn.Linear(width, 2),
    vision_key=lambda key: key.removeprefix("vit."),
    # The momentum copies (what they distil from) and the queues of negatives.
    unused=("visual_encoder_m.*", "text_encoder_m.*", "*_proj_m.*", "*_queue", "queue_ptr"),
)
XVLM = FusionFamily(
    kind="xvlm",
    sizes_of=_xvlm_sizes,
    max_tokens=40,
    vision_name="vision_encoder",
    build_vision=SwinTokens,
    build_matching=_matching_head,
    vision_key=_vision_key,
    # Two tables that follow from the sizes, and the head for boxes of pre-training.
    unused=("vision_encoder.*.relative_position_index", "vision_encoder.*.attn_mask", "bbox_head.*"),
)
FAMILIES: Mapping[str, FusionFamily] = {family.kind: family for family in (ALBEF, XVLM)}

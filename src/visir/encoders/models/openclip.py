"""Models of `open_clip`: CLIP with ResNets and transformers, CoCa, SigLIP, and whatever else its zoo holds."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from torch import nn

from visir.encoders.devices import COMPILED, dtype_on_card, of_torch, pick_device
from visir.encoders.intake import TextLimit
from visir.encoders.loading import hub_unreachable
from visir.encoders.models.hub import check_configurations, check_openclip, hash_state, loading, template_of
from visir.encoders.models.image_processors import GreyLevels, check_sliver, ramp
from visir.encoders.models.text_inputs import (
    TOKENIZER,
    FastTokens,
    TextInputs,
    TokenRules,
    check_vocabulary,
    inputs_of_tokenizer,
    token_counts,
    vocabulary_hash,
)
from visir.encoders.models.towers import PretrainedTowersEncoder, bias_of, check_pictures, temperature
from visir.encoders.towers.base import Inputs, TowerReader, no_checkpointing, stacked_pixels
from visir.encoders.towers.pretrained_backbone import (
    PretrainedBackbone,
    part,
    random_weights,
    recompute_activations,
)
from visir.errors import EncoderError, nearest
from visir.files import read_json
from visir.options import split_options
from visir.records import EncoderCard, Modality
from visir.storage import Scratch
from visir.storage.disk import files_below

if TYPE_CHECKING:
    from PIL.Image import Image


# The tokenizers of open_clip, without open_clip: its own of CLIP, and those it takes from transformers.

_CLEANINGS = ("lower", "whitespace", "canonicalize")
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)"
"""What `SimpleTokenizer` takes for a word."""


def openclip_inputs(tokenizer: Any, template: str) -> TextInputs | None:
    """What a tokenizer of open_clip gives, by the library `tokenizers` alone."""
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer, get_clean_fn

    cleaning = next((name for name in _CLEANINGS if get_clean_fn(name) is getattr(tokenizer, "clean_fn", None)), None)
    if cleaning is None:
        return None
    rules = TokenRules(
        names=("input_ids",),
        limit=int(tokenizer.context_length),
        padded=True,
        side="right",
        padding=0,
        template=template,
        cleaning=f"open_clip {cleaning}",
    )
    if type(tokenizer) is SimpleTokenizer:
        if tokenizer.reduction_fn is not None or len(tokenizer.all_special_ids) > 2 or cleaning == "whitespace":
            return None
        own_marks = replace(rules, cleaning="open_clip lower, CLIP's marks") if cleaning == "lower" else rules
        return FastTokens({"rules": asdict(own_marks)}, {TOKENIZER: _simple_tokenizer(tokenizer)})
    if type(tokenizer) is not HFTokenizer or tokenizer.tokenizer_mode or tokenizer.strip_sep_token:
        return None
    own = tokenizer.tokenizer
    return inputs_of_tokenizer(own, replace(rules, side=own.padding_side, padding=int(own.pad_token_id)))


def _simple_tokenizer(tokenizer: Any) -> bytes:
    """`SimpleTokenizer` as the JSON of the library `tokenizers`: the same words, the same merges."""
    start, end = ((tokenizer.decoder[number], number) for number in (tokenizer.sot_token_id, tokenizer.eot_token_id))
    split = {"type": "Split", "pattern": {"Regex": _WORDS}, "behavior": "Removed", "invert": True}
    levels = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    marks = [(tokenizer.decoder[number], number) for number in tokenizer.all_special_ids]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    content = {
        "version": "1.0",
        "added_tokens": [{"id": number, "content": mark, **flags} for mark, number in marks],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, levels]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [_mark(start[0]), {"Sequence": {"id": "A", "type_id": 0}}, _mark(end[0])],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {mark: {"id": mark, "ids": [number], "tokens": [mark]} for mark, number in (start, end)},
        },
        "model": {
            "type": "BPE",
            "end_of_word_suffix": "</w>",
            "vocab": tokenizer.encoder,
            "merges": [list(pair) for pair in tokenizer.bpe_ranks],
        },
    }
    return orjson.dumps(content)


def _mark(content: str) -> dict[str, Any]:
    return {"SpecialToken": {"id": content, "type_id": 0}}


CONFIG_FILE = "open_clip_config.json"
TEXT_TOWER = "text_tower"  # the folder with the configuration of a text tower from transformers


class _Encode(nn.Module):
    """One of the two methods of a model of open_clip, and the weights that it needs."""

    def __init__(self, model: Any, method: str) -> None:
        super().__init__()
        self.model: Any = model
        self._method = method

    def forward(self, inputs: Inputs) -> torch.Tensor:
        vectors: torch.Tensor = getattr(self.model, self._method)(inputs, normalize=False)
        return vectors


def _tower(
    model: Any,
    configuration: dict[str, Any],
    reader: TowerReader,
    options: Mapping[str, Any],
    files: Callable[[], dict[str, bytes]],
) -> PretrainedBackbone:
    """One tower of a model, with the weights that it needs."""
    left_out: dict[str, Any] = {"without": ("visual", "logit_scale", "logit_bias", "text_decoder")}
    is_image = reader.modality == "image"
    own = part(model, **({"only": ("visual",)} if is_image else left_out))
    return PretrainedBackbone(
        _Encode(own, f"encode_{reader.modality}"),
        reader,
        outputs=int(configuration["embed_dim"]),
        options=options,
        files=files,
        checkpoint=_recompute_visual if is_image else _recompute_text,
    )


def _recompute_visual(network: _Encode) -> None:
    """Compute activations again; open_clip can do it for transformers only."""
    visual = network.model.visual
    if not hasattr(visual, "transformer"):
        raise no_checkpointing(f"a {type(visual).__name__} of open_clip")
    visual.set_grad_checkpointing(True)


def _recompute_text(network: _Encode) -> None:
    text = network.model if getattr(network.model, "text", None) is None else network.model.text
    if type(text).__name__ == "HFTextEncoder":
        recompute_activations(text.transformer, "the text tower")
    else:
        text.transformer.grad_checkpointing = True


def _configuration_file(configuration: dict[str, Any], settings: dict[str, Any]) -> dict[str, bytes]:
    """The configuration, as open_clip itself writes it."""
    content = {"model_cfg": configuration, "preprocess_cfg": settings}
    return {CONFIG_FILE: json.dumps(content, indent=2).encode()}


def image_tower(model: Any, configuration: dict[str, Any], preprocessing: Mapping[str, Any]) -> PretrainedBackbone:
    """Images through the model's own evaluation transform and `encode_image(…, normalize=False)`."""
    from open_clip.transform import PreprocessCfg, image_transform_v2
    from torchvision.transforms import Compose

    settings = json.loads(json.dumps(dict(preprocessing)))
    transform = image_transform_v2(PreprocessCfg(**settings), is_train=False)
    shortest_edge = int(np.min(settings["size"])) if settings["resize_mode"] == "shortest" else None
    sizing, last = Compose(transform.transforms[:-2]), Compose(transform.transforms[-2:])  # to a tensor, and normalised

    def pixels(image: Image) -> NDArray[np.float32]:
        check_sliver(image, shortest_edge)
        return np.asarray(transform(image).numpy(), dtype=np.float32)

    def sized(image: Image) -> NDArray[Any]:
        return np.ascontiguousarray(np.asarray(sizing(image)).transpose(2, 0, 1))

    def levels_of(images: Sequence[Image]) -> list[NDArray[Any]]:
        for image in images:
            check_sliver(image, shortest_edge)
        return [sized(image) for image in images]

    reader = TowerReader(
        "openclip",
        "image",
        prepare=lambda images: [pixels(image) for image in images],
        collate=stacked_pixels,
        values=lambda: dict(settings),
        levels=GreyLevels.of(sized, last(ramp()).numpy(), pixels),
        prepare_levels=levels_of,
    )
    return _tower(model, configuration, reader, {}, lambda: _configuration_file(configuration, settings))


def text_tower(
    model: Any, configuration: dict[str, Any], preprocessing: Mapping[str, Any], tokenizer: Any, template: str
) -> PretrainedBackbone:
    """Texts through the model's own tokenizer and `encode_text(…, normalize=False)`."""
    settings, lock = json.loads(json.dumps(dict(preprocessing))), threading.Lock()
    length = int(tokenizer.context_length)
    own_config = model.text.config if "hf_model_name" in configuration.get("text_cfg", {}) else None

    def filled(texts: Sequence[str]) -> list[str]:
        return [template.replace("{}", text) for text in texts]

    def prepare(texts: Sequence[str]) -> list[NDArray[np.int32]]:
        with lock:  # a fast tokenizer changes its padding state in place
            ids = tokenizer(filled(texts))
        return list(ids.numpy().astype(np.int32))

    def counts(texts: Sequence[str]) -> list[int]:
        with lock:
            return _token_counts(tokenizer, filled(texts))

    def files() -> dict[str, bytes]:
        """The configuration; of a tokenizer and a text tower from `transformers`, theirs too."""
        with Scratch.temporary("tokenizer") as scratch:
            folder = scratch.folder("files")
            if hasattr(tokenizer, "save_pretrained"):
                tokenizer.save_pretrained(folder)
            if own_config is not None:
                own_config.save_pretrained(folder / TEXT_TOWER)
            scratch.written("files")
            theirs = {name: (folder / name).read_bytes() for name in files_below(folder)}
        return _configuration_file(configuration, settings) | theirs

    reader = TowerReader(
        "openclip",
        "text",
        prepare=prepare,
        collate=lambda prepared: torch.from_numpy(np.stack(prepared).astype(np.int64)),
        values=lambda: {
            "tokenizer": type(tokenizer).__name__,
            "vocabulary": _hash_tokenizer(tokenizer),  # over what decides the token ids
            "template": template,
            "max_length": length,
            "padding": "max_length",
        },
        limit=lambda: TextLimit(length, counts),  # which counts both end tokens
        text_inputs=lambda: openclip_inputs(tokenizer, template),
    )
    return _tower(model, configuration, reader, {"template": template}, files)


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedBackbone:
    """One tower with random weights, from the `files` of a tower that lie in `folder`."""
    import open_clip

    content = read_json(folder / CONFIG_FILE)
    check_openclip(folder / CONFIG_FILE, content, own=True)
    configuration, preprocessing = content["model_cfg"], content["preprocess_cfg"]
    text, vision = configuration["text_cfg"], configuration["vision_cfg"]
    if modality == "image":  # the other tower has to be something; so let it be small
        text = {"context_length": 8, "vocab_size": 8, "width": 8, "heads": 1, "layers": 1}
    else:
        vision = {"image_size": 8, "patch_size": 8, "width": 8, "head_width": 8, "layers": 1}
        if "hf_model_name" in text:
            text = {**text, "hf_model_name": str(folder / TEXT_TOWER), "hf_model_pretrained": False}
    small = {"text_cfg": text, "vision_cfg": vision, "pretrained_image": False, "pretrained_text": False}
    name = f"local-dir:{folder}"
    with loading(str(folder), folder), random_weights():
        model = open_clip.create_model(name, load_weights=False, **small)
        if modality == "image":
            return image_tower(model, configuration, preprocessing)
        return text_tower(model, configuration, preprocessing, open_clip.get_tokenizer(name), str(spec["template"]))


def _token_counts(tokenizer: Any, texts: Sequence[str]) -> list[int]:
    """How many places of the context each text takes; called, either kind of tokenizer cuts to the context and pads."""
    if not hasattr(tokenizer, "tokenizer"):  # open_clip's own: a token before the text and one behind it
        return [len(tokenizer.encode(text)) + 2 for text in texts]
    clean = [tokenizer.clean_fn(text) for text in texts]
    if tokenizer.tokenizer_mode == "clips":  # start, end, and a class token at the last place
        return [count + 3 for count in token_counts(tokenizer.tokenizer, clean, special=False)]
    return token_counts(tokenizer.tokenizer, clean)


def _hash_tokenizer(tokenizer: Any) -> str:
    """Over what decides the token ids; open_clip's own tokenizer keeps its tables under other names."""
    if hasattr(tokenizer, "tokenizer"):
        return vocabulary_hash(tokenizer.tokenizer)
    tables = json.dumps([sorted(tokenizer.encoder.items()), sorted(map(list, tokenizer.bpe_ranks))])
    return hashlib.blake2b(tables.encode(), digest_size=16).hexdigest()


OPTIONS = ("template",)


@dataclass(frozen=True)
class OpenClipSource:
    """What `open_clip.create_model_from_pretrained` is told."""

    model: str  # an architecture of open_clip, "hf-hub:ORGANISATION/NAME" or "local-dir:FOLDER"
    pretrained: str | None = None  # a tag of that architecture or a file of weights; None when `model` is a place
    # Ask for the activation `x · sigmoid(1.702 x)` where the architecture's own is the exact GELU.
    quick_gelu: bool = False


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> PretrainedTowersEncoder:
    """Load `openclip:ARCHITECTURE/PRETRAINED`, `openclip:hf-hub:ORGANISATION/NAME` or a folder with
    `open_clip_config.json`."""
    # PRETRAINED is a tag (`open_clip.list_pretrained()`) or a file of weights. Option in the name: `template`.
    del revision  # refused by `load`: open_clip's hub names have none
    bare, options = split_options(name, OPTIONS, error=EncoderError)
    template = template_of(name, options)
    torch_device, torch_dtype = of_torch(device, dtype)
    torch_device = pick_device(torch_device)
    source = find_source(bare)
    with loading(name):
        card, towers, model = _load(name, source, template, torch_device, torch_dtype)
    return PretrainedTowersEncoder(
        replace(card, dtype=dtype_on_card(device, dtype)),
        towers,
        device=COMPILED if device == COMPILED else torch_device,
        temperature=temperature(model.logit_scale),
        bias=bias_of(model),
    )


def find_source(name: str) -> OpenClipSource:
    """What a name means to open_clip; unknown architectures and tags are errors with the nearest known one."""
    import open_clip

    spec = name.removeprefix("openclip:")
    if Path(spec).is_dir():
        return OpenClipSource(f"local-dir:{spec}")
    if spec.startswith(("hf-hub:", "local-dir:")):
        return OpenClipSource(spec)
    architecture, _, pretrained = spec.partition("/")
    if architecture not in open_clip.list_models():
        # OpenAI writes ViT-B/32, open_clip ViT-B-32: then the slash that parts off the weights is another one.
        meant = [model for model in open_clip.list_models() if spec.replace("/", "-").startswith(f"{model}-")]
        hint = f"did you mean {max(meant, key=len)!r}?" if meant else nearest(architecture, open_clip.list_models())
        raise EncoderError(
            f"{name}: open_clip has no architecture {architecture!r}.", hint=f"{hint}; see open_clip.list_pretrained()"
        )
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if not pretrained:
        listing = f"one of {', '.join(tags)}" if tags else "a file of weights (none are published for it)"
        raise EncoderError(f"{name}: which weights?", hint=f"openclip:{architecture}/TAG, where TAG is {listing}")
    if Path(pretrained).is_file():
        return OpenClipSource(architecture, pretrained)
    trained = open_clip.get_pretrained_cfg(architecture, pretrained)
    if not trained:
        raise EncoderError(
            f"{name}: {pretrained!r} is neither a tag of {architecture} nor a file.",
            hint=nearest(pretrained, tags) if tags else "this architecture has no published weights; name a file",
        )
    return OpenClipSource(
        architecture, pretrained, _quick_gelu(name, architecture, bool(trained.get("quick_gelu", False)))
    )


def _quick_gelu(name: str, architecture: str, trained: bool) -> bool:
    """Whether to ask for QuickGELU: OpenAI's weights, and some others, were trained with it, and are worse without."""
    # The architecture `RN50` says exact GELU, its tag `openai` says QuickGELU; open_clip 3 takes the architecture's
    # word and warns. Here the weights' word is taken. The other mismatch, weights trained without it under an
    # architecture `…-quickgelu`, cannot be mended by an option of open_clip, and is refused. (roberta-ViT-B-32 has no
    # sibling with the exact GELU that could be named instead, so there the architecture's word holds.)
    import open_clip

    built = bool(open_clip.get_model_config(architecture).get("quick_gelu", False))
    if built and not trained and architecture.endswith("-quickgelu"):
        raise EncoderError(
            f"{name}: these weights were trained with the exact GELU, and the architecture {architecture} computes "
            "QuickGELU.",
            hint=f"use openclip:{architecture.removesuffix('-quickgelu')}/{name.partition('/')[2]}",
            code="exact-gelu",
        )
    return trained and not built


def _load(
    name: str, source: OpenClipSource, template: str, device: str, dtype: str
) -> tuple[EncoderCard, dict[Modality, PretrainedBackbone], Any]:
    """The card, the towers and the whole model."""
    import open_clip

    _check_no_torchscript(name, source)
    _fetch(name, source)
    configuration = _configuration(source)
    model, _ = open_clip.create_model_from_pretrained(
        source.model, pretrained=source.pretrained, precision="fp32", force_quick_gelu=source.quick_gelu
    )
    # Neither the activation nor the number of heads shows in the weights.
    content = f"{hash_state(model.state_dict())} {json.dumps(configuration, sort_keys=True)}"
    weights = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
    tokenizer = open_clip.get_tokenizer(source.model)
    if hasattr(tokenizer, "tokenizer"):  # of transformers
        rows = getattr(getattr(model, "text", None), "vocab_size", None) or getattr(model, "vocab_size", None)
        check_vocabulary(name, tokenizer.tokenizer, rows)
    model = model.to(device, getattr(torch, dtype))
    preprocessing = model.visual.preprocess_cfg
    image = image_tower(model, configuration, preprocessing)
    check_pictures(name, image, CONFIG_FILE, _sizes(configuration), device)
    text = text_tower(model, configuration, preprocessing, tokenizer, template)
    card = EncoderCard(
        name=name,
        family="openclip",
        weights=weights,
        image_preprocessing=image.preprocessing(),
        text_preprocessing=text.preprocessing(),
        dtype=dtype,
    )
    return card, {"image": image, "text": text}, model


def _sizes(configuration: dict[str, Any]) -> list[Any]:
    """The size of a picture, where the architecture says one: a tower of timm knows its own."""
    vision = configuration["vision_cfg"]
    return [] if vision.get("timm_model_name") else [vision.get("image_size", 224)]


def _check_no_torchscript(name: str, source: OpenClipSource) -> None:
    """OpenAI's own `RN50.pt` and its siblings are TorchScript: programs, which are not run here."""
    path = Path(source.pretrained or "")
    if path.is_file() and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any("/code/" in entry for entry in archive.namelist()):
                raise EncoderError(
                    f"{name}: this file is a TorchScript archive, which holds code beside the weights.",
                    hint=f"openclip:{source.model}/openai fetches OpenAI's weights; for others, save the state_dict as "
                    "safetensors (and name an architecture with -quickgelu for weights that descend from OpenAI's)",
                    code="file-torchscript-archive-holds",
                )


def _fetch(name: str, source: OpenClipSource) -> None:
    """Bring weights from the network first, so that no network and damaged weights are told apart."""
    from open_clip import get_pretrained_cfg
    from open_clip.pretrained import download_pretrained, download_pretrained_from_hf

    try:
        if source.model.startswith("hf-hub:"):
            download_pretrained_from_hf(source.model.removeprefix("hf-hub:"))
        elif source.pretrained and not Path(source.pretrained).is_file():
            download_pretrained(get_pretrained_cfg(source.model, source.pretrained))
    except OSError as fault:
        raise hub_unreachable(name, fault) from fault


def _configuration(source: OpenClipSource) -> dict[str, Any]:
    """The architecture as open_clip's plain values."""
    import open_clip
    from open_clip.pretrained import download_pretrained_from_hf

    if source.model.startswith("local-dir:"):
        path = Path(source.model.removeprefix("local-dir:")) / CONFIG_FILE
    elif source.model.startswith("hf-hub:"):
        path = Path(download_pretrained_from_hf(source.model.removeprefix("hf-hub:"), filename=CONFIG_FILE))
    else:
        configuration = open_clip.get_model_config(source.model)
        return {**configuration, "quick_gelu": source.quick_gelu or bool(configuration.get("quick_gelu", False))}
    content = read_json(path)
    check_openclip(path, content)
    check_configurations([path.parent])  # transformers reads those of a tokenizer
    return dict(content["model_cfg"])

"""Models of `open_clip`: CLIP with ResNets and transformers, CoCa, SigLIP, and whatever else its zoo holds."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from visir.encoders.devices import COMPILED, pick_device
from visir.encoders.loading import hub_unreachable
from visir.encoders.models.foreign import check_configurations, check_openclip
from visir.encoders.models.hub import loading, template_of
from visir.encoders.models.openclip_towers import CONFIG_FILE, OpenClipImageTower, OpenClipTextTower
from visir.encoders.models.pretrained_towers import (
    PretrainedTowersEncoder,
    bias_of,
    check_pictures,
    dtype_on_card,
    of_torch,
    temperature,
)
from visir.encoders.models.tokens import check_vocabulary
from visir.encoders.towers.pretrained_backbone import PretrainedTower
from visir.encoders.weights import hash_state
from visir.errors import EncoderError, nearest
from visir.files import read_json
from visir.options import split_options
from visir.records import EncoderCard, Modality

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
        raise EncoderError(
            f"{name}: which weights?", hint=f"openclip:{architecture}/TAG, where TAG is {_listing(tags)}"
        )
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
        )
    return trained and not built


def _load(
    name: str, source: OpenClipSource, template: str, device: str, dtype: str
) -> tuple[EncoderCard, dict[Modality, PretrainedTower], Any]:
    """The card, the towers and the whole model."""
    import open_clip

    _check_no_torchscript(name, source)
    _fetch(name, source)
    configuration = _configuration(source)
    model, _ = open_clip.create_model_from_pretrained(
        source.model, pretrained=source.pretrained, precision="fp32", force_quick_gelu=source.quick_gelu
    )
    weights = _hash_model(model, configuration)
    tokenizer = open_clip.get_tokenizer(source.model)
    if hasattr(tokenizer, "tokenizer"):  # of transformers
        rows = getattr(getattr(model, "text", None), "vocab_size", None) or getattr(model, "vocab_size", None)
        check_vocabulary(name, tokenizer.tokenizer, rows)
    model = model.to(device, getattr(torch, dtype))
    preprocessing = model.visual.preprocess_cfg
    image = OpenClipImageTower(model, configuration, preprocessing)
    check_pictures(name, image, CONFIG_FILE, _sizes(configuration), device)
    text = OpenClipTextTower(model, configuration, preprocessing, tokenizer, template)
    card = EncoderCard(
        name=name,
        family="openclip",
        weights=weights,
        image_preprocessing=image.values(),
        text_preprocessing=text.values(),
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


def _hash_model(model: Any, configuration: dict[str, Any]) -> str:
    """Over weights and architecture: neither the activation nor the number of heads shows in the weights."""
    content = f"{hash_state(model.state_dict())} {json.dumps(configuration, sort_keys=True)}"
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


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


def _listing(tags: Sequence[str]) -> str:
    return f"one of {', '.join(tags)}" if tags else "a file of weights (none are published for it)"

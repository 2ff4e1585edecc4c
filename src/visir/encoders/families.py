"""The families of encoders as data: how a name says which family it means, and where the code that loads it lies.

A new family is one new file with `load_family(name, device, dtype, revision) -> Encoder` and one `FAMILIES.add` line
here. No family's file is imported before a name asks for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from visir.encoders.devices import INT8
from visir.errors import EncoderError, nearest
from visir.files import is_there, nearest_folder
from visir.options import split_mark
from visir.plugins import ENCODERS as GROUP
from visir.registry import Registry
from visir.storage.manifest import LOG

CHECKPOINT_FILE = "visir.json"
"""What marks a folder as visir's own; its "kind" is a key of `KINDS`."""


ADAPTER_FILE = "adapter_config.json"
"""What marks a folder of peft's."""


@dataclass(frozen=True)
class Family:
    """One family of encoders.

    A name belongs to the family when it is one of `prefixes`, begins with one of them and a colon, is a folder that
    holds `marker`, or matches `pattern`.

    Attributes:
        title, form, example: For people; printed by `visir doctor`, the docs and error messages.
        module: Imported when the family is asked for; has `load_family(name, device, dtype, revision) -> Encoder`.
        extra: The extra of this package that brings `packages` (import names); empty when the core suffices.
        devices, dtypes, revisions: Whether a device, which arithmetics and whether a revision can be asked for; `load`
            refuses the rest, because an option that is silently ignored is a wrong number later.
        takes: What its models encode.
    """

    name: str
    title: str
    form: str
    example: str
    module: str
    prefixes: tuple[str, ...] = ()
    marker: str = ""
    pattern: str = ""
    extra: str = ""
    packages: tuple[str, ...] = ()
    devices: bool = True
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16", INT8)
    revisions: bool = False
    takes: tuple[str, ...] = ("image", "text")

    @property
    def compiles(self) -> bool:
        """Whether OpenVINO may compile models of it; some of them are refused for what they compute."""
        return INT8 in self.dtypes

    def matches(self, name: str) -> bool:
        """Whether `name` is of this family. Looks at the file system for folders, never at the network."""
        bare, _ = split_mark(name)  # options may follow a name, a folder or a hub name: NAME?key=value
        if any(bare == prefix or name.startswith(f"{prefix}:") for prefix in self.prefixes):
            return True
        if self.marker and is_there(bare) and (Path(bare) / self.marker).is_file():
            return True
        return bool(self.pattern) and re.fullmatch(self.pattern, bare) is not None and not is_there(bare)


FAMILIES: Registry[Family] = Registry("family of encoders", group=GROUP, of=Family)
"""The order matters for folders only: the more specific marker comes first."""

KINDS: Registry[str] = Registry("kind of checkpoint")
"""What the "kind" of a `visir.json` means: the module whose `load_checkpoint(folder, device, dtype)` reads it."""

KINDS.add("towers", "visir.encoders.models.tower_files")
KINDS.add("adapters", "visir.encoders.models.adapter_files")
KINDS.add("bag-of-words", "visir.encoders.models.bag_of_words")
KINDS.add("joined", "visir.encoders.models.joined")
KINDS.add("combiner", "visir.encoders.composed.files")
KINDS.add("views", "visir.encoders.models.views")
KINDS.add("with-whole", "visir.encoders.models.with_whole")
KINDS.add("embeddings", "visir.encoders.exported")
KINDS.add("sparse", "visir.sparse.encoder")  # named, not imported: that room is further down the road

for _family in (
    Family(
        name="checkpoint",
        title="a folder that visir wrote: trained towers, a fitted bag of words, exported embeddings",
        form="path/to/folder",
        example="runs/flickr8k-heads",
        module="visir.encoders.checkpoints",
        marker=CHECKPOINT_FILE,
    ),
    Family(
        name="pixels",
        title="colour and edge statistics of an image; no weights, nothing to download (images only)",
        form="pixels",
        example="pixels",
        module="visir.encoders.models.pixels",
        prefixes=("pixels",),
        devices=False,
        dtypes=("float32",),
        takes=("image",),
    ),
    Family(
        name="colours",
        title="how much of each colour, and which colour words; no weights, nothing to download: a floor for models",
        form="colours",
        example="colours",
        module="visir.encoders.models.colours",
        prefixes=("colours",),
        devices=False,
        dtypes=("float32",),
    ),
    Family(
        name="bag-of-words",
        title="hashed bag of words; no weights, nothing to download (texts only)",
        form="bow[:DIMENSION]",
        example="bow",
        module="visir.encoders.models.bag_of_words",
        prefixes=("bow",),
        devices=False,
        dtypes=("float32",),
        takes=("text",),
    ),
    Family(
        name="mobilenet",
        title="MobileNetV2 1.0/224 trained on ImageNet, from $VISIR_DATA/mobilenet_v2 or a folder (images only)",
        form="mobilenet_v2[:FOLDER][?vectors=grid] or mobilenet_v2_int8[:FOLDER]",
        example="mobilenet_v2",
        module="visir.encoders.models.mobilenet",
        prefixes=("mobilenet_v2", "mobilenet_v2_int8"),
        dtypes=("float32",),
        takes=("image",),
    ),
    Family(
        name="onnx",
        title="an image backbone in an ONNX file (images only)",
        form="onnx:FILE[?option=value&…][#TENSOR]",
        example="onnx:resnet50.onnx?normalise=imagenet#avgpool",
        module="visir.encoders.models.onnx_image",
        prefixes=("onnx",),
        extra="onnx",
        packages=("onnxruntime", "onnx"),
        dtypes=("float32",),
        takes=("image",),
    ),
    Family(
        name="imported",
        title="vectors that were made elsewhere",
        form="npz:FILE, npy:FOLDER or parquet:FILE",
        example="npz:clip_vectors.npz",
        module="visir.encoders.models.imported",
        prefixes=("npz", "npy", "parquet"),
        devices=False,
        dtypes=("float32",),
    ),
    Family(
        name="openclip",
        title="any model of open_clip",
        form="openclip:ARCHITECTURE/PRETRAINED[?template=…] or a local folder",
        example="openclip:RN50/openai",
        module="visir.encoders.models.openclip",
        prefixes=("openclip",),
        marker="open_clip_config.json",
        extra="openclip",
        packages=("torch", "open_clip"),
    ),
    Family(
        name="xvlm",
        title="X-VLM (Swin-B, BERT) from a checkpoint file of its authors' code; has a matching head",
        form="xvlm:FILE[?option=value&…]",
        example="xvlm:itr_flickr/checkpoint_best.pth",
        module="visir.encoders.models.xvlm",
        prefixes=("xvlm",),
        extra="fusion",
        packages=("torch", "transformers", "timm"),
    ),
    Family(
        name="albef",
        title="ALBEF (ViT-B/16, BERT) from a checkpoint file of its authors' code; has a matching head",
        form="albef:FILE[?option=value&…]",
        example="albef:flickr30k.pth",
        module="visir.encoders.models.albef",
        prefixes=("albef",),
        extra="fusion",
        packages=("torch", "transformers", "timm"),
    ),
    Family(
        name="sentence",
        title="any sentence-transformers model, of texts, images or both",
        form="st:NAME[?option=value&…] or a local folder",
        example="st:all-MiniLM-L6-v2",
        module="visir.encoders.models.sentence",
        prefixes=("st",),
        marker="modules.json",
        extra="text",
        packages=("torch", "sentence_transformers"),
        revisions=True,
    ),
    Family(
        name="peft",
        title="a model with an adapter over it (LoRA and its kin), from a folder of peft's",
        form="path/to/folder[?base=NAME]",
        example="my-adapter?base=openai/clip-vit-base-patch32",
        module="visir.encoders.models.adapter_folder",
        marker=ADAPTER_FILE,
        extra="train",
        packages=("torch", "peft"),
    ),
    Family(
        name="transformers",
        title="any model of transformers with image and text features, or a vision tower alone: hub or local folder",
        form="ORGANISATION/NAME[?option=value&…] or a local folder",
        example="openai/clip-vit-base-patch32",
        module="visir.encoders.models.transformers_models",
        marker="config.json",
        pattern=r"[\w.-]+/[\w.-]+",
        extra="transformers",
        packages=("torch", "transformers"),
        revisions=True,
    ),
):
    FAMILIES.add(_family.name, _family)


def family_of(name: str) -> Family:
    """The family that `name` belongs to; an unknown name is an error that lists the forms there are."""
    for family in every_family():
        if family.matches(name):
            return family
    path = Path(name)
    if is_there(path) and path.is_dir():
        begun = LOG, "state.safetensors"  # the first one is lost by some who copy
        if (path / "recipe.toml").is_file() and any((path / name).is_file() for name in begun):
            raise EncoderError(
                f"{name}: a training that is not finished.",
                hint="go on with the same command and --resume (resume=True in Python)",
            )
        markers = ", ".join(family.marker for family in every_family() if family.marker)
        raise EncoderError(
            f"{name}: this folder holds no model that is known here (none of {markers}).",
            hint=_forms(),
            code="folder-holds-no-model",
        )
    if is_there(path):
        raise EncoderError(
            f"{name}: a file needs a prefix that says what it is.", hint=_forms(), code="file-needs-prefix-says"
        )
    if is_path(name):
        raise no_such_folder(name)
    prefixes = [prefix for family in every_family() for prefix in family.prefixes]
    shown = name if len(name) < 500 else f"{name[:80]}…"
    raise EncoderError(
        f"unknown encoder {shown!r}: not a name that is known here, and no such folder.",
        hint=f"{nearest(name.split(':')[0], prefixes)}\n{_forms()}",
        code="not-name-known-no",
    )


def is_path(name: str) -> bool:
    """Whether a text can only be meant as a path, whether there is one or not: "./mine", "~/mine", "a/b/c"."""
    bare, _ = split_mark(name)
    return bare.startswith((".", "~", "/")) or (bare.count("/") > 1 and ":" not in bare.partition("/")[0])


def no_such_folder(name: str) -> EncoderError:
    """The error for a path that leads nowhere; the hint has the nearest folder that is there."""
    bare, _ = split_mark(name)
    near = nearest_folder(bare)
    meant = f"did you mean {near}? " if near else ""
    return EncoderError(
        f"{bare}: no such folder.",
        hint=f"{meant}{'' if near else f'relative paths begin at {Path.cwd()}; '}a model is a folder that visir train "
        "or save_pretrained wrote, or a name on the hub (ORGANISATION/NAME); visir models lists models",
        code="no-such-folder",
    )


def every_family() -> list[Family]:
    """All families, in the order in which a name is tried on them."""
    return [FAMILIES.get(name) for name in FAMILIES]


def _forms() -> str:
    width = max(len(family.form) for family in every_family())
    return "name a model in one of these forms:\n" + "\n".join(
        f"      {family.form:<{width}}  e.g. {family.example}" for family in every_family()
    )

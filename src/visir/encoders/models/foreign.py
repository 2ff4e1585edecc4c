"""What the configurations of a model may say, and what never happens while a library reads the model.

Libraries take much from a configuration as it is: arguments of their own functions, names of classes, places of files.
Whoever wrote a model must not decide by it what runs here, nor which other files are read. So, for every model whose
code the user has not trusted (`?code=trusted`), of every family:

- a key that can name code, a path outside the folder, or an address is refused by its name;
- where a configuration holds arguments of functions, texts reach the library under known keys only (numbers, true,
  false and null name nothing);
- should a library get at code all the same, in a file of Python or in a pickle, that code does not run
  (`without_code`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from visir.encoders.devices import CodeNotTrustedError
from visir.errors import EncoderError, raise_faults
from visir.files import read_json

CONFIGURATIONS = ("*config*.json", "modules.json", "*.index.json")
"""The files of a model in which libraries look for more than vocabularies."""

_CODE = "runs code that comes with the model, or from elsewhere"
_PLACE = "names a place outside the folder of the model"
_TOO_MUCH = "would take this machine's time or memory before it is compared with the weights"
_UNKNOWN = "is handed to a library as it is, and no such setting is known here"

_REFUSED = {
    **dict.fromkeys(("trust_remote_code", "custom_load", "allow_all_kernels", "use_kernels", "kernel_config"), _CODE),
    **dict.fromkeys(("megatron_config", "custom_generate"), _CODE),
    **dict.fromkeys(
        ("checkpoint_path", "pretrained_cfg_overlay", "use_pretrained_backbone", "audio_tokenizer"), _PLACE
    ),
    **dict.fromkeys(("audio_tokenizer_name_or_path", "gguf_file", "adapter_kwargs", "_adapter_model_path"), _PLACE),
    **dict.fromkeys(("cache_dir", "cache_file", "covariance_file", "offload_folder", "shadow_model"), _PLACE),
}
"""Keys that may only be empty, at any depth: what timm, transformers, sentence-transformers and peft do with them."""
_MOST = {
    **dict.fromkeys(
        ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"), 1_000
    ),
    **dict.fromkeys(("layers", "depth"), 1_000),
    **dict.fromkeys(("height", "width"), 16_384),
}
"""Numbers that cost time or memory before anything else of the model is looked at, and the most that is believed."""
_KERNELS = "_implementation"
"""`attn_implementation: "OWNER/NAME"` and its kin fetch compiled code from the hub."""
_ACTIVATIONS = frozenset({"activation_fn", "activation_function", "default_activation_function"})
_ACTIVATION = re.compile(r"torch\.nn\.(modules\.\w+\.)?[A-Z]\w*")
_MODULE_TYPE = re.compile(r"(sentence_transformers|pylate)(\.\w+)*\.[A-Z]\w*")
"""A class; not a module that the library has imported, whose `load` would be called."""

_ADDRESS = re.compile(r"(?i)([a-z][a-z0-9+.-]*://|(hf[-_]hub|local[-_]dir|file):|[a-z]:[\\/]|/+\w|~\w*/|\\\\)")
_SAID = frozenset(
    {"_name_or_path", "name_or_path", "chat_template", "added_tokens_decoder", "id2label", "label2id", "prompts"}
    | {"license", "license_link", "license_name", "origin_url", "paper_ids", "homepage", "citation", "description"}
)
"""Keys of texts that no library opens: words for people, labels, tokens, and where a model once was."""
_OLD = frozenset({"tokenizer_file", "special_tokens_map_file", "vocab_file", "merges_file", "added_tokens_file"})
"""Old tokenizers say here where their files were; libraries of today look beside the configuration instead."""

_ARGUMENTS = frozenset(f"{part}_{end}" for part in ("model", "tokenizer", "processor", "config")
                       for end in ("args", "kwargs"))  # fmt: skip
"""In `sentence_bert_config.json` and its kin: arguments of `from_pretrained`."""
_ARGUMENT_TEXTS = frozenset(
    {"attn_implementation", "dtype", "torch_dtype", "padding_side", "truncation_side", "padding", "truncation"}
    | {"backend", "default_task", "default_prompt_name"}
)
_ADAPTER_TEXTS = frozenset(
    {"peft_type", "task_type", "bias", "base_model_name_or_path", "revision", "peft_version", "auto_mapping"}
    | {"init_lora_weights", "init_weights", "target_modules", "exclude_modules", "modules_to_save", "layers_pattern"}
    | {"feedforward_modules", "target_parameters", "rank_pattern", "alpha_pattern", "trainable_token_indices"}
    | {"corda_method", "lora_type", "decompose_method", "block_share", "trainable_tokens"}
)
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_OPENCLIP_TOKENIZER = {"clean": str, "language": str, "reduction_mask": str, "strip_sep_token": bool}
"""What `text_cfg.tokenizer_kwargs` may hold; all else goes on to `AutoTokenizer.from_pretrained`."""


def check_configurations(folders: Sequence[Path], allow: str = "", *, base_elsewhere: bool = False) -> None:
    """Check the configurations in the folders of a model whose code is not trusted."""
    for folder in folders:
        for path in sorted({path for pattern in CONFIGURATIONS for path in folder.glob(pattern) if path.is_file()}):
            if path.name != "open_clip_config.json":  # open_clip alone reads it: `check_openclip`
                _refuse(path, _faults(path, read_json(path), base_elsewhere), allow)


def check_openclip(path: Path, content: Any, *, own: bool = False) -> None:
    """Check a configuration of open_clip."""
    model = content.get("model_cfg") if isinstance(content, Mapping) else None
    model = model if isinstance(model, Mapping) else {}
    text, vision = model.get("text_cfg"), model.get("vision_cfg")
    if not isinstance(text, Mapping) or not isinstance(vision, Mapping):
        raise EncoderError(
            f"{path}: this is no configuration of a model of open_clip: model_cfg with text_cfg and vision_cfg is "
            "wanted.",
            hint="the file is damaged, or of another program; fetch the model again",
        )
    arguments = text.get("tokenizer_kwargs") or {}
    faults = [
        _fault(f"tokenizer_kwargs.{key}", value, _REFUSED.get(key, _UNKNOWN))
        for key, value in (arguments.items() if isinstance(arguments, Mapping) else [("", arguments)])
        if value is not None and not isinstance(value, _OPENCLIP_TOKENIZER.get(key, ()))
    ]
    names = () if own else ("hf_model_name", "hf_tokenizer_name")
    faults += [_fault(f"text_cfg.{key}", text[key], _PLACE) for key in names
               if text.get(key) and not _is_hub_name(text[key]) and not _is_inside(text[key], path.parent)]  # fmt: skip
    backbone = vision.get("timm_model_name")
    if backbone and not re.fullmatch(r"[\w.-]+", str(backbone)):  # "local-dir:FOLDER", "hf-hub:OWNER/NAME"
        faults.append(_fault("vision_cfg.timm_model_name", backbone, _PLACE))
    known = ("hf_model_name", "hf_tokenizer_name", "timm_model_name", "tokenizer_kwargs")
    rest = {**content, "model_cfg": {**model, "text_cfg": _without(text, known), "vision_cfg": _without(vision, known)}}
    _refuse(path, [*faults, *_faults(path, rest)], "")


@contextmanager
def without_code(name: str) -> Iterator[None]:
    """Around the reading of a model whose code is not trusted: code that comes with it does not run."""
    _install()
    stopped: list[str] = []
    token = _STOPPED.set(stopped)
    fault: BaseException | None = None
    try:
        with _nobody_asked():
            yield
    except Exception as raised:
        fault = raised
    finally:
        _STOPPED.reset(token)
    if stopped:
        raise CodeNotTrustedError(
            f"{name}: it has code of its own ({stopped[0]}), and nobody has said that it may run: it did not.",
            hint="read that code; models of transformers and sentence-transformers take ?code=trusted",
            code="code-nobody-said-run",
        ) from fault
    if fault is not None:
        raise fault


@contextmanager
def untrusted(name: str) -> Iterator[None]:
    """Around `from_pretrained(name)` of a model that is no encoder: its configurations are checked, no code runs."""
    folder = Path(name)
    check_configurations([folder] if folder.is_dir() else [])
    with without_code(name):
        yield


def _faults(path: Path, content: Any, base_elsewhere: bool = False) -> list[str]:
    """What is refused in one configuration."""
    if path.name == "modules.json":
        return _module_faults(content)
    if path.name.endswith(".index.json"):
        files = content.get("weight_map") if isinstance(content, Mapping) else None
        names = sorted({str(name) for name in files.values()}) if isinstance(files, Mapping) else []
        return [_fault("weight_map", name, _PLACE) for name in names if re.search(r"[\\/]", name)]
    faults = []
    for keys, value in _leaves(content):
        key = next((key for key in reversed(keys) if not key.isdecimal()), "")
        shown = ".".join(keys)
        is_base = base_elsewhere and key == "base_model_name_or_path" and "://" not in str(value)
        if reason := next((_REFUSED[part] for part in keys if part in _REFUSED), None):
            if value:
                faults.append(_fault(shown, value, reason))
        elif isinstance(value, int | float) and value > _MOST.get(key, value):
            faults.append(_fault(shown, value, _TOO_MUCH))
        elif not isinstance(value, str) or not value:
            continue
        elif path.name == "adapter_config.json" and not _ADAPTER_TEXTS.intersection(keys):
            if (key, value) != ("megatron_core", "megatron.core"):  # what peft writes into each; it is a module
                faults.append(_fault(shown, value, _UNKNOWN))
        elif path.name.startswith("sentence_") and keys[0] in _ARGUMENTS and key not in _ARGUMENT_TEXTS:
            faults.append(_fault(shown, value, _UNKNOWN))
        elif _names_code(keys, key, value):
            faults.append(_fault(shown, value, _CODE))
        elif is_base or _SAID.intersection(keys) or key.endswith(("_token", "_tokens")):
            continue
        elif _leads_outside(value, path.parent) and not (key in _OLD and not Path(value).exists()):
            faults.append(_fault(shown, value, _PLACE))
    return faults


def _names_code(keys: Sequence[str], key: str, value: str) -> bool:
    if any(part.endswith(_KERNELS) for part in keys):
        return "/" in value
    return key in _ACTIVATIONS and "." in value and not _ACTIVATION.fullmatch(value)


def _module_faults(content: Any) -> list[str]:
    modules = [module for module in content if isinstance(module, Mapping)] if isinstance(content, list) else []
    return [_fault("type", module.get("type"), _CODE) for module in modules
            if not _MODULE_TYPE.fullmatch(str(module.get("type", "")))]  # fmt: skip


def _leaves(content: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values in a configuration that hold no others, each with its keys. Without recursion: files can be deep."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), content)]
    while waiting:
        keys, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [((*keys, str(key)), inner) for key, inner in reversed(list(value.items()))]
        elif isinstance(value, list):
            waiting += [((*keys, str(number)), inner) for number, inner in reversed(list(enumerate(value)))]
        elif keys:
            yield keys, value


def _leads_outside(value: str, folder: Path) -> bool:
    if ".." in re.split(r"[\\/]", value):
        return True
    return "\n" not in value and _ADDRESS.match(value) is not None and not _is_inside(value, folder)


def _is_inside(value: object, folder: Path) -> bool:
    """Whether a text is the path of something in the folder, written in full."""
    path = Path(str(value))
    return path.is_absolute() and path.resolve().is_relative_to(folder.resolve())


def _is_hub_name(value: object) -> bool:
    """Whether a text can only be a name on the hub: not a folder that lies here by chance, or on purpose."""
    return isinstance(value, str) and _HUB_NAME.fullmatch(value) is not None and not Path(value).exists()


def _without(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def _fault(key: str, value: object, reason: str) -> str:
    shown = str(value)
    return f"{key}={shown[:80]!r}{'…' if len(shown) > 80 else ''} {reason}"


def _refuse(path: Path, faults: Sequence[str], allow: str) -> None:
    hint = "a model needs no such entry: take it out, or fetch the model from where its makers keep it"
    trust = f"; if you have read it, and trust who made it: {allow}" if allow else ""
    raise_faults(
        EncoderError, f"{path}: this configuration is refused", faults, hint=hint + trust, code="configuration-refused"
    )


_STOPPED: ContextVar[list[str] | None] = ContextVar("code that was stopped while a model is read", default=None)
_is_installed = False


def _install() -> None:
    """Watch what Python runs, from now on; a hook of `sys.addaudithook` stays, and asks one variable."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        sys.addaudithook(_watch)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Stop what the reading of weights and configurations never needs: classes in pickles, and fetched Python files."""
    if event not in ("exec", "pickle.find_class"):
        return
    stopped = _STOPPED.get()
    if stopped is None:
        return
    if event == "pickle.find_class":
        what = "{}.{} in a pickle".format(*arguments)
    else:
        what = str(getattr(arguments[0], "co_filename", ""))
        if "transformers_modules" not in re.split(r"[\\/]", what):  # where transformers copies code before it runs
            return
        what = re.split(r"[\\/]", what)[-1]
    stopped.append(what)
    raise RuntimeError(f"{what}: code of a model that nobody has trusted")


@contextmanager
def _nobody_asked() -> Iterator[None]:
    """transformers asks on the terminal whether code may run, where a library between does not say it: it may not."""
    asking: Any = sys.modules.get("transformers.dynamic_module_utils")
    before = getattr(asking, "TIME_OUT_REMOTE_CODE", 0)
    if before:
        asking.TIME_OUT_REMOTE_CODE = 0  # seconds; with none it refuses at once
    try:
        yield
    finally:
        if before:
            asking.TIME_OUT_REMOTE_CODE = before

"""The files of a model, in a folder or on the hub: what they hold, what they may say, and how they are read."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any

from visir.encoders.devices import CodeNotTrustedError
from visir.encoders.families import CHECKPOINT_FILE, is_path, no_such_folder
from visir.encoders.intake import PANIC
from visir.encoders.loading import hub_unreachable, meant_folder, no_folder
from visir.encoders.models.own_code import CODE, OtherCode
from visir.errors import EncoderError, VisirError, nearest, raise_faults
from visir.files import hash_file, is_there, read_json, user_path
from visir.options import with_option

if TYPE_CHECKING:
    from torch import Tensor


def snapshot(name: str, revision: str | None, patterns: Sequence[str]) -> Path:
    """The folder of a repository at a revision (None: the newest), with the files that match `patterns`."""
    # What is in the cache is used without a download when the hub cannot be reached; the folder is called as its
    # commit.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(patterns)))
    except HFValidationError as fault:
        raise EncoderError(f"{name}: neither a folder nor a name on the hub.", hint="ORGANISATION/NAME") from fault
    except GatedRepoError as fault:
        raise EncoderError(
            f"{name}: the hub asks for the licence to be accepted first.",
            hint=f"accept it at https://huggingface.co/{name}, then: hf auth login",
        ) from fault
    except RepositoryNotFoundError as fault:
        raise EncoderError(
            f"{name}: {no_folder(name)}there is no such model on the hub, or it is private.",
            hint=f"{meant_folder(name)}check the name; for a private one: hf auth login",
        ) from fault
    except RevisionNotFoundError as fault:
        raise EncoderError(
            f"{name}: the hub has no revision {revision!r} of it.",
            hint=f"see https://huggingface.co/{name}/commits/main",
        ) from fault
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, OSError) as fault:
        raise hub_unreachable(name, fault) from fault


# The values of options in names: `openai/clip-vit-base-patch32?template=a photo of {}&max_length=64`.


def positive_number(name: str, options: dict[str, str], key: str) -> int | None:
    """The option `key` as a positive whole number; None when it is not given."""
    if key not in options:
        return None
    if not options[key].isdecimal() or int(options[key]) < 1:
        raise EncoderError(f"{name}: {key}={options[key]!r} is not a positive whole number.", hint=f"e.g. {key}=64")
    return int(options[key])


def one_of(name: str, options: dict[str, str], key: str, choices: Sequence[str]) -> str:
    """The option `key`, which must be one of `choices`; the first of them when it is not given."""
    value = options.get(key, choices[0])
    if value not in choices:
        raise EncoderError(
            f"{name}: {key}={value!r} is not known.", hint=nearest(value, choices), code="encoder-not-known"
        )
    return value


CODE_OPTIONS = ("code", "code_revision")


@dataclass(frozen=True)
class TrustedCode:
    """The user's word that the code that comes with a model may run."""

    # The revisions of other repositories that hold code, by repository; "" stands for the only one.
    revisions: Mapping[str, str]


def trusted_code(name: str, options: Mapping[str, str]) -> TrustedCode | None:
    """What a name says of code: `?code=trusted`, and `&code_revision=COMMIT` or `…=OWNER/NAME@COMMIT,…`."""
    if options.get("code", "trusted") != "trusted":
        raise EncoderError(
            f"{name}: code={options['code']!r} is not known.",
            hint="code=trusted runs the Python code that comes with the model; read it before",
            code="code-not-known",
        )
    given = options.get("code_revision")
    if "code" not in options:
        if given is not None:
            raise EncoderError(
                f"{name}: code_revision names code, and nobody has said that code may run.",
                hint="read that code; if you trust it, add &code=trusted",
                code="code-revision-names-code",
            )
        return None
    entries = [entry.rpartition("@") for entry in given.split(",")] if given else []
    revisions = {repository: commit for repository, _, commit in entries}
    if not all(commit and (repository.count("/") == 1 or not at) for repository, at, commit in entries) or (
        len(revisions) != len(entries) or ("" in revisions and len(revisions) > 1)
    ):
        raise EncoderError(
            f"{name}: code_revision={given!r} cannot be read.",
            hint="code_revision=COMMIT; of several repositories: code_revision=OWNER/NAME@COMMIT,OWNER/NAME@COMMIT",
            code="code-revision-cannot-read",
        )
    return TrustedCode(revisions)


def refuse_code(name: str, others: Sequence[str] = ()) -> EncoderError:
    """The error for a model that is nothing without code that comes with it, or lies in the repositories `others`."""
    where = f" (and in {' and '.join(others)}, which it names)" if others else ""
    revision = "revision and a code_revision then name" if others else "revision then names"
    return EncoderError(
        f"{name}: this model needs Python code that comes with it, and nobody has said that it may run.",
        hint=f"read the *.py files in its repository{where}; if you trust them: {with_option(name, 'code', 'trusted')} "
        f"(a {revision} the code that you have read)",
        code="model-needs-python-code",
    )


def template_of(name: str, options: dict[str, str]) -> str:
    """The option `template`, in which one `{}` stands for the text; "{}" when it is not given."""
    template = options.get("template", "{}")
    if template.count("{}") != 1:
        raise EncoderError(
            f"{name}: the template {template!r} must hold {{}} exactly once: the place of the text.",
            hint="e.g. template=a photo of {}",
        )
    return template


# Where a model's files are, on this disk or on the hub, and a hash over what they hold.

CONFIGURATIONS = ("*config*.json", "modules.json", CHECKPOINT_FILE)
"""What says which kind of model it is: all that is fetched before a model is known to be supported."""
SMALL_FILES = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja", "artifact.metadata")
OWN_FILES = (
    *("*.safetensors", "*.json", "*.jsonl", "*.toml", "*.parquet", "*.npy", "*.npz", "*.model", "*.tiktoken"),
    *("*.txt", "*.html"),
)
"""What a checkpoint of visir consists of."""
SAFETENSORS = "model*.safetensors"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
SHARD_INDEX = ".index.json"
"""Which shard holds which weight."""
TORCH_BIN = "pytorch_model*.bin"
"""Weights in PyTorch's own format, for repositories that have no safetensors; transformers reads them with
`weights_only`, so no code in them runs."""

_SMALL = 2 * 10**9
"""Bytes of weights: a process that has refused their model waits some seconds at most until they are hashed."""


@dataclass(frozen=True)
class ModelFiles:
    """A model's folder. Of a model on the hub it holds the configurations at first; `weights` fetches the rest."""

    # Whatever can be refused must be refused before `weights` (or `fingerprint`) is asked for: a model that is not
    # supported is then never downloaded.

    folder: Path  # where its files are
    revision: str | None  # the commit it is; None for a folder that the user named
    # The model also has parts in subfolders (sentence-transformers), each with weights and `config.json`.
    parts: bool = False
    hub: str | None = None  # its name on the hub; None for a folder that the user named
    # That the code that comes with the model may run (`?code=trusted`), so it is fetched too; None: it may not.
    code: TrustedCode | None = None

    @cached_property
    def weights(self) -> tuple[Path, ...]:
        """The files with weights, in the order of their names: safetensors if there are any, otherwise PyTorch's."""
        # Fetches them, and every file that is not there yet, when the model is on the hub.
        if self.hub is not None:
            patterns = [*SMALL_FILES, SAFETENSORS, *([CODE] if self.code is not None else [])]
            if self.parts:
                patterns += [f"*/{SAFETENSORS}", f"*/{TORCH_BIN}"]
            if not any(snapshot(self.hub, self.revision, patterns).glob(SAFETENSORS)):
                snapshot(self.hub, self.revision, [*patterns, TORCH_BIN])
        self.check_configurations()
        files = [path for folder in self.folders for path in _weights_in(folder)]
        if not files and self.hub is not None:
            raise EncoderError(
                f"{self.hub}: no weights of it are on this machine, and the hub gave none.",
                hint="connect to the network once; or this repository has no model.safetensors and no "
                "pytorch_model.bin (weights for other programs: GGUF, ONNX, JAX)",
                code="no-weights-machine-hub",
            )
        if not files:
            raise EncoderError(
                f"{self.folder}: there are no weights in this folder.",
                hint="expected model.safetensors (or its shards), or pytorch_model.bin; was the download complete?",
            )
        return tuple(files)

    def check_configurations(self) -> None:
        """Raise `EncoderError` if a configuration names code or other places, and the model's code is not trusted."""
        if self.code is None:
            check_configurations(self.folders, with_option(self.hub or str(self.folder), "code", "trusted"))

    def with_adapter(self) -> Path:
        """The folder, with the weights of an adapter of peft where the hub has them."""
        if self.hub is not None:
            snapshot(self.hub, self.revision, [*SMALL_FILES, ADAPTER_WEIGHTS])
        return self.folder

    def with_checkpoint(self) -> Path:
        """The folder, with all files of a checkpoint of visir where the hub has them."""
        if self.hub is not None:
            snapshot(self.hub, self.revision, OWN_FILES)
        return self.folder

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over the weight files and everything beside them that changes what they compute."""
        # Configurations enter because the same weights under another activation, epsilon, tokenizer or image size are
        # another model; trusted code enters for the same reason, in every file of it, wherever it lies.
        return self._hashing.result()

    def hash_ahead(self) -> None:
        """Begin with the hash on another thread, while the model is loaded: of 600 MB it takes nearly a second."""
        if self.code is None:  # code may have to be fetched, which is for the thread that holds it
            _ = self.weights, self._hashing

    def hash_while_importing(self) -> None:
        """Begin with it even before the classes of the model are imported, which takes seconds."""
        # Only in a folder of the user's, which costs no download if the model is then refused, and up to `_SMALL`
        # bytes.
        if self.hub is None and self.code is None:
            sizes = [path.stat().st_size for folder in self.folders for path in _weights_in(folder)]
            if 0 < sum(sizes) <= _SMALL:
                _ = self._hashing

    @cached_property
    def _hashing(self) -> Future[str]:
        if self.code is not None:
            done = Future[str]()
            done.set_result(self._hash())
            return done
        executor = ThreadPoolExecutor(1, thread_name_prefix="visir-hash")
        future = executor.submit(self._hash)
        executor.shutdown(wait=False)
        return future

    def _hash(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        weights = self.weights  # fetches the small files too
        patterns = (*SMALL_FILES, ADAPTER_WEIGHTS)
        small = {path for folder in self.folders for pattern in patterns for path in folder.glob(pattern)}
        code = self.folder.rglob(CODE) if self.code else ()
        for path in sorted({*weights, *code, *(path for path in small if not path.name.endswith(SHARD_INDEX))}):
            digest.update(f"{hash_file(path)}  {path.relative_to(self.folder).as_posix()}\n".encode())
        for name, path in self.other_code.files() if self.other_code else ():
            digest.update(f"{hash_file(path)}  {name}\n".encode())
        return digest.hexdigest()

    @cached_property
    def other_code(self) -> OtherCode | None:
        """The code that the model runs from other repositories, fetched; None where no code may run."""
        if self.code is None:
            return None
        return OtherCode(self.hub or str(self.folder), self.folders, self.hub, self.code.revisions, snapshot)

    @property
    def code_revisions(self) -> dict[str, str]:
        """For the card: the commits of the other repositories of its code."""
        return self.other_code.commits if self.other_code else {}

    @contextmanager
    def code_held(self) -> Iterator[None]:
        """While a library reads the model, its code comes from the commits that the card names."""
        with self.other_code.held() if self.other_code else nullcontext():
            yield

    def check_code(self, model: Any) -> None:
        """Raise `EncoderError` if `model`, a module of torch, runs code that has changed since."""
        if self.other_code is not None:
            self.other_code.check(model)

    @property
    def folders(self) -> list[Path]:
        """The folder, and with `parts` those in it, however deep: a part can have parts of its own (a router)."""
        folders = [self.folder]
        for folder in folders if self.parts else ():  # which grows
            folders += [path for path in sorted(_parts_in(folder)) if path.is_dir() and path not in folders]
        return folders


def _parts_in(folder: Path) -> set[Path]:
    """The folders that the modules of a model, or the routes of a router, say that they lie in."""
    names = [str(module.get("path", "")) for module in read_modules(folder)]
    for router in ("router_config.json", "config.json"):  # the second before version 5 of the library
        routes = [str(name) for name in read_configuration(folder / router).get("types") or ()]
        for name in routes:
            _check_part(folder / router, name)
        names += routes
    return {Path(os.path.normpath(folder / name)) for name in names}


def _check_part(path: Path, name: object) -> None:
    parts = re.split(r"[\\/]", str(name))
    if ".." in parts or (parts[0] == "" and len(parts) > 1) or ":" in parts[0]:
        raise EncoderError(
            f"{path}: the part {str(name)!r} lies outside the folder of the model.",
            hint="a model holds all of its parts; fetch it again from where its makers keep it",
            code="part-lies-outside-folder",
        )


def _weights_in(folder: Path) -> list[Path]:
    return sorted(folder.glob(SAFETENSORS)) or sorted(folder.glob(TORCH_BIN))


def find_model(name: str, revision: str | None, *, parts: bool = False, code: TrustedCode | None = None) -> ModelFiles:
    """The files of the model called `name`: a local folder as it is, otherwise a snapshot of the hub's repository."""
    # Of the hub's repository only the configurations are fetched; the rest comes with `ModelFiles.weights`. A snapshot
    # that is already in the hub's cache is used without a download when the hub cannot be reached (or when
    # `HF_HUB_OFFLINE=1`). `parts` and `code`: see `ModelFiles`.
    folder = user_path(name)
    if is_there(folder) and folder.is_dir():
        if revision is not None:
            raise EncoderError(
                f"{name}: a folder has no revision {revision!r}.",
                hint="leave the revision out",
                code="folder-no-revision",
            )
        return ModelFiles(folder, None, parts, code=code)
    if is_there(folder):
        raise EncoderError(
            f"{name}: a file, and no folder.",
            hint="name the folder that holds config.json and weights",
            code="file-no-folder",
        )
    if is_path(name):
        raise no_such_folder(name)
    place = snapshot(name, revision, [*CONFIGURATIONS, *([CODE] if code else [])])
    return ModelFiles(place, place.name, parts, hub=name, code=code)


_SHAPES: dict[str, tuple[Callable[[object], bool], str]] = {
    "model_type": (lambda value: isinstance(value, str), "a text is wanted"),
    "architectures": (
        lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
        "a list of texts is wanted",
    ),
    "types": (lambda value: isinstance(value, dict | list), "names with values are wanted"),
}
"""What is read of a configuration before a library checks it."""


def read_configuration(path: Path) -> dict[str, Any]:
    """A configuration of a model; empty where there is no such file."""
    content = read_json(path) if path.is_file() else {}
    hint = "the file is damaged, or of another program; fetch the model again"
    if not isinstance(content, dict):
        raise EncoderError(
            f"{path}: this is no configuration of a model: it holds a {type(content).__name__}, not names with values.",
            hint=hint,
        )
    faults = [
        f"{name}={str(content[name])[:60]!r}: {wanted}"
        for name, (is_right, wanted) in _SHAPES.items()
        if content.get(name) is not None and not is_right(content[name])
    ]
    raise_faults(EncoderError, f"{path}: this is no configuration of a model", faults, hint=hint)
    return content


def model_type_of(config: Mapping[str, Any]) -> str | None:
    """The type of model; a folder of timm has none, and is read by the wrapper of `transformers`."""
    if config.get("model_type"):
        return str(config["model_type"])
    return "timm_wrapper" if "architecture" in config and "pretrained_cfg" in config else None


def read_modules(folder: Path) -> list[dict[str, Any]]:
    """The modules of a model of sentence-transformers, from `modules.json`; none where there is no such file."""
    path = folder / "modules.json"
    content = read_json(path) if path.is_file() else []
    if isinstance(content, list) and all(isinstance(module, dict) for module in content):
        for module in content:
            _check_part(path, module.get("path", ""))
        return content
    raise EncoderError(
        f"{path}: this is no list of modules of a model of sentence-transformers.",
        hint="the file is damaged, or of another program; fetch the model again",
    )


def read_small_files(folder: Path, patterns: Sequence[str] = SMALL_FILES) -> dict[str, bytes]:
    """The content of the files of a model that match `patterns`, by relative POSIX path."""
    paths = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(paths)
        if not path.name.endswith(SHARD_INDEX)
    }


@contextmanager
def loading(name: str, folder: Path | None = None, *, code: bool = False) -> Iterator[None]:
    """Around a library that reads a model: what it raises becomes an `EncoderError` that names the model."""
    from safetensors import SafetensorError

    if folder is not None and not code:
        check_configurations([folder, *(path for path in folder.rglob("*") if path.is_dir())])
    try:
        with nullcontext() if code else without_code(name):
            yield
    except VisirError:
        raise
    except ImportError as fault:
        raise EncoderError(
            f"{name}: a package that this model needs is not installed: {_first_line(fault)}",
            hint="pip install 'visir[all]'",
        ) from fault
    except SafetensorError as fault:
        raise EncoderError(
            f"{name}: its weights cannot be read: {_first_line(fault)}",
            hint="the file is damaged or was cut short; fetch it again and compare its size",
            code="weights-cannot-read",
        ) from fault
    except BaseException as fault:  # libraries raise what comes; one in Rust that gives up raises no Exception
        if not isinstance(fault, Exception) and type(fault).__name__ != PANIC:
            raise
        raise EncoderError(
            f"{name}: cannot be loaded: {type(fault).__name__}: {_first_line(fault)}",
            hint="is every file of the model there, complete, and of this kind of model?",
            code="cannot-loaded",
        ) from fault


@contextmanager
def no_progress_bar() -> Iterator[None]:
    """Keep transformers from drawing its own bar ("Loading weights") across ours; what was set before is restored."""
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            logging.enable_progress_bar()


@contextmanager
def only_errors() -> Iterator[None]:
    """Keep transformers from warning; what was set before is restored."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _first_line(fault: BaseException) -> str:
    return next((line.strip() for line in str(fault).splitlines() if line.strip()), type(fault).__name__)


def load_model(
    name: str, model_class: type[Any], files: ModelFiles, dtype: str, *, unused: Sequence[str] = (), code: bool = False
) -> Any:
    """`from_pretrained` of one class, in the dtype asked for; a checkpoint that lacks a used weight is refused."""
    # transformers fills missing weights with random numbers and warns: a captioning checkpoint loaded as a retrieval
    # model would give vectors, and they would mean nothing. Since version 5 the checkpoint's own dtype is taken unless
    # one is named. `unused` are dotted names of modules that are never computed; their weights may be missing.
    import torch

    _ = files.weights  # a folder without weights is told apart from one whose weights are damaged
    trusted = {"trust_remote_code": True} if code else {}
    with no_progress_bar(), only_errors():  # it lists the weights of heads that are not asked for
        model, report = model_class.from_pretrained(
            files.folder, dtype=getattr(torch, dtype), output_loading_info=True, **trusted
        )
    _check_weights(name, model_class, report["missing_keys"], [f"{pattern}.*" for pattern in unused])
    return model.eval()


def _check_weights(name: str, model_class: type[Any], missing: Iterable[str], unused: Sequence[str]) -> None:
    """Refuse a checkpoint that lacks weights, unless nothing reads them."""
    lacking = sorted(key for key in missing if not any(fnmatchcase(key, pattern) for pattern in unused))
    if lacking:
        raise EncoderError(
            f"{name}: {len(lacking)} weights of {model_class.__name__} are not in this checkpoint: "
            f"{', '.join(lacking[:4])}" + (", …" if len(lacking) > 4 else "."),
            hint="it was made for another task, or is another kind of model",
            code="weights-not-checkpoint",
        )


_reading = RLock()


@contextmanager
def complete_weights(name: str, unused: Callable[[type[Any]], Sequence[str]]) -> Iterator[None]:
    """Around code of another library that loads models of transformers: a checkpoint that lacks a weight is refused."""
    # unused: Patterns of the weights of a class that are never computed.
    # The library neither asks transformers what was missing nor hands our asking on. What other threads load at the
    # same time is theirs: they get what they asked for, and no refusal.
    from transformers import PreTrainedModel

    with _reading, only_errors():
        # Read under the lock: before, it may be the check of another thread, which would then stay for good.
        function, thread = PreTrainedModel.from_pretrained.__func__, get_ident()

        def reading(cls: type[Any], /, *arguments: Any, output_loading_info: bool = False, **options: Any) -> Any:
            model, report = function(cls, *arguments, output_loading_info=True, **options)
            if get_ident() == thread:
                _check_weights(name, cls, report["missing_keys"], unused(cls))
            return (model, report) if output_loading_info else model

        PreTrainedModel.from_pretrained = classmethod(reading)
        try:
            yield
        finally:
            PreTrainedModel.from_pretrained = classmethod(function)


def hash_state(state: Mapping[str, Tensor]) -> str:
    """32 hexadecimal digits over a torch `state_dict`: names, types, shapes and values, in the order of names."""
    # The hash is of the values as loaded. A model loaded in bfloat16 therefore has another hash than in float32.
    import torch

    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


# What the configurations of a model may say, and what never happens while a library reads the model.
#
# Libraries take much from a configuration as it is: arguments of their functions, names of classes, places of files.
# Whoever wrote a model must not decide by it what runs here, nor which other files are read. So, for every model whose
# code the user has not trusted (`?code=trusted`), of every family:
#
# - a key that can name code, a path outside the folder, or an address is refused by its name;
# - where a configuration holds arguments of functions, texts reach the library under known keys only (numbers, true,
#   false and null name nothing);
# - should a library get at code all the same, in a file of Python or in a pickle, that code does not run
#   (`without_code`).

CHECKED = ("*config*.json", "modules.json", "*.index.json")
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
        for path in sorted({path for pattern in CHECKED for path in folder.glob(pattern) if path.is_file()}):
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

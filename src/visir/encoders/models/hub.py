"""Files of repositories on the hub, or of its cache on this machine; what goes wrong there in plain words."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any

from visir.encoders.families import CHECKPOINT_FILE, is_path, no_such_folder
from visir.encoders.intake import PANIC
from visir.encoders.loading import hub_unreachable, meant_folder, no_folder
from visir.encoders.models.foreign import check_configurations, without_code
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

# Python code that a model runs and that lies in other repositories on the hub, held at one commit each.

CODE = "*.py"
_CONFIGURATIONS = "*config*.json"
_FOREIGN = "transformers_modules."  # what transformers calls the modules of code that came with a model
_PATCHED = RLock()


class OtherCode:
    """The repositories of a model's code beside its own, each at one commit; those that appear later are added."""

    def __init__(self, model: str, folders: Iterable[Path], own: str | None, revisions: Mapping[str, str]) -> None:
        self._model, self._own, self._main = model, own, list(folders)
        named = [name for name in other_repositories(self._main) if name != own]
        self._asked = _asked_for(model, named, revisions)
        self._places: dict[str, Path] = {}
        for name in named:
            self._place(name)

    @property
    def commits(self) -> dict[str, str]:
        """The commit of each repository."""
        return {name: place.name for name, place in sorted(self._places.items())}

    def files(self) -> Iterator[tuple[str, Path]]:
        """The code: a name and a path of each file."""
        for name, place in sorted(self._places.items()):
            for path in sorted(place.rglob(CODE)):
                yield f"{name}/{path.relative_to(place).as_posix()}", path

    @contextmanager
    def held(self) -> Iterator[None]:
        """While a library reads the model in this thread, code comes from the commits of this object."""
        from transformers import dynamic_module_utils

        reader = get_ident()
        with _PATCHED:
            original = dynamic_module_utils.get_cached_module_file

            def from_commit(repository: Any, *args: Any, **kwargs: Any) -> Any:
                name = str(repository)
                if get_ident() == reader and not Path(name).is_dir():
                    repository = self._main[0] if name == self._own else self._place(name)
                return original(str(repository), *args, **kwargs)

            dynamic_module_utils.get_cached_module_file = from_commit
            try:
                yield
            finally:
                dynamic_module_utils.get_cached_module_file = original

    def check(self, model: Any) -> None:
        """Raise `EncoderError` if a part of `model` is a class of code that has changed since."""
        # Transformers remembers which class belongs to which configuration, as long as Python runs. A revision of a
        # repository that nothing came from is refused too.
        if unused := sorted(set(self._asked) - set(self._places)):
            raise EncoderError(
                f"{self._model}: code_revision: it runs no code of {' and '.join(unused)}.",
                hint=f"its code lies in {' and '.join(self._places) or 'no other repository'}",
                code="code-revision",
            )
        places = [*self._main, *self._places.values()]
        for name in sorted({type(part).__module__ for part in model.modules()}):
            if name.startswith(_FOREIGN):
                ran = Path(str(sys.modules[name].__file__))
                if not any(_is_copy(ran.parent, place) for place in places):
                    raise EncoderError(
                        f"{self._model}: its code {ran.name} has changed, and this Python still runs what it was.",
                        hint="start Python again, then load the model",
                        code="code-changed-python-still",
                    )

    def _place(self, repository: str) -> Path:
        if repository not in self._places:
            try:
                self._places[repository] = snapshot(repository, self._asked.get(repository), [CODE])
            except EncoderError as fault:
                raise EncoderError(
                    f"{self._model}: it runs code of another repository, which could not be had: {fault.message}",
                    hint=fault.hint,
                    code="runs-code-another-repository",
                ) from fault
        return self._places[repository]


def other_repositories(folders: Iterable[Path]) -> list[str]:
    """The repositories, by name, that the configurations in these folders name as the place of code."""
    references: set[str] = set()
    for folder in folders:
        for path in sorted(folder.glob(_CONFIGURATIONS)):
            references.update(_mapped(read_json(path)))
        modules = folder / "modules.json"
        for module in read_json(modules) if modules.is_file() else ():
            if isinstance(module, dict):
                references.update(_texts(module.get("type")))
    return sorted({reference.partition("--")[0] for reference in references if "--" in reference})


def _is_copy(copied: Path, place: Path) -> bool:
    """Whether `copied` holds what transformers copied of the code in `place`: `…/NAME OF PLACE/HASH`."""
    name = os.path.normpath(place).rpartition(os.sep)[2].replace(".", "_dot_").replace("-", "_hyphen_")
    if copied.parent.name.lstrip("_") != name.lstrip("_"):  # it puts a line before a digit
        return False
    files = [path for path in copied.rglob(CODE) if path.name != "__init__.py"]  # which it makes
    pairs = [(path, place / path.relative_to(copied)) for path in files]
    return all(there.is_file() and there.read_bytes() == path.read_bytes() for path, there in pairs)


def _mapped(content: Any) -> Iterator[str]:
    """The texts in each `auto_map`, wherever it stands in a configuration."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _texts(value) if key == "auto_map" else _mapped(value)
    elif isinstance(content, list):
        for value in content:
            yield from _mapped(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _asked_for(model: str, named: list[str], revisions: Mapping[str, str]) -> dict[str, str]:
    """The revisions by repository."""
    wanted = dict(revisions)
    if "" in wanted:
        if len(named) != 1:
            there = " and ".join(named)
            raise EncoderError(
                f"{model}: code_revision: "
                + (f"its code lies in {there}." if named else "none of its code lies in another repository."),
                hint=f"code_revision={','.join(f'{name}@COMMIT' for name in named)}"
                if named
                else "leave it out; revision=COMMIT is that of the model and of the code beside it",
            )
        wanted[named[0]] = wanted.pop("")
    return wanted


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
            _fetch(self.hub, self.revision, parts=self.parts, code=self.code is not None)
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
        return OtherCode(self.hub or str(self.folder), self.folders, self.hub, self.code.revisions)

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


def _fetch(name: str, revision: str | None, *, parts: bool, code: bool) -> None:
    patterns = [*SMALL_FILES, SAFETENSORS, *([CODE] if code else [])]
    if parts:
        patterns += [f"*/{SAFETENSORS}", f"*/{TORCH_BIN}"]
    place = snapshot(name, revision, patterns)
    if not any(place.glob(SAFETENSORS)):
        snapshot(name, revision, [*patterns, TORCH_BIN])


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

"""Checkpoints: folders that visir wrote and `load` takes; the kind in `visir.json` says who reads one."""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from visir.encoders.base import Encoder
from visir.encoders.devices import COMPILED, TRUSTED, absolute_name, check_code, is_gone, trusting_folder
from visir.encoders.families import CHECKPOINT_FILE, KINDS, family_of
from visir.encoders.loading import load, load_recorded
from visir.errors import EncoderError, MissingPackageError, raise_faults
from visir.options import split_mark, with_option
from visir.records import EncoderCard, Modality
from visir.storage import MANIFEST, FileRecord, FolderChange, FolderKind, Manifest, digest_once, new_file, new_folder
from visir.storage.disk import files_below, system_error

if TYPE_CHECKING:
    from torch import Tensor, nn

COPY_AGAIN = "copy the whole checkpoint again"
ENCODER = FolderKind("", "an encoder", remedy=COPY_AGAIN, error=EncoderError)
_ENDINGS = "safetensors json parquet npy npz model tiktoken"
_NAMES = (
    *(f"**/*.{ending}" for ending in _ENDINGS.split()),
    *(f"**/{name}" for name in ("vocab.txt", "merges.txt", "words.txt", ".tmp??????")),
)
"""What files in the subfolders of a checkpoint are called: tokenizers, configurations, weights."""


@runtime_checkable
class Savable(Protocol):
    """An encoder with a state of its own (a fitted vocabulary): it can be kept inside a checkpoint."""

    def save(self, folder: Path) -> None:
        """Write the state into `folder`, `visir.json` included, such that `load(folder)` brings it back."""


@dataclass(frozen=True)
class Layout:
    """Which files a checkpoint of a kind consists of."""

    kind: FolderKind  # of the folder
    files: tuple[str, ...]  # their names
    subfolders: tuple[str, ...] = ()  # names of folders of further files, each of which may be missing

    @classmethod
    def of(cls, kind: str, files: tuple[str, ...], subfolders: tuple[str, ...] = ()) -> Layout:
        """The layout of a kind of encoder."""
        return cls(FolderKind(kind, "a checkpoint", remedy=COPY_AGAIN, error=EncoderError), files, subfolders)

    def claim(self, change: FolderChange) -> None:
        """Before the files are written."""
        for name in self.files:
            change.file(name)
        for name in self.subfolders:
            change.expect(name, *_NAMES)

    def count(self, change: FolderChange) -> None:
        """After they are."""
        for name in self.subfolders:
            change.written(name)

    def write(self, folder: str | Path, write: Callable[[Path], Mapping[str, Any]], *, replace: bool = False) -> Path:
        """Make a checkpoint in a new folder; see `visir.storage.new_folder`."""
        with new_folder(folder, self.kind, replace=replace) as change:
            self.claim(change)
            change.content = dict(write(change.folder))
            self.count(change)
        return Path(folder)


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """The encoder in a folder that visir wrote; options may follow its name, where the kind has any."""
    path, options = split_mark(name)
    is_trusted = TRUSTED in options.split("&")
    folder = Path(path)
    kind = str(read_description(folder)["kind"])
    if kind == "parts":
        raise EncoderError(
            f"{folder}: a folder of parts, which are vectors of pictures; not a model.",
            hint=f"an index of them: visir index build {shlex.quote(str(folder))} --out NEW; "
            f"the vectors of one part: {shlex.quote(f'parquet:{folder}/parts/PART.parquet')}",
            code="folder-parts-vectors-pictures",
        )
    module = KINDS.get(kind)
    try:
        reader = import_module(module)
    except ModuleNotFoundError as fault:
        raise MissingPackageError(str(fault.name), extra="torch", purpose=f"a checkpoint of kind {kind!r}") from fault
    options = "&".join(option for option in options.split("&") if option and option != TRUSTED)
    if options and not hasattr(reader, "OPTIONS"):
        raise EncoderError(
            f"{name}: a checkpoint of kind {kind!r} has no options.",
            hint=f"leave out ?{options}",
            code="checkpoint-kind-no-options",
        )
    check_files(folder)
    with trusting_folder() if is_trusted else nullcontext(), ENCODER.reading(folder):
        return reader.load_checkpoint(folder, device, dtype, *([options] if options else []))  # type: ignore[no-any-return]


def check_files(folder: Path) -> None:
    """Raise `EncoderError` for files that are missing or not as visir wrote them: vectors would look right."""
    faults = Manifest.read(folder, ENCODER).faults(folder, follow=True, digest=digest_once)
    raise_faults(
        EncoderError, f"{folder}: a checkpoint that is damaged", faults, hint=COPY_AGAIN, code="checkpoint-damaged"
    )


def read_description(folder: Path) -> dict[str, Any]:
    """What `visir.json` says of an encoder: its kind, and the kind's own values."""
    manifest = Manifest.read(folder, ENCODER)
    return {**manifest.content, "kind": manifest.kind}


def write_description(folder: Path, kind: str, content: Mapping[str, Any]) -> None:
    """Write `visir.json` into a folder whose other files are all there."""
    names = [name for name in files_below(folder) if name != MANIFEST]
    records = {name: FileRecord.of(folder / name) for name in names}
    (folder / MANIFEST).write_bytes(Manifest(kind, content, records).to_bytes())


def save_part(encoder: Encoder, folder: Path, name: str) -> dict[str, Any]:
    """Keep an encoder that another one is made of: by its state in `folder / name`, or else by its name alone."""
    # Returns the entry from which `load_part` brings it back.
    if isinstance(encoder, Savable):
        (folder / name).mkdir(exist_ok=True)
        encoder.save(folder / name)
        return {"folder": name}
    name, commits = absolute_name(encoder.card.name), encoder.card.code_revisions
    if commits and "code_revision=" not in name:  # its code stays the one that it was trained over
        pinned = ",".join(f"{repository}@{commit}" for repository, commit in commits.items())
        name = with_option(name, "code_revision", pinned)
    return {"name": name, "revision": encoder.card.revision}


def load_part(folder: Path, entry: dict[str, Any], device: str | None, dtype: str) -> Encoder:
    """Bring back what `save_part` kept; a device or dtype that its family cannot use is not asked of it."""
    allow = f"load {folder}?{TRUSTED}"
    if "folder" in entry:
        part = Path(str(entry["folder"]))
        if part.is_absolute() or ".." in part.parts:  # a checkpoint of somebody else names no folder of yours
            raise EncoderError(
                f"{folder / MANIFEST}: part {str(part)!r} lies outside the checkpoint.",
                hint=COPY_AGAIN,
                code="part-lies-outside-checkpoint",
            )
        return load_recorded(str(folder / part), folder, allow=allow, device=device, dtype=dtype)
    name = str(entry["name"])
    check_code(name, folder, allow)
    if is_gone(name):
        raise EncoderError(
            f"{folder}: it is built over {name}, which is not there any more.",
            hint="move that model back, or put a link where it was: ln -s NEW_PLACE OLD_PLACE",
            code="built-over-not-more",
        )
    family = family_of(name)
    return load(
        name,
        device=device if family.devices and (device != COMPILED or family.compiles) else None,
        dtype=dtype if dtype in family.dtypes else "float32",
        revision=entry["revision"] if family.revisions else None,
    )


def check_base_encoder(folder: Path, trained: dict[str, Any], card: EncoderCard, side: Modality | None = None) -> None:
    """Refuse an encoder that is not the one that a head, or an adapter, was trained over."""
    now, which = card.to_dict(), f"{side} base encoder" if side else "base encoder"
    differing = [
        f"{field}: trained with {trained[field]!r}, found {now[field]!r}"
        for field in EncoderCard.from_dict(trained).differences(card, side)
    ]
    if differing:
        raise EncoderError(
            f"{folder}: the {which} {card.name!r} is not the one this was trained over: {'; '.join(differing)}",
            hint="restore that base encoder, or train again",
            code="base-encoder-not-one",
        )


# Files of weights.


def save_weights(tensors: Mapping[str, Tensor], path: Path, *, metadata: dict[str, str] | None = None) -> None:
    """Write tensors of any device as a file `path`, which takes the place of one that is there."""
    # The library writes into a temporary file of its own naming first; that is kept out of the folder of `path`.
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        with new_file(path, replace=True) as temporary:
            save_file(plain, str(temporary), metadata=metadata)
    except Exception as fault:
        cause = system_error(fault)
        if cause is None:
            raise
        raise cause from fault


def read_weights(path: Path, whole: str = "checkpoint", missing: str = "") -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file and what else it says; errors tell to copy the `whole` again, or what is `missing`."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise EncoderError(f"{path}: missing.", hint=missing or f"was the whole {whole} copied?")
    try:
        with safe_open(str(path), framework="pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (not a mapping)
            return tensors, stored.metadata() or {}
    except SafetensorError as fault:
        raise EncoderError(
            f"{path}: cannot be read: {fault}", hint=f"copy the whole {whole} again", code="cannot-read"
        ) from fault


def save_modules(modules: Mapping[Any, nn.Module], path: Path) -> None:
    """Write the weights of networks into one file, each behind its name ("" for a single one)."""
    # Every tensor in memory of its own: safetensors keeps no ties.
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, module in modules.items():
        for key, tensor in module.state_dict().items():
            copied = tensor.detach().cpu().contiguous()
            if copied.untyped_storage().data_ptr() in seen:
                copied = copied.clone()
            seen.add(copied.untyped_storage().data_ptr())
            tensors[f"{name}.{key}" if name else key] = copied
    save_weights(tensors, path)


def load_modules(path: Path, modules: Mapping[Any, nn.Module]) -> None:
    """Put the weights of a file of `save_modules` into networks of the same shapes."""
    tensors, _ = read_weights(path)
    for name, module in modules.items():
        before = f"{name}." if name else ""
        own = {key.removeprefix(before): value for key, value in tensors.items() if key.startswith(before)}
        try:
            module.load_state_dict(own)
        except RuntimeError as fault:
            raise EncoderError(
                f"{path}: does not fit {path.parent / CHECKPOINT_FILE}: {fault}", hint=COPY_AGAIN, code="not-fit"
            ) from fault


# Files that other programs saved, read without running anything in them.


def read_torch_file(path: Path, name: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights in a file of `torch.save`, and the plain values of a configuration that lies beside them."""
    # A training run saves `{"model": weights, "config": …, "optimizer": …}`, a published file sometimes the weights
    # alone; both are read. The file is mapped, not read: optimiser states cost no memory.
    # Nothing in the file is executed (`weights_only`); a file that cannot be read in this way is an `EncoderError` that
    # names the class in it and how to save the weights alone.
    import torch
    from torch import Tensor

    where = f"{name}: {path}" if name else str(path)
    if not path.is_file():
        raise EncoderError(f"{where}: there is no such file.", hint="name the checkpoint file itself", code="no-file")
    try:
        # Files of PyTorch before 1.6 are no archives, and cannot be mapped.
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except UnpicklingError as fault:
        raise EncoderError(
            f"{where} holds more than weights and plain values ({_refused(fault)}); reading it would run code.",
            hint="where you trust it, save the weights alone: "
            "torch.save({'model': torch.load(OLD, weights_only=False)['model']}, NEW)",
            code="holds-more-weights-plain",
        ) from fault
    except (OSError, RuntimeError, EOFError, ValueError, LookupError) as fault:
        raise EncoderError(
            f"{where} cannot be read as a checkpoint: {str(fault).splitlines()[0] if str(fault) else fault!r}",
            hint="the file is damaged, cut short, or of another kind; fetch it again and compare its size",
            code="weights-cannot-read",
        ) from fault
    state = content.get("model", content) if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise EncoderError(
            f"{where} holds no weights by name.",
            hint="expected {'model': state_dict, …}, or a state_dict alone",
            code="holds-no-weights-name",
        )
    config = content.get("config")
    return dict(state), dict(config) if isinstance(config, Mapping) else {}


def _refused(fault: UnpicklingError) -> str:
    """The class that `weights_only` refused, from torch's long message."""
    text = str(fault)
    _, separator, rest = text.partition("GLOBAL ")
    return rest.split()[0] if separator and rest.split() else text.splitlines()[0]

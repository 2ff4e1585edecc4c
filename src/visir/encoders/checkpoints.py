"""Folders that visir wrote: `visir.json` says of which kind a folder is, and the kind says who reads it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from visir.encoders.base import Encoder
from visir.encoders.families import CHECKPOINT_FILE, KINDS, family_of
from visir.encoders.loading import load
from visir.errors import EncoderError, MissingPackageError
from visir.files import read_json, write_json


@runtime_checkable
class Savable(Protocol):
    """An encoder with a state of its own (a fitted vocabulary): it can be kept inside a checkpoint."""

    def save(self, folder: Path) -> None:
        """Write the state into `folder`, `visir.json` included, such that `load(folder)` brings it back."""


def load_family(name: str, device: str | None, dtype: str, revision: str | None) -> Encoder:
    """The encoder in a folder that visir wrote; options may follow its name, where the kind has any."""
    path, _, options = (name, "", "") if Path(name).is_dir() else name.partition("?")
    folder = Path(path)
    kind = str(read_description(folder)["kind"])
    module = KINDS.get(kind)
    try:
        reader = import_module(module)
    except ModuleNotFoundError as fault:
        raise MissingPackageError(str(fault.name), extra="torch", purpose=f"a checkpoint of kind {kind!r}") from fault
    if not options:
        return reader.load_checkpoint(folder, device, dtype)  # type: ignore[no-any-return]
    if not hasattr(reader, "OPTIONS"):
        raise EncoderError(f"{name}: a checkpoint of kind {kind!r} has no options.", hint=f"leave out ?{options}")
    return reader.load_checkpoint(folder, device, dtype, options)  # type: ignore[no-any-return]


def read_description(folder: Path) -> dict[str, Any]:
    """The content of `visir.json`; anything but an object with a "kind" is an error."""
    description = read_json(folder / CHECKPOINT_FILE)
    if not isinstance(description, dict) or not isinstance(description.get("kind"), str):
        raise EncoderError(f'{folder / CHECKPOINT_FILE}: must be an object with a "kind".', hint=f"one of {[*KINDS]}")
    return description


def write_description(folder: Path, kind: str, content: dict[str, Any]) -> None:
    """Write `visir.json` with its kind first."""
    write_json(folder / CHECKPOINT_FILE, {"kind": kind, **content})


def save_part(encoder: Encoder, folder: Path, name: str) -> dict[str, Any]:
    """Keep an encoder that another one is made of: by its state in `folder / name`, or else by its name alone.

    Returns the entry from which `load_part` brings it back.
    """
    if isinstance(encoder, Savable):
        (folder / name).mkdir()
        encoder.save(folder / name)
        return {"folder": name}
    return {"name": encoder.card.name, "revision": encoder.card.revision}


def load_part(folder: Path, entry: dict[str, Any], device: str | None, dtype: str) -> Encoder:
    """Bring back what `save_part` kept; a device or dtype that its family cannot use is not asked of it."""
    if "folder" in entry:
        return load(folder / entry["folder"], device=device, dtype=dtype)
    family = family_of(entry["name"])
    return load(
        entry["name"],
        device=device if family.devices else None,
        dtype=dtype if dtype in family.dtypes else "float32",
        revision=entry["revision"] if family.revisions else None,
    )

"""Where a model lies whose name is a path."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from visir.errors import EncoderError
from visir.files import is_there
from visir.options import split_mark


def absolute_name(name: str) -> str:
    """A name with the path in it made absolute: "runs/towers", "runs/sparse?expansion=none", "onnx:FILE#tensor"."""
    for prefix, rest in (("", name), name.partition(":")[::2]):
        place = split_mark(rest)[0].partition("#")[0]
        if place and is_there(place):
            return f"{prefix}{':' if prefix else ''}{Path(place).absolute()}{rest[len(place) :]}"
    return name


def is_gone(name: str) -> bool:
    """Whether the name of a model is an absolute path, and nothing is there any more."""
    paths = [Path(split_mark(part)[0].partition("#")[0]) for part in (name, name.partition(":")[2])]
    return any(path.is_absolute() and not is_there(path) for path in paths)


# Whether a model that a file names may run code of its own: whoever wrote the file does not decide that.

TRUSTED = "code=trusted"
"""The option that lets the code of a model run."""
_ELSEWHERE = "://"
"""In a name that is asked for at an address: reading it tells that address of this machine, and may use its keys."""
NAMES = "VISIR_TRUSTED_CODE"
"""The environment variable with the names of models whose code may run, one in each line."""
_named: set[str] = set()
_IN_TRUSTED_FOLDER: ContextVar[bool] = ContextVar("in a folder whose models may run code", default=False)


class CodeNotTrustedError(EncoderError):
    """A file names a model that runs code of its own, and the user has not named it."""


def name_model(name: str) -> None:
    """Record that the user has named this model in this process."""
    if TRUSTED in name or _ELSEWHERE in name:
        _named.add(absolute_name(name))


@contextmanager
def trusting_folder() -> Iterator[None]:
    """Inside, every name counts: the user has written `FOLDER?code=trusted`."""
    token = _IN_TRUSTED_FOLDER.set(True)
    try:
        yield
    finally:
        _IN_TRUSTED_FOLDER.reset(token)


def check_code(name: str, place: object, allow: str = "") -> None:
    """Check that a name that was read from a file lets no code run, and asks no address, that the user has not
    named."""
    # The option is looked for anywhere in the name: a name can hold another one (`ADAPTER?base=NAME?code=trusted`).
    if (TRUSTED not in name and _ELSEWHERE not in name) or _IN_TRUSTED_FOLDER.get():
        return
    if absolute_name(name) in _named | set(map(absolute_name, os.environ.get(NAMES, "").splitlines())):
        return
    if _ELSEWHERE in name:
        raise CodeNotTrustedError(
            f"{place}: it names the model {name}, an address, and nobody has said here that it may be asked.",
            hint=f"if you know that address, and trust who made {place}: {allow or f'name that model: {name}'}",
            code="names-model-address-nobody",
        )
    export = f"export {NAMES}={shlex.quote(absolute_name(name))}"
    raise CodeNotTrustedError(
        f"{place}: it names the model {name}, which runs code of its own, and nobody has said here that it may.",
        hint=f"read that code; if you trust it, and who made {place}: {' or '.join(filter(None, (allow, export)))}",
        code="names-model-runs-code",
    )

"""Folders that visir made of a collection, given where a collection is wanted: what they are, and what to do."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from visir.errors import CollectionError, VisirError
from visir.remote import RemoteFolder, UnreachableError, is_url
from visir.storage import MANIFEST, Manifest, is_made_by_visir

LARGEST_MANIFEST = 8_000_000
"""Bytes: what is larger at an address is no manifest, and is not read."""
_BEGIN = b'{"visir":'
"""How a manifest begins, without white space."""
_answers: ContextVar[dict[str, Manifest | VisirError | None] | None] = ContextVar("answers", default=None)

_KINDS = {
    "parts": (
        "a folder of parts: the vectors of pictures (visir encode --parts), without the pictures",
        "for an index of them: visir index build {path} --out NEW (in Python: visir.retrieval.build_index("
        "visir.encoders.Parts({name!r}), out=…)); for a library, and all else, name the files that they were "
        "encoded from",
    ),
    "index": (
        "an index: vectors, without pictures or captions",
        "to search it: visir index search {path} QUERY; for all else name the collection that it was built from",
    ),
}
"""Kind of folder → what it is, and the next action."""


def check_no_own_folder(path: str | Path, wanted: str = "a collection") -> None:
    """Raise `CollectionError` for a folder of a kind that holds no source; nothing of it is copied."""
    elsewhere = kind_elsewhere(str(path)) if is_url(path) else None
    if not is_url(path) and (Path(path) / MANIFEST).is_file():
        Manifest.read(Path(path))  # a damaged one tells no kind
    for kind, (title, hint) in _KINDS.items():
        if elsewhere == kind or (not is_url(path) and is_made_by_visir(path, kind)):
            action = hint.format(path=shlex.quote(str(path)), name=str(path))
            if elsewhere == "index":
                action = f"copy it to a disk here, and name the copy; {action}"
            raise CollectionError(f"{path}: {title}; not {wanted}.", hint=action, code="not-value")


def kind_elsewhere(url: str) -> str | None:
    """The kind of the folder at an address, by one small file in it, `visir.json`."""
    try:
        manifest = manifest_elsewhere(url)
    except UnreachableError:
        return None
    return None if manifest is None else manifest.kind


def manifest_elsewhere(url: str) -> Manifest | None:
    """What the `visir.json` of a folder at an address says; None where there is none that visir wrote."""
    # Some servers answer any address with some page, or with the file that is meant: that is none.
    folder, answers = url.partition("?")[0], _answers.get()
    if answers is None:
        return _asked(folder)
    if folder not in answers:
        try:
            answers[folder] = _asked(folder)
        except VisirError as fault:
            answers[folder] = fault
    answer = answers[folder]
    if isinstance(answer, VisirError):
        raise answer
    return answer


@contextlib.contextmanager
def asked_once() -> Iterator[None]:
    """Inside this block an address is asked for its `visir.json` once, and the answer is remembered; faults too."""
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def _asked(folder: str) -> Manifest | None:
    data = RemoteFolder(folder).read_at_most(MANIFEST, LARGEST_MANIFEST)
    if data is None:
        return None
    try:
        return Manifest.from_bytes(data, f"{folder.rstrip('/')}/{MANIFEST}")
    except VisirError as fault:
        begin = b"".join(data[:64].split())[: len(_BEGIN)]
        if not begin or not _BEGIN.startswith(begin):
            return None
        raise CollectionError(
            fault.message, hint="copy the folder again from where it was made, or name another one"
        ) from fault

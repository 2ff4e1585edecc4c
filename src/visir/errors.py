"""Errors that name the place and the next action.

Every error a user can cause is a `VisirError`. Its text says where (file, line, id), what was found, what was expected,
and what to do next. The command line prints it without a traceback and exits with status 2.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import traceback
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from visir.terminal import safe

_COLON = re.compile(
    r"""(?<!\w)'(?:\\.|[^'\\\n])*'(?!\w) | (?<!\w)"(?:\\.|[^"\\\n])*"(?!\w) | (?:\ \(\d+\ faults?\))?(:)\s | \n""",
    re.VERBOSE,
)
"""What is quoted, or the colon after a place, with the count of faults before it."""
_VERB = re.compile(r"(?<!['\w])(?:is|are|has|have|was|were|no|not|cannot)\b")
"""What a sentence has, and a place has not."""
_NAME = re.compile(
    r"""(?<!\w)'((?:\\.|[^'\\\n])*)'(?!\w) | (?<!\w)"((?:\\.|[^"\\\n])*)"(?!\w)  # a quoted value
    | ((?<![\w-])--?[a-z][\w-]*)                                               # an option
    | ((?:[\w.~-]*[/\\][^\s,;:()'"]*|\w[\w-]*(?:\.[A-Za-z]\w*)+)[^\s,;:.()'"])  # a path, a file, a dotted name
    | ((?<![\w.])-?\d(?:[\d,]*\d)?(?:\.\d+)?(?!\w))                             # a number
    """,
    re.VERBOSE,
)


class VisirError(Exception):
    """Anything wrong that the person at the keyboard can mend: every error that visir raises on purpose.

    Sentences may be worded anew in any version; a program asks for `code`, `place` and `names`.

    Attributes:
        message: The place and the fault.
        hint: The next action.
        code: Which fault it is, in a word or a few: "missing-package". Faults of a class that nobody had to tell apart
            share the name of the class.

    Example:
        >>> import visir
        >>> try:
        ...     visir.load("no-such-model:x")
        ... except visir.VisirError as fault:
        ...     print(type(fault).__name__)
        EncoderError
        >>> fault = visir.VisirError("photos.csv, line 3: no picture 'a.jpg' among 20.", code="no-picture")
        >>> fault.code, fault.place, fault.names
        ('no-picture', 'photos.csv, line 3', ('photos.csv', '3', 'a.jpg', '20'))
    """

    code: str = ""

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        self.message = message
        self.hint = hint
        self.code = code or _slug(type(self).__name__)
        super().__init__(f"{message}\n  → {hint}" if hint else message)

    @property
    def place(self) -> str:
        """Where the fault is: what stands before the colon of the message (a file, a line, an id, an option), or ""."""
        end = next((mark for mark in _COLON.finditer(self.message) if mark[1] or mark[0] == "\n"), None)
        place = self.message[: end.start()] if end and end[1] else ""
        return "" if _VERB.search(place) else place

    @property
    def names(self) -> tuple[str, ...]:
        """The values in the message, in its order: what is quoted, files, options, numbers."""
        values = (next(filter(None, mark.groups()), "") for mark in _NAME.finditer(self.message))
        return tuple(re.sub(r"\\(['\"\\])", r"\1", value) for value in values)

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of a traceback through visir: the caller's line, the fault, the next
        action."""
        # With the environment variable `VISIR_TRACEBACK` (in a notebook: `%env VISIR_TRACEBACK=1`) it is the traceback.
        if os.environ.get("VISIR_TRACEBACK"):
            return traceback.format_exception(self)
        places = [place for place in traceback.extract_tb(self.__traceback__) if not _is_own(place.filename)]
        lines = [f"{_where(place)}: {place.line}" for place in places[-1:] if place.line]
        return [*lines, f"\x1b[31m{type(self).__name__}\x1b[39m: {safe(str(self))}"]


def _slug(name: str) -> str:
    """The name of a class as a code: MissingPackageError is "missing-package"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name.strip("_").removesuffix("Error")).lower()


def docs_page(name: str) -> str:
    """The address of a page of the documents, for hints: who has installed visir has no docs/."""
    return f"https://visir-project.github.io/visir/{name}/"


def _where(place: traceback.FrameSummary) -> str:
    """The line of a cell, or of a file."""
    name = Path(place.filename)
    is_cell = place.filename.startswith("<") or name.parent.name.startswith("ipykernel_")
    return f"line {place.lineno}" if is_cell else f"{name.name}, line {place.lineno}"


def _is_own(filename: str) -> bool:
    return Path(filename).is_relative_to(Path(__file__).parent)


NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Numbers of the system's errors: a disk, a quota or a limit gives no more room."""
DISK_REFUSALS = NO_ROOM | {errno.EROFS}
"""The same, and disks that can only be read."""
_REMEDIES = {
    errno.ENOSPC: "make room, and run the same again",
    errno.EDQUOT: "make room in your quota, and run the same again",
    errno.EFBIG: "the file system or a limit (ulimit -f) allows no larger file: name another place",
    errno.EROFS: "name a place that can be written",
    errno.EACCES: "check its permissions, or name another place",
    errno.EPERM: "check its permissions, or name another place",
    errno.EIO: "the disk is faulty, or away: look at the system's log",
    errno.ESTALE: "the network disk was away: run the same again",
    errno.EMFILE: "allow more open files: ulimit -n 4096",
    errno.ENAMETOOLONG: "give shorter names",
}


def from_system(fault: OSError) -> VisirError | None:
    """What the system refused (a full disk, permissions), as an error with a next action; None for anything else."""
    if fault.errno not in _REMEDIES:
        return None
    return VisirError(f"{fault.filename or 'disk'}: {fault.strerror}.", hint=_REMEDIES[fault.errno])


class CollectionError(VisirError):
    """A collection's files or contents are not what they should be."""


class ImageError(CollectionError):
    """One image's bytes are missing, broken, or refused."""

    def __init__(self, message: str, *, hint: str = "", lasting: bool = False, code: str = "") -> None:
        super().__init__(message, hint=hint, code=code)
        self.lasting = lasting

    @property
    def reason(self) -> str:
        """Why an image was set aside, and what can be done about it, in one line."""
        return f"{self.message} → {self.hint}" if self.hint else self.message


class EncoderError(VisirError):
    """A model cannot be found, loaded, or used in the way asked for."""


class TextError(EncoderError):
    """A text that a model cannot read."""


class EmbeddingError(VisirError):
    """Vectors are malformed: NaN, zero, wrong dimension, unknown or duplicate ids."""


class RunError(VisirError):
    """A ranked run is malformed or does not fit the gallery it claims."""


class ProtocolError(VisirError):
    """Two numbers that must not be put side by side, or a protocol that is not fully declared."""


class ConfigurationError(VisirError):
    """A configuration has faults; all of them are listed at once."""


class MissingPackageError(VisirError):
    """An optional package is not installed; the hint is the command that installs it."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed.", hint=f"pip install 'visir[{extra}]'"
        )


def require(*packages: str, extra: str, purpose: str) -> None:
    """Raise `MissingPackageError` for the first of these packages (import names) that is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingPackageError(package, extra=extra, purpose=purpose)


def is_installed(package: str) -> bool:
    """Whether a package (import name) is installed; it is not imported."""
    return find_spec(package) is not None


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint for an unknown name: the nearest known one, and the whole list when it is short."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    listing = ", ".join(names) if len(names) <= 24 else f"{len(names)} names"
    return (f"did you mean {close[0]!r}? " if close else "") + (f"known: {listing}" if names else "there are none")


def raise_faults(
    error: type[VisirError], title: str, faults: Sequence[str], *, hint: str = "", code: str = "", limit: int = 20
) -> None:
    """Raise one `error` that lists every fault (the first `limit` in full, the rest counted); do nothing if none."""
    if not faults:
        return
    lines = [f"  - {fault}" for fault in faults[:limit]]
    if len(faults) > limit:
        lines.append(f"  - … and {len(faults) - limit} more")
    counted = f"{len(faults)} {'fault' if len(faults) == 1 else 'faults'}"
    raise error(f"{title} ({counted}):\n" + "\n".join(lines), hint=hint, code=code)

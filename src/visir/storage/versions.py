"""The version of a format: every file and folder that visir reads back carries one, and an unknown one is refused."""

from __future__ import annotations

from pathlib import Path

from visir.errors import VisirError


def check_version(
    version: object,
    known: int,
    path: str | Path,
    *,
    what: str,
    remedy: str,
    error: type[VisirError] = VisirError,
) -> None:
    """Raise unless a file or folder has the version that this visir reads.

    Args:
        version: The version that it carries; None where it carries none.
        known: The version that this visir reads.
        path: The file, for the message.
        what: What has this version: "result", "index".
        remedy: The next action where the file is older, or has no version: how to make it again.
        error: The class of the error.

    Raises:
        VisirError: The version is another one. For a newer one the next action is to update visir.

    Example:
        >>> check_version(3, 1, "runs/a/result.json", what="result", remedy="evaluate again")
        Traceback (most recent call last):
            ...
        visir.errors.VisirError: runs/a/result.json: written by a newer visir (result, version 3; this one reads 1).
          → update visir
    """
    if type(version) is int and version == known:
        return
    if type(version) is not int:
        raise error(f"{path}: has no version of a {what} that visir reads (this one reads {known}).", hint=remedy)
    age = "a newer" if version > known else "an older"
    raise error(
        f"{path}: written by {age} visir ({what}, version {version}; this one reads {known}).",
        hint="update visir" if version > known else remedy,
        code="written-visir-version-one",
    )

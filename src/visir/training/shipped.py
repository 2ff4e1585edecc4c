"""The recipes that come with visir: found by name, and listed without reading more than their first lines."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from visir.errors import ConfigurationError, nearest

FOLDER = Path(__file__).parents[1] / "recipes"


def shipped_recipes(verb: str = "train", folder: Path = FOLDER) -> dict[str, Path]:
    """Their files by name, in alphabetical order; the folders they lie in are no part of the name.

    Args:
        verb: Of the command that runs them, with which each file opens: "train", "sparsify", …
        folder: Where they lie; an application has those of its own verbs in its own folder.
    """
    return dict(sorted((path.stem, path) for path in folder.rglob("*.toml") if _opens(path, verb)))


def find_recipe(name: str | Path, verb: str = "train", folder: Path = FOLDER) -> Path:
    """The file of a recipe: a path as it is, or the name of one that comes with visir.

    Args:
        name: A path, or a name ("scenes-heads").
        verb: Of the command that runs the recipe.
        folder: Where recipes of that verb lie.

    Raises:
        ConfigurationError: There is neither; the hint is the nearest name.

    Example:
        >>> find_recipe("scenes-heads").name
        'scenes-heads.toml'
    """
    path = Path(name)
    if path.is_file():
        return path
    shipped = shipped_recipes(verb, folder)
    if str(name) in shipped:
        return shipped[str(name)]
    raise ConfigurationError(
        f"{name}: no such file, and no recipe of that name comes with visir.",
        hint=f"{nearest(path.stem, shipped)}; all of them: visir {verb} --list",
    )


def base_of(name: str, path: Path, verb: str = "train", folder: Path = FOLDER) -> Path:
    """What `extends = name` means in the recipe `path`: a file beside it, or one that comes with visir."""
    beside = path.parent / name
    return beside if beside.is_file() else find_recipe(name, verb, folder)


sparse_base_of = partial(base_of, verb="sparsify")
"""The same for recipes of sparse heads."""


def _opens(path: Path, verb: str) -> bool:
    """Whether this is the command that a recipe's first line names: "# visir VERB NAME"."""
    with path.open(encoding="utf-8") as lines:
        return lines.readline().startswith(f"# visir {verb} ")


def summary(path: Path) -> str:
    """The first sentence that a recipe's opening comment says about it, after the command that runs it."""
    comment: list[str] = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            text = line.removeprefix("#").strip()
            if not line.startswith("#") or (comment and not text):
                break
            if text and not text.startswith("visir "):
                comment.append(text)
    return re.split(r"(?<=\.)\s+(?=[A-Z])", " ".join(comment))[0]

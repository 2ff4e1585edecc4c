"""The recipes that come with visir: found by name, and listed without what they build."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import overload

from visir.display import Tabular
from visir.errors import ConfigurationError, nearest
from visir.plugins import RECIPES, plugin_folders

OWN = ("name", "title", "group")
"""Keys that a recipe does not take over from the one that it extends."""
GROUPS = {
    "own": "Your own data: name it with --data",
    "try": "To try: nothing to download, seconds to minutes",
    "measured": "Measured in the documents: real data on two cores",
    "ltd": "Papers: latent target decoding (Bleeker et al. 2022), Tables 1 to 3",
    "shortcuts": "Papers: shortcuts (thesis, chapter 4), Tables 4.1 and 4.2",
    "d2s": "Papers: dense vectors in words (thesis, chapter 3), Table 3.2",
}
"""Key `group` of a recipe → the heading under which it is listed, which says when to use it."""
FOLDER = Path(__file__).parents[1] / "recipes"


def shipped_recipes(verb: str = "train", folder: Path = FOLDER) -> dict[str, Path]:
    """Their files by name, in alphabetical order; the folders they lie in are no part of the name."""
    # Other packages add theirs to visir's own; the recipes of another folder are those of an application.
    folders = (*plugin_folders(RECIPES), folder) if folder == FOLDER else (folder,)
    files = (path for parent in folders for path in parent.rglob("*.toml"))
    return dict(sorted({path.stem: path for path in files if _opens(path, verb)}.items()))


@dataclass(frozen=True)
class RecipeEntry:
    """A recipe in a list."""

    name: str  # what it is called
    title: str  # what it is for
    group: str  # a key of `GROUPS`
    verb: str  # of the command that runs it: "train", "sparsify"
    path: Path  # its file


@dataclass(frozen=True, repr=False)
class RecipeList(Tabular, Sequence[RecipeEntry]):
    """Recipes in the order in which they are listed: those for own data first, those of papers last.

    Attributes:
        entries: The recipes.
    """

    entries: tuple[RecipeEntry, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that occur, in order."""
        return tuple(dict.fromkeys(entry.group for entry in self.entries))

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(entry.name for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> RecipeEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RecipeEntry]: ...
    def __getitem__(self, index: int | slice) -> RecipeEntry | Sequence[RecipeEntry]:
        return self.entries[index]

    def __repr__(self) -> str:
        lines = []
        for group in self.groups[:5]:
            members = [entry.name for entry in self.entries if entry.group == group]
            more = f", … ({len(members)})" if len(members) > 3 else ""
            lines.append(f"  {group}: {', '.join(members[:3])}{more}")
        return "\n".join([f"RecipeList: {len(self)} recipes", *lines])


def recipes(verb: str = "train", within: str | None = None) -> RecipeList:
    """The recipes that come with visir.

    Args:
        verb: Of the command that runs them: "train" (for `visir.train`) or "sparsify" (for `visir.sparsify`).
        within: A group (a key of `GROUPS`), or a text: only recipes whose name or title holds it.

    Raises:
        ConfigurationError: No recipe is run by this verb, or none holds the text.

    Example:
        >>> import visir
        >>> visir.recipes(within="own").names
        ('clip-finetune', 'clip-lora', 'composed', 'from-scratch', 'heads', 'text-finetune')
        >>> visir.recipes("sparsify")[0].name
        'sparse'
    """
    entries = [_entry(path, verb) for path in shipped_recipes(verb).values()]
    if not entries:
        raise ConfigurationError(f"no recipes of {verb!r}.", hint="visir.recipes('train'), visir.recipes('sparsify')")
    order = list(GROUPS)
    entries.sort(key=lambda entry: (order.index(entry.group), entry.name))
    text = (within or "").lower()
    chosen = [entry for entry in entries if entry.group == text] or [
        entry for entry in entries if text in f"{entry.name} {entry.title}".lower()
    ]
    if not chosen:
        raise ConfigurationError(
            f"no recipe holds {within!r}.",
            hint=nearest(text, [*order, *(entry.name for entry in entries)]),
            code="no-recipe-holds",
        )
    return RecipeList(tuple(chosen))


def _entry(path: Path, verb: str) -> RecipeEntry:
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    return RecipeEntry(path.stem, values["title"], values["group"], verb, path)


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
        hint=f"{nearest(path.stem, shipped)}; all of them: visir {verb} --list"
        + ("" if plugin_folders(RECIPES) else "; those of the papers: pip install visir-papers"),
        code="no-such-file-no",
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

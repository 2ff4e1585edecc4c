"""Completion of names in the shell: models, recipes, tables, formats, measures, kinds, splits, result folders.

Pressing Tab runs visir, so nothing here imports torch, and a fault completes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import typer

LARGEST = 20 * 2**20
"""Bytes of a file that is opened to complete the names of its splits."""
SPLITS = ("train", "val", "test")


def completes(names: Callable[..., Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    """A completion from a function that lists names; it may take the context, and what is typed so far."""

    @functools.wraps(names)
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            listed = list(names(ctx, incomplete))
        except Exception:  # a shell shows nothing of it, and the command itself will say what is wrong
            return []
        return [name for name in listed if name.startswith(incomplete)]

    complete.__annotations__ = {"ctx": typer.Context, "incomplete": str, "return": list[str]}
    del complete.__wrapped__
    return complete


def of(*names: str) -> Callable[[typer.Context, str], list[str]]:
    """A completion of fixed names.

    Example:
        >>> of("holm", "none")(None, "h")
        ['holm']
    """
    return completes(lambda ctx, incomplete: names)


complete_device = of("cpu", "cuda", "mps", "openvino")
complete_correction = of("holm", "bonferroni", "bh", "none")


@completes
def complete_model(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Names of families ("pixels", "st:"), well-known models, and folders that hold a model."""
    from visir.encoders.families import FAMILIES, KINDS, models

    for family in map(FAMILIES.get, FAMILIES):
        yield from (f"{prefix}:" if f"{prefix}:" in family.form else prefix for prefix in family.prefixes)
        yield family.example
    yield from (model.name for model in models() if model.source)
    yield from _folders(incomplete, set(KINDS))


@completes
def complete_recipe(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Recipes of the verb that is typed, and TOML files."""
    from visir.training.shipped import recipes

    verb = "sparsify" if ctx.info_name == "sparsify" else "train"
    yield from (recipe.name for recipe in recipes(verb))
    yield from _files(incomplete, ".toml")


@completes
def complete_published(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Published tables that come with visir: the names of their files."""
    from importlib.util import find_spec

    package = find_spec("visir.evaluation")
    folder = Path(((package and package.submodule_search_locations) or [""])[0]) / "published"
    yield from sorted({path.stem for path in folder.rglob("*.json")})
    yield from _files(incomplete, ".json", ".toml")


@completes
def complete_format(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Formats of collections."""
    from visir.collections.formats import FORMATS

    return FORMATS


@completes
def complete_measure(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Measures, those with a cutoff as "hit@"."""
    from visir.evaluation.measures.registry import DEFAULT_MEASURES, MEASURES

    return [*DEFAULT_MEASURES, *MEASURES]


@completes
def complete_index_kind(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Kinds of index."""
    from visir.retrieval.kinds import KINDS

    return KINDS


@completes
def complete_perturbation(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Perturbations of captions; behind a "+" the next of a chain."""
    from visir.robustness.perturbations import PERTURBATIONS

    before, plus, _ = incomplete.rpartition("+")
    return [f"{before}{plus}{name}" for name in ([*PERTURBATIONS] if plus else ["all", *PERTURBATIONS])]


@completes
def complete_split(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Splits of the source that is typed already; the usual ones where it is large or there is none."""
    from visir.collections import open_source

    source = next((ctx.params[name] for name in ("collection", "source", "place") if ctx.params.get(name)), None)
    before, plus, _ = incomplete.rpartition("+")
    names: Iterable[str] = SPLITS
    if isinstance(source, str) and (not Path(source).is_file() or Path(source).stat().st_size < LARGEST):
        names = [
            name
            for name in open_source(source, **({"images": "none"} if Path(source).is_file() else {})).splits
            if name
        ]
    return [f"{before}{plus}{name}" for name in names]


@completes
def complete_result(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Folders with a result, and folders on the way to one."""
    return _folders(incomplete, {"result"})


def _folders(incomplete: str, kinds: set[str]) -> Iterable[str]:
    """Folders that visir made of these kinds, and others, which end in "/" to go on from."""
    from visir.files import read_json

    at = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    lead = "" if str(at) == "." and not incomplete.startswith("./") else f"{str(at).rstrip('/')}/"
    for folder in sorted(item for item in at.iterdir() if item.is_dir() and not item.name.startswith(".")):
        manifest = folder / "visir.json"
        if not manifest.is_file():
            yield f"{lead}{folder.name}/"
        elif not kinds or str(read_json(manifest).get("kind", "")) in kinds:
            yield f"{lead}{folder.name}"


def _files(incomplete: str, *suffixes: str) -> Iterable[str]:
    at = Path(incomplete).parent
    lead = "" if str(at) == "." else f"{at}/"
    return [f"{lead}{item.name}" for item in sorted(at.iterdir()) if item.suffix in suffixes]


Complete = Callable[[Any, str], list[str]]

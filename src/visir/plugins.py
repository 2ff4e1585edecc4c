"""What other packages add to visir, by entry points: the only place that looks for them.

A group is a name such as "visir.measures"; `docs/how-to/extend-visir.md` says what each takes. visir's own applications
are named in `visir/wiring.py` and, in the same words, in `pyproject.toml`: a table in code is found from a source tree
too, and costs no search through the installed packages.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

APPLICATIONS = "visir.plugins"
ENCODERS = "visir.encoders"
FORMATS = "visir.formats"
MEASURES = "visir.measures"
PERTURBATIONS = "visir.perturbations"
CORRUPTIONS = "visir.corruptions"
INDEX_KINDS = "visir.index_kinds"
ENGINES = "visir.engines"
EXTRACTORS = "visir.extractors"
RECIPES = "visir.recipes"
PUBLISHED = "visir.published"

BUILT_IN: dict[str, str] = {}
"""visir's own applications: name → "module:attribute", in the order in which `visir --help` lists their verbs."""

PARTS: dict[str, str] = {}
"""What rooms above give to those below: its name → "module" or "module:attribute". `visir/wiring.py` fills both."""


def load_target(target: str) -> Any:
    """The object that "module:attribute" or "module:Class.method" names."""
    module, _, attribute = target.partition(":")
    return attrgetter(attribute)(import_module(module)) if attribute else import_module(module)


def part(name: str) -> Any:
    """What a room above gives under this name."""
    return load_target(PARTS[name])


def same_python() -> tuple[list[str], dict[str, str]]:
    """The command and the environment of another Python that finds the code which this one finds, and no other."""
    # `python -c` and `python -m` look into the working folder first: there may be a `numba.py` of anybody's.
    places = [os.path.abspath(place) for place in sys.path]  # noqa: PTH100 - "" is the working folder, where it counts
    return [sys.executable, "-P"], {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def plugins(group: str) -> Iterator[tuple[str, Any]]:
    """(name, object) of every entry point that other packages have in a group, in alphabetical order."""
    # One that cannot be loaded is left out with a warning that names it: a broken package must not take visir with it.
    from importlib.metadata import entry_points  # slow to import, and most commands need it once or never

    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        if point.value.startswith("visir."):  # visir's own, which are in BUILT_IN
            continue
        try:
            yield point.name, point.load()
        except Exception as fault:
            left_out(group, f"{point.name} = {point.value}", f"{type(fault).__name__}: {fault}")


@cache
def plugin_folders(group: str) -> tuple[Path, ...]:
    """The folders of files that other packages have in a group."""
    folders = []
    for name, folder in plugins(group):
        if isinstance(folder, Path) and folder.is_dir():
            folders.append(folder)
        else:
            left_out(group, name, "it is no folder")
    return tuple(folders)


def left_out(group: str, what: str, why: str) -> None:
    """Warn that something of a group is not used."""
    warnings.warn(f"entry point {what} of {group!r} is left out: {why}", stacklevel=3)


# Applications: what stands beside the road and registers itself with it.


@dataclass(frozen=True)
class Verb:
    """A verb of the command line."""

    name: str  # as it is typed: "search" in `visir search`
    # "module:attribute" of a function with typer's annotations, or of a `typer.Typer` with verbs of its own. The module
    # is imported for `visir --help`: import what is heavy inside functions.
    target: str
    # The heading under which it is listed: find, measure, train, applications or set-up of `visir --help`, analyse of
    # `visir research`, shop of `visir shop`. Default: that of the verb that it follows, or applications.
    group: str = ""
    after: str = ""  # the verb that it follows there; by default it comes last
    extends: bool = False  # whether it takes the place of the verb of this name, which it calls for what is not its own


@dataclass(frozen=True)
class Application:
    """What an application adds; its entry point in the group "visir.plugins" names one of these."""

    name: str  # that of the entry point
    verbs: tuple[Verb, ...] = ()  # its verbs
    # Formats of its sources, which `visir data formats` lists: title → "module:registry" of
    # `visir.collections.sources.Format`.
    formats: Mapping[str, str] = field(default_factory=dict)
    # How its records are shown: the name of a class → the module that knows, see `visir.display`.
    views: Mapping[str, str] = field(default_factory=dict)


@cache
def applications() -> tuple[Application, ...]:
    """Every application: visir's own, then those of other packages."""
    return tuple(_applications())


def _applications() -> Iterator[Application]:
    for target in BUILT_IN.values():
        yield load_target(target)
    for name, application in plugins(APPLICATIONS):
        if not isinstance(application, Application):
            left_out(APPLICATIONS, name, f"it is a {type(application).__name__}, not an Application")
        elif name in BUILT_IN:
            left_out(APPLICATIONS, name, "visir has an application of this name")
        else:
            yield application

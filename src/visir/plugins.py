"""What other packages add to visir, by entry points: the only place that looks for them.

A group is a name such as "visir.measures"; `docs/how-to/extend-visir.md` says what each takes. visir's own applications
are named in `BUILT_IN` and, in the same words, in `pyproject.toml`: a table in code is found from a source tree too,
and costs no search through the installed packages.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from typing import Any

APPLICATIONS = "visir.applications"
ENCODERS = "visir.encoders"
FORMATS = "visir.formats"
MEASURES = "visir.measures"
PERTURBATIONS = "visir.perturbations"
CORRUPTIONS = "visir.corruptions"
INDEX_KINDS = "visir.index_kinds"

BUILT_IN = {
    "products": "visir.products.application:APPLICATION",
    "sessions": "visir.sessions.application:APPLICATION",
    "papers": "visir.papers.application:APPLICATION",
    "library": "visir.library.application:APPLICATION",
}
"""visir's own applications: name → "module:attribute", in the order in which `visir --help` lists their verbs."""


def load_target(target: str) -> Any:
    """The object that "module:attribute" or "module:Class.method" names."""
    module, _, attribute = target.partition(":")
    return attrgetter(attribute)(import_module(module))


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


def left_out(group: str, what: str, why: str) -> None:
    """Warn that something of a group is not used."""
    warnings.warn(f"entry point {what} of {group!r} is left out: {why}", stacklevel=3)

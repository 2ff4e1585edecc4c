"""Applications: what stands beside the road and registers itself with it.

The road imports no application. An application says here, by names of modules, what it adds: verbs of the command line,
and what the studies of the papers are made of. Nothing is imported before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from visir.plugins import APPLICATIONS, BUILT_IN, left_out, load_target, plugins


@dataclass(frozen=True)
class Verb:
    """A verb of the command line."""

    name: str  # as it is typed: "search" in `visir search`
    # "module:attribute" of a function with typer's annotations, or of a `typer.Typer` with verbs of its own. The module
    # is imported for `visir --help`: import what is heavy inside functions.
    target: str
    # The heading of `visir --help` under which it is listed: find, measure, train, analyse, applications or set-up.
    # Default: that of the verb that it follows, or applications.
    group: str = ""
    after: str = ""  # the verb that it follows there; by default it comes last
    extends: bool = False  # whether it takes the place of the verb of this name, which it calls for what is not its own


@dataclass(frozen=True)
class Application:
    """What an application adds; its entry point in the group "visir.applications" names one of these."""

    name: str  # that of the entry point
    verbs: tuple[Verb, ...] = ()  # its verbs
    # Kinds of experiments of studies: the word of a study's file (`experiment = "…"`) → "module:class" of a
    # `visir.studies.experiment.Experiment`.
    experiments: Mapping[str, str] = field(default_factory=dict)
    # What papers say of figures: name → "module:function" from `visir.studies.trend_check.Means` to a list of
    # `TrendCheck`.
    trend_checks: Mapping[str, str] = field(default_factory=dict)
    # How figures are drawn: name → "module:function", see `visir.studies.trend_check.DrawFigure`.
    drawings: Mapping[str, str] = field(default_factory=dict)
    # Formats of its sources, which `visir data formats` lists: title → "module:registry" of
    # `visir.collections.descriptor.Format`.
    formats: Mapping[str, str] = field(default_factory=dict)


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

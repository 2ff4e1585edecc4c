"""Deprecation: how an interface goes, with a warning first.

The policy (docs/background/deprecation.md): what goes is announced for at least one minor version. Until then it works
as before, and warns with the version in which it goes and what to write instead. `tests/test_deprecation.py` fails when
the announced version has come and the old interface is still there.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


class VisirDeprecationWarning(FutureWarning):
    """Something of visir that is used goes in a later version. Shown to everybody, unlike `DeprecationWarning`."""


@dataclass(frozen=True)
class Deprecation:
    """One thing that goes."""

    name: str  # what goes, as a user writes it: "visir.evaluate(pool=…)"
    since: str  # the version that announces it: "0.3"
    removal: str  # the version in which it is gone: "0.4" or later
    instead: str = ""  # what to write instead; "" when there is nothing

    @property
    def message(self) -> str:
        """What a user reads."""
        instead = f" Write {self.instead} instead." if self.instead else ""
        return f"{self.name} is deprecated since visir {self.since} and goes in {self.removal}.{instead}"

    def warn(self, stacklevel: int = 2) -> None:
        """Warn at the line of the caller."""
        warnings.warn(self.message, VisirDeprecationWarning, stacklevel=stacklevel + 1)


DEPRECATIONS: list[Deprecation] = []
"""Everything that is deprecated now, as far as its modules are imported."""


def deprecated(
    *, since: str, removal: str, instead: str = "", name: str = ""
) -> Callable[[Callable[Arguments, Returned]], Callable[Arguments, Returned]]:
    """A decorator of a function or method that goes: each call warns."""

    def decorate(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        notice = Deprecation(name or f"{function.__module__}.{function.__qualname__}", since, removal, instead)
        DEPRECATIONS.append(notice)

        @functools.wraps(function)
        def warned(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
            notice.warn()
            return function(*args, **kwargs)

        return warned

    return decorate


def renamed_parameters(
    *, since: str, removal: str, **names: str
) -> Callable[[Callable[..., Returned]], Callable[..., Returned]]:
    """A decorator of a function whose parameters have new names: the old ones work, and warn."""

    def decorate(function: Callable[..., Returned]) -> Callable[..., Returned]:
        where = f"{function.__module__}.{function.__qualname__}"
        notices = {old: Deprecation(f"{where}({old}=…)", since, removal, f"{new}=…") for old, new in names.items()}
        DEPRECATIONS.extend(notices.values())

        @functools.wraps(function)
        def warned(*args: object, **kwargs: object) -> Returned:
            for old, new in names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{where}() got both {old!r} (old name) and {new!r}")
                    notices[old].warn()
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return warned

    return decorate

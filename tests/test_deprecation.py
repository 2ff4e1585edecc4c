"""What goes warns first, at the caller's line, and goes when it was announced."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import pytest
from packaging.version import Version

import visir
from visir.deprecation import DEPRECATIONS, Deprecation, VisirDeprecationWarning, deprecated, renamed_parameters


def test_a_call_works_and_warns_where_it_stands() -> None:
    @deprecated(since="0.2", removal="0.4", instead="new()", name="old()")
    def old(value: int) -> int:
        """The old way."""
        return value + 1

    announced = r"old\(\) is deprecated since visir 0\.2 and goes in 0\.4\. Write new\(\)"
    with pytest.warns(VisirDeprecationWarning, match=announced) as seen:
        assert old(1) == 2
    assert seen[0].filename == __file__
    assert old.__doc__ == "The old way."


def test_an_old_name_of_a_parameter_works_and_warns() -> None:
    @renamed_parameters(since="0.2", removal="0.4", pool="gallery")
    def measure(source: str, *, gallery: str = "split") -> tuple[str, str]:
        return source, gallery

    announced = r"measure\(pool=…\) is deprecated .* Write gallery=… instead"
    with pytest.warns(VisirDeprecationWarning, match=announced) as seen:
        assert measure("a", pool="all") == ("a", "all")
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measure("a", gallery="all") == ("a", "all")
    with pytest.raises(TypeError, match=r"both 'pool' .* and 'gallery'"):
        measure("a", pool="all", gallery="split")


def overdue(notices: list[Deprecation], version: str) -> list[str]:
    return [notice.message for notice in notices if Version(notice.removal) <= Version(Version(version).base_version)]


def test_nothing_stays_longer_than_announced() -> None:
    source = Path(visir.__file__).parent
    for path in source.rglob("*.py"):
        if "from visir.deprecation" in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(("visir", *path.relative_to(source).with_suffix("").parts)))
    ours = [notice for notice in DEPRECATIONS if not notice.name.startswith((__name__, "old()"))]
    assert overdue(ours, visir.__version__) == []


def test_what_stays_longer_than_announced_is_seen() -> None:
    notice = Deprecation("visir.x", "0.2", "0.4")
    assert overdue([notice], "0.3.9") == []
    assert overdue([notice], "0.4.0.dev3") == [notice.message]

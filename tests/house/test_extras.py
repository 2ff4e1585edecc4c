"""The page on installation names every extra that is for users, and no other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from visir.cli.doctor import FOR_DEVELOPERS

ROOT = Path(__file__).parents[2]
NOT_FOR_USERS = {
    "test": "what the tests import: engines, browsers, other packages to compare with",
    "docs": "what builds the pages",
    "dev": "linters and type checkers, with test and docs",
    "ci": "what the checks of a release need beside dev",
}


def defined() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])


def documented() -> set[str]:
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    return {extra for row in rows for listed in re.findall(r"visir\[([\w,-]+)\]", row) for extra in listed.split(",")}


def test_the_table_of_extras_has_those_of_the_package() -> None:
    for_users = defined() - NOT_FOR_USERS.keys()
    assert sorted(for_users - documented()) == [], "add a row to docs/how-to/install.md, or a reason here"
    assert sorted(documented() - for_users) == [], "docs/how-to/install.md names extras that users cannot install"


def test_the_doctor_passes_over_what_is_not_for_users() -> None:
    assert NOT_FOR_USERS.keys() <= defined()
    assert set(NOT_FOR_USERS) == FOR_DEVELOPERS

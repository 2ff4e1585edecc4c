"""Every option of every verb is passed on: none is dropped, so that its default would be taken in its place.

`scripts/passed_on.py` says how. Where each arrives is in `tests/snapshots/passed-on.txt`, which is written anew by
`python scripts/snapshots.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from passed_on import NOWHERE, WAY, lines, passed_on, verbs
from visir.cli.main import app

OWN = {
    "visir search skip_broken": "hidden; always so",
    "visir help words": "looks into the help",
    "visir demo open_report": "for a terminal alone",
    "visir search thumbnails": "for a terminal alone",
    "visir sessions score state": "read where the file is there, written where lines came (tests/sessions)",
    "visir sessions score save_every": "counts the lines that came",
    "visir sessions score skip_read": "counts the lines that came",
}
"""Options that a verb takes for itself."""
VERBS = dict(verbs(app))
KNOWN = (Path(__file__).parents[1] / "snapshots" / "passed-on.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("path", VERBS)
def test_every_option_arrives(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    now = list(lines(path, VERBS[path]))
    nowhere = {line.partition(":")[0] for line in now if line.endswith(NOWHERE)}
    assert nowhere == {option for option in OWN if option.rpartition(" ")[0] == path}
    known = [line for line in KNOWN if line.partition(":")[0].rpartition(" ")[0] == path]
    assert now == known, "meant so? python scripts/snapshots.py"
    assert list(tmp_path.iterdir()) == []


def test_every_known_line_is_of_a_verb() -> None:
    assert {line.partition(":")[0].rpartition(" ")[0] for line in KNOWN} <= VERBS.keys()


def _verb(module: str, body: str) -> Callable[..., Any]:
    """A verb of the command line that says only this."""
    scope: dict[str, Any] = {"__name__": module}
    head = "def verb(place: str, k: int = 10, flag: bool = False):\n"
    exec(head + "".join(f"    {line}\n" for line in body.splitlines()), scope)
    verb: Callable[..., Any] = scope["verb"]
    return verb


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ("search(place, k=k, flag=flag)", ["search(0)", "search(k)", "search(flag)"]),
        ("search(place, k=10, flag=False)", ["search(0)", None, None]),
        ("for a, b in search(place):\n    b.ask(k)\n    if flag: a.tell()", ["search(0)", "search().ask(0)", WAY]),
        ("if search(place) > k: raise ValueError(flag)", ["search(0)", None, None]),
        ("search(map(lambda one: (one, k), [place]), flag=not flag)", ["search(0)", "search(0)", "search(flag)"]),
    ],
)
def test_what_is_dropped_is_seen(body: str, places: list[str | None]) -> None:
    found = passed_on("visir verb", _verb("visir.cli.verb", f"from visir.retrieval import search\n{body}"))
    assert [next(iter(arrived), None) for arrived in found.values()] == places

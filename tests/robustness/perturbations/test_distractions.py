"""Distractions: where the statement goes."""

from __future__ import annotations

import pytest
from outcomes import one, outcomes


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A dog runs.", "A dog runs and true is true."),
        ("A dog runs", "A dog runs and true is true"),
        ("A dog runs ! ", "A dog runs and true is true ! "),
        ("A dog runs ...", "A dog runs and true is true ..."),
        ('He says "no."', 'He says "no." and true is true'),
        ("A dog runs,", "A dog runs, and true is true"),
        ("Ein Hund läuft…", "Ein Hund läuft and true is true…"),
        ("...", "..."),  # nothing to be distracted from
        ("", ""),
    ],
)
def test_before_the_end_of_the_sentence(before: str, after: str) -> None:
    assert outcomes("distraction_true", before, draws=3) == {after}
    assert outcomes("distraction_false", before, draws=3) == {after.replace("true is true", "false is false")}


def test_paper() -> None:
    assert one("distraction_true", "A dog runs.") == "A dog runs and true it true."  # so written
    assert one("distraction_false", "A dog runs.") == "A dog runs and false is false."
    assert one("distraction_false", "A dog runs") == "A dog runs and false is false."
    assert one("distraction_false", "Really?!") == "Really?! and false is false."

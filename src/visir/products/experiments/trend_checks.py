"""Chapter 7: how far wrong first answers are from their targets in the tree of categories."""

from __future__ import annotations

from collections.abc import Mapping

from visir.studies.trend_check import Means, TrendCheck

ALL, GENERAL, SPECIFIC = "all", "general", "specific"
_AGAINST = "the text says both"


def figure_7_2(means: Means) -> list[TrendCheck]:
    """Figure 7.2 (section 7.6.1), d = depth(c_p) − depth(c) of errors in one tree, sentence by sentence.

    Three of them cannot be taken as they stand. For all categories c_p is "in 92% of the cases more general" and, two
    sentences on, for "the majority" more specific: both are looked at, and one of them fails. The two errors in the
    same tree among most general categories have d = 2 and are called more general, where d > 0 is more specific by the
    section's own definition, and two roots share no tree. And shares of most specific categories (68, 21, 7, 5 %, 101
    in all) leave none for d = 0, two categories side by side.
    """
    found = []
    if _errors(means.get(GENERAL, {})):
        one = means[GENERAL]
        says = "most general: some errors lie in the same tree (2 of 23; two roots share none)"
        found.append(TrendCheck(says, one["same tree"] > 0, _in_trees(one)))
    for name, says, same in (
        (SPECIFIC, "most specific: most errors lie in another tree (89 %)", False),
        (ALL, "all: most errors lie in the same tree (72 %)", True),
    ):
        if _errors(one := means.get(name, {})):
            more = one["same tree"] > one["different tree"] if same else one["same tree"] < one["different tree"]
            found.append(TrendCheck(says, more, _in_trees(one)))
    specific = _depths(means.get(SPECIFIC, {}))
    if specific:
        said, whole = _said(specific), sum(specific.values())
        falling = [specific.get(d, 0.0) for d in (-1, -2, -3, -4)]
        found += [
            TrendCheck("most specific: most are one level more general (68 %)", 2 * falling[0] > whole, said),
            TrendCheck(
                "most specific: fewer with every further level (68, 21, 7, 5 %)",
                falling[0] > falling[1] and falling == sorted(falling, reverse=True),
                said,
            ),
            TrendCheck("most specific: none beside the target or below (shares leave none)", max(specific) < 0, said),
            TrendCheck("most specific: |d| is 4 at most", max(map(abs, specific)) <= 4, said),
        ]
    depths = _depths(means.get(ALL, {}))
    if depths:
        said, whole = _said(depths), sum(depths.values())
        general = sum(count for d, count in depths.items() if d < 0)
        lower = sum(count for d, count in depths.items() if d > 0)
        shares = f"{100 * general / whole:.0f} % more general, {100 * lower / whole:.0f} % more specific; {said}"
        found += [
            TrendCheck(f"all: most are more general (92 %; {_AGAINST})", 2 * general > whole, shares),
            TrendCheck(f"all: most are more specific ({_AGAINST})", 2 * lower > whole, shares),
        ]
    return found


def _errors(one: Mapping[str, float]) -> float:
    return one.get("same tree", 0.0) + one.get("different tree", 0.0)


def _in_trees(one: Mapping[str, float]) -> str:
    return f"{one['same tree']:g} in the same tree, {one['different tree']:g} in another"


def _depths(one: Mapping[str, float]) -> dict[int, float]:
    """d → how many, ascending."""
    found = {int(label.removeprefix("d = ")): count for label, count in one.items() if label.startswith("d = ")}
    return dict(sorted(found.items()))


def _said(depths: Mapping[int, float]) -> str:
    whole = sum(depths.values())
    return f"of {whole:g} with d = " + ", ".join(f"{d}: {100 * count / whole:.0f} %" for d, count in depths.items())

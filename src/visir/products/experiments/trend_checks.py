"""Chapter 7: how far wrong first answers are from their targets in the tree of categories."""

from __future__ import annotations

from collections.abc import Mapping

from visir.studies.trend_check import Means, TrendCheck, chance_of_order

ALL, GENERAL, SPECIFIC = "all", "general", "specific"
_AGAINST = "the text says both"


def figure_7_2(means: Means) -> list[TrendCheck]:
    """Figure 7.2 (section 7.6.1), d = depth(c_p) − depth(c) of errors in one tree, sentence by sentence."""
    # Three sentences contradict something. For all categories c_p is "in 92% of the cases more general" and, two
    # sentences later, for "the majority" more specific: both are checked, and one of them fails. The two errors in the
    # same tree among most general categories have d = 2 and are called more general, where d > 0 is more specific by
    # the section's own definition, and two roots share no tree. And shares of most specific categories (68, 21, 7, 5 %,
    # 101 in all) leave none for d = 0, two categories side by side.
    checks = []
    if _errors(means.get(GENERAL, {})):
        general_means = means[GENERAL]
        sentence = "most general: some errors lie in the same tree (2 of 23; two roots share none)"
        checks.append(TrendCheck(sentence, general_means["same tree"] > 0, _in_trees(general_means)))
    for name, sentence, same in (
        (SPECIFIC, "most specific: most errors lie in another tree (89 %)", False),
        (ALL, "all: most errors lie in the same tree (72 %)", True),
    ):
        if _errors(values := means.get(name, {})):
            difference = values["same tree"] - values["different tree"]
            checks.append(TrendCheck(sentence, difference > 0 if same else difference < 0, _in_trees(values)))
    specific = _depths(means.get(SPECIFIC, {}))
    if specific:
        shares, whole = _shares(specific), sum(specific.values())
        falling = [specific.get(d, 0.0) for d in (-1, -2, -3, -4)]
        checks += [
            TrendCheck("most specific: most are one level more general (68 %)", 2 * falling[0] > whole, shares),
            TrendCheck(
                "most specific: fewer with every further level (68, 21, 7, 5 %)",
                falling[0] > falling[1] and falling == sorted(falling, reverse=True),
                shares,
                chance_of_order(len(falling)),
            ),
            TrendCheck("most specific: none beside the target or below (shares leave none)", max(specific) < 0, shares),
            TrendCheck("most specific: |d| is 4 at most", max(map(abs, specific)) <= 4, shares),
        ]
    depths = _depths(means.get(ALL, {}))
    if depths:
        whole = sum(depths.values())
        general = sum(count for d, count in depths.items() if d < 0)
        lower = sum(count for d, count in depths.items() if d > 0)
        shares = (
            f"{100 * general / whole:.0f} % more general, {100 * lower / whole:.0f} % more specific; {_shares(depths)}"
        )
        checks += [
            TrendCheck(f"all: most are more general (92 %; {_AGAINST})", 2 * general > whole, shares),
            TrendCheck(f"all: most are more specific ({_AGAINST})", 2 * lower > whole, shares),
        ]
    return checks


def _errors(values: Mapping[str, float]) -> float:
    return values.get("same tree", 0.0) + values.get("different tree", 0.0)


def _in_trees(values: Mapping[str, float]) -> str:
    return f"{values['same tree']:g} in the same tree, {values['different tree']:g} in another"


def _depths(values: Mapping[str, float]) -> dict[int, float]:
    """d → how many, ascending."""
    counts = {int(label.removeprefix("d = ")): count for label, count in values.items() if label.startswith("d = ")}
    return dict(sorted(counts.items()))


def _shares(depths: Mapping[int, float]) -> str:
    whole = sum(depths.values())
    return f"of {whole:g} with d = " + ", ".join(f"{d}: {100 * count / whole:.0f} %" for d, count in depths.items())

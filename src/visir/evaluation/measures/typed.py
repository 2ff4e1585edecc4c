"""Measures as people type them: "R@1", "nDCG@10", "AP(rel=2)@10", "P_5"; from what is typed to one form of the name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from visir.evaluation.measures.base import Measure
from visir.records import Recall

_FORM = re.compile(r"(?P<base>[^@(]*)(?:\((?P<parameters>[^)]*)\))?(?P<at>@(?P<cutoff>.*))?")
_TREC = re.compile(r"(?P<base>[A-Za-z][A-Za-z_]*?)_(?P<cutoff>[1-9]\d*)")
"""The names of trec_eval: P_5, ndcg_cut_10, recall_100."""
_GAINS = {"log2": "ndcg", "exp-log2": "ndcg_exp"}
"""ir_measures' parameter `dcg` of nDCG."""
_GRADED = ("ndcg", "ndcg_exp")
"""Measures that weigh every grade: `rel` means nothing to them."""


@dataclass(frozen=True)
class Named:
    """A measure with its parameters, as a user names it.

    Attributes:
        name: The one form of the name: "hit@5", "map(rel=2)@10". Columns of results have it.
        measure: The measure.
        k: The cutoff; None for the whole ranking.
        rel: The lowest grade that counts as right; None for every grade above 0.
    """

    name: str
    measure: Measure
    k: int | None
    rel: float | None = None


class Names:
    """The names of measures, and what else people call them."""

    def __init__(self, measures: Iterable[tuple[str, Measure]]) -> None:
        self.measures = dict(measures)
        self._known: dict[str, str] = {}
        for name, measure in self.measures.items():
            for alias in measure.aliases:
                self._known.setdefault(_plain(alias), name)
        self._known |= {_plain(name): name for name in self.measures}  # a measure's own name is nobody's alias

    def read(self, typed: str, recall: Recall = "hit") -> Named | str:
        """Read one name."""
        text = typed.strip()
        if text not in self.measures and (old := _TREC.fullmatch(text)):
            text = f"{old['base']}@{old['cutoff']}"
        if _plain(text) in self._known:  # also "map@r", which has no cutoff
            return self._checked(typed, self._known[_plain(text)], None, "", {})
        form = _FORM.fullmatch(text)
        base = form["base"] if form else ""
        whole = _plain(f"{base}{form['at'] or ''}") if form else ""
        name = recall if _plain(base) == "r" else self._known.get(_plain(base), "")
        if form is None or not name:
            return self._unknown(typed, base)
        parameters = _parameters(form["parameters"] or "")
        if isinstance(parameters, str):
            return f"{typed!r}: {parameters}"
        if whole in self._known:  # "map(rel=2)@r"
            return self._checked(typed, self._known[whole], None, "", parameters)
        return self._checked(typed, name, form["at"], form["cutoff"] or "", parameters)

    def _checked(
        self, typed: str, name: str, at: str | None, cutoff: str, parameters: Mapping[str, str]
    ) -> Named | str:
        faults = [f"{key}={value}" for key, value in parameters.items() if not _is_possible(key, value, name)]
        if faults:
            return (
                f"{typed!r}: {', '.join(faults)} is not possible (known: rel=GRADE, the lowest grade that counts, of "
                "measures without gains; dcg='log2' or 'exp-log2', of ndcg)"
            )
        if name in _GRADED and "dcg" in parameters:
            name = _GAINS[parameters["dcg"]]
        measure = self.measures[name]
        if measure.cutoff == "none" and at:
            return f"{typed!r}: {name} takes no cutoff; write {name!r}"
        if measure.cutoff == "required" and not cutoff:
            return f"{typed!r} needs a cutoff, for example {name}@10"
        if at and not (cutoff.isascii() and cutoff.isdigit() and int(cutoff) > 0):
            return f"{typed!r}: the cutoff must be a whole number from 1, not {cutoff!r}"
        rel = float(parameters["rel"]) if "rel" in parameters else None
        base, at, end = name.partition("@")  # of "map@r" the end is no cutoff
        written = f"{base}{'' if rel is None else f'(rel={rel:g})'}{at}{end}{f'@{int(cutoff)}' if cutoff else ''}"
        return Named(written, measure, int(cutoff) if cutoff else None, rel)

    def _unknown(self, typed: str, base: str) -> str:
        patterns = {name: measure.pattern for name, measure in self.measures.items()}
        close = difflib.get_close_matches(_plain(base or typed), self._known, n=1, cutoff=0.5)
        meant = f"did you mean {patterns[self._known[close[0]]]!r}? " if close else ""
        return f"unknown measure {typed!r} ({meant}known: {', '.join(sorted(patterns.values()))})"


def base_of(name: str) -> str:
    """The measure of a column of a result: its name without cutoff and parameters.

    Args:
        name: The name of the column.

    Returns:
        The name of the measure, as far as it is one.

    Example:
        >>> base_of("map(rel=2)@10"), base_of("map@r"), base_of("median_rank")
        ('map', 'map@r', 'median_rank')
    """
    bare = re.sub(r"\([^)]*\)", "", name)
    return bare if bare == "map@r" else bare.partition("@")[0]


def _plain(name: str) -> str:
    """The name without what does not matter: case, "-", "_", spaces."""
    return re.sub(r"[\s_\-]", "", name).casefold()


def _parameters(text: str) -> dict[str, str] | str:
    """The parameters by name, as ir_measures writes them; or a line that says what is wrong."""
    parameters: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            return f"parameters are written (rel=2), not ({text})"
        key, value = key.strip(), value.strip().strip("'\"")
        if key == "judged_only" and value == "False":
            continue  # what is done in any case
        parameters[key] = value
    return parameters


def _is_possible(key: str, value: str, name: str) -> bool:
    if key == "rel":
        return bool(re.fullmatch(r"\d+(\.\d+)?", value)) and float(value) > 0 and name not in _GRADED
    return key == "dcg" and value in _GAINS and name in _GRADED

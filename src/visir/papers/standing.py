"""How far every table is: not built, not run, run on generated data, verified on real data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from visir.papers.answers import Answered, answers
from visir.papers.run import kept
from visir.papers.study import Study, missing, name_of, names, read_study
from visir.papers.verdict import Verdict, verdict

State = Literal["verified on real data", "run at smoke scale only", "not run", "not built yet"]
STATES: tuple[State, ...] = ("verified on real data", "run at smoke scale only", "not run", "not built yet")


@dataclass(frozen=True)
class Standing:
    """One study and the verdicts of its scales of which something was run, the smallest scale first."""

    name: str
    study: Study
    verdicts: tuple[Verdict, ...]
    answers: tuple[Answered, ...]

    @property
    def state(self) -> State:
        """The furthest that it has come. Real data of another collection counts: what it verifies is said by order.

        What needs nothing at all (Table 6.7, a list of features) is of no real data, whatever is reproduced of it.
        """
        if self.study.not_built:
            return "not built yet"
        looked = [one for one in self.verdicts if one.states["done"]]
        real = [one for one in looked if one.data in ("same", "other")]
        if any(act.needs for one in real for act in self.study.acts(one.scale)):
            return "verified on real data"
        return "run at smoke scale only" if real or any(one.data == "generated" for one in looked) else "not run"

    @property
    def judged(self) -> tuple[int, int, int]:
        """Values within 5 %, values judged, values printed; of the largest scale on the table's own data."""
        same = [one for one in self.verdicts if one.data == "same"]
        printed = sum(one.published is not None for one in self.verdicts[0].values) if self.verdicts else 0
        if not same:
            return 0, 0, printed
        return same[-1].count("reproduced"), same[-1].count("reproduced") + same[-1].count("not reproduced"), printed

    @property
    def at_hand(self) -> dict[str, tuple[int, int]]:
        """Scale → how many of its cells have what they need, and how many there are."""
        return {
            scale: (sum(not missing(act) for act in acts), len(acts))
            for scale in self.study.scales
            for acts in [self.study.acts(scale)]
        }


def standing(given: str | Path, out: Path) -> Standing:
    """How far one study is, by its name or file."""
    study, name = read_study(given), name_of(given)
    verdicts = _verdicts(name, study, out)
    beside = _verdicts(study.beside, read_study(study.beside), out) if study.beside else ()
    return Standing(name, study, verdicts, answers(verdicts, beside))


def standings(out: Path) -> list[Standing]:
    """How far every study is, by document and number."""
    return [standing(one, out) for one in names()]


def _verdicts(name: str, study: Study, out: Path) -> tuple[Verdict, ...]:
    found = (verdict(name, study, scale, kept(study, name, scale, out)) for scale in study.scales)
    return tuple(one for one in found if one.states["done"] or one.states["failed"])

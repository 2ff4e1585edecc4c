"""Chapter 6, section 6.4: what distinguishes sessions that buy, in Figures 6.2 to 6.5."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from visir.studies.trend_check import Means, TrendCheck

OUTCOMES = {"Purchase": "purchase", "Non-purchase": "non-purchase"}
WORKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
WEEKEND = ("Saturday", "Sunday")
NIGHT, EVENING, DAYTIME = (1, 2, 3), (18, 19, 20), range(10, 17)
"""Hours in which sessions of "1 am to 3 am", "6 pm till 8 pm" (both ends included: the figure has whole hours) and
"10 am till 5 pm" begin."""
STABLE = 0.25
"""How far hours of "stable" activity may be from their mean."""


def figure_6_2(means: Means) -> list[TrendCheck]:
    """Section 6.4.1: purchase sessions are longer and vary less; sessions are shortest on smartphones.

    The thesis says it of the area between P50 and P90, so of both ends of it here; a tie at one of them is none. What
    varies is read as P90 / P50 of a device, because it is explained by lookers-up and explorers.
    """
    ends = {
        (outcome, device): (half, means[f"{outcome}: P90"][device])
        for outcome in OUTCOMES
        for device, half in means.get(f"{outcome}: P50", {}).items()
        if device in means.get(f"{outcome}: P90", {})
    }
    found = []
    for device in dict.fromkeys(device for _, device in ends):
        bought, other = (ends.get((outcome, device)) for outcome in OUTCOMES)
        if bought is None or other is None:
            continue
        said = f"P50 {bought[0]:g} against {other[0]:g}, P90 {bought[1]:g} against {other[1]:g}"
        found.append(
            TrendCheck(f"{device}: purchase sessions are longer from P50 to P90", _longer(bought, other), said)
        )
        if bought[0] and other[0]:
            spread = bought[1] / bought[0], other[1] / other[0]
            said = f"P90 / P50 {spread[0]:.2f} against {spread[1]:.2f}"
            found.append(TrendCheck(f"{device}: their length varies less", spread[0] < spread[1], said))
    for outcome, word in OUTCOMES.items():
        some = {device: one for (of, device), one in ends.items() if of == outcome}
        said = ", ".join(f"{device} {half:g}–{ninety:g}" for device, (half, ninety) in some.items())
        phone, tablet, pc = (some.get(one) for one in ("Smartphone", "Tablet", "PC"))
        rest = [one for device, one in some.items() if device != "Smartphone"]
        if phone is not None and rest:
            shortest = all(_longer(one, phone) for one in rest)
            found.append(TrendCheck(f"{word} sessions are shortest on smartphones", shortest, said))
        if tablet is not None and pc is not None:
            found.append(TrendCheck(f"{word} sessions are longer on PCs than on tablets", _longer(pc, tablet), said))
    return found


def figure_6_3(means: Means) -> list[TrendCheck]:
    """Section 6.4.2: most activity on weekdays, and which days lead; per day, where a log has more of some days."""
    covered = means.get("Days in the log", {})
    found = []
    top: dict[str, float] = {}
    leading = {"Purchase": {"Tuesday", "Wednesday", "Thursday"}, "Non-purchase": {"Monday", "Wednesday", "Thursday"}}
    for outcome, word in OUTCOMES.items():
        shares = means.get(f"{outcome} sessions", {})
        days = {day: share / (covered.get(day) or 1) for day, share in shares.items()}
        whole = sum(days.values())
        if len(days) < len(WORKDAYS + WEEKEND) or not whole:
            said = f"only {', '.join(days)}" if days else "no day"
            found.append(TrendCheck(f"{word} sessions: more on a weekday than on a day of the weekend", None, said))
            continue
        days = {day: 100 * one / whole for day, one in days.items()}
        workdays, rest = (sum(days[one] for one in some) / len(some) for some in (WORKDAYS, WEEKEND))
        said = f"{workdays:.1f} against {rest:.1f} % of a week"
        found.append(
            TrendCheck(f"{word} sessions: more on a weekday than on a day of the weekend", workdays > rest, said)
        )
        best = sorted(days, key=lambda day: -days[day])[:3]
        top[outcome] = sum(days[one] for one in best)
        said = f"{', '.join(best)}: {top[outcome]:.1f} %"
        named = ", ".join(day for day in WORKDAYS if day in leading[outcome])
        found.append(TrendCheck(f"{word} sessions: most on {named}", set(best) == leading[outcome], said))
    if len(top) == len(OUTCOMES):
        said = f"{top['Non-purchase']:.1f} against {top['Purchase']:.1f} %"
        more = top["Non-purchase"] > top["Purchase"]
        found.append(TrendCheck("their three leading days hold more of the non-purchase sessions", more, said))
    return found


def figure_6_4(means: Means) -> list[TrendCheck]:
    """Section 6.4.2: least activity from 1 am to 3 am, most from 6 pm till 8 pm, stable from 10 am till 5 pm."""
    found = []
    for outcome, word in OUTCOMES.items():
        shares = {int(hour): share for hour, share in means.get(f"{outcome} sessions", {}).items()}
        if len(shares) < 24:
            continue
        least, most = min(shares, key=lambda hour: shares[hour]), max(shares, key=lambda hour: shares[hour])
        said = f"{least:02d}, {shares[least]:.2f} %"
        found.append(TrendCheck(f"{word} sessions: the quietest hour is among 1 to 3 am", least in NIGHT, said))
        said = f"{most:02d}, {shares[most]:.2f} %"
        found.append(TrendCheck(f"{word} sessions: the busiest hour is among 6 to 8 pm", most in EVENING, said))
        hours = [shares[hour] for hour in DAYTIME]
        mean = sum(hours) / len(hours)
        said = f"{min(hours):.2f} to {max(hours):.2f} %"
        stable = max(abs(one - mean) for one in hours) <= STABLE * mean
        found.append(
            TrendCheck(f"{word} sessions: hours from 10 am to 5 pm within {STABLE:.0%} of their mean", stable, said)
        )
    return found


def figure_6_5(means: Means) -> list[TrendCheck]:
    """Section 6.4.4: who was on a device stays on it, except on TV; PC holds best, and TV is hardly gone to."""
    # Systems are the devices gone to, labels those left.
    left: dict[str, dict[str, float]] = {}
    for to, some in means.items():
        for before, share in some.items():
            left.setdefault(before, {})[to] = share
    found = []
    for before, after in left.items():
        if before not in after or len(after) < 2:
            continue
        others = {to: share for to, share in after.items() if to != before}
        best = max(others, key=lambda to: others[to])
        said = f"stays {after[before]:.2f} %; to {best} {others[best]:.2f} %"
        if before == "TV":
            away = "PC" in others and others["PC"] > after["TV"]
            found.append(TrendCheck("TV: one goes to a PC rather than stay", away, said))
        else:
            found.append(TrendCheck(f"{before}: to stay is most likely", after[before] > others[best], said))
        if "TV" in others:
            rare = others["TV"] <= min(share for to, share in after.items() if to != "TV")
            found.append(TrendCheck(f"{before}: TV is gone to least", rare, _said(after)))
    stays = {before: after[before] for before, after in left.items() if before in after}
    order = [stays[one] for one in ("PC", "Smartphone", "Tablet") if one in stays]
    if len(order) == 3:
        falls = all(earlier > later for earlier, later in pairwise(order))
        found.append(TrendCheck("PCs are stayed on most, then smartphones, then tablets", falls, _said(stays)))
    return found


def _longer(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] >= other[0] and one[1] >= other[1]


def _said(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.2f} %" for name, share in shares.items())

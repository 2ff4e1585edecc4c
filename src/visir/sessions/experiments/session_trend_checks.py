"""Chapter 6, section 6.4: what distinguishes sessions that buy, in Figures 6.2 to 6.5."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import comb

from visir.studies.trend_check import Means, TrendCheck, chance_of_order

OUTCOMES = {"Purchase": "purchase", "Non-purchase": "non-purchase"}
WORKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
WEEKEND = ("Saturday", "Sunday")
NIGHT, EVENING, DAYTIME = (1, 2, 3), (18, 19, 20), range(10, 17)
"""Hours in which sessions of "1 am to 3 am", "6 pm till 8 pm" (both ends included: the figure has whole hours) and
"10 am till 5 pm" begin."""
STABLE = 0.25
"""How far hours of "stable" activity may be from their mean."""


def figure_6_2(means: Means) -> list[TrendCheck]:
    """Section 6.4.1: purchase sessions are longer and vary less; sessions are shortest on smartphones."""
    # The thesis says it of the area between P50 and P90, so of both ends of it here; a tie at one of them is none. What
    # varies is read as P90 / P50 of a device, because it is explained by lookers-up and explorers.
    ends = {
        (outcome, device): (half, means[f"{outcome}: P90"][device])
        for outcome in OUTCOMES
        for device, half in means.get(f"{outcome}: P50", {}).items()
        if device in means.get(f"{outcome}: P90", {})
    }
    checks = []
    for device in dict.fromkeys(device for _, device in ends):
        bought, other = (ends.get((outcome, device)) for outcome in OUTCOMES)
        if bought is None or other is None:
            continue
        numbers = f"P50 {bought[0]:g} against {other[0]:g}, P90 {bought[1]:g} against {other[1]:g}"
        checks.append(
            TrendCheck(f"{device}: purchase sessions are longer from P50 to P90", _longer(bought, other), numbers)
        )
        if bought[0] and other[0]:
            spread = bought[1] / bought[0], other[1] / other[0]
            numbers = f"P90 / P50 {spread[0]:.2f} against {spread[1]:.2f}"
            checks.append(TrendCheck(f"{device}: their length varies less", spread[0] < spread[1], numbers))
    for outcome, word in OUTCOMES.items():
        by_device = {
            device: percentiles for (end_outcome, device), percentiles in ends.items() if end_outcome == outcome
        }
        numbers = ", ".join(f"{device} {half:g}–{ninety:g}" for device, (half, ninety) in by_device.items())
        phone, tablet, pc = (by_device.get(device) for device in ("Smartphone", "Tablet", "PC"))
        rest = [percentiles for device, percentiles in by_device.items() if device != "Smartphone"]
        if phone is not None and rest:
            shortest = all(_longer(percentiles, phone) for percentiles in rest)
            chance = 1 / len(by_device)
            checks.append(TrendCheck(f"{word} sessions are shortest on smartphones", shortest, numbers, chance))
        if tablet is not None and pc is not None:
            checks.append(
                TrendCheck(f"{word} sessions are longer on PCs than on tablets", _longer(pc, tablet), numbers)
            )
    return checks


def figure_6_3(means: Means) -> list[TrendCheck]:
    """Section 6.4.2: most activity on weekdays, and which days lead; per day, where a log has more of some days."""
    covered = means.get("Days in the log", {})
    checks = []
    top: dict[str, float] = {}
    leading = {"Purchase": {"Tuesday", "Wednesday", "Thursday"}, "Non-purchase": {"Monday", "Wednesday", "Thursday"}}
    for outcome, word in OUTCOMES.items():
        shares = means.get(f"{outcome} sessions", {})
        days = {day: share / (covered.get(day) or 1) for day, share in shares.items()}
        whole = sum(days.values())
        if len(days) < len(WORKDAYS + WEEKEND) or not whole:
            numbers = f"only {', '.join(days)}" if days else "no day"
            checks.append(TrendCheck(f"{word} sessions: more on a weekday than on a day of the weekend", None, numbers))
            continue
        days = {day: 100 * share / whole for day, share in days.items()}
        workdays, rest = (sum(days[day] for day in group) / len(group) for group in (WORKDAYS, WEEKEND))
        numbers = f"{workdays:.1f} against {rest:.1f} % of a week"
        checks.append(
            TrendCheck(f"{word} sessions: more on a weekday than on a day of the weekend", workdays > rest, numbers)
        )
        best = sorted(days, key=lambda day: -days[day])[:3]
        top[outcome] = sum(days[day] for day in best)
        numbers = f"{', '.join(best)}: {top[outcome]:.1f} %"
        named = ", ".join(day for day in WORKDAYS if day in leading[outcome])
        most = set(best) == leading[outcome]
        checks.append(TrendCheck(f"{word} sessions: most on {named}", most, numbers, 1 / comb(len(days), len(best))))
    if len(top) == len(OUTCOMES):
        numbers = f"{top['Non-purchase']:.1f} against {top['Purchase']:.1f} %"
        more = top["Non-purchase"] > top["Purchase"]
        checks.append(TrendCheck("their three leading days hold more of the non-purchase sessions", more, numbers))
    return checks


def figure_6_4(means: Means) -> list[TrendCheck]:
    """Section 6.4.2: least activity from 1 am to 3 am, most from 6 pm till 8 pm, stable from 10 am till 5 pm."""
    checks = []
    for outcome, word in OUTCOMES.items():
        shares = {int(hour): share for hour, share in means.get(f"{outcome} sessions", {}).items()}
        if len(shares) < 24:
            continue
        quietest, busiest = min(shares, key=lambda hour: shares[hour]), max(shares, key=lambda hour: shares[hour])
        numbers = f"{quietest:02d}, {shares[quietest]:.2f} %"
        statement, chance = f"{word} sessions: the quietest hour is among 1 to 3 am", len(NIGHT) / len(shares)
        checks.append(TrendCheck(statement, quietest in NIGHT, numbers, chance))
        numbers = f"{busiest:02d}, {shares[busiest]:.2f} %"
        statement, chance = f"{word} sessions: the busiest hour is among 6 to 8 pm", len(EVENING) / len(shares)
        checks.append(TrendCheck(statement, busiest in EVENING, numbers, chance))
        hours = [shares[hour] for hour in DAYTIME]
        mean = sum(hours) / len(hours)
        numbers = f"{min(hours):.2f} to {max(hours):.2f} %"
        stable = max(abs(share - mean) for share in hours) <= STABLE * mean
        checks.append(
            TrendCheck(f"{word} sessions: hours from 10 am to 5 pm within {STABLE:.0%} of their mean", stable, numbers)
        )
    return checks


def figure_6_5(means: Means) -> list[TrendCheck]:
    """Section 6.4.4: who was on a device stays on it, except on TV; PC holds best, and TV is hardly gone to."""
    # Systems are the devices gone to, labels those left.
    left: dict[str, dict[str, float]] = {}
    for to, chances in means.items():
        for before, share in chances.items():
            left.setdefault(before, {})[to] = share
    checks = []
    for before, after in left.items():
        if before not in after or len(after) < 2:
            continue
        others = {to: share for to, share in after.items() if to != before}
        best = max(others, key=lambda to: others[to])
        numbers = f"stays {after[before]:.2f} %; to {best} {others[best]:.2f} %"
        if before == "TV":
            pc_first = "PC" in others and others["PC"] > after["TV"]
            checks.append(TrendCheck("TV: one goes to a PC rather than stay", pc_first, numbers))
        else:
            stays_most = after[before] > others[best]
            checks.append(TrendCheck(f"{before}: to stay is most likely", stays_most, numbers, 1 / len(after)))
        if "TV" in others:
            rare = others["TV"] <= min(share for to, share in after.items() if to != "TV")
            checks.append(TrendCheck(f"{before}: TV is gone to least", rare, _percentages(after), 1 / len(after)))
    stays = {before: after[before] for before, after in left.items() if before in after}
    order = [stays[device] for device in ("PC", "Smartphone", "Tablet") if device in stays]
    if len(order) == 3:
        falls = all(earlier > later for earlier, later in pairwise(order))
        statement, chance = "PCs are stayed on most, then smartphones, then tablets", chance_of_order(len(order))
        checks.append(TrendCheck(statement, falls, _percentages(stays), chance))
    return checks


def _longer(percentiles: tuple[float, float], other: tuple[float, float]) -> bool:
    return percentiles != other and percentiles[0] >= other[0] and percentiles[1] >= other[1]


def _percentages(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.2f} %" for name, share in shares.items())

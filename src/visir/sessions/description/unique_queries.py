"""Table 6.6: how many different queries there are, by device and outcome."""

from __future__ import annotations

from visir.sessions.description.outcome_shares import OUTCOMES
from visir.sessions.description.session_log import SessionLog
from visir.sessions.description.statistic import Statistic, StatisticCell, StatisticRow, percent
from visir.sessions.folder import table_of

TOTAL = "Total"


def unique_queries(log: SessionLog) -> Statistic:
    """Unique queries of each device and outcome: the different texts, and the texts that were submitted only once."""
    # Texts are compared as the log has them. The percentages are of the sum over the devices, as in the row "Total" of
    # Table 6.6 (180,542 of 489,368 is its 36.89 %), not "of the total number of queries" as its caption says; that
    # share is the column "of its queries" here.
    # The thesis does not say what unique means. Different texts are counted here, in each cell for itself, so a text
    # that is asked on two devices counts on both, and the total is a sum, not the number of texts in the log. The other
    # reading, texts submitted once in the whole log, falls into one cell each: it would explain that the totals add up
    # to the 1,302,195 unique queries of section 6.4.5. Both are given.
    # They are counts of this log, not estimates: they grow with it, though slower, and have no interval.
    name = ("table-6-6", "How many different queries there are", "Table 6.6")
    for column, reason in (("device", "names no device"), ("query", "records no search")):
        if not log.known_counts[column]:
            return Statistic.without(*name, f"the log {reason}")
    log.db.execute("CREATE OR REPLACE TEMP TABLE texts (purchase BOOLEAN, device VARCHAR, query VARCHAR, count BIGINT)")
    for sessions, events in log.parts:
        log.db.execute(
            "INSERT INTO texts SELECT s.purchase, s.device, e.query, count(*) "
            f"FROM (SELECT visitor, session, query FROM {table_of(events)} WHERE action = 'query') e "
            f"JOIN (SELECT visitor, session, purchase, device FROM {table_of(sessions)} WHERE queries > 0) s "
            "USING (visitor, session) WHERE s.device IS NOT NULL GROUP BY ALL"
        )
    # A query without its words was submitted, but nobody can say whether it is unique.
    counted = {
        (bool(purchase), str(device)): tuple(map(int, numbers))
        for purchase, device, *numbers in log.rows(
            "SELECT purchase, device, count(DISTINCT query), count(*) FILTER (WHERE whole = 1), "
            "coalesce(sum(count) FILTER (WHERE query IS NOT NULL), 0), "
            "coalesce(sum(count) FILTER (WHERE query IS NULL), 0) "
            "FROM (SELECT purchase, device, query, sum(count) AS count, "
            "CASE WHEN query IS NOT NULL THEN sum(sum(count)) OVER (PARTITION BY query) END AS whole "
            "FROM texts GROUP BY 1, 2, 3) GROUP BY 1, 2"
        )
    }
    different = int(log.value("SELECT count(DISTINCT query) FROM texts"))
    log.db.execute("DROP TABLE texts")
    worded = sum(numbers[2] for numbers in counted.values())
    wordless = sum(numbers[3] for numbers in counted.values())
    if not worded:
        return Statistic.without(*name, "the log records searches without their words")
    if different == 1:
        carry = f"{worded:,} of {worded + wordless:,}" if wordless else f"all {worded:,}"
        return Statistic.without(*name, f"{carry} recorded searches carry words, and always the same")
    holding = {
        (bool(purchase), str(device)): int(count)
        for purchase, device, count in log.rows(
            f"SELECT purchase, device, count(*) FROM {log.sessions} "
            "WHERE queries > 0 AND device IS NOT NULL GROUP BY 1, 2"
        )
    }
    cells: list[StatisticRow] = []
    empty = (0, 0, 0, 0)
    whole = {
        bought: sum(numbers[0] for (outcome, _), numbers in counted.items() if outcome == bought) for bought in OUTCOMES
    }
    for device in log.devices:
        row: list[StatisticCell] = []
        for bought in OUTCOMES:
            texts, once, submitted, _ = counted.get((bought, device), empty)
            support = holding.get((bought, device), 0)
            numbers = (texts, percent(texts, whole[bought]), percent(texts, submitted), once)
            row += [StatisticCell(number, support=support) for number in numbers]
        cells.append(tuple(row))
    last: list[StatisticCell] = []
    for bought in OUTCOMES:
        once, submitted = (
            sum(numbers[column] for (outcome, _), numbers in counted.items() if outcome == bought) for column in (1, 2)
        )
        last += [StatisticCell(whole[bought]), StatisticCell(percent(whole[bought], whole[bought]))]
        last += [StatisticCell(percent(whole[bought], submitted)), StatisticCell(once)]
    notes = ["Counts of this log, which grow with it: no intervals."]
    if wordless:
        notes.insert(0, f"{wordless:,} of {worded + wordless:,} queries are recorded without their words and left out.")
    return Statistic(
        *name,
        corner="device",
        rows=(*log.devices, TOTAL),
        columns=tuple(
            f"{outcome}: {quantity}"
            for outcome in OUTCOMES.values()
            for quantity in ("texts", "share", "of its queries", "asked once")
        ),
        units=("", "%", "%", "") * 2,
        cells=(*cells, tuple(last)),
        of='share: of the sum over devices; "of its queries": of all queries submitted there',
        notes=tuple(notes),
        linked=True,
    )

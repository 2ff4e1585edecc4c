"""What printed digits say of the numbers of queries in tables of other papers (printed_digits.csv).

    python benchmarks/printed_digits.py            # the table of docs/background/explaining-numbers.md, and the totals
    python benchmarks/printed_digits.py --rows     # every row that its stated number of queries cannot give

A line of the file is one system and direction as its source prints it: where it stands, the number of queries that the
source or the test set states (two where the source leaves it open), and how the values came about. Nothing is measured
anew. The last lines say how often numbers of queries that were drawn at random fit, beside how often they should by
accident.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import visir
from visir.evaluation.published import Denominator

FILE = Path(__file__).with_suffix(".csv")
DRAWN = 200


class Judged(NamedTuple):
    """A line of the file, and what its digits say."""

    line: dict[str, str]
    digits: Denominator

    @property
    def stated(self) -> list[int]:
        """The numbers of queries that the source or the test set states."""
        return [int(number) for number in self.line["queries"].split(";")]

    @property
    def verdict(self) -> str:
        """Whether a stated number can give the values, and whether that means anything."""
        possible = [number for number in self.stated if self.digits.can(number)]
        if not possible:
            return "cannot"
        return "told" if set(possible) & set(self.digits.likely) else "can"


def judged(path: Path = FILE) -> list[Judged]:
    """Every line of the file."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    result = []
    for line in lines:
        values = f"{line['task']} {line['values']}".strip()
        stated = [int(number) for number in line["queries"].split(";")]
        result.append(Judged(line, visir.denominators(values, collection=line["collection"], queries=stated).rows[0]))
    return result


def accidents(rows: Sequence[Judged], seed: int = 0) -> tuple[float, float]:
    """How often numbers drawn at random fit, rounded or cut, and how often they should by the stated chances."""
    rng = np.random.default_rng(seed)
    fitting, expected = 0, 0.0
    for row in rows:
        drawn = sorted({int(number) for number in rng.integers(300, 9_000, DRAWN)} - set(row.stated))
        sign = "" if row.digits.of_one else "%"
        values = {f"{row.digits.task} {label}".strip(): text + sign for label, text in row.digits.values.items()}
        again = visir.denominators(values, collection="none", queries=drawn).rows[0]
        whole = (1 if row.digits.of_one else 100) * 10**row.digits.decimals
        telling = sum(0 < float(text) < (1 if row.digits.of_one else 100) for text in row.digits.values.values())
        fitting += sum(number in again.possible for number in drawn)
        for number in drawn:
            once = min(1.0, (number + 1) / whole) ** telling
            expected += min(1.0, 2 * once - once**2)
    return fitting / (len(rows) * DRAWN), expected / (len(rows) * DRAWN)


def main() -> None:
    """Print the table and the totals."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", action="store_true", help="every row that its stated number cannot give")
    rows = judged()
    if parser.parse_args().rows:
        for row in rows:
            if row.verdict == "cannot":
                where = f"{row.line['table']}, {row.line['system']}, {row.line['collection']}"
                print(f"{where} ({row.line['measured']}, {row.line['queries']} queries): {row.digits}")
        return
    tables: dict[tuple[str, ...], list[Judged]] = defaultdict(list)
    for row in rows:
        key = tuple(row.line[name] for name in ("paper", "collection", "task", "queries", "measured"))
        tables[key].append(row)
    print("| source | collection | direction | stated | rows | can | of these told apart | cannot |")
    print("|---|---|---|---|---|---|---|---|")
    for (paper, collection, task, queries, measured), part in tables.items():
        count = Counter(row.verdict for row in part)
        said = queries.replace(";", " or ") + ("" if measured == "one run" else f", {measured}")
        cells = (len(part), count["can"] + count["told"], count["told"], count["cannot"])
        print(f"| {paper} | {collection} | {task or '–'} | {said} | {' | '.join(map(str, cells))} |")
    total = Counter(row.verdict for row in rows)
    sources, names = ({row.line[name] for row in rows} for name in ("source", "table"))
    print(f"\n{len(rows)} rows of {len(names)} tables, {len(sources)} sources: {dict(total)}")
    fitting, expected = accidents(rows)
    print(f"numbers drawn at random fit {100 * fitting:.1f} % of the time; by accident {100 * expected:.1f} % should")


if __name__ == "__main__":
    main()

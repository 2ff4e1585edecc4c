"""Do the tests and intervals of visir keep their promises? Simulated worlds in which the truth is known.

    python benchmarks/calibration.py --out runs/calibration        # the tables of docs/background/statistics.md
    python benchmarks/calibration.py --quick --only "compare*"

A test promises that of differences that are none at most 5 % are called significant; an interval that it holds the
truth in 95 %; Holm that of families without a difference at most 5 % show one; Benjamini and Hochberg that of what is
called significant 5 % are none. Each simulation draws data from a world, calls the functions that visir calls, and
counts. A rate must lie in its band (0–6 %, 94–100 %) up to three Monte Carlo standard errors. Rates that are known to
miss are in italics with the band that they are documented to have.

The exit code is 1 where a rate is outside its band. Every finished simulation is a line in `--out`/rows.jsonl; a run
that was stopped goes on with the others. Rows of another version of the code, another seed or other repetitions are
measured again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType

import calibration_estimates
import calibration_retrieval
import calibration_sessions
import visir
from calibration_rows import Rate, Simulation

REPETITIONS, QUICK = 1_000, 50
WORLDS = (calibration_retrieval, calibration_estimates, calibration_sessions)


def version(worlds: ModuleType) -> str:
    """A hash of the code that is measured, and of the simulations of a module."""
    package, here = Path(visir.__file__).parent, Path(__file__).parent
    places = [package / name for name in worlds.SOURCES]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))]
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted([*files, here / "calibration_rows.py", Path(str(worlds.__file__))]):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def key_of(name: str, run: Mapping[str, object]) -> str:
    """What must be the same for a row to be taken from an earlier run."""
    return json.dumps({"name": name, **run}, sort_keys=True)


def finished(file: Path) -> dict[str, dict[str, Rate]]:
    """Key → rates of what earlier runs have measured; a line that was cut off is left out."""
    rows: dict[str, dict[str, Rate]] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows[key_of(row["name"], row["run"])] = {name: Rate(**rate) for name, rate in row["rates"].items()}
    return rows


def tables(rows: Sequence[tuple[Simulation, Mapping[str, Rate]]]) -> Iterator[str]:
    """One table in Markdown for each section: a line for each case, a column for each rate."""
    for section in dict.fromkeys(simulation.section for simulation, _ in rows):
        own = [(simulation.case, rates) for simulation, rates in rows if simulation.section == section]
        promises: dict[str, str] = {}
        for _, rates in own:
            for name, rate in rates.items():
                promises[name] = promises.get(name) or rate.promise
        heads = [f"{name} ({promise})" if promise else name for name, promise in promises.items()]
        yield from ("", f"**{section}**", "", f"| {' | '.join(('', *heads))} |", "|---" * (len(heads) + 1) + "|")
        for case, rates in own:
            cells = [rates[name].cell if name in rates else "" for name in promises]
            yield f"| {' | '.join((case, *cells))} |"


def main() -> int:
    """Run what is missing, print the tables, and say what is outside its band."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="a folder for finished rows; a run that was stopped goes on in it")
    parser.add_argument("--only", default="*", help='rows whose "section: case" matches: "compare*"')
    parser.add_argument("--repetitions", type=int, help=f"of cheap simulations; default: {REPETITIONS:,}")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} repetitions")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    repetitions = options.repetitions or (QUICK if options.quick else REPETITIONS)
    rows: list[tuple[Simulation, Mapping[str, Rate]]] = []
    with tempfile.TemporaryDirectory() as scratch:
        chosen = [
            (simulation, {"version": version(worlds), "repetitions": repetitions, "seed": options.seed})
            for worlds in WORLDS
            for simulation in worlds.simulations(Path(scratch))
            if fnmatchcase(simulation.name, options.only)
        ]
        if not chosen:
            parser.error(f"no simulation matches {options.only!r}")
        file = options.out / "rows.jsonl" if options.out else None
        earlier = finished(file) if file else {}
        for simulation, run in chosen:
            began = time.process_time()
            key = key_of(simulation.name, run)
            rates = earlier.get(key) or simulation.run(repetitions, options.seed)
            rows.append((simulation, rates))
            if file and key not in earlier:
                file.parent.mkdir(parents=True, exist_ok=True)
                line = {"name": simulation.name, "run": run, "rates": {name: asdict(r) for name, r in rates.items()}}
                with file.open("a", encoding="utf-8") as stream:
                    stream.write("\n" + json.dumps(line))  # a line that was cut off stays alone
            words = ", ".join(f"{name} {rate.cell}" for name, rate in rates.items())
            print(f"{time.process_time() - began:6.1f} s  {simulation.name}: {words}", file=sys.stderr, flush=True)
    fewer = "of costly simulations fewer"
    print(f"{repetitions:,} repetitions ({fewer}), seed {options.seed}. Percent, ± one standard error.")
    print("\n".join(tables(rows)))
    outside = [
        f"{simulation.name}, {name}: {rate.rate:.1f} is outside {rate.low:g} to {rate.high:g}"
        for simulation, rates in rows
        for name, rate in rates.items()
        if not rate.holds
    ]
    print("\n".join(["", *outside]) if outside else "", file=sys.stderr)
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())

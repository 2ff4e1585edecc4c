"""Notes below a table of values: what was run on which data, what was not measured and why, what is not judged."""

from __future__ import annotations

from collections.abc import Iterable

from visir.display import counted
from visir.papers.verdicts import StudyComparison

DATA = {
    "same": "The data is that of the table. A value within 5 % of the printed one is reproduced (thesis 2.5.3)",
    "other": "The data is real, of another collection. So values are not judged, only their order",
    "quoted": "The numbers are the authors' own: nothing is measured, only what the paper says of them is checked",
    "generated": "The data is generated. Values are not judged, and their order only shows that the study runs",
}
"""What the data of a scale allows, as a note below its table."""


def notes_of(comparison: StudyComparison) -> list[str]:
    """The notes below the values, a sentence each."""
    notes = [comparison.study.scale(comparison.scale).description, DATA[comparison.data]]
    done = [cell for cell in comparison.cells if cell.state == "done"]
    seeds = sorted({cell.seed for cell in done})
    if not done:
        notes.append("Nothing was run")
    elif comparison.scale != "logs":  # a log was made by its authors, not with a seed of ours
        numbers = ", ".join(map(str, seeds))
        notes.append(f"Means over seeds {numbers}" if len(seeds) > 1 else f"One run of each row, with seed {numbers}")
    notes += missing_lines(comparison)
    reasons: dict[str, list[tuple[str, str]]] = {}
    for cell in done:
        for reason in dict.fromkeys(cell.measured.not_judged.values()):
            reasons.setdefault(f"Not judged: {reason}", []).append((cell.system, cell.collection))
    notes += [f"{reason} ({_by_collection(rows)})" for reason, rows in reasons.items()]
    if any(value.doubt for value in comparison.values if value.state != "not run"):
        notes.append(f"?: the printed value is doubtful; the reason: visir papers show {comparison.name}")
    return notes


def missing_lines(comparison: StudyComparison) -> list[str]:
    """How many printed values were measured and of which rows; then each reason why others were not, with its rows."""
    printed = sum(value.published is not None for value in comparison.values)
    missing = comparison.not_measured
    lines: list[str] = []
    if missing:
        measured = printed - sum(map(len, missing.values()))
        rows = [(value.system, value.collection) for value in comparison.values if value.ours is not None]
        of = f" ({_by_collection(rows)})" if rows else ""
        how = "stand beside quoted ones" if comparison.data == "quoted" else "were measured"
        lines.append(f"{measured} of {counted(printed, 'printed values')} {how}{of}. The others:")
    for reason, values in missing.items():
        rows = [(value.system, value.collection) for value in values]
        lines.append(f"{counted(len(values), 'values')}: {reason} ({_by_collection(rows)})")
    for state in ("not run", "failed"):  # of figures, which print no values, and of values that other seeds measured
        left: dict[str, list[tuple[str, str]]] = {}
        for cell in comparison.cells:
            if cell.state == state and cell.reason and (state == "failed" or cell.reason not in missing):
                left.setdefault(cell.reason, []).append((cell.system, cell.collection))
        lines += [f"{state}: {reason} ({_by_collection(rows)})" for reason, rows in left.items()]
    return lines


def _by_collection(rows: Iterable[tuple[str, str]]) -> str:
    """(system, collection) in words: "MS-COCO, Flickr8k: ALIGN, CLIP; Flickr30k: CLIP"."""
    systems: dict[str, dict[str, None]] = {}
    for system, collection in rows:
        systems.setdefault(collection, {})[system] = None
    collections: dict[str, list[str]] = {}
    for collection, names in systems.items():
        collections.setdefault(", ".join(names), []).append(collection)
    return "; ".join(": ".join(filter(None, (", ".join(of), names))) for names, of in collections.items())
